"""Commands: OPTIMIZE, VACUUM, DESCRIBE, RESTORE, GENERATE, REORG, CONVERT, SHALLOW CLONE, SHOW.

SHOW answers from the log: properties, columns, partitions and the definition of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.columns.mapping import logical_path
from delta_ops.protocol.schema import CURRENT_DEFAULT, StructField
from delta_ops.protocol.schema.char_types import SQL_TYPE
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.protocol.schema.type_text import type_text
from delta_ops.spark.delta_format.catalog_entries import find_place
from delta_ops.spark.delta_format.named_tables import Claims
from delta_ops.spark.delta_format.options import instant_of
from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.file_uris import spark_path
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.session.settings import session_settings
from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.routing import time_of
from delta_ops.spark.statements.targets import path_of_target
from delta_ops.spark.versions import arrow_of
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
    | nodes.Show
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
_PROPERTIES = "key STRING, value STRING"
_GENERATION = "delta.generationExpression"
_START, _STEP = "delta.identity.start", "delta.identity.step"
_ALLOWS_VALUES = "delta.identity.allowExplicitInsert"


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
        case nodes.Show():
            return _show(table, statement)


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
    query = statement.inventory
    result = vacuum(
        table.log,
        retention=None if hours is None else timedelta(hours=hours),
        dry_run=statement.is_dry_run,
        enforce_retention=settings.enforce_retention,
        mode=statement.mode,
        inventory=None if query is None else arrow_of(table.query(query)),
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
    if statement.mode in ("replace", "create or replace") and table.log.exists():
        raise InvalidRequestError(
            f"{table.log.uri}: a clone cannot replace an existing table; drop that table first, "
            "or clone to another path"
        )
    metrics: dict[str, int] = {}

    def create() -> None:
        result = ddl.shallow_clone(
            _source(table, statement),
            table.log,
            properties=dict(statement.properties),
            user_metadata=table.user_metadata,
        )
        metrics.update(result.metrics)

    table.create(statement.mode, Claims(has_rows=True), create)
    return _clone_result(table, metrics)


def _source(table: Table, statement: nodes.ShallowClone) -> Snapshot:
    path = path_of_target(table.spark, statement.source)
    if path is None:
        raise InvalidRequestError(
            f"{statement.source.text} is not a Delta table; name the table to clone by its path, "
            "delta.`/path`"
        )
    log, zone = table.other(path), session_time_zone(table.spark)
    if statement.time_expression is not None:
        return log.snapshot(timestamp=time_of(table.query, statement.time_expression))
    if statement.timestamp is not None:
        instant = instant_of("TIMESTAMP AS OF", statement.timestamp, zone)
        return log.snapshot(timestamp=instant)
    return log.snapshot(statement.version)


def _clone_result(table: Table, metrics: Mapping[str, int]) -> DataFrame:
    rows = [tuple(metrics.get(metric, 0) for _, metric in _CLONED)] if metrics else []
    return table.rows(rows, ", ".join(f"{name} BIGINT" for name, _ in _CLONED))


def _show(table: Table, statement: nodes.Show) -> DataFrame:
    """Answer one of the SHOW statements."""
    snapshot = table.log.snapshot()
    match statement.what:
        case "properties":
            return _properties(table, snapshot, statement.name)
        case "columns":
            names = [(each.name,) for each in snapshot.schema.fields]
            return table.rows(names, "col_name STRING")
        case "partitions":
            return _partitions(table, snapshot)
        case "create table":
            text = "\n".join(_create_statement(table, statement.target, snapshot))
            return table.rows([(text,)], "createtab_stmt STRING")


def _properties(table: Table, snapshot: Snapshot, name: str | None) -> DataFrame:
    found = properties_with_protocol(snapshot)
    if name is None:
        return table.rows(sorted(found.items()), _PROPERTIES)
    missing = f"Table {table.name or table.path} does not have property: {name}"
    return table.rows([(name, found.get(name, missing))], _PROPERTIES)


def properties_with_protocol(snapshot: Snapshot) -> dict[str, str]:
    """The properties, and the protocol in the form of properties."""
    protocol: Protocol = snapshot.protocol
    lists_features = protocol.min_writer_version >= 7
    return {
        **snapshot.metadata.configuration,
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
        **(
            {f"delta.feature.{name}": "supported" for name in snapshot.definition.features}
            if lists_features
            else {}
        ),
    }


def _partitions(table: Table, snapshot: Snapshot) -> DataFrame:
    names = snapshot.partition_columns
    if not names:
        raise InvalidRequestError(
            f"{table.log.uri} is not partitioned, so it has no partitions to show",
            "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE",
        )
    rows = ds.read(table.spark, table.log).select(*map(quote, names))
    return rows.distinct().orderBy(*map(quote, names))


def _create_statement(table: Table, target: nodes.Target, snapshot: Snapshot) -> Iterator[str]:
    """Lines of a statement that creates an empty table of the same definition."""
    metadata = snapshot.metadata
    name = ".".join(map(quote, target.parts)) if target.parts else f"delta.{quote(table.path)}"
    columns = ",\n  ".join(map(_column, snapshot.schema.fields))
    yield f"CREATE TABLE {name} (\n  {columns})"
    yield "USING delta"
    if snapshot.partition_columns:
        yield f"PARTITIONED BY ({', '.join(map(quote, snapshot.partition_columns))})"
    if snapshot.clustering_columns:
        paths = (logical_path(each, snapshot.schema) for each in snapshot.clustering_columns)
        yield f"CLUSTER BY ({', '.join(map(name_of_path, paths))})"
    if table.name is not None and not _is_managed(table, target):
        yield f"LOCATION {_literal(spark_path(table.log.storage, ''))}"
    if metadata.description is not None:
        yield f"COMMENT {_literal(metadata.description)}"
    if metadata.configuration:
        pairs = ",\n  ".join(
            f"{_literal(key)} = {_literal(value)}"
            for key, value in sorted(metadata.configuration.items())
        )
        yield f"TBLPROPERTIES (\n  {pairs})"


def _is_managed(table: Table, target: nodes.Target) -> bool:
    place = find_place(table.spark, target.parts)
    return place is not None and place.is_managed


def _column(field: StructField) -> str:
    metadata = field.metadata
    words = [quote(field.name), metadata.get(SQL_TYPE) or type_text(field.data_type)]
    if not field.nullable:
        words.append("NOT NULL")
    if _GENERATION in metadata:
        words.append(f"GENERATED ALWAYS AS ({metadata[_GENERATION]})")
    elif _START in metadata:
        kind = "BY DEFAULT" if metadata.get(_ALLOWS_VALUES) else "ALWAYS"
        start, step = metadata[_START], metadata.get(_STEP, 1)
        words.append(f"GENERATED {kind} AS IDENTITY (START WITH {start} INCREMENT BY {step})")
    elif CURRENT_DEFAULT in metadata:
        words.append(f"DEFAULT {metadata[CURRENT_DEFAULT]}")
    if isinstance(metadata.get("comment"), str):
        words.append(f"COMMENT {_literal(metadata['comment'])}")
    return " ".join(words)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
