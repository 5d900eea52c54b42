"""Changed rows: how delete, update and merge write the rows of a file again.

Each file is written to a new one in the same partition. Several are written at a time, with a few
batches of each in memory.
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
from delta_ops.transaction import Transaction
from delta_ops.transaction.row_changes import Changed

_AHEAD_BYTES = 512 << 20
"""Rows of files that are written again at once."""

R = TypeVar("R")


def tell_rows(
    changed: Changed,
    changes: Iterable[tuple[AddFile, Iterable[pa.RecordBatch]]],
    *,
    moves: bool = False,
) -> None:
    """Tell readers of the change data feed of rows; nobody, if the table has none.

    Args:
        changed: The change that they are part of.
        changes: Files, old or new, each with the rows of it that change, as `mark_rows` marks them;
            taken in threads.
        moves: Whether rows may be of other partitions than their file.
    """
    if not changed.transaction.definition.has_change_feed:
        return
    writes = [
        (file, partial(FileReplacer.write, file=file, batches=rows, moves=moves))
        for file, rows in changes
    ]
    adds, _ = write_again(changed.transaction, writes, "changes")
    changed.tell(change_files(adds))


def write_again(
    transaction: Transaction,
    writes: Iterable[tuple[AddFile, Callable[[FileReplacer], R]]],
    rows: Rows = "kept",
) -> tuple[tuple[AddFile, ...], list[R]]:
    """Write files again, several at a time; all or none.

    Args:
        transaction: On the files' table.
        writes: Files, each with what writes its rows by the replacer; called in threads.
        rows: Whether they are rows of the table, or of the change data feed.

    Returns:
        The new files, and what each call returned, in their order.

    Raises:
        InvalidRequestError: A row breaks a rule of the table.
    """
    with all_or_none(transaction.log.storage) as files:
        replacer = FileReplacer(transaction, files, rows)
        sized = ((add.size * DECODED, partial(write, replacer)) for add, write in writes)
        returned = files.write_all(sized, _AHEAD_BYTES, *limits_of(transaction.log.storage))
        replacer.persist()
    return files.adds, returned


class FileReplacer:
    """Writes the rows of files to new ones, for several threads."""

    def __init__(self, transaction: Transaction, files: WrittenFiles, rows: Rows) -> None:
        definition = definition_of_rows(transaction, rows)
        self._transaction, self._files, self._rows = transaction, files, rows
        self._not_durable: list[AddFile] = []
        self._file_schema = arrow_schema_from_schema(definition.data_schema)
        self._writer = DataFileWriter(
            transaction.log.storage,
            self._file_schema,
            definition,
            transaction.clustering_columns,
            is_of_changes=rows == "changes",
        )

    def write(self, file: AddFile, batches: Iterable[pa.RecordBatch], *, moves: bool) -> None:
        """Write rows to take the place of a file; no file where there is none.

        Args:
            file: Whose rows they are.
            batches: Have the columns of `definition_of_rows`, and maybe others; texts may be coded,
                of a column in all batches or in none.
            moves: Whether rows may be of other partitions than the file.
        """
        # A batch can be empty, as those are of which every row is deleted.
        batches = (batch for batch in batches if len(batch))
        if moves:
            plain = map(decode_columns, batches)
            adds = write_rows(self._transaction, plain, self._rows, is_durable=False)
            self._not_durable += adds
            self._files.keep(adds)
        elif first := list(islice(batches, 1)):
            names = self._file_schema.names
            rows = (batch.select(names) for batch in chain(first, batches))
            columns = self._transaction.definition.partition_names
            values = {name: file.partition_values.get(stored) for name, stored in columns.items()}
            groups = row_groups(rows)
            add = self._writer.write(groups, values, data_change=True, is_durable=False)
            self._not_durable.append(add)
            self._files.keep([add])

    def persist(self) -> None:
        """Make the files durable, together: one by one would take longer than to write them."""
        if self._not_durable:
            storage = self._transaction.log.storage
            storage.persist(canonical_texts([add.path for add in self._not_durable], storage.uri))
