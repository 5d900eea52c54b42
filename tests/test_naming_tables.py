"""Names of a table: a handle, a path or a URI, in every public function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
import delta_ops.maintenance as dm
from delta_ops import DeltaLog, begin
from delta_ops.ddl import NewColumn, change_type, create_table, set_properties
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.log.delta_log import log_of, snapshot_of
from delta_ops.maintenance import create_index
from delta_ops.orchestration import DeltaIOManager
from tests.test_arguments import public_functions

NEEDED: dict[str, Any] = {
    "restore": {"version": 0},
    "revert": {"version": 1},
    "read_changes": {"start_version": 0},
    "add_columns": {"columns": [NewColumn(name="more", data_type="int")]},
    "add_constraint": {"name": "few", "condition": "id < 9"},
    "add_feature": {"name": "v2Checkpoint"},
    "drop_columns": {"columns": ["n"]},
    "drop_constraint": {"name": "few", "if_exists": True},
    "drop_feature": {"name": "v2Checkpoint"},
    "drop_not_null": {"column": "id"},
    "drop_table": {"name": "t"},
    "change_type": {"column": "n", "data_type": "decimal(22,1)"},
    "cluster_by": {"columns": ["n"]},
    "create_table": {"schema": pa.schema([("id", pa.int64())]), "if_exists": "ignore"},
    "create_index": {"name": "ids", "column": "id"},
    "drop_index": {"name": "ids"},
    "refresh_index": {"name": "ids"},
    "set_default": {"column": "n", "default": "1"},
    "rename_column": {"column": "n", "name": "number"},
    "rename_table": {"name": "numbers"},
    "reorder_columns": {"columns": ["n"]},
    "set_comment": {"column": "n", "comment": "a number"},
    "set_not_null": {"column": "id"},
    "set_properties": {"properties": {"delta.columnMapping.mode": "name"}},
    "set_table_comment": {"comment": "numbers"},
    "merge": {"source": pa.table({"id": [1]}), "predicate": "target.id = source.id"},
    "update": {"assignments": {"n": 1}},
    "upgrade_protocol": {"reader_version": 1, "writer_version": 3},
}
MAPPED = ("drop_columns", "rename_column")
"""Functions of tables with column mapping."""
OF_TABLES = [
    function
    for function in public_functions(da)
    if inspect.isfunction(function)
    and {"log", "source", "target", "tables"} & set(inspect.signature(function).parameters)
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for number in range(3):
        da.write(tmp_path / "t", pa.table({"id": [number], "n": [number]}))
    create_index(tmp_path / "t", "ids", "id")
    return tmp_path / "t"


def called(function: Callable[..., Any], place: Any, folder: Path) -> Any:
    """The function's result for a table; a generator as a list."""
    first, *others = inspect.signature(function).parameters
    arguments = {first: [place] if first == "tables" else place}
    arguments |= {"data": pa.table({"id": [9]})} if "data" in others else {}
    arguments |= {"path": folder / "schema.parquet"} if "path" in others else {}
    arguments |= {"target": folder / "clone"} if "target" in others else {}
    found = function(**arguments, **NEEDED.get(function.__name__, {}))
    return list(found) if hasattr(found, "__next__") else found


def test_the_functions_of_tables_are_these() -> None:
    assert {function.__name__ for function in OF_TABLES} == {
        *(
            "advise",
            "backfill_statistics",
            "begin",
            "checkpoint_due",
            "clean_up_log",
            "compact_log",
            *("count_rows", "create_table", "explain_scan"),
        ),
        *("create_index", "drop_index", "list_indexes", "refresh_index", "refresh_indexes"),
        *(
            "create_checkpoint",
            "create_scan_cache",
            "export_schema",
            "fleet_health",
            "health",
            "maintain",
        ),
        *("maintain_fleet", "optimize", "plan_maintenance", "purge", "read_changes", "repair"),
        "restore",
        *("revert", "stage_write", "to_batches", "to_table", "vacuum", "write"),
        *("add_columns", "add_constraint", "add_feature", "change_type", "cluster_by", "convert"),
        *("delete", "drop_columns"),
        *("drop_constraint", "drop_feature", "drop_not_null", "drop_table", "generate_manifest"),
        *(
            "merge",
            "rename_column",
            "rename_table",
            "reorder_columns",
            "set_comment",
            "set_default",
        ),
        *("set_not_null", "set_properties", "set_table_comment", "shallow_clone", "update"),
        "upgrade_protocol",
    }


