"""Row changes: the frame of delete, update and merge, and the files that they write.

Copy-on-write: a file of which a row changes is removed, and its rows are written again, those that
stay as they are and those that do not. Each file is written to one of its own in the same
partition, several at a time and a few batches in memory of each.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from delta_ops.arrow.data_file_write import DataFileWriter, discard, row_groups
from delta_ops.arrow.write import write_rows
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.events import DataFilesStaged, OnEvent, WriteStarted
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.row_rules import RowRule
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

ReadRows = Callable[[AddFile], Iterator[pa.RecordBatch]]
"""Reads a file's rows as they shall be, in the table's columns."""


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
    num_removed: int = 0
    removed_bytes: int = 0

    def remove(self, files: Sequence[AddFile]) -> None:
        """Remove files."""
        self.transaction.remove(files)
        self.num_removed += len(files)
        self.removed_bytes += sum(each.size for each in files)

    def add(self, adds: Sequence[AddFile], row_rules: Iterable[RowRule]) -> None:
        """Add files whose rows keep these rules."""
        self.written += adds
        definition = self.transaction.definition
        staged = Staged(
            adds=tuple(adds),
            schema=definition.schema,
            partition_columns=definition.partition_columns,
            num_rows=0,
            row_rules=frozenset(row_rules),
        )
        self.transaction.stage(staged)

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
    if transaction.properties.append_only:
        raise InvalidRequestError(
            f"{transaction.log.uri} is append-only (delta.appendOnly = true), so that no row can "
            f"be {verb}; append instead, or unset the property"
        )
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
            discard(transaction.log.storage, changed.written)


def num_live_rows(add: AddFile) -> int | None:
    """The rows of a file by its statistics; None where they do not tell."""
    stats = parse_stats(add.stats)
    if stats is None or stats.num_records is None:
        return None
    return stats.num_records - (add.deletion_vector.cardinality if add.deletion_vector else 0)


def rewrite_files(
    transaction: Transaction, files: Sequence[AddFile], read_rows: ReadRows
) -> tuple[AddFile, ...]:
    """Write the rows of files to new ones; all of them or none.

    A file of which no row is left gets none.

    Args:
        transaction: On the files' table.
        files: Live ones.
        read_rows: Yields rows that are in the file's partition.

    Raises:
        InvalidRequestError: A row breaks a rule of the table.
    """
    definition, storage = transaction.definition, transaction.log.storage
    file_schema = arrow_schema_from_schema(definition.data_schema)
    writer = DataFileWriter(storage, file_schema, definition)
    finished = _Finished(transaction)

    def write(add: AddFile) -> AddFile | None:
        batches = (batch.select(file_schema.names) for batch in read_rows(add))
        # A batch can be empty, as those are of which every row is deleted.
        batches = (batch for batch in batches if len(batch))
        first = list(islice(batches, 1))
        if not first:
            return None
        values = {name: add.partition_values.get(name) for name in definition.partition_columns}
        return writer.write(row_groups(chain(first, batches)), values, data_change=True)

    calls = ((add.size * _DECODED, partial(finished.keep, write, add)) for add in files)
    max_calls = _LOCAL_WRITES if storage.has_native_input else MAX_CONCURRENCY
    try:
        with closing(run_ahead(calls, _AHEAD_BYTES, max_calls)) as written:
            adds = [add for add in written if add is not None]
        finished.raise_failure()
    except BaseException:  # an interrupt too would leave files that nobody names
        finished.give_up()
        raise
    return tuple(adds)


def write_moved_rows(
    transaction: Transaction, files: Sequence[AddFile], read_rows: ReadRows
) -> tuple[AddFile, ...]:
    """Write the rows of files to new ones of whatever partitions they are in; all or none."""
    batches = chain.from_iterable(read_rows(add) for add in files)
    return write_rows(transaction, batches)


class _Finished:
    """Files that threads have written, until somebody gives up.

    A file that is finished later is deleted by the thread that wrote it.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._storage = transaction.log.storage
        self._lock = threading.Lock()
        self._adds: list[AddFile] = []
        self._failures: list[BaseException] = []
        self._is_given_up = False

    def keep(self, write: Callable[[AddFile], AddFile | None], file: AddFile) -> AddFile | None:
        """Write and keep a file; nothing after a failure, which is kept too."""
        if self._failures or self._is_given_up:
            return None
        try:
            add = write(file)
        except BaseException as error:
            self._failures.append(error)
            return None
        if add is None:
            return None
        with self._lock:
            if not self._is_given_up:
                self._adds.append(add)
                return add
        discard(self._storage, [add])
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
