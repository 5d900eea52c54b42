"""Read the rows of many files: several files at a time, in the order of the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from delta_ops.arrow.read.data_file import read_data_file
from delta_ops.arrow.read.file_scan import FileScan, StoredFile
from delta_ops.protocol.actions import AddFile
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead, works_in_sequence

R = TypeVar("R")
T = TypeVar("T")
RowsOfFiles = Callable[[Sequence[AddFile]], Iterable[pa.RecordBatch]]
"""Yields rows that are made of the rows of files."""
ReadFiles = Callable[[Iterable[AddFile]], Iterator[pa.RecordBatch]]
"""Yields the rows of live files, in the order of the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A planned request: its files, and how their rows are read."""

    files: Iterable[AddFile]
    read: ReadFiles
    read_row_group: Callable[[AddFile, int], Iterator[pa.RecordBatch]]
    """Yields the rows of one row group of a file."""


ReadRows = Callable[[Storage, Iterable[tuple[FileScan, StoredFile]]], Iterator[pa.RecordBatch]]
"""Yields the wanted rows of each file, in the order of the files."""

_SMALL_BYTES = 16 << 20
"""Files up to this size are read in parallel with others; larger files decode their columns in
parallel."""
DECODED = 4
"""Approximate ratio of the size of rows in memory to their size in files."""
_READ_BYTES = _SMALL_BYTES * DECODED
"""Rows that one thread reads ahead. A limit is needed because rows can be a thousand times larger
than their file."""
_READS_AHEAD = 2
"""Minimum number of reads in progress beside the current one, even if `ahead_bytes` is small."""
AHEAD_BYTES = 256 << 20
"""Bytes of rows that are read ahead of the caller."""
_LOCAL_THREADS = os.cpu_count() or 1
"""Number of local files that are read at once. Decoding takes most of the time, so more threads
would only wait for each other."""
_LOCAL_READS = _LOCAL_THREADS + 2
"""Number of calls ahead of the caller, so that a thread that finishes one call finds the next."""
_LOCAL_AHEAD_BYTES = (_LOCAL_THREADS + 1) * _READ_BYTES
_LOCAL_READ_FILES = 8
"""Number of files that one thread reads in turn: passing a file to a thread costs as much as
reading it."""
_LOCAL_READ_BYTES = 1 << 20
"""Total size of these files."""
_SOON_BYTES = 8 << 20
"""Total size of the files that are read before the stream is returned."""
SOON_FILES = 64
_GATHERED_ROWS = 1 << 13
_HELD_BYTES = 512 << 20
"""Total bytes that the calls of `go_through` may hold at once."""


class CountedRows:
    """Batches that are counted as the consumer takes them.

    Args:
        batches: Taken once.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.num_rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.num_rows += len(batch)
            yield batch