@pytest.mark.parametrize("kind", [DeltaLog, str, Path, lambda path: f"file://{path}"])
def test_a_table_is_named_by_a_handle_a_path_or_a_uri(
    kind: Callable[[Path], Any], table: Path
) -> None:
    assert log_of(kind(table)).uri == DeltaLog(table).uri
    assert snapshot_of(kind(table)).version == 2
    assert da.count_rows(kind(table)) == 3


@pytest.mark.some_cases(10)
@pytest.mark.parametrize("function", OF_TABLES, ids=lambda function: function.__name__)
def test_a_table_has_the_same_names_everywhere(function: Callable[..., Any], table: Path) -> None:
    uri = f"file://{table}"
    refusals = {da.read_changes: "delta.enableChangeDataFeed", dm.advise: "delta_ops.recordReads"}
    if function in refusals:
        with pytest.raises(InvalidRequestError, match=f"{table}: .*{refusals[function]}"):
            called(function, uri, table.parent)
        return
    if function.__name__ in MAPPED:
        set_properties(table, {"delta.columnMapping.mode": "name"})
    if function is change_type:
        set_properties(table, {"delta.enableTypeWidening": "true"})
    result = called(function, uri, table.parent)
    if function.__name__ in ("fleet_health", "maintain_fleet"):
        assert result[0].failure is None
    if function is begin:
        assert result.snapshot.version == 2


def test_rows_are_read_at_a_version_or_a_time(table: Path) -> None:
    log = DeltaLog(table)
    (_, first) = sorted(entry.timestamp_ms for entry in log.history())[:2]
    at = {"timestamp": pa.scalar(first, pa.timestamp("ms")).as_py().isoformat()}
    for chosen in ({"version": 1}, at):
        assert set(da.to_table(table, **chosen)["id"].to_pylist()) == {0, 1}
        assert sum(map(len, da.to_batches(table, **chosen))) == 2
        assert da.count_rows(table, **chosen) == 2


@pytest.mark.parametrize("read", [da.to_table, da.to_batches, da.count_rows])
@pytest.mark.parametrize("chosen", [{"version": 1}, {"timestamp": "2026-01-31"}])
def test_a_version_beside_a_snapshot_is_refused(
    read: Callable[..., Any], chosen: dict[str, Any], table: Path
) -> None:
    snapshot = DeltaLog(table).snapshot(2)
    with pytest.raises(InvalidRequestError, match="the source is a snapshot of version 2"):
        read(snapshot, **chosen)


@pytest.mark.parametrize(
    "options", [{}, {"merge_schema": True}, {"mode": "overwrite", "overwrite_schema": True}]
)
def test_an_error_about_names_of_columns_names_the_table(
    table: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    rows = pa.table([[1], [2]], names=["id", "ID"])
    for place in (table, tmp_path / "new"):
        with pytest.raises(InvalidRequestError) as error:
            da.write(place, rows, **options)
        assert str(error.value).startswith(f"{place}: ")


def test_a_place_without_a_table_has_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="is not a Delta table"):
        dm.vacuum(tmp_path)


def create_by_merge(place: Path, rows: pa.Table) -> None:
    @dg.asset(key=place.name, metadata={"delta/mode": "merge", "delta/merge_keys": "x"})
    def asset() -> pa.Table:
        return rows

    dg.materialize([asset], resources={"io_manager": DeltaIOManager(root=str(place.parent))})


@pytest.mark.parametrize(
    "create", [da.write, lambda place, rows: create_table(place, rows.schema), create_by_merge]
)
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(pa.table({"x": pa.array([1], pa.duration("us"))}), id="a type"),
        pytest.param(pa.table({"x": [1], "X": [1]}), id="names", marks=pytest.mark.full),
    ],
)
def test_an_error_about_columns_names_the_table(
    tmp_path: Path, create: Callable[[Path, pa.Table], object], rows: pa.Table
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        create(tmp_path / "t", rows)
    assert str(refused.value).startswith(f"{tmp_path / 't'}: ")
