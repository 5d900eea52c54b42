"""Reading: rows of many files, several files at a time, in the order of the files."""

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
"""Gives the rows that are wanted of each file, in the order of the files."""

_SMALL_BYTES = 16 << 20
"""A file up to this is read beside others, of a larger one the columns beside each other."""
DECODED = 4
"""How many times larger rows are in memory than in files, about."""
_READ_BYTES = _SMALL_BYTES * DECODED
"""Rows that one thread reads ahead: some files have a thousand times larger rows."""
_READS_AHEAD = 2
"""How many are under way beside the one whose rows are taken, though little may be ahead."""
AHEAD_BYTES = 256 << 20
"""Rows that are read while the caller takes the ones before."""
_LOCAL_THREADS = os.cpu_count() or 1
"""Files of a disk that are read at once: decoding takes longest, and more threads would only wait
for each other."""
_LOCAL_READS = _LOCAL_THREADS + 2
"""Calls that are ahead of who takes their rows: a thread that has done with one finds the next."""
_LOCAL_AHEAD_BYTES = (_LOCAL_THREADS + 1) * _READ_BYTES
_LOCAL_READ_FILES = 8
"""Files that one thread reads in turn: to hand over a file costs as much as to read it."""
_LOCAL_READ_BYTES = 1 << 20
"""Size of these files together."""
_SOON_BYTES = 8 << 20
"""Size of the files that are read before a stream is handed out; and their number."""
_SOON_FILES = 64
_GATHERED_ROWS = 1 << 13
_HELD_BYTES = 512 << 20
"""Bytes that calls hold at once which go through files."""


def read_all(
    storage: Storage,
    files: Iterable[tuple[FileScan, StoredFile]],
    ahead_bytes: int = AHEAD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows that are wanted of each file.

    Args:
        ahead_bytes: Rows that are read while the caller takes the ones before, about.

    Raises:
        DataFileError: A file or its deletion vector is gone, or cannot be read.
        StorageError: The store failed.
    """
    is_local = storage.has_native_input
    # A thread that reads for itself needs no more than a file at a time.
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
    """The rows of `read_all`, for a stream that others take; the first ones are read here and now.

    What takes a stream by Arrow's C interface, such as `pa.table`, gets the text of an error and
    not its type. So what is wrong with the files of a small table is raised before there is a
    stream.
    """
    rest = iter(files)
    first: list[tuple[FileScan, StoredFile]] = []
    size = 0
    for each in rest:
        size += each[1].size
        if size > _SOON_BYTES or len(first) == _SOON_FILES:
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
    """What the calls return, in their order; as many at once as memory has room for.

    Args:
        storage: The table's.
        calls: How many bytes a call will hold, about, and what goes through a file.
    """
    with closing(run_ahead(calls, _HELD_BYTES, *limits_of(storage))) as results:
        return list(results)


def limits_of(storage: Storage) -> tuple[int, int | None]:
    """How many calls are ahead of the caller, and how many threads compute."""
    return (_LOCAL_READS, _LOCAL_THREADS) if storage.has_native_input else (MAX_CONCURRENCY, None)


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Neighbours together, where a few rows of each file are left; without those of no row.

    What is done for a batch would take longer than for its rows.
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
    """Neighbours that are small together, or one."""
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
    """Read here and now, or as much as may be ahead; the rest by whoever takes the batches."""
    batches = chain.from_iterable(
        read_data_file(scan, file, use_threads=file.size > _SMALL_BYTES) for scan, file in group
    )
    if group[0][1].size > _SMALL_BYTES:
        return batches
    ahead, num_bytes = [], 0
    for batch in batches:
        ahead.append(batch)
        num_bytes += batch.get_total_buffer_size()  # quick; a slice counts as what it is of
        if num_bytes > read_bytes:
            break
    return chain(ahead, batches)
