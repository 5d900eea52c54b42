"""Row buckets: rows put where they belong, in memory, and in files once they take too much of it.

The files are Arrow streams in a folder of their own, one to a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa


class RowBuckets:
    """Rows by the number of their bucket.

    Args:
        folder: Empty, on this machine; whoever made it deletes it with the files.
        max_bytes: So much is in memory before it goes to the files.
    """

    def __init__(self, folder: str, schema: pa.Schema, num_buckets: int, max_bytes: int) -> None:
        self._folder, self._schema, self._max_bytes = Path(folder), schema, max_bytes
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(num_buckets)]
        self._held_bytes = 0
        self._files: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        self.num_rows = [0] * num_buckets
        """Rows of each bucket."""

    def add(self, sorted_rows: pa.RecordBatch, counts: list[int]) -> None:
        """Add rows in the order of their buckets.

        Args:
            counts: How many are of each bucket.
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

    def close(self) -> None:
        """Add nothing more: what is in files is all there."""
        if self._files:
            self._spill()
        for file in self._files.values():
            file.close()

    def take(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a bucket, which are given up."""
        held, self._held[number] = self._held[number], []
        if number not in self._files:
            held.reverse()
            while held:
                yield held.pop()
            return
        path = self._path(number)
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stored:
            yield from stored
        path.unlink()

    def _spill(self) -> None:
        for number, held in enumerate(self._held):
            if not held:
                continue
            file = self._files.get(number)
            if file is None:
                file = pa.ipc.new_stream(str(self._path(number)), self._schema)
                self._files[number] = file
            # As one: a batch of a few rows takes as long to read as one of many.
            for rows in pa.Table.from_batches(held).combine_chunks().to_batches():
                file.write_batch(rows)
            held.clear()
        self._held_bytes = 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.arrows"
