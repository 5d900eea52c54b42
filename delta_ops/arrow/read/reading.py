"""Read the rows of many files: several files at a time, in the order of the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from delta_ops.arrow.read.data_file import read_data_file
from delta_ops.arrow.read.file_scan import FileScan, StoredFile
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead, works_in_sequence

R = TypeVar("R")
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
    is_local = storage.has_native_input
    # In sequence, the caller's thread reads; it needs only one file at a time.
    together = _LOCAL_READ_FILES if is_local and not works_in_sequence() else 1
    read_bytes = min(_READ_BYTES, ahead_bytes // _READS_AHEAD)
    if is_local:
        ahead_bytes = min(ahead_bytes, _LOCAL_AHEAD_BYTES)
    calls = (
        (_bytes_ahead(group, read_bytes), partial(_read_group, group, read_bytes))
        for group in _groups(files, together)
    )
    with closing(run_ahead(calls, ahead_bytes, *limits_of(storage))) as read:
        yield from chain.from_iterable(read)


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
        if num_rows >= _GATHERED_ROWS or num_bytes + batch.nbytes > _SMALL_BYTES:
            if pending:
                yield pa.concat_batches(pending)
            pending, num_rows, num_bytes = [], 0, 0
        pending.append(batch)
        num_rows, num_bytes = num_rows + len(batch), num_bytes + batch.nbytes
    if pending:
        yield pa.concat_batches(pending)


def _groups(
    files: Iterable[tuple[FileScan, StoredFile]], max_files: int
) -> Iterator[list[tuple[FileScan, StoredFile]]]:
    """Group neighbouring small files; a large file is a group of its own."""
    group: list[tuple[FileScan, StoredFile]] = []
    size = 0
    for scan, file in files:
        if group and (len(group) == max_files or size + file.size > _LOCAL_READ_BYTES):
            yield group
            group, size = [], 0
        group.append((scan, file))
        size += file.size
    if group:
        yield group


def _bytes_ahead(group: Sequence[tuple[FileScan, StoredFile]], read_bytes: int) -> int:
    return min(sum(file.size for _, file in group) * DECODED, read_bytes)


def _read_group(
    group: Sequence[tuple[FileScan, StoredFile]], read_bytes: int
) -> Iterable[pa.RecordBatch]:
    """Read small files immediately, up to the limit; read the rest when batches are taken."""
    batches = chain.from_iterable(
        read_data_file(scan, file, use_threads=file.size > _SMALL_BYTES) for scan, file in group
    )
    if group[0][1].size > _SMALL_BYTES:
        return batches
    ahead, num_bytes = [], 0
    for batch in batches:
        ahead.append(batch)
        num_bytes += batch.get_total_buffer_size()  # fast; counts the whole buffer of a slice
        if num_bytes > read_bytes:
            break
    return chain(ahead, batches)
