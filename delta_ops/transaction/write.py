"""Write: begin, stage, commit, and discard what did not become part of the table.

The same for every engine. What differs is how rows become files, and how files that no version
names are deleted: functions of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import pyarrow as pa

from delta_ops.errors import InvalidRequestError
from delta_ops.events import DataFilesStaged, OnEvent, WriteStarted
from delta_ops.log import Snapshot
from delta_ops.log.delta_log import TableOrPlace, log_of
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.features import Engine
from delta_ops.protocol.predicate import TRUE, Predicate
from delta_ops.protocol.predicate.stored import stored_predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import StructType, validate_distinct
from delta_ops.protocol.table_definition import TableDefinition, validate
from delta_ops.transaction import CommitResult, Hook, Staged
from delta_ops.transaction.hooks import DEFAULT_HOOKS
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.transaction import Transaction, begin

Target = TableOrPlace | Transaction
Mode = Literal["append", "overwrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What a write asks for, whichever engine writes its rows."""

    mode: Mode = "append"
    partition_by: Sequence[str] | None = None
    """For a new table; None for one that exists, or its own partitioning."""
    replace_where: Predicate | None = None
    """The rows that an overwrite replaces; None: all."""
    txn: Txn | tuple[str, int] | None = None
    configuration: Mapping[str, str] | None = None
    """Table properties of a new table."""
    user_metadata: str | None = None
    hooks: Sequence[Hook] = DEFAULT_HOOKS


class ReplacedFiles(Protocol):
    """The live files that an overwrite concerns."""

    @property
    def matched(self) -> pa.Table:
        """Files of which every row matches; rows of `arrow_schemas.ADD`."""

    @property
    def mixed(self) -> tuple[AddFile, ...]:
        """Files of which some rows may match; the others survive."""


class WriteEngine(Protocol):
    """How an engine writes the rows of one write, to the files of one transaction.

    What raises has left no file behind.
    """

    def schema_of_data(self) -> StructType:
        """The schema of a table that these rows make."""

    def stage_data(self, must_match: Predicate | None) -> Staged:
        """Write the rows to files.

        Args:
            must_match: A row for which it is not true is refused.
        """

    def plan_replacement(self, snapshot: Snapshot, predicate: Predicate) -> ReplacedFiles:
        """Sort the live files that may hold rows for which the predicate is true."""

    def stage_survivors(self, files: Sequence[AddFile], predicate: Predicate) -> Staged:
        """Write the rows of live files to new ones, but those for which the predicate is true."""

    def discard(self, adds: Sequence[AddFile]) -> None:
        """Delete files that no version names or can come to name."""


def write_by_engine(
    transaction: Transaction, request: WriteRequest, engine: WriteEngine
) -> CommitResult:
    """Write rows and commit; the first commit creates the table.

    Files are deleted again when it is certain that no version names them, and only then: an
    interrupt or a listener's error, raised once the commit was tried, says nothing about it.

    Raises:
        InvalidRequestError: The request or the data do not fit the table.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
    """
    table = transaction.log.uri
    validate_mode(request.mode, request.replace_where)
    if request.txn is not None:
        transaction.set_transaction(request.txn)
    if done := transaction.done_before():
        return done
    transaction.on_event(WriteStarted(table=table))
    if transaction.snapshot is None and not transaction.creates_table:
        transaction.create_table(
            engine.schema_of_data(),
            partition_by=request.partition_by or (),
            configuration=request.configuration,
        )
    written: list[AddFile] = []
    try:
        staged = stage(transaction, engine, request.partition_by, request.replace_where)
        written += staged.adds
        transaction.stage(staged)
        if request.mode == "overwrite":
            replaced = TRUE if request.replace_where is None else request.replace_where
            survivors = _replace(transaction, engine, replaced)
            if survivors is not None:
                written += survivors.adds
                # They were in the table before, so they are no output of this write.
                transaction.stage(replace(survivors, num_rows=0))
        transaction.on_event(DataFilesStaged(table=table, num_files=len(written)))
        return transaction.commit(
            operation="WRITE",
            parameters=_parameters(request, transaction),
            user_metadata=request.user_metadata,
            hooks=request.hooks,
        )
    finally:
        if not transaction.may_be_committed:
            engine.discard(written)


def stage(
    transaction: Transaction,
    engine: WriteEngine,
    partition_by: Sequence[str] | None,
    must_match: Predicate | None,
) -> Staged:
    """Write the rows to files, and commit nothing.

    Raises:
        InvalidRequestError: The data do not fit the table.
        TableNotFoundError: There is no table to fit them to.
    """
    definition = transaction.definition
    _validate_partitioning(definition, partition_by, transaction.log.uri)
    validate_distinct(definition.schema, transaction.log.uri)
    if must_match is not None:
        columns = definition.partition_columns
        must_match = stored_predicate(must_match, definition.schema, columns)
    return engine.stage_data(must_match)


def _replace(transaction: Transaction, engine: WriteEngine, predicate: Predicate) -> Staged | None:
    """Remove what the predicate matches; the files that hold the other rows of mixed files."""
    transaction.read(predicate)
    if transaction.snapshot is None:
        return None
    plan = engine.plan_replacement(transaction.snapshot, predicate)
    transaction.remove_rows(plan.matched)
    transaction.remove(plan.mixed)
    return engine.stage_survivors(plan.mixed, predicate) if plan.mixed else None


def validate_mode(mode: str, replace_where: Predicate | None) -> None:
    """Refuse a mode that there is not, and a predicate without an overwrite.

    Raises:
        InvalidRequestError: With the cure.
    """
    if mode not in ("append", "overwrite"):
        raise InvalidRequestError(f"mode {mode!r} is unknown; choose append or overwrite")
    if replace_where is not None and mode != "overwrite":
        raise InvalidRequestError("replace_where goes with mode='overwrite'")


def transaction_on(
    target: Target,
    storage_options: Mapping[str, Any] | None,
    on_event: OnEvent,
    engine: Engine,
) -> Transaction:
    """The transaction given, or a new one on the table.

    Raises:
        UnsupportedFeatureError: The table uses what the engine cannot write.
    """
    if isinstance(target, Transaction):
        transaction = target
    else:
        transaction = begin(log_of(target, storage_options), on_event=on_event)
    if transaction.snapshot is not None:
        validate(transaction.definition, "write", table=transaction.log.uri, engine=engine)
    return transaction


def _validate_partitioning(
    definition: TableDefinition, partition_by: Sequence[str] | None, table: str
) -> None:
    columns = definition.partition_columns
    if partition_by is not None and tuple(partition_by) != columns:
        raise InvalidRequestError(
            f"{table} is partitioned by {', '.join(columns) or 'nothing'}, not by "
            f"{', '.join(partition_by) or 'nothing'}; leave partition_by out"
        )


def _parameters(request: WriteRequest, transaction: Transaction) -> dict[str, Any]:
    """`commitInfo.operationParameters` of a WRITE, as the reference names them."""
    parameters: dict[str, Any] = {
        "mode": request.mode.capitalize(),
        "partitionBy": list(transaction.definition.partition_columns),
    }
    if request.replace_where is not None:
        parameters["predicate"] = predicate_text(request.replace_where)
    return parameters
