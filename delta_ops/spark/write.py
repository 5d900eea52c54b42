"""Write the rows of a DataFrame to a table: write = begin + stage + commit.

Files that Spark wrote are deleted again when it is certain that no version names them, and only
then: an interrupt or a listener's error, raised once the commit was tried, says nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, WriteStarted, ignore
from delta_ops.events import Staged as StagedEvent
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import TRUE, Predicate
from delta_ops.protocol.schema import StructType, validate_distinct
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
    TxnId,
)
from delta_ops.transaction.replacement import plan_replacement, true_when_stored
from delta_ops.transaction.write_request import (
    Mode,
    Target,
    create_if_missing,
    transaction_on,
    validate_mode,
    validate_partitioning,
    write_parameters,
)


def write(
    df: DataFrame,
    target: Target,
    mode: Mode = "append",
    partition_by: Sequence[str] | None = None,
    *,
    replace_where: Predicate | None = None,
    txn: TxnId | tuple[str, int] | None = None,
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
    validate_mode(mode, replace_where)
    transaction = _transaction(target, storage_options, on_event)
    if txn is not None:
        transaction.set_transaction(txn)
    if done := transaction.done_before():
        return done
    transaction.on_event(WriteStarted(table=transaction.log.uri))
    create_if_missing(
        transaction, lambda: schema_from_spark(df.schema), partition_by, configuration
    )
    adds: tuple[AddFile, ...] = ()
    try:
        staged = _stage(transaction, df, partition_by, replace_where)
        adds = staged.adds
        transaction.stage(staged)
        if mode == "overwrite":
            adds += _replace(transaction, df, TRUE if replace_where is None else replace_where)
        transaction.on_event(StagedEvent(table=transaction.log.uri, num_files=len(adds)))
        return transaction.commit(
            operation="WRITE",
            parameters=write_parameters(mode, transaction, replace_where),
            user_metadata=user_metadata,
            hooks=hooks,
        )
    finally:
        if not transaction.may_be_committed:
            _discard(transaction, adds)


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
    return _stage(_transaction(target, storage_options, on_event), df, partition_by, None)


def _transaction(
    target: Target, storage_options: Mapping[str, Any] | None, on_event: OnEvent
) -> Transaction:
    transaction = transaction_on(target, storage_options, on_event)
    spark_path(transaction.log.storage, "")  # refuses what Spark cannot reach
    return transaction


def _stage(
    transaction: Transaction,
    df: DataFrame,
    partition_by: Sequence[str] | None,
    must_match: Predicate | None,
) -> Staged:
    if df.isStreaming:
        raise InvalidRequestError(
            "a streaming DataFrame is written by foreachBatch, batch by batch"
        )
    validate_partitioning(transaction, partition_by)
    schema = transaction.schema
    validate_distinct(schema, transaction.log.uri)
    rows = fit(df, schema, transaction.log.uri)
    if must_match is not None:
        columns = transaction.metadata.partition_columns
        must_match = true_when_stored(must_match, schema, columns)
    checks = [*rows.checks, *null_checks(schema), *_match_checks(must_match, schema)]
    return _staged(transaction, rows.frame, checks)


def _match_checks(must_match: Predicate | None, schema: StructType) -> Iterator[RowCheck]:
    if must_match is not None:
        yield RowCheck(
            num_broken=sf.count_if(~matches(must_match, schema)),
            message=(
                "the data have rows for which replace_where is not true; they would be added "
                "outside of what is replaced. Filter the data, or widen replace_where"
            ),
        )


def _staged(transaction: Transaction, rows: DataFrame, checks: Sequence[RowCheck]) -> Staged:
    target = TableTarget(storage=transaction.log.storage, definition=transaction.definition)
    written = write_rows(rows, checks, target, transaction.on_event)
    return Staged(
        adds=written.adds,
        schema=target.definition.schema,
        partition_columns=target.definition.partition_columns,
        num_rows=written.num_rows,
        row_rules=checked_rules(checks),
    )


def _replace(transaction: Transaction, df: DataFrame, predicate: Predicate) -> tuple[AddFile, ...]:
    """Remove what the predicate matches; the files that hold the surviving rows of mixed files."""
    transaction.read(predicate)
    snapshot = transaction.snapshot
    if snapshot is None:
        return ()
    zone = session_time_zone(df.sparkSession)
    plan = plan_replacement(snapshot, predicate, partition_time_zone=zone)
    transaction.remove_rows(plan.matched)
    transaction.remove(plan.mixed)
    if not plan.mixed:
        return ()
    rows = read_files(df.sparkSession, snapshot, plan.mixed)
    survivors = rows.filter(~matches(predicate, snapshot.schema))
    staged = _staged(transaction, survivors, tuple(null_checks(snapshot.schema)))
    try:
        # They were in the table before, so they are no output of this write.
        transaction.stage(replace(staged, num_rows=0))
    except BaseException:
        _discard(transaction, staged.adds)
        raise
    return staged.adds


def _discard(transaction: Transaction, adds: Iterable[AddFile]) -> None:
    """Delete staged files that no version can come to name, with their directories."""
    uri = transaction.log.uri
    for directory in {canonical_path(add.path, uri).partition("/")[0] for add in adds}:
        remove_directory(transaction.log.storage, directory)
