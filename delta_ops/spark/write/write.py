"""Write the rows of a DataFrame to a table: write = begin + stage + commit.

Files that Spark wrote are deleted again when it is certain that no version names them, and only
then: an interrupt or a listener's error, raised once the commit was tried, says nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot
from delta_ops.planning.replacement import Replacement, plan_replacement
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.change_data import (
    CHANGE_DATA_DIRECTORY,
    CHANGE_TYPE_COLUMN,
    change_files,
    feed_definition,
)
from delta_ops.protocol.features import Engine
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.row_rules import counted_rules
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.schema import NO_COLUMNS, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.columns import matches, named_column
from delta_ops.spark.partition_text import is_nan_partition
from delta_ops.spark.places import reach
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
from delta_ops.spark.session.call_sites import omitting_call_sites
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.write.data_files import (
    BY_TABLE,
    FileSettings,
    TableTarget,
    discard,
    write_rows,
)
from delta_ops.spark.write.missing_columns import complete
from delta_ops.spark.write.table_columns import fit, generate_columns, stored_rows
from delta_ops.transaction import (
    DEFAULT_HOOKS,
    CommitResult,
    Hook,
    Staged,
    Transaction,
    Txn,
)
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.write import (
    Mode,
    PartitionOverwriteMode,
    Target,
    WriteRequest,
    describe_outsiders,
    stage,
    transaction_on,
    write_by_engine,
)


def write(
    df: DataFrame,
    target: Target,
    mode: Mode = "append",
    partition_by: Sequence[str] | None = None,
    *,
    replace_where: Predicate | None = None,
    partition_overwrite_mode: PartitionOverwriteMode = "static",
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    txn: Txn | tuple[str, int] | None = None,
    configuration: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    on_event: OnEvent = ignore,
) -> CommitResult:
    """Write rows and commit; creates the table where there is none.

    Args:
        df: May read the table itself.
        target: Where the table is or shall be, or a transaction to add to and commit.
        mode: "overwrite" replaces all rows, or those for which `replace_where` is true; "error"
            and "ignore" only make a new table: where there is one they raise, or do nothing.
        partition_by: For a new table; for one that exists, its own partitioning or None.
        replace_where: Rows of the data for which it is not true are refused.
        partition_overwrite_mode: "dynamic" replaces the partitions of which the data have rows; of
            a table without partitions, all rows.
        merge_schema: Add columns, and fields of structs, that only the data have. What the table
            has keeps its type.
        overwrite_schema: The columns of the data become the table's, and `partition_by`, where it
            is given, its partitioning; for an overwrite of all rows.
        txn: Application id and version: a write that the table holds already is not done again.
        configuration: Table properties of a new table; one that exists keeps its own.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: The data do not fit the table.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
        TableExistsError: There is a table, and the mode is "error".
    """
    validate_arguments(write, locals())
    request = WriteRequest(
        mode=mode,
        partition_by=partition_by,
        replace_where=replace_where,
        partition_overwrite_mode=partition_overwrite_mode,
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        txn=txn,
        configuration=configuration,
        user_metadata=user_metadata,
        hooks=hooks,
    )
    return write_frame(df, target, request, storage_options, on_event)


@omitting_call_sites()
def write_frame(
    df: DataFrame,
    target: Target,
    request: WriteRequest,
    storage_options: Mapping[str, Any] | None = None,
    on_event: OnEvent = ignore,
    settings: FileSettings = BY_TABLE,
    rules: Sequence[SourceRule] = (),
) -> CommitResult:
    """Write rows and commit as a request says; errors as of `write`.

    Args:
        settings: How the files are to be.
        rules: What every row must be.
    """
    transaction = transaction_to_write(df, target, storage_options, on_event)
    return write_by_engine(transaction, request, SparkWrite(transaction, df, settings, rules))


def stage_write(
    df: DataFrame,
    target: Target,
    partition_by: Sequence[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    on_event: OnEvent = ignore,
) -> Staged:
    """Write the data files of an append and commit nothing.

    The table must exist, or `target` be a transaction that creates it.

    Raises:
        InvalidRequestError: The data do not fit the table.
        TableNotFoundError: There is no table to fit them to.
    """
    validate_arguments(stage_write, locals())
    transaction = transaction_to_write(df, target, storage_options, on_event)
    return stage(transaction, SparkWrite(transaction, df), partition_by, None)


def transaction_to_write(
    df: DataFrame,
    target: Target,
    storage_options: Mapping[str, Any] | None = None,
    on_event: OnEvent = ignore,
) -> Transaction:
    """The transaction given, or a new one on a table that the session of the rows reaches.

    Raises:
        InvalidRequestError: The rows are a stream.
        UnsupportedFeatureError: The table uses what this engine cannot write.
    """
    if df.isStreaming:
        raise InvalidRequestError(
            "a streaming DataFrame is written by write_stream, or by foreachBatch, batch by batch"
        )
    transaction = transaction_on(target, storage_options, on_event, "spark")
    reach(df.sparkSession, transaction.log.storage)
    transaction.partition_time_zone = session_time_zone(df.sparkSession)
    return transaction


_MAY_CHANGE = (
    spark_types.StructType,
    spark_types.ArrayType,
    spark_types.MapType,
    spark_types.IntegralType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.DecimalType,
)
"""Types of columns that a table has, by which it may get fields or a wider type."""


class SparkWrite:
    """The rows of a DataFrame for a transaction; see `WriteEngine`."""

    name: Engine = "spark"

    def __init__(
        self,
        transaction: Transaction,
        df: DataFrame,
        settings: FileSettings = BY_TABLE,
        rules: Sequence[SourceRule] = (),
    ) -> None:
        self._transaction, self._df = transaction, df
        self._settings, self._rules = settings, rules

    def go_on(self, transaction: Transaction) -> None:
        """See `WriteEngine`."""
        self._transaction = transaction

    def schema_of_data(self, known: StructType = NO_COLUMNS) -> StructType:
        """See `WriteEngine`."""
        fields = []
        for field in self._df.schema.fields:
            if field.name.lower() not in known.fields_by_lower_name:
                fields.append(field)
            elif isinstance(field.dataType, _MAY_CHANGE):
                fields.append(_drop_collations(field))  # texts of a table compare by their bytes
        return schema_from_spark(spark_types.StructType(fields))

    def stage_data(self, must_match: Predicate | None) -> Staged:
        """See `WriteEngine`."""
        transaction, definition = self._transaction, self._transaction.definition
        table = transaction.log.uri
        rows = complete(self._df, definition, transaction.clock(), table)
        checks = [
            *rows.checks,
            *_match_checks(must_match, definition),
            *_nan_checks(definition),
            *(
                RowCheck(
                    num_broken=sf.count_if(~matches(each.predicate, definition.schema)),
                    message=each.message,
                )
                for each in self._rules
            ),
        ]
        staged, figures = self._stage(rows.frame, definition, checks, rows.figures)
        return replace(staged, counted=rows.counted_values(figures))

    def _stage(
        self,
        df: DataFrame,
        stored: TableDefinition,
        checks: Iterable[RowCheck] = (),
        figures: Mapping[str, Column] = {},
    ) -> tuple[Staged, Mapping[str, Any]]:
        """Write rows with the columns that files have; with what was computed over them."""
        transaction, definition = self._transaction, self._transaction.definition
        schema, table = definition.schema, transaction.log.uri
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
            settings=self._settings,
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

    def plan_replacement(self, snapshot: Snapshot, predicate: Predicate) -> Replacement:
        """See `WriteEngine`."""
        zone = session_time_zone(self._df.sparkSession)
        return plan_replacement(snapshot, predicate, partition_time_zone=zone)

    def stage_survivors(self, files: Sequence[AddFile], predicate: Predicate) -> Staged:
        """See `WriteEngine`."""
        snapshot, definition = self._transaction.snapshot, self._transaction.definition
        assert snapshot
        rows = read_kept(self._df.sparkSession, snapshot, files)
        # The table may have more columns by now, which are null in rows that were there before.
        survivors = rows.filter(~matches(predicate, snapshot.schema))
        return self._stage(survivors, tracked_definition(definition, snapshot.uri))[0]

    def write_change_files(
        self, replaced: Iterable[AddFile], predicate: Predicate, added: Sequence[AddFile]
    ) -> tuple[AddCdcFile, ...]:
        """See `WriteEngine`."""
        transaction, definition = self._transaction, self._transaction.definition
        spark, snapshot = self._df.sparkSession, self._transaction.snapshot
        assert snapshot
        gone = read_files(spark, snapshot, replaced).filter(matches(predicate, snapshot.schema))
        changes = {
            "delete": fit(gone, definition.schema, snapshot.uri).frame,
            "insert": read_files(spark, snapshot, added, definition),
        }
        gone, come = (
            rows.withColumn(CHANGE_TYPE_COLUMN, sf.lit(change)) for change, rows in changes.items()
        )
        target = TableTarget(
            storage=transaction.log.storage,
            definition=feed_definition(definition),
            directory=CHANGE_DATA_DIRECTORY,
            settings=self._settings,
        )
        return change_files(write_rows(gone.unionAll(come), (), target, transaction.on_event).adds)

    def discard(self, adds: Sequence[AddFile | AddCdcFile]) -> None:
        """See `WriteEngine`."""
        discard(self._transaction.log.storage, adds)


def _drop_collations(field: spark_types.StructField) -> spark_types.StructField:
    return spark_schema_from_schema(data_schema_from_spark(spark_types.StructType([field])))[0]


def _nan_checks(definition: TableDefinition) -> Iterator[RowCheck]:
    for each in definition.partition_fields:
        if found := is_nan_partition(named_column(each.name), each):
            yield RowCheck(num_broken=sf.count_if(found[0]), message=found[1])


def _match_checks(must_match: Predicate | None, definition: TableDefinition) -> Iterator[RowCheck]:
    if must_match is not None:
        yield RowCheck(
            num_broken=sf.count_if(~matches(must_match, definition.schema)),
            message=describe_outsiders(must_match, definition),
        )
