"""Staging: writes the rows of a DataFrame to data files that no table version refers to yet.

`data_files` writes the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.change_data import (
    CHANGE_DATA_DIRECTORY,
    CHANGE_TYPE_COLUMN,
    change_files,
    feed_definition,
)
from delta_ops.protocol.row_rules import counted_rules
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.casting import fit, stored_rows
from delta_ops.spark.expressions.columns import matches, named_column
from delta_ops.spark.generated_columns import generate_columns
from delta_ops.spark.partitioning import is_nan_partition
from delta_ops.spark.read.read import read_files, read_kept
from delta_ops.spark.row_checks import (
    RowCheck,
    checked_rules,
    expression_checks,
    length_checks,
    null_checks,
)
from delta_ops.spark.schema import (
    data_schema_from_spark,
    schema_from_spark,
    spark_schema_from_schema,
)
from delta_ops.spark.write.data_files import (
    FileSettings,
    TableTarget,
    write_rows,
)
from delta_ops.spark.write.missing_columns import complete
from delta_ops.transaction import Staged
from delta_ops.transaction.replacement import ReplacedRows
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.staging import WriteTarget

_MAY_CHANGE = (
    spark_types.StructType,
    spark_types.ArrayType,
    spark_types.MapType,
    spark_types.IntegralType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.DecimalType,
)
"""Types of existing columns that data can extend with fields or widen."""


def schema_of(data: DataFrame, known: StructType) -> StructType:
    """See `Engine.schema_of`."""
    fields = []
    for field in data.schema.fields:
        if field.name.lower() not in known.fields_by_lower_name:
            fields.append(field)
        elif isinstance(field.dataType, _MAY_CHANGE):
            fields.append(_drop_collations(field))  # strings of a table compare by their bytes
    return schema_from_spark(spark_types.StructType(fields))


def stage_rows(
    data: DataFrame, target: WriteTarget, rules: Sequence[SourceRule], settings: FileSettings
) -> Staged:
    """See `Engine.write_rows`."""
    definition = target.definition
    rows = complete(data, definition, target.now_ms, target.table)
    checks = [*rows.checks, *_nan_checks(definition), *_rule_checks(rules, definition)]
    staged, figures = _stage(rows.frame, target, settings, definition, checks, rows.figures)
    return replace(staged, counted=rows.counted_values(figures))


def stage_survivors(
    spark: SparkSession, replaced: ReplacedRows, target: WriteTarget, settings: FileSettings
) -> Staged:
    """See `Engine.write_survivors`."""
    rows = read_kept(spark, replaced.snapshot, replaced.files)
    # The commit may add columns, which are null in rows of live files.
    survivors = rows.filter(~matches(replaced.predicate, replaced.snapshot.schema))
    stored = tracked_definition(target.definition, target.table)
    return _stage(survivors, target, settings, stored)[0]


def write_replacement(
    spark: SparkSession,
    replaced: ReplacedRows,
    added: Sequence[AddFile],
    target: WriteTarget,
    settings: FileSettings,
) -> tuple[AddCdcFile, ...]:
    """See `Engine.write_replacement`."""
    snapshot, definition = replaced.snapshot, target.definition
    rows = read_files(spark, snapshot, replaced.files)
    rows = rows.filter(matches(replaced.predicate, snapshot.schema))
    removed = fit(rows, definition.schema, target.table).frame
    inserted = read_files(spark, snapshot, added, definition)
    changes = removed.withColumn(CHANGE_TYPE_COLUMN, sf.lit("delete")).unionAll(
        inserted.withColumn(CHANGE_TYPE_COLUMN, sf.lit("insert"))
    )
    place = TableTarget(
        storage=target.storage,
        definition=feed_definition(target.definition),
        directory=CHANGE_DATA_DIRECTORY,
        settings=settings,
    )
    return change_files(write_rows(changes, (), place, target.on_event).adds)


def _stage(
    df: DataFrame,
    target: WriteTarget,
    settings: FileSettings,
    stored: TableDefinition,
    checks: Iterable[RowCheck] = (),
    figures: Mapping[str, Column] = {},
) -> tuple[Staged, Mapping[str, Any]]:
    """Write rows to files with the columns of `stored`; also return the figures over the rows."""
    definition, table = target.definition, target.table
    schema = definition.schema
    rows = fit(df, stored.schema, table)
    all_checks = [
        *rows.checks,
        *null_checks(schema),
        *length_checks(schema),
        *expression_checks(definition, df.sparkSession, table),
        *checks,
    ]
    place = TableTarget(
        storage=target.storage,
        definition=stored,
        clustered_by=target.clustered_by,
        settings=settings,
    )
    frame = generate_columns(stored_rows(rows.frame, definition), df.columns, definition)
    written = write_rows(frame, all_checks, place, target.on_event, figures)
    staged = Staged(
        adds=written.adds,
        schema=schema,
        partition_columns=definition.partition_columns,
        num_rows=written.num_rows,
        row_rules=checked_rules(all_checks) | counted_rules(definition.row_rules),
    )
    return staged, written.figures


def _drop_collations(field: spark_types.StructField) -> spark_types.StructField:
    return spark_schema_from_schema(data_schema_from_spark(spark_types.StructType([field])))[0]


def _nan_checks(definition: TableDefinition) -> Iterator[RowCheck]:
    for each in definition.partition_fields:
        if found := is_nan_partition(named_column(each.name), each):
            yield RowCheck(num_broken=sf.count_if(found[0]), message=found[1])


def _rule_checks(rules: Sequence[SourceRule], definition: TableDefinition) -> Iterator[RowCheck]:
    for each in rules:
        is_broken = ~matches(each.predicate, definition.schema)
        yield RowCheck(
            num_broken=sf.count_if(is_broken),
            message=each.message,
            error_class=each.error_class,
        )
