"""A table with a column `a.b` beside a struct a with a field b: how texts select each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.ddl import create_table, drop_columns
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.io_manager.partition_expression import parse_expression
from tests.support.tables import rows

ROWS = pa.table({"id": [1, 2], "a.b": [10, 20], "a": [{"b": 1, "c": 2}, {"b": 3, "c": 4}]})
SOURCE = pa.table({"id": [1, 5], "a.b": [100, 500], "a": [{"b": 1000, "c": 0}] * 2})
MEETING = "target.id = source.id"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    da.write(tmp_path, ROWS)
    return tmp_path


def first(table: Path) -> dict[str, Any]:
    found: dict[str, Any] = rows(da.to_table(table, predicate=col("id") == 1))[0]
    return found


def test_a_key_of_an_update_means_what_it_means_in_a_condition(table: Path) -> None:
    da.update(table, {"a.b": 7, "`a.b`": 8}, "id = 1 AND a.b = 1 AND `a.b` = 10")
    assert first(table) == {"id": 1, "a.b": 8, "a": {"b": 7, "c": 2}}


def test_a_key_of_a_merge_means_what_it_means_in_a_condition(table: Path) -> None:
    merge = da.merge(table, SOURCE, MEETING)
    values = {"target.a.b": "source.`a.b`", "target.`a.b`": "source.a.b"}
    merge.when_matched_update(values).execute()
    assert first(table) == {"id": 1, "a.b": 1000, "a": {"b": 100, "c": 2}}


def test_a_merge_leaves_out_only_whole_columns(table: Path) -> None:
    merge = da.merge(table, SOURCE, MEETING)
    with pytest.raises(InvalidRequestError, match="is a field of column a"):
        merge.when_matched_update_all(except_cols=["a.b"]).execute()
    merge.when_matched_update_all(except_cols=["`A.b`"]).execute()
    assert first(table) == {"id": 1, "a.b": 10, "a": {"b": 1000, "c": 0}}


def test_columns_of_a_read(table: Path) -> None:
    assert rows(da.to_table(table, ["a.b"], col("`a.b`") == 10)) == [{"a": {"b": 1}}]
    assert rows(da.to_table(table, ["`a.b`"], col("a.b") == 1)) == [{"a.b": 10}]


@pytest.mark.parametrize(("name", "found"), [("`a.b`", {"a.b": 10}), ("A.b", {"a": {"b": 1}})])
def test_columns_of_a_comparison(table: Path, name: str, found: dict[str, Any]) -> None:
    da.delete(table, "id = 1")
    differing = da.diff_rows(DeltaLog(table).snapshot(0), table, [name])
    assert rows(differing) == [{**found, "_change_type": "delete"}]


def test_partition_columns_are_whole_columns(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"a field of column a.* as `a\.b`"):
        da.write(tmp_path / "t", ROWS, partition_by=["a.b"])
    da.write(tmp_path / "t", ROWS, partition_by=["`A.B`"])
    da.write(tmp_path / "t", ROWS, mode="append", partition_by=["`a.b`"])
    da.write(tmp_path / "t", ROWS, mode="overwrite", overwrite_schema=True)
    assert DeltaLog(tmp_path / "t").snapshot().partition_columns == ("a.b",)
    da.delete(tmp_path / "t", "`a.b` = 10")
    assert rows(da.to_table(tmp_path / "t")) == [{"id": 2, "a.b": 20, "a": {"b": 3, "c": 4}}]
    create_table(tmp_path / "u", ROWS.schema, partition_by=["`id`"])
    assert DeltaLog(tmp_path / "u").snapshot().partition_columns == ("id",)


def test_a_column_that_is_dropped(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, configuration={"delta.columnMapping.mode": "name"})
    drop_columns(tmp_path, ["a.b"])
    assert first(tmp_path) == {"id": 1, "a.b": 10, "a": {"c": 2}}
    drop_columns(tmp_path, ["`a.b`"])
    assert first(tmp_path) == {"id": 1, "a": {"c": 2}}


def test_a_partition_expression(table: Path) -> None:
    schema = DeltaLog(table).snapshot().schema
    assert parse_expression("a.b", schema).path == ("a", "b")
    assert parse_expression("`a.b`", schema).path == ("a.b",)
    da.write(table, ROWS.drop(["a"]), mode="overwrite", overwrite_schema=True)
    assert parse_expression("a.b", DeltaLog(table).snapshot().schema).path == ("a.b",)
