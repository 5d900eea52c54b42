"""Splitting of rows by partition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.partitioning import split
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from tests.support.tables import rows


def test_every_row_goes_to_the_partition_of_its_values_in_order() -> None:
    chunks = [
        {"id": list(range(i, i + 40)), "p": [f"p{j % 3}" for j in range(40)], "q": [i % 7] * 40}
        for i in range(0, 400, 40)
    ]
    table = pa.concat_tables([pa.table(chunk) for chunk in chunks])
    found = list(split(table, schema_from_arrow(table.schema), ["p", "q"], "t"))
    expected: dict[tuple[str, str], list[int]] = {}
    for row in table.to_pylist():
        expected.setdefault((row["p"], str(row["q"])), []).append(row["id"])
    assert {(v["p"], v["q"]): part["id"].to_pylist() for v, part in found} == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(pa.array([0.0, -0.0]), id="zeros of either sign"),
        pytest.param(pa.array(["", None]), id="the empty text and null"),
    ],
)
def test_values_of_one_text_are_one_partition(tmp_path: Path, values: pa.Array) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2], "p": values}), partition_by=["p"])
    assert DeltaLog(tmp_path).snapshot().num_files == 1


@pytest.mark.parametrize(
    ("value", "data_type", "shown"),
    [
        pytest.param(4_000_000, pa.date32(), "12921-08-18", id="a date after 9999"),
        pytest.param(-800_000, pa.date32(), "-0221-09-04", id="a date before 1"),
        pytest.param(4 * 10**17, pa.timestamp("us", "UTC"), "14645-06-30", id="a time after 9999"),
        pytest.param(-(10**17), pa.timestamp("us"), "-1199-02-15", id="a time before 1"),
    ],
)
def test_a_year_that_no_partition_can_name_is_refused(
    tmp_path: Path, value: int, data_type: pa.DataType, shown: str
) -> None:
    data = pa.table({"id": [1], "p": pa.array([value], data_type)})
    with pytest.raises(InvalidRequestError, match=f"column 'p' has the value {shown}"):
        da.write(tmp_path / "t", data, partition_by=["p"])
    assert not (tmp_path / "t").exists()


def test_a_value_that_is_too_long_for_the_name_of_a_directory_is_an_error_with_its_cure(
    tmp_path: Path,
) -> None:
    with pytest.raises(StorageError, match="use a shorter path, or shorter partition values"):
        da.write(tmp_path, pa.table({"id": [1], "p": ["x" * 300]}), partition_by=["p"])


def test_a_value_that_has_no_text_is_refused_by_column(tmp_path: Path) -> None:
    data = pa.table({"id": [1], "p": [b"\xff"]})
    with pytest.raises(InvalidRequestError, match="partition column 'p': "):
        da.write(tmp_path, data, partition_by=["p"])


def test_a_chunk_of_one_partition_comes_back_whole(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2, 3], "p": ["a", "a", "a"]})
    da.write(tmp_path, data, partition_by=["p"])
    assert rows(da.to_table(DeltaLog(tmp_path))) == rows(data)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(None, "column p has a null", id="null"),
        pytest.param("", "column 'p' has an empty value", id="the empty text"),
    ],
)
def test_a_partition_column_that_is_not_null_takes_no_null(
    tmp_path: Path, value: str | None, reason: str
) -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("p", pa.string(), nullable=False)])
    da.write(tmp_path, pa.table({"id": [1], "p": ["a"]}, schema=schema), partition_by=["p"])
    with pytest.raises(InvalidRequestError, match=reason):
        da.write(tmp_path, pa.table({"id": [2], "p": pa.array([value], pa.string())}))
    assert DeltaLog(tmp_path).snapshot().version == 0
