"""A call of each public function and each command that opens a table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, begin, col, ddl, maintenance
from delta_ops.cli.main import cli
from delta_ops.log import log_of, plan_scan, snapshot_of
from delta_ops.maintenance import optimize
from delta_ops.orchestration import DeltaIOManager, changed_values
from delta_ops.orchestration.card.table_card import table_card
from delta_ops.orchestration.metadata import row_count, table_metadata
from delta_ops.protocol.row_rules import Check
from delta_ops.transaction import RewriteGroup
from tests.sweep.hostile_tables import LATEST

Call = Callable[[Path], Any]
"""Uses the table at a place."""

_ROWS = pa.table({"id": pa.array([1, 9], pa.int64()), "p": ["a", "c"]})
_ID = col("id") > 1


def _rewrite(table: Path) -> None:
    snapshot = DeltaLog(table).snapshot()
    files = tuple(snapshot.add_files())
    da.rewrite(snapshot, RewriteGroup(files=files[:1], target_size_bytes=1 << 20))


def _check_rows(table: Path) -> None:
    snapshot = DeltaLog(table).snapshot()
    da.check_rows(snapshot, snapshot.definition, [Check("c", "id > 0")])


def _merge(table: Path) -> None:
    merge = da.merge(table, _ROWS, "source.id = target.id")
    merge.when_matched_update({"p": "source.p"}).when_not_matched_insert_all().execute()


def _drop_index(table: Path) -> None:
    maintenance.create_index(table, "ids", "id")
    maintenance.drop_index(table, "ids")


def _refresh_index(table: Path) -> None:
    maintenance.create_index(table, "ids", "id")
    maintenance.refresh_index(table, "ids")


def _convert(table: Path) -> None:
    """The data files without their log."""
    for name in ("_delta_log", "_change_data"):
        shutil.rmtree(table / name, ignore_errors=True)
    for place in table.glob("*"):
        if place.is_file() or place.is_symlink():
            place.unlink()
    da.convert(table, partition_by={"p": "string"})


def _read_by_others(table: Path) -> None:
    """Read changes by Arrow's C interface, which limits schemas to 64 levels."""
    reader = da.read_changes(table, 0)
    try:
        pa.table(reader)
    except pa.ArrowInvalid as error:
        if "Recursion level in ArrowSchema" not in str(error):
            raise


def _map_columns(table: Path) -> Path:
    ddl.set_properties(table, {"delta.columnMapping.mode": "name"})
    return table


def _plan_restore(table: Path) -> None:
    maintenance.plan_restore(DeltaLog(table).snapshot(), DeltaLog(table).snapshot(0))


def _read_input(table: Path) -> Any:
    """The table as an input of an asset."""
    manager = DeltaIOManager(root=str(table.parent)).create_io_manager(
        dg.build_init_resource_context()
    )
    of_table = dg.build_output_context(asset_key=dg.AssetKey([table.name]))
    context = dg.build_input_context(
        upstream_output=of_table,
        asset_key=dg.AssetKey([table.name]),
        dagster_type=dg.PythonObjectDagsterType(pa.Table),
    )
    return manager.load_input(context)


