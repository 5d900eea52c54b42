"""Row buckets: collect rows by bucket in memory, and spill to a file if they take too much.

All buckets share one file, and the rows held for each bucket are appended in turn. There is thus
one open file for any number of buckets, written from start to end. The file has no name, so a
killed process leaves nothing behind.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import pyarrow as pa


class _Stored(NamedTuple):
    """The position of rows in the file."""

    offset: int
    num_bytes: int


class RowBuckets:
    """Rows by bucket number.

    Args:
        max_bytes: Rows beyond this size are spilled to a file in the temporary folder.
    """

    def __init__(self, schema: pa.Schema, num_buckets: int, max_bytes: int) -> None:
        self._schema, self._max_bytes = schema, max_bytes
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(num_buckets)]
        self._held_bytes = 0
        self._stored: list[list[_Stored]] = [[] for _ in range(num_buckets)]
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self.num_rows = [0] * num_buckets
        """Number of rows in each bucket."""

    def add(self, sorted_rows: pa.RecordBatch, counts: list[int]) -> None:
        """Add rows that are sorted by bucket.

        Args:
            counts: Number of rows in each bucket.
        """
        first = 0
        for number, count in enumerate(counts):
            if count:
                self._held[number].append(sorted_rows.slice(first, count))
                self.num_rows[number] += count
                first += count
        self._held_bytes += sorted_rows.nbytes
        if self._held_bytes > self._max_bytes:
            self._spill()

    def finish(self) -> None:
        """End adding; if some rows were spilled, spill the rest."""
        if self._file is not None:
            self._spill()

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a bucket; several buckets may be read at once."""
        yield from self._held[number]
        for stored in self._stored[number]:
            encoded = pa.py_buffer(self._read_at(stored.offset, stored.num_bytes))
            yield pa.ipc.read_record_batch(encoded, self._schema)

    def _read_at(self, offset: int, num_bytes: int) -> bytes:
        assert self._file is not None
        with self._lock:
            self._file.seek(offset)
            return self._file.read(num_bytes)

    def _spill(self) -> None:
        if self._file is None:
            self._file = TemporaryFile(prefix="delta_ops-")  # noqa: SIM115 - as long as the buckets
            weakref.finalize(self, self._file.close)
        for number, held in enumerate(self._held):
            if not held:
                continue
            # Combine first: a batch of a few rows takes as long to read as a batch of many.
            for rows in pa.Table.from_batches(held).combine_chunks().to_batches():
                encoded = rows.serialize()
                self._stored[number].append(_Stored(self._file.tell(), encoded.size))
                self._file.write(encoded)
            held.clear()
        self._held_bytes = 0
