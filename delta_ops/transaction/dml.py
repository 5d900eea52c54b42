"""DML: delete and update, and the commit loop that they share with merge.

The same for both engines: the engine plans the change and changes the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from delta_ops.errors import (
    CommitConflictError,
    InvalidRequestError,
    TableNotFoundError,
    naming_table,
)
from delta_ops.events import DataFilesStaged, WriteStarted
from delta_ops.log import Snapshot
from delta_ops.log.deletion_vectors import discard_vectors
from delta_ops.log.table_state import EMPTY_STATE
from delta_ops.log.version.reconciliation import EMPTY_TAIL
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.change_data import validate_feed_columns
from delta_ops.protocol.schema import validate_distinct
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction.engine import Engine, PlannedChange
from delta_ops.transaction.mutability import validate_changeable
from delta_ops.transaction.overtaken import LONGEST_MS, begin_again
from delta_ops.transaction.requests import CommitRequest, DeleteRequest, UpdateRequest
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.row_changes import Changed
from delta_ops.transaction.transaction import Transaction
from delta_ops.transaction.write import transaction_on


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A change of rows, ready to run."""

    engine: Engine
    request: CommitRequest
    planned: PlannedChange
    operation: str
    parameters: Mapping[str, Any]


def delete_rows(engine: Engine, request: DeleteRequest) -> CommitResult:
    """Delete rows and commit.

    Raises:
        DeltaOpsError: As for `Engine.plan_change` and `commit_change`.
    """
    return _change_rows(engine, request, "DELETE", "deleted")


def update_rows(engine: Engine, request: UpdateRequest) -> CommitResult:
    """Give columns new values and commit.

    Raises:
        DeltaOpsError: As for `Engine.plan_change` and `commit_change`.
    """
    return _change_rows(engine, request, "UPDATE", "updated")


def _change_rows(
    engine: Engine, request: DeleteRequest | UpdateRequest, operation: str, verb: str
) -> CommitResult:
    transaction = open_for_change(engine, request, verb)
    with naming_table(transaction.log.uri):
        planned = engine.plan_change(request, transaction)
    parameters = {"predicate": [] if request.predicate is None else [planned.text]}
    change = RowChange(
        engine=engine,
        request=request,
        planned=planned,
        operation=operation,
        parameters=parameters,
    )
    return commit_change(transaction, change)


def open_for_change(engine: Engine, request: CommitRequest, verb: str) -> Transaction:
    """The transaction for a change of rows, after validating the table.

    Args:
        verb: Past participle of the change, for messages.

    Raises:
        InvalidRequestError: The table is append-only.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table uses a feature that the engine cannot write.
    """
    transaction = transaction_on(request.target, request.storage_options, request.on_event, engine)
    if transaction.snapshot is None and not transaction.creates_table:
        raise TableNotFoundError(transaction.log.uri)
    definition, table = transaction.definition, transaction.log.uri
    validate_changeable(definition, table, verb)
    validate_feed_columns(definition, table)
    validate_distinct(definition.schema, table)
    return transaction


def _table_before(transaction: Transaction) -> Snapshot:
    """The snapshot before a change; an empty table if the transaction creates the table."""
    if transaction.snapshot is not None:
        return transaction.snapshot
    log, definition = transaction.log, transaction.definition
    return Snapshot(
        storage=log.storage,
        log_directory=log.log_directory,
        version=-1,
        checkpoint=None,
        commits_since_checkpoint=0,
        definition=definition,
        commit_state=replace(
            EMPTY_STATE, protocol=definition.protocol, metadata=definition.metadata
        ),
        tail=EMPTY_TAIL,
        outside=log.outside,
    )


def commit_change(transaction: Transaction, change: RowChange) -> CommitResult:
    """Change rows and commit; if no row changes, commit only the txn.

    A change that a compaction has overtaken runs again, until it is committed or the time is up.
    So does a change that creates the table, if another writer created it first.

    Args:
        transaction: From `open_for_change`.

    Raises:
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not report whether the commit exists; the files stay.
        StorageError: The store failed; the files are deleted again.
    """
    if change.request.txn is not None:
        transaction.set_transaction(change.request.txn)
    ends_ms = transaction.clock() + LONGEST_MS
    while True:
        if done := transaction.done_before():
            return done
        _validate_feed_is_complete(transaction)
        new = transaction.definition if transaction.creates_table else None
        try:
            return _try_change(transaction, change)
        except CommitConflictError as error:
            is_late = transaction.clock() >= ends_ms
            begin = partial(_begin_on_created, new) if new else partial(begin_again, error)
            again = None if is_late else begin(transaction)
            if again is None:
                raise
            transaction = again


def _begin_on_created(new: TableDefinition, transaction: Transaction) -> Transaction | None:
    """A transaction on the table that another writer created first.

    Args:
        new: The definition that we tried to create. The created table must have the same partition
            columns.
    """
    if not transaction.is_of_one_change:
        return None
    again = transaction.begin_again()
    if again.snapshot is None or again.definition.partition_columns != new.partition_columns:
        return None
    return again


def _try_change(transaction: Transaction, change: RowChange) -> CommitResult:
    table, begun_ms = transaction.log.uri, transaction.clock()
    transaction.on_event(WriteStarted(table=table))
    changed = Changed(transaction=transaction, snapshot=_table_before(transaction))
    try:
        with naming_table(table):
            counts = change.planned.change_rows(changed)
        metrics = {**counts, "executionTimeMs": transaction.clock() - begun_ms}
        if transaction.draft.is_empty:
            return CommitResult(version=None, already_committed=False, attempts=0, metrics=metrics)
        transaction.on_event(DataFilesStaged(table=table, num_files=len(changed.written)))
        return transaction.commit(
            operation=change.operation,
            parameters=change.parameters,
            metrics=metrics,
            user_metadata=change.request.user_metadata,
            counts_files=False,
            hooks=change.request.hooks,
        )
    finally:
        if not transaction.may_be_committed:
            written: list[AddFile | AddCdcFile] = [*changed.written, *changed.change_files]
            change.engine.discard(transaction.log.storage, written)
            discard_vectors(transaction.log.storage, changed.vectors)


def _validate_feed_is_complete(transaction: Transaction) -> None:
    """Reject a change if the change data feed would miss other changes of the same commit.

    If a commit has change files, readers of the feed ignore its other files. Source: PROTOCOL.md,
    "Change Data Files".

    Raises:
        InvalidRequestError: The commit adds or removes rows already.
    """
    has_others = bool(transaction.draft.new_files) or transaction.draft.removes_rows
    if has_others and transaction.definition.has_change_feed:
        raise InvalidRequestError(
            f"{transaction.log.uri}: the change data feed cannot record changed rows in a commit "
            "that also adds or removes rows in another way; make separate commits. Nothing was "
            "written"
        )
