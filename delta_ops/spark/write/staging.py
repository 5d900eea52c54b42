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
from delta_ops.protocol.predicate import Predicate
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
from delta_ops.transaction import Staged, Transaction
from delta_ops.transaction.source_rules import SourceRule

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
    data: DataFrame, transaction: Transaction, rules: Sequence[SourceRule], settings: FileSettings
) -> Staged:
    """See `Engine.write_rows`."""
    definition, table = transaction.definition, transaction.log.uri
    rows = complete(data, definition, transaction.clock(), table)
    checks = [*rows.checks, *_nan_checks(definition), *_rule_checks(rules, definition)]
    staged, figures = _stage(rows.frame, transaction, settings, definition, checks, rows.figures)
    return replace(staged, counted=rows.counted_values(figures))


def stage_survivors(
    spark: SparkSession,
    files: Sequence[AddFile],
    predicate: Predicate,
    transaction: Transaction,
    settings: FileSettings,
) -> Staged:
    """See `Engine.write_survivors`."""
    snapshot = transaction.snapshot
    assert snapshot
    rows = read_kept(spark, snapshot, files)
    # The commit may add columns, which are null in rows of live files.
    survivors = rows.filter(~matches(predicate, snapshot.schema))
    stored = tracked_definition(transaction.definition, snapshot.uri)
    return _stage(survivors, transaction, settings, stored)[0]


def write_replacement(
    spark: SparkSession,
    replaced: Iterable[AddFile],
    predicate: Predicate,
    transaction: Transaction,
    settings: FileSettings,
) -> tuple[AddCdcFile, ...]:
    """See `Engine.write_replacement`."""
    snapshot, definition = transaction.snapshot, transaction.definition
    assert snapshot
    gone = read_files(spark, snapshot, replaced).filter(matches(predicate, snapshot.schema))
    changes = {
        "delete": fit(gone, definition.schema, snapshot.uri).frame,
        "insert": read_files(spark, snapshot, transaction.draft.new_files, definition),
    }
    gone, come = (
        rows.withColumn(CHANGE_TYPE_COLUMN, sf.lit(change)) for change, rows in changes.items()
    )
    target = TableTarget(
        storage=transaction.log.storage,
        definition=feed_definition(definition),
        directory=CHANGE_DATA_DIRECTORY,
        settings=settings,
    )
    return change_files(write_rows(gone.unionAll(come), (), target, transaction.on_event).adds)


def _stage(
    df: DataFrame,
    transaction: Transaction,
    settings: FileSettings,
    stored: TableDefinition,
    checks: Iterable[RowCheck] = (),
    figures: Mapping[str, Column] = {},
) -> tuple[Staged, Mapping[str, Any]]:
    """Write rows to files with the columns of `stored`; also return the figures over the rows."""
    definition, table = transaction.definition, transaction.log.uri
    schema = definition.schema
    rows = fit(df, stored.schema, table)
    all_checks = [
        *rows.checks,
        *null_checks(schema),
        *length_checks(schema),
        *expression_checks(definition, df.sparkSession, table),
        *checks,
    ]
    target = TableTarget(
        storage=transaction.log.storage,
        definition=stored,
        clustered_by=transaction.clustering_columns,
        settings=settings,
    )
    frame = generate_columns(stored_rows(rows.frame, definition), df.columns, definition)
    written = write_rows(frame, all_checks, target, transaction.on_event, figures)
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
        yield RowCheck(num_broken=sf.count_if(is_broken), message=each.message)
