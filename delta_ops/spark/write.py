"""Write the rows of a DataFrame to a table: write = begin + stage + commit.

Files that Spark wrote are deleted again when it is certain that no version names them, and only
then: an interrupt or a listener's error, raised once the commit was tried, says nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot
from delta_ops.planning.replacement import Replacement, plan_replacement
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructType
from delta_ops.spark.data_files import TableTarget, remove_directory, write_rows
from delta_ops.spark.expressions import matches
from delta_ops.spark.read import read_files, session_time_zone, spark_path
from delta_ops.spark.row_checks import RowCheck, checked_rules, null_checks
from delta_ops.spark.schema import schema_from_spark
from delta_ops.spark.table_columns import fit
from delta_ops.transaction import (
    DEFAULT_HOOKS,
    CommitResult,
    Hook,
    Staged,
    Transaction,
    Txn,
)
from delta_ops.transaction.write import (
    Mode,
    Target,
    WriteRequest,
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
        mode: "overwrite" replaces all rows, or those for which `replace_where` is true.
        partition_by: For a new table; for one that exists, its own partitioning or None.
        txn: Application id and version: a write that the table holds already is not done again.
        configuration: Table properties of a new table.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: The data do not fit the table.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
    """
    validate_arguments(write, locals())
    transaction = _transaction(target, storage_options, on_event)
    request = WriteRequest(
        mode=mode,
        partition_by=partition_by,
        replace_where=replace_where,
        txn=txn,
        configuration=configuration,
        user_metadata=user_metadata,
        hooks=hooks,
    )
    return write_by_engine(transaction, request, SparkWrite(transaction, df))


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
    transaction = _transaction(target, storage_options, on_event)
    return stage(transaction, SparkWrite(transaction, df), partition_by, None)


def _transaction(
    target: Target, storage_options: Mapping[str, Any] | None, on_event: OnEvent
) -> Transaction:
    transaction = transaction_on(target, storage_options, on_event, "spark")
    spark_path(transaction.log.storage, "")  # refuses what Spark cannot reach
    return transaction


class SparkWrite:
    """The rows of a DataFrame for a transaction; see `WriteEngine`."""

    def __init__(self, transaction: Transaction, df: DataFrame) -> None:
        self._transaction, self._df = transaction, df

    def schema_of_data(self) -> StructType:
        """See `WriteEngine`."""
        return schema_from_spark(self._df.schema)

    def stage_data(self, must_match: Predicate | None) -> Staged:
        """See `WriteEngine`."""
        if self._df.isStreaming:
            raise InvalidRequestError(
                "a streaming DataFrame is written by foreachBatch, batch by batch"
            )
        schema = self._transaction.schema
        rows = fit(self._df, schema, self._transaction.log.uri)
        checks = [*rows.checks, *null_checks(schema), *_match_checks(must_match, schema)]
        return _stage_rows(self._transaction, rows.frame, checks)

    def plan_replacement(self, snapshot: Snapshot, predicate: Predicate) -> Replacement:
        """See `WriteEngine`."""
        zone = session_time_zone(self._df.sparkSession)
        return plan_replacement(snapshot, predicate, partition_time_zone=zone)

    def stage_survivors(self, files: Sequence[AddFile], predicate: Predicate) -> Staged:
        """See `WriteEngine`."""
        snapshot = self._transaction.snapshot
        assert snapshot
        rows = read_files(self._df.sparkSession, snapshot, files)
        survivors = rows.filter(~matches(predicate, snapshot.schema))
        return _stage_rows(self._transaction, survivors, tuple(null_checks(snapshot.schema)))

    def discard(self, adds: Sequence[AddFile]) -> None:
        """See `WriteEngine`; directories of this engine hold nothing else."""
        uri = self._transaction.log.uri
        for directory in {canonical_path(add.path, uri).partition("/")[0] for add in adds}:
            remove_directory(self._transaction.log.storage, directory)


def _match_checks(must_match: Predicate | None, schema: StructType) -> Iterator[RowCheck]:
    if must_match is not None:
        yield RowCheck(
            num_broken=sf.count_if(~matches(must_match, schema)),
            message=(
                "the data have rows for which replace_where is not true; they would be added "
                "outside of what is replaced. Filter the data, or widen replace_where"
            ),
        )


def _stage_rows(transaction: Transaction, rows: DataFrame, checks: Sequence[RowCheck]) -> Staged:
    target = TableTarget(storage=transaction.log.storage, definition=transaction.definition)
    written = write_rows(rows, checks, target, transaction.on_event)
    return Staged(
        adds=written.adds,
        schema=target.definition.schema,
        partition_columns=target.definition.partition_columns,
        num_rows=written.num_rows,
        row_rules=checked_rules(checks),
    )
