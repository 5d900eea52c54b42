"""Changed rows: how delete, update and merge write the rows of changed files again.

The rows of small files of a partition go to one new file of about the target size, file by file
(`planning.new_files`). Several new files are written at a time, with a few batches of
each in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Protocol, TypeVar

import pyarrow as pa

from delta_ops.arrow.dictionary_columns import decode_columns, encode_alike
from delta_ops.arrow.dml.cached_rows import key_of
from delta_ops.arrow.read.reading import (
    DECODED,
    RowsOfFiles,
    go_through,
    limits_of,
    rows_ahead,
    small_groups,
)
from delta_ops.arrow.write.data_file import DataFileWriter, row_groups
from delta_ops.arrow.write.data_files import Rows, definition_of_rows, write_rows
from delta_ops.arrow.write.written_files import LOCAL_WRITES, WrittenFiles, all_or_none
from delta_ops.planning.new_files import (
    NewFile,
    are_one_for_each_partition,
    plan_new_files,
)
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.change_data import change_files
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.storage import Storage
from delta_ops.transaction.row_changes import Changed, num_live_rows
from delta_ops.transaction.staging import WriteTarget

_AHEAD_BYTES = 512 << 20
"""Total bytes of rows that are rewritten at once."""
_FEW_FILES = 4
"""Up to this many files, reading one after the other is fast enough."""
_MANY_ROWS = 1 << 14
"""Strings of smaller files are not dictionary-encoded."""
_GROUP_ROWS, _GROUP_LEAST_BYTES, _GROUP_BYTES = 65_536, 2 << 20, 32 << 20
"""Approximate limits of a row group with rows of several files. Small row groups have narrow
bounds, so readers can still skip rows."""

Found = TypeVar("Found")


def record_row_changes(
    changed: Changed,
    files: Sequence[AddFile],
    rows_of: RowsOfFiles,
    *,
    moves: bool = False,
) -> None:
    """Record changed rows for the change data feed; does nothing if the table has no feed.

    Args:
        changed: The change that the rows belong to.
        files: Old or new files with changed rows.
        rows_of: Yields the changed rows of some files, as marked by `mark_rows`; called in threads.
        moves: Whether rows may belong to other partitions than their file.
    """
    if not changed.transaction.definition.has_change_feed:
        return
    sources = [(each, each.size) for each in files]
    adds = write_again(changed.target, sources, rows_of, "changes", moves=moves)
    changed.record(change_files(adds))


class Search(Protocol[Found]):
    """Finds the changed rows of files, and makes the rows to write; its methods run in threads."""

    def look(self, files: Sequence[AddFile], /) -> Sequence[Found]:
        """Return what is found in each file."""

    def bytes_to_write(self, file: AddFile, found: Found, /) -> int | None:
        """Return the approximate size of the rows to write; None if the file is not rewritten."""

    def rows(self, files: Sequence[AddFile], found: Sequence[Found], /) -> Iterable[pa.RecordBatch]:
        """Yield the rows to write for some files of one partition."""


def search_and_write(
    target: WriteTarget, files: Sequence[AddFile], search: Search[Found], *, moves: bool = False
) -> tuple[tuple[AddFile, ...], list[Found]]:
    """Search files for changed rows, and write their rows to new files; all or none.

    If each partition gets exactly one new file, it is written while the search continues.

    Args:
        target: The files' table.
        files: Files that may have changed rows.
        search: Finds them.
        moves: As for `write_again`.

    Returns:
        The new files, and what was found in each file.

    Raises:
        InvalidRequestError: A row breaks a rule of the table.
    """
    by_key: dict[tuple[str, str], Found] = {}

    def look(some: Sequence[AddFile]) -> None:
        for file, found in zip(some, search.look(some), strict=True):
            by_key[key_of(file)] = found

    def num_bytes_of(file: AddFile) -> int | None:
        return search.bytes_to_write(file, by_key[key_of(file)])

    def rows_of(some: Sequence[AddFile]) -> Iterable[pa.RecordBatch]:
        chosen = [each for each in some if num_bytes_of(each) is not None]
        return search.rows(chosen, [by_key[key_of(each)] for each in chosen]) if chosen else ()

    def look_and_make(some: Sequence[AddFile]) -> Iterator[pa.RecordBatch]:
        look(some)
        yield from rows_of(some)

    sources = [(each, each.size) for each in files]
    if moves or are_one_for_each_partition(_plan(target, sources)):
        adds = write_again(target, sources, look_and_make, moves=moves)
    else:
        _look_through(target.storage, files, look)
        sized = [(each, num_bytes_of(each)) for each in files]
        to_write = [(each, size) for each, size in sized if size is not None]
        adds = write_again(target, to_write, rows_of)
    return adds, [by_key[key_of(each)] for each in files]


def _look_through(
    storage: Storage, files: Sequence[AddFile], look: Callable[[Sequence[AddFile]], None]
) -> None:
    go_through(
        storage,
        (
            (sum(each.size for each in group) * DECODED, partial(look, group))
            for group in small_groups(storage, files)
        ),
    )


def write_again(
    target: WriteTarget,
    sources: Sequence[tuple[AddFile, int]],
    rows_of: RowsOfFiles,
    rows: Rows = "kept",
    *,
    moves: bool = False,
) -> tuple[AddFile, ...]:
    """Write rows of changed files to new files; all or none.

    Args:
        target: The files' table.
        sources: Changed files, and the approximate bytes of the rows of each to write.
        rows_of: Yields the rows to write of some files of a partition, with the columns of
            `definition_of_rows`, and maybe others; called in threads. Columns may be encoded.
        rows: Whether the rows are table rows or rows of the change data feed.
        moves: Whether rows may belong to other partitions than their file.

    Raises:
        InvalidRequestError: A row breaks a rule of the table.
    """
    storage = target.storage
    if not sources:
        return ()
    if moves:
        batches = rows_ahead(storage, [file for file, _ in sources], rows_of)
        plain = (decode_columns(batch) for batch in batches if len(batch))
        return write_rows(target, plain, rows)
    planned = _plan(target, sources)
    with all_or_none(storage) as files:
        writer = _NewFileWriter(target, files, rows, rows_of)
        if _are_written_at_once(planned, storage):
            writes = ((_bytes_held(each), partial(writer.write, each)) for each in planned)
            files.write_all(writes, _AHEAD_BYTES, *limits_of(storage))
        else:
            for each in planned:
                writer.write(each)
        writer.persist()
    return files.adds


def _plan(target: WriteTarget, sources: Sequence[tuple[AddFile, int]]) -> list[NewFile]:
    return plan_new_files(sources, target.definition.properties.new_file_bytes, LOCAL_WRITES)


def _are_written_at_once(planned: Sequence[NewFile], storage: Storage) -> bool:
    """Return whether several new files are written in parallel.

    Otherwise new files are written one by one, and the sources of each are read in parallel,
    which is faster for many small files of a store, or of one partition.
    """
    largest = max(planned, key=lambda each: each.source_bytes)
    if storage.has_native_input:
        is_half = 2 * largest.source_bytes > sum(each.source_bytes for each in planned)
        return len(largest.sources) <= _FEW_FILES or not is_half
    max_calls, _ = limits_of(storage)
    if len(planned) >= max_calls:
        return True
    return all(len(each.sources) <= _FEW_FILES for each in planned)


def _bytes_held(new: NewFile) -> int:
    """Return the approximate bytes of rows that are held to write a file."""
    num_bytes = new.source_bytes * DECODED
    return num_bytes if len(new.sources) == 1 else min(num_bytes, 3 * _GROUP_BYTES)


def _order_rows(sources: Sequence[AddFile]) -> Sequence[AddFile]:
    """Put the file with by far the most rows first: the first rows decide the encoding."""
    counts = [num_live_rows(each) or 0 for each in sources]
    most = max(counts)
    if most < _MANY_ROWS or most < 2 * counts[0]:
        return sources
    place = counts.index(most)
    return [sources[place], *sources[:place], *sources[place + 1 :]]


class _NewFileWriter:
    """Writes the rows of changed files to new files, for several threads."""

    def __init__(
        self, target: WriteTarget, files: WrittenFiles, rows: Rows, rows_of: RowsOfFiles
    ) -> None:
        definition = definition_of_rows(target, rows)
        self._target, self._files, self._rows_of = target, files, rows_of
        self._file_schema = arrow_schema_from_schema(definition.data_schema)
        self._writer = DataFileWriter(
            target.storage,
            self._file_schema,
            definition,
            target.clustered_by,
            is_of_changes=rows == "changes",
        )

    def write(self, new: NewFile) -> None:
        """Write a new file; creates no file if there are no rows."""
        names = self._file_schema.names
        rows = rows_ahead(self._target.storage, _order_rows(new.sources), self._rows_of)
        # A batch is empty if all its rows are deleted.
        selected = (batch.select(names) for batch in rows if len(batch))
        batches = encode_alike(selected)
        first = list(islice(batches, 1))
        if not first:
            return
        of_log = new.sources[0].partition_values
        columns = self._target.definition.partition_names
        values = {name: of_log.get(in_log) for name, in_log in columns.items()}
        together = chain(first, batches)
        if len(new.sources) == 1:
            groups = row_groups(together)
        else:
            groups = row_groups(together, _GROUP_BYTES, _GROUP_ROWS, _GROUP_LEAST_BYTES)
        add = self._writer.write(groups, values, data_change=True, is_durable=False)
        self._files.keep([add])

    def persist(self) -> None:
        """Make all files durable together; one by one would take longer than writing them."""
        storage, adds = self._target.storage, self._files.adds
        if adds:
            storage.persist(canonical_texts([add.path for add in adds], storage.uri))