READS: Mapping[str, Call] = {
    # delta_ops and delta_ops.log
    "log_of": lambda t: log_of(t).exists(),
    "snapshot_of": lambda t: snapshot_of(t).schema,
    "begin": begin,
    "history": lambda t: list(DeltaLog(t).history()),
    "commits": lambda t: list(DeltaLog(t).commits(0)),
    "snapshot of a version": lambda t: DeltaLog(t).snapshot(0).num_files,
    "snapshot of a time": lambda t: DeltaLog(t).snapshot(timestamp=datetime.now(UTC)).num_files,
    "snapshot": lambda t: _all_of(DeltaLog(t).snapshot()),
    "plan_scan": lambda t: plan_scan(DeltaLog(t).snapshot(), _ID).steps,
    "refresh": lambda t: DeltaLog(t).snapshot(0).refresh().reopen().schema,
    # delta_ops.arrow
    "to_table": da.to_table,
    "to_table of a column": lambda t: da.to_table(t, ["id"], _ID),
    "to_batches": lambda t: list(da.to_batches(t)),
    "count_rows": da.count_rows,
    "diff_rows": lambda t: da.diff_rows(DeltaLog(t).snapshot(0), t),
    "diff_rows of some": lambda t: da.diff_rows(DeltaLog(t).snapshot(0), t, ["id"], _ID),
    "explain_scan": lambda t: da.explain_scan(t, _ID).steps,
    "count_rows that match": lambda t: da.count_rows(t, _ID),
    "read_changes": lambda t: da.read_changes(t, 0).read_all(),
    "read_changes by others": _read_by_others,
    "export_schema": lambda t: da.export_schema(t, t.with_name("schema.parquet")),
    "check_rows": _check_rows,
    # delta_ops.maintenance
    "advise": maintenance.advise,
    "checkpoint_due": maintenance.checkpoint_due,
    "health": lambda t: maintenance.health_json(maintenance.health(t)),
    "fleet_health": lambda t: list(maintenance.fleet_health([t])),
    "find_tables": maintenance.find_tables,
    "list_indexes": maintenance.list_indexes,
    "plan_maintenance": maintenance.plan_maintenance,
    "plan_checkpoint": lambda t: maintenance.plan_checkpoint(DeltaLog(t).snapshot()),
    "plan_restore": _plan_restore,
    # delta_ops.orchestration
    "an input": _read_input,
    "table_card": table_card,
    "table_metadata": lambda t: table_metadata(DeltaLog(t).snapshot()),
    "row_count": lambda t: row_count(DeltaLog(t).snapshot()),
    "changed_values": lambda t: changed_values(t, "p", 0),
}
"""Calls that do not change the table."""


def _all_of(snapshot: Snapshot) -> None:
    snapshot.files(["path", "size", "partition_values", "deletion_vector", "stats", "num_records"])
    snapshot.add_files(_ID)
    snapshot.add_rows()
    list(snapshot.stream_live(["path"]))
    snapshot.tombstones()
    snapshot.transactions()
    snapshot.domain_metadata()
    _ = (snapshot.num_files, snapshot.size_bytes, snapshot.properties, snapshot.clustering_columns)
    _ = (snapshot.arrow_schema, snapshot.partition_columns, snapshot.definition)


