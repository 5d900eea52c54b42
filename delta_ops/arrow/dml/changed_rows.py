"""Changed rows: how delete, update and merge rewrite the rows of a file.

Each file is replaced by a new file in the same partition. Several files are written at a time, with
a few batches of each in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from typing import TypeVar

import pyarrow as pa

from delta_ops.arrow.coded_texts import decode_columns
from delta_ops.arrow.read.reading import DECODED, limits_of
from delta_ops.arrow.write.data_file import DataFileWriter, row_groups
from delta_ops.arrow.write.data_files import Rows, definition_of_rows, write_rows
from delta_ops.arrow.write.written_files import WrittenFiles, all_or_none
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.change_data import change_files
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.transaction.row_changes import Changed
from delta_ops.transaction.staging import WriteTarget

_AHEAD_BYTES = 512 << 20
"""Total bytes of rows that are rewritten at once."""

R = TypeVar("R")


def record_row_changes(
    changed: Changed,
    changes: Iterable[tuple[AddFile, Iterable[pa.RecordBatch]]],
    *,
    moves: bool = False,
) -> None:
    """Record changed rows for the change data feed; does nothing if the table has no feed.

    Args:
        changed: The change that the rows belong to.
        changes: Old or new files, each with its changed rows as marked by `mark_rows`; read in
            threads.
        moves: Whether rows may belong to other partitions than their file.
    """
    if not changed.transaction.definition.has_change_feed:
        return
    writes = [
        (file, partial(FileReplacer.write, file=file, batches=rows, moves=moves))
        for file, rows in changes
    ]
    adds, _ = write_again(changed.target, writes, "changes")
    changed.record(change_files(adds))


def write_again(
    target: WriteTarget,
    writes: Iterable[tuple[AddFile, Callable[[FileReplacer], R]]],
    rows: Rows = "kept",
) -> tuple[tuple[AddFile, ...], list[R]]:
    """Rewrite files, several at a time; all or none.

    Args:
        target: The files' table.
        writes: Files, each with a function that writes its rows with the replacer; called in
            threads.
        rows: Whether the rows are table rows or rows of the change data feed.

    Returns:
        The new files, and the result of each call, in order.

    Raises:
        InvalidRequestError: A row breaks a rule of the table.
    """
    with all_or_none(target.storage) as files:
        replacer = FileReplacer(target, files, rows)
        sized = ((add.size * DECODED, partial(write, replacer)) for add, write in writes)
        returned = files.write_all(sized, _AHEAD_BYTES, *limits_of(target.storage))
        replacer.persist()
    return files.adds, returned


class FileReplacer:
    """Writes the rows of files to new files, for several threads."""

    def __init__(self, target: WriteTarget, files: WrittenFiles, rows: Rows) -> None:
        definition = definition_of_rows(target, rows)
        self._target, self._files, self._rows = target, files, rows
        self._not_durable: list[AddFile] = []
        self._file_schema = arrow_schema_from_schema(definition.data_schema)
        self._writer = DataFileWriter(
            target.storage,
            self._file_schema,
            definition,
            target.clustered_by,
            is_of_changes=rows == "changes",
        )

    def write(self, file: AddFile, batches: Iterable[pa.RecordBatch], *, moves: bool) -> None:
        """Write rows that replace a file; creates no file if there are no rows.

        Args:
            file: The file that the rows come from.
            batches: Rows with the columns of `definition_of_rows`, and maybe others. Texts may be
                coded; a column must be coded in all batches or in none.
            moves: Whether rows may belong to other partitions than the file.
        """
        # A batch is empty if all its rows are deleted.
        batches = (batch for batch in batches if len(batch))
        if moves:
            plain = map(decode_columns, batches)
            adds = write_rows(self._target, plain, self._rows, is_durable=False)
            self._not_durable += adds
            self._files.keep(adds)
        elif first := list(islice(batches, 1)):
            names = self._file_schema.names
            rows = (batch.select(names) for batch in chain(first, batches))
            columns = self._target.definition.partition_names
            values = {name: file.partition_values.get(stored) for name, stored in columns.items()}
            groups = row_groups(rows)
            add = self._writer.write(groups, values, data_change=True, is_durable=False)
            self._not_durable.append(add)
            self._files.keep([add])

    def persist(self) -> None:
        """Make all files durable together; one by one would take longer than writing them."""
        if self._not_durable:
            storage = self._target.storage
            storage.persist(canonical_texts([add.path for add in self._not_durable], storage.uri))
