"""Cached rows: rows of small files, kept from the search for changed rows to the rewrite.

Opening a small file takes as long as reading it. The search therefore reads all columns of a small
file at once, and the rewrite takes these rows. The memory for them is bounded; files beyond the
bound are read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from threading import Lock
from typing import Generic, TypeVar

import pyarrow as pa

from delta_ops.arrow.read.reading import ReadFiles
from delta_ops.errors import DataFileError
from delta_ops.protocol.actions import AddFile

_MAX_BYTES = 64 << 20
_SMALL_BYTES = 128 << 10
"""Larger files are read again: reading takes longer than opening."""
_LARGE_ROWS_BYTES = 4 << 20
"""Rows in memory can be a thousand times larger than their file."""
_FIRST_FILES = 16
"""Number of files after which the share of changed files is considered."""

T = TypeVar("T")


class Cache(Generic[T]):
    """Values by file, shared by several threads; each value is taken once.

    Args:
        max_bytes: Limit for all values at a time; a value that would exceed it is not kept.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._values: dict[tuple[str, str], tuple[T, int]] = {}
        self._lock = Lock()

    def __contains__(self, file: AddFile) -> bool:
        return key_of(file) in self._values

    def put(self, file: AddFile, value: T, num_bytes: int) -> None:
        """Keep a value if there is space."""
        with self._lock:
            if self._num_bytes + num_bytes <= self._max_bytes:
                self._values[key_of(file)] = value, num_bytes
                self._num_bytes += num_bytes

    def take(self, file: AddFile) -> T | None:
        """Remove a value and return it; None if there is none."""
        with self._lock:
            value, num_bytes = self._values.pop(key_of(file), (None, 0))
            self._num_bytes -= num_bytes
            return value


class CachedRows:
    """Rows of small files, with all columns.

    Args:
        read: Reads all columns that a rewrite needs.
    """

    def __init__(self, read: ReadFiles) -> None:
        self._read = read
        self._cache: Cache[list[pa.RecordBatch]] = Cache()
        self._num_loaded = self._num_changed = 0

    def __contains__(self, file: AddFile) -> bool:
        return file in self._cache

    def load(self, file: AddFile) -> list[pa.RecordBatch] | None:
        """Return the rows of a small file; None if the caller should read only some columns."""
        is_rare = self._num_loaded >= _FIRST_FILES and 2 * self._num_changed < self._num_loaded
        if file.size > _SMALL_BYTES or is_rare:
            return None
        batches: list[pa.RecordBatch] = []
        num_bytes = 0
        try:
            for batch in self._read([file]):
                batches.append(batch)
                num_bytes += batch.get_total_buffer_size()
                if num_bytes > _LARGE_ROWS_BYTES:
                    return None
        except DataFileError:  # a column that only the rewrite of a changed file needs
            return None
        return batches

    def keep(self, file: AddFile, batches: list[pa.RecordBatch], *, is_changed: bool) -> None:
        """Record whether a loaded file changes, and keep its rows if it does."""
        self._num_loaded += 1
        if is_changed:
            self._num_changed += 1
            self._cache.put(file, batches, sum(each.get_total_buffer_size() for each in batches))

    def read(self, files: Sequence[AddFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files, in their order; takes them from the cache."""
        for is_cached, run in groupby(files, self._cache.__contains__):
            if not is_cached:
                yield from self._read(list(run))
                continue
            for file in run:
                yield from self._cache.take(file) or ()


def key_of(file: AddFile) -> tuple[str, str]:
    """Return the identity of a live file.

    Source: PROTOCOL.md, "Action Reconciliation".
    """
    vector = file.deletion_vector
    return file.path, "" if vector is None else vector.unique_id