WRITES: Mapping[str, Call] = {
    # delta_ops.arrow
    "write": lambda t: da.write(t, _ROWS),
    "write over": lambda t: da.write(t, _ROWS, "overwrite", overwrite_schema=True),
    "write where": lambda t: da.write(t, _ROWS.slice(1), "overwrite", replace_where=col("id") > 5),
    "write with columns": lambda t: da.write(
        t, _ROWS.append_column("new", [_ROWS["id"]]), merge_schema=True
    ),
    "stage_write": lambda t: da.stage_write(t, _ROWS, ["p"]),
    "delete": lambda t: da.delete(t, "id = 2"),
    "delete all": da.delete,
    "update": lambda t: da.update(t, {"id": "id + 1"}, "id > 1"),
    "merge": _merge,
    "rewrite": _rewrite,
    "convert": _convert,
    # delta_ops.ddl
    "add_columns": lambda t: ddl.add_columns(t, [ddl.NewColumn(name="new", data_type="int")]),
    "add_constraint": lambda t: ddl.add_constraint(t, "low", "id < 1000000000000"),
    "add_feature": lambda t: ddl.add_feature(t, "rowTracking"),
    "change_type": lambda t: ddl.change_type(t, "id", "long"),
    "cluster_by": lambda t: ddl.cluster_by(t, ["id"]),
    "create_table": lambda t: ddl.create_table(t, _ROWS.schema, if_exists="replace"),
    "create_table beside": lambda t: ddl.create_table(t, _ROWS.schema, if_exists="ignore"),
    "drop_columns": lambda t: ddl.drop_columns(_map_columns(t), ["s"]),
    "drop_constraint": lambda t: ddl.drop_constraint(t, "positive"),
    "drop_feature": lambda t: ddl.drop_feature(t, "deletionVectors"),
    "drop_not_null": lambda t: ddl.drop_not_null(t, "id"),
    "drop_table": lambda t: ddl.drop_table(t, t.name),
    "generate_manifest": ddl.generate_manifest,
    "rename_column": lambda t: ddl.rename_column(_map_columns(t), "s", "struct"),
    "rename_table": lambda t: ddl.rename_table(t, "name"),
    "reorder_columns": lambda t: ddl.reorder_columns(t, ["s", "p", "id"]),
    "set_comment": lambda t: ddl.set_comment(t, "id", "a comment"),
    "set_default": lambda t: ddl.set_default(t, "id", "5"),
    "set_not_null": lambda t: ddl.set_not_null(t, "id"),
    "set_properties": lambda t: ddl.set_properties(t, {"delta.columnMapping.mode": "name"}),
    "set_table_comment": lambda t: ddl.set_table_comment(t, "a comment"),
    "shallow_clone": lambda t: ddl.shallow_clone(t, t.with_name("clone")),
    "upgrade_protocol": lambda t: ddl.upgrade_protocol(t, 3, 7),
    # delta_ops.maintenance
    "auto_compact": lambda t: da.write(t, _ROWS, hooks=[maintenance.auto_compact(min_files=2)]),
    "backfill_statistics": maintenance.backfill_statistics,
    "clean_up_log": maintenance.clean_up_log,
    "compact_log": maintenance.compact_log,
    "create_checkpoint": maintenance.create_checkpoint,
    "create_index": lambda t: maintenance.create_index(t, "ids", "id"),
    "drop_index": _drop_index,
    "maintain": maintenance.maintain,
    "maintain_fleet": lambda t: list(maintenance.maintain_fleet([t])),
    "create_scan_cache": maintenance.create_scan_cache,
    "optimize": optimize,
    "optimize by order": lambda t: optimize(t, zorder_by=["id"]),
    "purge": maintenance.purge,
    "refresh_index": _refresh_index,
    "refresh_indexes": maintenance.refresh_indexes,
    "repair": lambda t: maintenance.repair(t, remove_missing=True),
    "restore": lambda t: maintenance.restore(t, version=1),
    "revert": lambda t: maintenance.revert(t, LATEST),
    "vacuum": maintenance.vacuum,
    "vacuum lite": lambda t: maintenance.vacuum(t, mode="lite"),
}
"""Calls that may change the table."""

REFUSED = frozenset(
    {"advise", "cluster_by", "drop_feature", "generate_manifest", "snapshot of a time"}
)
"""Calls that are rejected for an intact table too, after opening it."""

VALUES = frozenset(
    {
        # They open no table.
        *("__version__", "col", "lit", "parse_expression", "parse_predicate", "open_storage"),
        *("assess", "health_json", "plan_clean_up_log", "plan_compact_log", "plan_optimize"),
        *("plan_purge", "plan_repair", "plan_revert", "plan_vacuum"),
        # Hooks, and functions that jobs call; the calls above reach each of them.
        *("checkpoint_if_due", "scan_cache_if_due", "write_checksum"),
    }
)
"""Public functions of plain values."""


def _command(*options: str) -> Call:
    def run(table: Path) -> None:
        command, *rest = options
        result = CliRunner().invoke(cli, [command, str(table), *rest])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception

    return run


COMMANDS: Mapping[str, Call] = {
    " ".join(("delta-ops", *each)): _command(*each)
    for each in (
        ("show",),
        ("history",),
        ("files",),
        ("files", "--json"),
        ("head",),
        ("head", "--json"),
        ("count",),
        ("schema",),
        ("changes", "--from-version", "0"),
        ("properties",),
        ("properties", "--set", "delta.appendOnly=false"),
        ("health",),
        ("health", "--json"),
        ("maintain",),
        ("optimize",),
        ("vacuum",),
        ("checkpoint",),
        ("clean-up-log",),
        ("compact-log",),
        ("backfill-statistics",),
        ("advise",),
        ("repair", "--dry-run"),
        ("restore", "--version", "1"),
        ("revert", "--version", str(LATEST)),
        ("manifest",),
    )
}
"""Commands of `delta-ops`."""
