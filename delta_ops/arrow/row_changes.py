"""Row changes: the frame of delete, update and merge, and the files that they write.

Copy-on-write: a file of which a row changes is removed, and its rows are written again, those that
stay as they are and those that do not. Each file is written to one of its own in the same
partition, several at a time and a few batches in memory of each.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

import pyarrow as pa

from delta_ops.arrow.changeable import validate_changeable
from delta_ops.arrow.data_file_write import DataFileWriter, discard, row_groups
from delta_ops.arrow.write import Rows, definition_of_rows, write_rows
from delta_ops.errors import TableNotFoundError
from delta_ops.events import DataFilesStaged, OnEvent, WriteStarted
from delta_ops.log import Snapshot
from delta_ops.log.deletion_vector_write import discard_vectors
from delta_ops.protocol.actions import AddCdcFile, AddFile, DeletionVector
from delta_ops.protocol.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.change_data import change_files, validate_feed_columns
from delta_ops.protocol.identity_columns import Counted
from delta_ops.protocol.row_rules import RowRule, counted_rules, not_null_rules
from delta_ops.protocol.schema import validate_distinct
from delta_ops.protocol.stats import parse_stats
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead
from delta_ops.transaction import CommitResult, Hook, Staged, Transaction, Txn
from delta_ops.transaction.write import Target, transaction_on

_AHEAD_BYTES = 512 << 20
"""Rows of files that are written again at once."""
_DECODED = 4
"""How many times larger rows are in memory than in files, about."""
_LOCAL_WRITES = max(2, os.cpu_count() or 1)
"""Files of a disk that are written again at once: encoding takes longest."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """What a commit of changed rows says beside its actions."""

    operation: str
    parameters: Mapping[str, Any]
    txn: Txn | tuple[str, int] | None
    user_metadata: str | None
    hooks: Sequence[Hook]


@dataclass(slots=True, kw_only=True)
class Changed:
    """The files that a change removes and adds, as they come about."""

    transaction: Transaction
    written: list[AddFile] = field(default_factory=list)
    """Files that are deleted again if nothing is committed."""
    metrics: dict[str, int] = field(default_factory=dict)
    """`operationMetrics` of rows."""
    vectors: list[DeletionVector] = field(default_factory=list)
    """Vectors whose files are deleted again if nothing is committed."""
    change_files: list[AddCdcFile] = field(default_factory=list)
    """Files of the change data feed; they too."""
    num_removed: int = 0
    num_vectors_removed: int = 0
    """Vectors of the files that are removed."""
    removed_bytes: int = 0

    def remove(self, files: Sequence[AddFile]) -> None:
        """Remove files."""
        self.transaction.remove(files)
        self.num_removed += len(files)
        self.num_vectors_removed += sum(each.deletion_vector is not None for each in files)
        self.removed_bytes += sum(each.size for each in files)

    def add(
        self,
        adds: Sequence[AddFile],
        checked: Iterable[RowRule],
        counted: tuple[Counted, ...] = (),
    ) -> None:
        """Add files.

        Args:
            adds: Their rows have no null where none may be, and keep their values in identity
                columns, or have counted ones.
            checked: Other rules that every new or changed row was held against; rows that were
                there before have kept them.
            counted: The values that the rows have taken of identity columns.
        """
        self.written += adds
        definition = self.transaction.definition
        staged = Staged(
            adds=tuple(adds),
            schema=definition.schema,
            partition_columns=definition.partition_columns,
            num_rows=0,
            row_rules=counted_rules(definition.row_rules).union(
                not_null_rules(definition.schema), checked
            ),
            counted=counted,
        )
        self.transaction.stage(staged)

    def tell(
        self, changes: Iterable[tuple[AddFile, Iterable[pa.RecordBatch]]], *, moves: bool = False
    ) -> None:
        """Tell readers of the change data feed of rows; nobody, if the table has none.

        Args:
            changes: Files, old or new, each with the rows of it that change, as `mark_rows` marks
                them; taken in threads.
            moves: Whether rows may be of other partitions than their file.
        """
        if not self.transaction.definition.has_change_feed:
            return
        writes = [
            (file, partial(Rewriter.write, file=file, batches=rows, moves=moves))
            for file, rows in changes
        ]
        adds, _ = write_again(self.transaction, writes, "changes")
        told = change_files(adds)
        self.change_files += told
        self.transaction.add_change_files(told)

    @property
    def added_bytes(self) -> int:
        """Bytes of the files that are added."""
        return sum(each.size for each in self.written)


def open_for_change(
    target: Target, storage_options: Mapping[str, Any] | None, on_event: OnEvent, verb: str
) -> tuple[Transaction, Snapshot]:
    """The transaction given or a new one, and the table that it changes.

    Args:
        target: Where the table is.
        storage_options: For the store.
        on_event: Told of what happens.
        verb: What is done to rows, for messages.

    Raises:
        InvalidRequestError: The table is append-only.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table uses what the engine cannot write.
    """
    transaction = transaction_on(target, storage_options, on_event, "arrow")
    if transaction.snapshot is None:
        raise TableNotFoundError(transaction.log.uri)
    validate_changeable(transaction.definition, transaction.log.uri, verb)
    validate_feed_columns(transaction.definition, transaction.log.uri)
    validate_distinct(transaction.schema, transaction.log.uri)
    return transaction, transaction.snapshot


def commit_change(
    transaction: Transaction, change: RowChange, make: Callable[[Changed], Mapping[str, int]]
) -> CommitResult:
    """Make a change and commit it; where nothing changes, only a txn is committed.

    Args:
        transaction: On a table that is there.
        change: What the commit says.
        make: Writes and removes files, and returns the `operationMetrics`.

    Raises:
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
    """
    if change.txn is not None:
        transaction.set_transaction(change.txn)
    if done := transaction.done_before():
        return done
    table, begun_ms = transaction.log.uri, transaction.clock()
    transaction.on_event(WriteStarted(table=table))
    changed = Changed(transaction=transaction)
    try:
        metrics = {**make(changed), "executionTimeMs": transaction.clock() - begun_ms}
        if transaction.is_empty:
            return CommitResult(version=None, already_committed=False, attempts=0, metrics=metrics)
        transaction.on_event(DataFilesStaged(table=table, num_files=len(changed.written)))
        return transaction.commit(
            operation=change.operation,
            parameters=change.parameters,
            metrics=metrics,
            user_metadata=change.user_metadata,
            counts_files=False,
            hooks=change.hooks,
        )
    finally:
        if not transaction.may_be_committed:
            discard(transaction.log.storage, [*changed.written, *changed.change_files])
            discard_vectors(transaction.log.storage, changed.vectors)


def num_live_rows(add: AddFile) -> int | None:
    """The rows of a file by its statistics; None where they do not tell."""
    stats = parse_stats(add.stats)
    if stats is None or stats.num_records is None:
        return None
    return stats.num_records - (add.deletion_vector.cardinality if add.deletion_vector else 0)


def write_again(
    transaction: Transaction,
    writes: Iterable[tuple[AddFile, Callable[[Rewriter], R]]],
    rows: Rows = "kept",
) -> tuple[tuple[AddFile, ...], list[R]]:
    """Write files again, several at a time; all or none.

    Args:
        transaction: On the files' table.
        writes: Files, each with what writes its rows by the rewriter; called in threads.
        rows: Whether they are rows of the table, or of the change data feed.

    Returns:
        The new files, and what each call returned, in their order.

    Raises:
        InvalidRequestError: A row breaks a rule of the table.
    """
    rewriter = Rewriter(transaction, rows)
    calls = ((add, partial(rewriter.attempt, write)) for add, write in writes)
    try:
        results = go_through(transaction, calls)
        returned = [each[0] for each in results if each is not None]
        rewriter.raise_failure()
    except BaseException:  # an interrupt too would leave files that nobody names
        rewriter.give_up()
        raise
    return rewriter.adds, returned


def go_through(
    transaction: Transaction, calls: Iterable[tuple[AddFile, Callable[[], R]]]
) -> list[R]:
    """What the calls return, in their order; as many at once as memory has room for their files.

    Args:
        transaction: On the files' table.
        calls: Files, each with what goes through its rows.
    """
    is_local = transaction.log.storage.has_native_input
    sized = ((add.size * _DECODED, call) for add, call in calls)
    max_calls = _LOCAL_WRITES if is_local else MAX_CONCURRENCY
    with closing(run_ahead(sized, _AHEAD_BYTES, max_calls)) as results:
        return list(results)


class Rewriter:
    """Writes the rows of files to new ones, for several threads, until somebody gives up.

    A file that is finished later is deleted by the thread that wrote it.
    """

    def __init__(self, transaction: Transaction, rows: Rows) -> None:
        definition = definition_of_rows(transaction, rows)
        self._transaction, self._storage = transaction, transaction.log.storage
        self._file_schema = arrow_schema_from_schema(definition.data_schema)
        self._rows = rows
        self._writer = DataFileWriter(
            self._storage,
            self._file_schema,
            definition,
            transaction.clustering_columns,
            is_of_changes=rows == "changes",
        )
        self._lock = threading.Lock()
        self._adds: list[AddFile] = []
        self._failures: list[BaseException] = []
        self._is_given_up = False

    @property
    def adds(self) -> tuple[AddFile, ...]:
        """The files written."""
        return tuple(self._adds)

    def write(self, file: AddFile, batches: Iterable[pa.RecordBatch], *, moves: bool) -> None:
        """Write rows to take the place of a file; no file where there is none.

        Args:
            file: Whose rows they are.
            batches: Have the columns of `definition_of_rows`, and maybe others.
            moves: Whether rows may be of other partitions than the file.
        """
        # A batch can be empty, as those are of which every row is deleted.
        batches = (batch for batch in batches if len(batch))
        if moves:
            self._keep(write_rows(self._transaction, batches, self._rows))
        elif first := list(islice(batches, 1)):
            names = self._file_schema.names
            rows = (batch.select(names) for batch in chain(first, batches))
            columns = self._transaction.definition.partition_names
            values = {name: file.partition_values.get(stored) for name, stored in columns.items()}
            self._keep([self._writer.write(row_groups(rows), values, data_change=True)])

    def attempt(self, write: Callable[[Rewriter], R]) -> tuple[R] | None:
        """Let a file be written; nothing after a failure, which is kept."""
        if self._failures or self._is_given_up:
            return None
        try:
            return (write(self),)
        except BaseException as error:
            self._failures.append(error)
            return None

    def raise_failure(self) -> None:
        """Raise the first failure, if there is one."""
        if self._failures:
            raise self._failures[0]

    def give_up(self) -> None:
        """Delete what was written and what is being written."""
        with self._lock:
            self._is_given_up = True
            adds, self._adds = self._adds, []
        discard(self._storage, adds)

    def _keep(self, adds: Sequence[AddFile]) -> None:
        with self._lock:
            if not self._is_given_up:
                self._adds += adds
                return
        discard(self._storage, adds)
