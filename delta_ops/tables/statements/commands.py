"""Commands: OPTIMIZE, VACUUM, DESCRIBE, RESTORE, GENERATE, REORG, CONVERT and SHALLOW CLONE."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TypeAlias

from pyspark.sql import DataFrame

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import ddl
from delta_ops.clock import system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.maintenance import purge, vacuum
from delta_ops.spark.delta_format.options import instant_of
from delta_ops.spark.file_uris import spark_path
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.session.settings import session_settings
from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.targets import path_of_target
from delta_ops.tables.delta_table import partition_types
from delta_ops.tables.optimize_builder import (
    DeltaOptimizeBuilder,
    Optimized,
    OptimizeRequest,
    optimize_frame,
    partitions_of,
)
from delta_ops.tables.statements.table import Table

Command: TypeAlias = (
    nodes.Optimize
    | nodes.Vacuum
    | nodes.DescribeHistory
    | nodes.DescribeDetail
    | nodes.Restore
    | nodes.Generate
    | nodes.Reorg
    | nodes.ConvertToDelta
    | nodes.ShallowClone
)
_CLONED = (
    ("source_table_size", "sourceTableSize"),
    ("source_num_of_files", "sourceNumOfFiles"),
    ("num_removed_files", "numRemovedFiles"),
    ("num_copied_files", "numCopiedFiles"),
    ("removed_files_size", "removedFilesSize"),
    ("copied_files_size", "copiedFilesSize"),
)
"""Columns of the result of a clone, and their metrics."""


def run(table: Table, statement: Command) -> DataFrame:
    """Run a command that only Delta has."""
    match statement:
        case nodes.Optimize():
            return _optimize(table, statement)
        case nodes.Vacuum():
            return _vacuum(table, statement)
        case nodes.DescribeHistory(limit=limit):
            return table.delta_table().history(limit)
        case nodes.DescribeDetail():
            return table.delta_table().detail()
        case nodes.Restore(version=int(version)):
            return table.delta_table().restoreToVersion(version)
        case nodes.Restore(timestamp=timestamp):
            return table.delta_table().restoreToTimestamp(timestamp or "")
        case nodes.Generate(mode=mode):
            table.delta_table().generate(mode)
            return table.nothing()
        case nodes.Reorg():
            return _reorg(table, statement)
        case nodes.ConvertToDelta():
            return _convert(table, statement)
        case nodes.ShallowClone():
            return _clone(table, statement)


def _optimize(table: Table, statement: nodes.Optimize) -> DataFrame:
    if statement.is_full and statement.zorder_by:
        raise InvalidRequestError(
            f"{table.log.uri}: OPTIMIZE FULL orders by the clustering columns; leave FULL or "
            "ZORDER BY out"
        )
    request = OptimizeRequest(
        spark=table.spark,
        log=table.log,
        filters=() if statement.condition is None else (statement.condition,),
        is_full=statement.is_full,
    )
    builder = DeltaOptimizeBuilder(request)
    if statement.zorder_by:
        return builder.executeZOrderBy(*statement.zorder_by)
    return builder.executeCompaction()


def _vacuum(table: Table, statement: nodes.Vacuum) -> DataFrame:
    settings, hours = session_settings(table.spark), statement.retention_hours
    result = vacuum(
        table.log,
        retention=None if hours is None else timedelta(hours=hours),
        dry_run=statement.is_dry_run,
        enforce_retention=settings.enforce_retention,
        mode=statement.mode,
        user_metadata=settings.user_metadata,
    )
    paths = [""]
    if statement.is_dry_run:
        paths = [each.path for each in (*result.plan.files, *result.plan.leftovers)]
    return table.rows([(spark_path(table.log.storage, path),) for path in paths], "path STRING")


def _reorg(table: Table, statement: nodes.Reorg) -> DataFrame:
    snapshot, start_ms = table.log.snapshot(), system_clock()
    predicate = None
    if statement.condition is not None:
        predicate = partitions_of(table.spark, snapshot, (statement.condition,))
    result = purge(
        table.log,
        predicate=predicate,
        engine=ds.rewrite(table.spark),
        user_metadata=table.user_metadata,
    )
    done = Optimized(
        before=snapshot,
        predicate=predicate,
        is_ordered=False,
        result=result,
        start_ms=start_ms,
        end_ms=system_clock(),
    )
    return optimize_frame(table.spark, table.log, done)


def _convert(table: Table, statement: nodes.ConvertToDelta) -> DataFrame:
    da.convert(
        table.log,
        partition_by=partition_types(statement.partition_schema),
        user_metadata=table.user_metadata,
    )
    return table.nothing()


def _clone(table: Table, statement: nodes.ShallowClone) -> DataFrame:
    if table.log.exists():
        if statement.if_exists == "ignore":
            return _clone_result(table, {})
        if statement.if_exists == "replace":
            raise InvalidRequestError(
                f"{table.log.uri}: a clone cannot replace an existing table; drop that table "
                "first, or clone to another path"
            )
    result = ddl.shallow_clone(
        _source(table, statement),
        table.log,
        properties=dict(statement.properties),
        user_metadata=table.user_metadata,
    )
    return _clone_result(table, result.metrics)


def _source(table: Table, statement: nodes.ShallowClone) -> Snapshot:
    path = path_of_target(table.spark, statement.source)
    if path is None:
        raise InvalidRequestError(
            f"{statement.source.text} is not a Delta table; name the table to clone by its path, "
            "delta.`/path`"
        )
    timestamp = statement.timestamp
    if timestamp is None:
        return table.other(path).snapshot(statement.version)
    instant = instant_of("TIMESTAMP AS OF", timestamp, session_time_zone(table.spark))
    return table.other(path).snapshot(timestamp=instant)


def _clone_result(table: Table, metrics: Mapping[str, int]) -> DataFrame:
    row = tuple(metrics.get(metric, 0) for _, metric in _CLONED)
    return table.rows([row], ", ".join(f"{name} BIGINT" for name, _ in _CLONED))