def read_all(
    storage: Storage,
    files: Iterable[tuple[FileScan, StoredFile]],
    ahead_bytes: int = AHEAD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of each file.

    Args:
        ahead_bytes: Approximate bytes of rows that are read ahead of the caller.

    Raises:
        DataFileError: A file or its deletion vector is missing or unreadable.
        StorageError: The store failed.
    """
    if works_in_sequence():  # the caller's thread reads
        for scan, file in files:
            yield from read_data_file(scan, file, use_threads=file.size > _SMALL_BYTES)
        return
    is_local = storage.has_native_input
    together = _LOCAL_READ_FILES if is_local else 1
    read_bytes = min(_READ_BYTES, ahead_bytes // _READS_AHEAD)
    if is_local:
        ahead_bytes = min(ahead_bytes, _LOCAL_AHEAD_BYTES)
    calls = (
        (
            _bytes_ahead([file.size for _, file in group], read_bytes),
            partial(_read_group, group, read_bytes),
        )
        for group in _groups(files, together, lambda each: each[1].size)
    )
    with closing(run_ahead(calls, ahead_bytes, *limits_of(storage))) as read:
        yield from chain.from_iterable(read)


def rows_ahead(
    storage: Storage, files: Iterable[AddFile], rows_of: RowsOfFiles
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a function makes from files, in order, and read ahead of the caller.

    Args:
        rows_of: Yields the rows of a few small files, or of one file; called in threads.
    """
    ahead_bytes = _LOCAL_AHEAD_BYTES if storage.has_native_input else AHEAD_BYTES
    calls = (
        (
            _bytes_ahead([file.size for file in group], _READ_BYTES),
            partial(_rows_of_group, rows_of, group, _READ_BYTES),
        )
        for group in small_groups(storage, files)
    )
    with closing(run_ahead(calls, ahead_bytes, *limits_of(storage))) as made:
        yield from chain.from_iterable(made)


def small_groups(storage: Storage, files: Iterable[AddFile]) -> Iterator[list[AddFile]]:
    """Group neighbouring small files that one thread should process in turn."""
    together = _LOCAL_READ_FILES if storage.has_native_input else 1
    return _groups(files, together, lambda each: each.size)


def read_soon(
    storage: Storage, files: Iterable[tuple[FileScan, StoredFile]]
) -> Iterator[pa.RecordBatch]:
    """Return the rows of `read_all`, and read the first of them immediately.

    A consumer of Arrow's C stream interface, such as `pa.table`, gets only the text of an error,
    not its type. Errors in the files of a small table are therefore raised before there is a
    stream.
    """
    rest = iter(files)
    first: list[tuple[FileScan, StoredFile]] = []
    size = 0
    for each in rest:
        size += each[1].size
        if size > _SOON_BYTES or len(first) == SOON_FILES:
            rest = chain([each], rest)
            break
        first.append(each)
    rows = read_all(storage, first)
    ahead, num_bytes = [], 0
    for batch in rows:
        ahead.append(batch)
        num_bytes += batch.get_total_buffer_size()
        if num_bytes > _READ_BYTES:
            break
    return chain(ahead, rows, read_all(storage, rest))


def go_through(storage: Storage, calls: Iterable[tuple[int, Callable[[], R]]]) -> list[R]:
    """Return the results of the calls in order; runs as many at once as memory allows.

    Args:
        storage: The table's storage.
        calls: The approximate bytes that each call holds in memory, and the call, which processes a
            file.
    """
    with closing(run_ahead(calls, _HELD_BYTES, *limits_of(storage))) as results:
        return list(results)


def limits_of(storage: Storage) -> tuple[int, int | None]:
    """Return how many calls may run ahead of the caller, and the number of computing threads."""
    return (_LOCAL_READS, _LOCAL_THREADS) if storage.has_native_input else (MAX_CONCURRENCY, None)


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine neighbouring small batches, and drop empty batches.

    For a few rows per batch, the cost of each batch is higher than the cost of its rows.
    """
    pending: list[pa.RecordBatch] = []
    num_rows = num_bytes = 0
    for batch in batches:
        if not len(batch):
            continue
        size = batch.nbytes
        if num_rows >= _GATHERED_ROWS or num_bytes + size > _SMALL_BYTES:
            yield from _join_batches(pending)
            pending, num_rows, num_bytes = [], 0, 0
        pending.append(batch)
        num_rows, num_bytes = num_rows + len(batch), num_bytes + size
    yield from _join_batches(pending)


def _join_batches(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    return [pa.concat_batches(batches)] if len(batches) > 1 else batches


def _groups(files: Iterable[T], max_files: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Group neighbouring small files; a large file is a group of its own."""
    group: list[T] = []
    size = 0
    for file in files:
        num_bytes = size_of(file)
        if group and (len(group) == max_files or size + num_bytes > _LOCAL_READ_BYTES):
            yield group
            group, size = [], 0
        group.append(file)
        size += num_bytes
    if group:
        yield group


def _bytes_ahead(sizes: Iterable[int], read_bytes: int) -> int:
    return min(sum(sizes) * DECODED, read_bytes)


def _read_group(
    group: Sequence[tuple[FileScan, StoredFile]], read_bytes: int
) -> Iterable[pa.RecordBatch]:
    """Read small files immediately, up to the limit; read the rest when batches are taken."""
    batches = chain.from_iterable(
        read_data_file(scan, file, use_threads=file.size > _SMALL_BYTES) for scan, file in group
    )
    return batches if group[0][1].size > _SMALL_BYTES else _take_ahead(batches, read_bytes)


def _rows_of_group(
    rows_of: RowsOfFiles, group: Sequence[AddFile], read_bytes: int
) -> Iterable[pa.RecordBatch]:
    rows = iter(rows_of(group))
    return rows if group[0].size > _SMALL_BYTES else _take_ahead(rows, read_bytes)


def _take_ahead(batches: Iterator[pa.RecordBatch], max_bytes: int) -> Iterable[pa.RecordBatch]:
    ahead, num_bytes = [], 0
    for batch in batches:
        ahead.append(batch)
        num_bytes += batch.get_total_buffer_size()  # fast; counts the whole buffer of a slice
        if num_bytes > max_bytes:
            break
    return chain(ahead, batches)
