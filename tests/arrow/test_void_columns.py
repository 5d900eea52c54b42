"""Columns of nulls alone: void in a new table, and the table's type in an old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, parse_predicate
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import create_checkpoint, optimize
from delta_ops.protocol.schema import VOID
from tests.support.tables import rows_by_deltalake

Mode = Literal["append", "overwrite"]
NULLS = pa.table({"x": [1], "v": pa.nulls(1)})
TYPED = pa.table({"x": [2], "v": ["a"]})
EVERY_FEATURE = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableRowTracking": "true",
}


def values_of(table: Path) -> set[tuple[int, object]]:
    return {(row["x"], row["v"]) for row in da.to_table(table).to_pylist()}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_new_column_of_nulls_is_void_and_in_no_file(tmp_path: Path, mode: Mode) -> None:
    da.write(tmp_path, NULLS)
    da.write(tmp_path, NULLS, mode=mode)
    snapshot = DeltaLog(tmp_path).snapshot()
    assert snapshot.schema.fields[1].data_type == VOID
    assert values_of(tmp_path) == {(1, None)}
    assert {tuple(pq.read_schema(tmp_path / a.path).names) for a in snapshot.add_files()} == {
        ("x",)
    }


def test_other_engines_read_the_table(tmp_path: Path) -> None:
    da.write(tmp_path, NULLS)
    assert rows_by_deltalake(tmp_path) == [{"x": 1, "v": None}]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_nulls_take_the_type_that_the_table_has(tmp_path: Path, mode: Mode) -> None:
    da.write(tmp_path, TYPED)
    da.write(tmp_path, NULLS, mode=mode)
    assert (1, None) in values_of(tmp_path)
    assert da.to_table(tmp_path).schema.field("v").type == pa.string()


def test_a_void_column_takes_a_type_on_request(tmp_path: Path) -> None:
    da.write(tmp_path, NULLS)
    with pytest.raises(InvalidRequestError, match="'v' is void in the table and string in the da"):
        da.write(tmp_path, TYPED, mode="append")
    da.write(tmp_path, TYPED, mode="append", merge_schema=True)
    assert values_of(tmp_path) == {(1, None), (2, "a")}
    assert da.to_table(tmp_path, predicate=parse_predicate("v = 'a'")).num_rows == 1


@pytest.mark.parametrize(
    "values",
    [["a", "b"], [1, 2], [{"a": 1}, None], pa.nulls(2)],
    ids=["texts", "numbers", "structs", "nulls"],
)
def test_a_merge_gives_a_void_column_a_type_on_request(tmp_path: Path, values: Any) -> None:
    da.write(tmp_path, NULLS)
    merge = da.merge(
        tmp_path, pa.table({"x": [1, 2], "v": values}), "target.x = source.x", merge_schema=True
    )
    merge.when_matched_update({"v": "source.v"}).when_not_matched_insert_all().execute()
    assert da.to_table(tmp_path).sort_by("x")["v"].to_pylist() == pa.array(values).to_pylist()


def test_every_change_keeps_a_void_column(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2, 3], "v": pa.nulls(3), "p": ["a", "b", "a"]})
    da.write(tmp_path, rows, configuration=EVERY_FEATURE, partition_by=["p"])
    da.write(tmp_path, rows, mode="append")
    da.delete(tmp_path, "x = 1")
    da.update(tmp_path, {"x": "x + 10"}, "x = 2")
    source = pa.table({"x": [3, 9], "v": pa.nulls(2), "p": ["a", "c"]})
    merge = da.merge(tmp_path, source, "target.x = source.x")
    merge.when_matched_delete().when_not_matched_insert_all().execute()
    create_checkpoint(DeltaLog(tmp_path))
    optimize(DeltaLog(tmp_path))
    assert sorted(row["x"] for row in da.to_table(tmp_path).to_pylist()) == [9, 12, 12]
    assert da.to_table(tmp_path, ["v"]).num_rows == 3
    da.write(
        tmp_path, pa.table({"x": [7], "v": ["s"], "p": ["z"]}), mode="append", merge_schema=True
    )
    optimize(DeltaLog(tmp_path))
    assert values_of(tmp_path) == {(7, "s"), (9, None), (12, None)}


@pytest.mark.parametrize(
    ("rows", "partition_by", "says"),
    [
        (pa.table({"v": pa.nulls(2)}), None, "add a column with values"),
        (pa.table({"p": [1], "v": pa.nulls(1)}), ["p"], "add a column with values"),
        (NULLS, ["v"], "partition column 'v' is void"),
        (pa.table({"s": pa.array([{"v": None}])}), None, "type null of column s.v"),
        (pa.table({"l": pa.array([[None]])}), None, "type null of column l.element"),
    ],
    ids=["no other column", "only a partition column", "a partition", "a field", "an element"],
)
def test_a_void_column_that_cannot_be_stored_is_rejected(
    tmp_path: Path, rows: pa.Table, partition_by: list[str] | None, says: str
) -> None:
    with pytest.raises(InvalidRequestError, match=says):
        da.write(tmp_path, rows, partition_by=partition_by)
    assert not DeltaLog(tmp_path).exists()
