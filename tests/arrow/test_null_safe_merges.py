"""Merges with only null-safe equalities: a null key matches a null key."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError

MEETING = ("target.k <=> source.k", "source.k IS NOT DISTINCT FROM target.k")
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "text": (pa.string(), ""),
    "bytes": (pa.binary(), b""),
    "int": (pa.int32(), 0),
    "long": (pa.int64(), 0),
    "double": (pa.float64(), 0.0),
    "decimal": (pa.decimal128(5, 2), Decimal("0.00")),
    "boolean": (pa.bool_(), False),
    "date": (pa.date32(), date(1970, 1, 1)),
    "timestamp": (pa.timestamp("us", "UTC"), datetime(1970, 1, 1, tzinfo=UTC)),
    "ntz": (pa.timestamp("us"), datetime(1970, 1, 1)),
}


def values(table: Path) -> dict[Any, Any]:
    """v by k."""
    return {row["k"]: row["v"] for row in da.to_table(table).to_pylist()}


@pytest.mark.some_cases(6)
@pytest.mark.parametrize("condition", MEETING)
@pytest.mark.parametrize(("data_type", "zero"), TYPES.values(), ids=TYPES)
def test_null_meets_null_and_nothing_else(
    tmp_path: Path, condition: str, data_type: pa.DataType, zero: Any
) -> None:
    da.write(tmp_path, pa.table({"k": pa.array([None, zero], data_type), "v": ["null", "zero"]}))
    keys = pa.array([None], data_type)
    merge = da.merge(tmp_path, pa.table({"k": keys, "v": ["new"]}), condition)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert values(tmp_path) == {None: "new", zero: "zero"}
    merge = da.merge(tmp_path, pa.table({"k": pa.array([zero], data_type), "v": ["0"]}), condition)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert values(tmp_path) == {None: "new", zero: "0"}


@pytest.mark.parametrize("has_vectors", [False, True])
def test_several_keys_of_several_files(tmp_path: Path, has_vectors: bool) -> None:
    properties = {"delta.enableDeletionVectors": str(has_vectors).lower()}
    pairs = [(None, None), (None, 1), ("a", None), ("a", 1)]
    for a, b in pairs:
        file = pa.table({"a": pa.array([a], pa.string()), "b": pa.array([b], pa.int64()), "v": [0]})
        da.write(tmp_path, file, mode="append", configuration=properties)
    source = pa.table({"a": ["a", None, None], "b": [None, None, 2], "v": [1, 2, 3]})
    merge = da.merge(tmp_path, source, "target.a <=> source.a AND target.b <=> source.b")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert result.metrics["numTargetRowsUpdated"] == 2
    assert result.metrics["numTargetFilesRemoved"] == 2  # the other files hold no such keys
    found = {row["v"]: (row["a"], row["b"]) for row in da.to_table(tmp_path).to_pylist()}
    assert found == {0: found[0], 1: ("a", None), 2: (None, None), 3: (None, 2)}


def test_a_null_of_the_source_twice_is_a_key_twice(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"k": pa.array([None, 1], pa.int64()), "v": [0, 0]}))
    source = pa.table({"k": pa.array([None, None], pa.int64()), "v": [1, 2]})
    merge = da.merge(tmp_path, source, "target.k <=> source.k")
    with pytest.raises(InvalidRequestError, match="the row with k = None matches 2 source rows"):
        merge.when_matched_update_all().execute()
    merge.when_matched_delete().execute()
    assert values(tmp_path) == {1: 0}


def test_a_number_that_the_column_cannot_hold_is_no_null(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"k": pa.array([None, 1], pa.int32()), "v": [0, 0]}))
    source = pa.table({"k": [2**40, 1], "v": [1, 2]})
    merge = da.merge(tmp_path, source, "target.k <=> source.k")
    merge.when_matched_update({"v": "source.v"}).execute()
    assert values(tmp_path) == {None: 0, 1: 2}


def test_a_null_safe_equality_beside_another_stays_a_condition(tmp_path: Path) -> None:
    data = {"id": [1, 2], "k": pa.array([None, None], pa.int64()), "v": [0, 0]}
    da.write(tmp_path, pa.table(data))
    source = pa.table({"id": [1, 2], "k": pa.array([None, 5], pa.int64()), "v": [1, 2]})
    merge = da.merge(tmp_path, source, "target.k <=> source.k AND target.id = source.id")
    merge.when_matched_update_all().execute()
    assert sorted(da.to_table(tmp_path)["v"].to_pylist()) == [0, 1]


def test_rows_that_meet_none_of_the_source(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"k": ["a", None, "b"], "v": [1, 2, 3]}))
    source = pa.table({"k": pa.array([None, "b"], pa.string())})
    merge = da.merge(tmp_path, source, "target.k <=> source.k AND target.v < 3")
    merge.when_not_matched_by_source_delete().execute()
    assert values(tmp_path) == {None: 2}
