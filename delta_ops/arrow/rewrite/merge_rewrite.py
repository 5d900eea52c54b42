"""Merge rewrite: merges the files of a group in the order of the sort key, into sorted files.

Rows stream through memory: a row group of each file that overlaps the present key. A file that does
not state the order is sorted first, in parts that wait in a temporary file if they are large. Files
that overlap too many others wait there, too.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa

from delta_ops.arrow.read.count import num_live_rows
from delta_ops.arrow.read.merged_files import MergedFiles, SortedBatches
from delta_ops.arrow.read.ordered import count_sorted_parts
from delta_ops.arrow.read.scan import plan_reading_kept
from delta_ops.arrow.rewrite.ordered_rewrite import WriteFile
from delta_ops.arrow.sorting import sort_rows
from delta_ops.arrow.write.written_files import all_or_none
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.sort_key import find_sort_columns
from delta_ops.transaction.rewrite_group import KeyOrder, RewriteGroup

_SPILLED_ROWS = 1 << 14
_LEAST_AHEAD_BYTES = 1 << 20
_LEAST_HELD_BYTES = 1 << 20


def write_merged(
    snapshot: Snapshot,
    group: RewriteGroup,
    order: KeyOrder,
    write_file: WriteFile,
    schema: pa.Schema,
    memory_bytes: int,
) -> tuple[Sequence[AddFile], int]:
    """Write the rows in the order of the key to new files; returns the files and number of rows.

    Args:
        write_file: Writes sorted rows of the group's partition to a file.
        schema: The columns of the files.
    """
    fields = [each.field for each in find_sort_columns(snapshot.definition, order.columns)]
    files = group.files
    read = plan_reading_kept(
        snapshot, schema.names, ahead_bytes=max(memory_bytes // 4 // len(files), _LEAST_AHEAD_BYTES)
    )
    unsorted = {add.path for add in files if count_sorted_parts(add, fields, snapshot) != 1}
    held_bytes = max(memory_bytes // 2 // max(len(unsorted), 1), _LEAST_HELD_BYTES)
    spilled = _SpilledRows(schema, [each.name for each in fields], held_bytes, memory_bytes // 4)
    merged = MergedFiles(
        snapshot=snapshot,
        order=fields,
        schema=schema,
        read=lambda add: read([add]),
        sorted_parts=lambda add: [] if add.path in unsorted else [read([add])],
        hold=spilled.hold,
        most_bytes=memory_bytes // 2,
    )
    num_rows = num_live_rows(snapshot, files)
    with all_or_none(snapshot.storage) as written:
        cut = _Cut(merged.batches(files))
        done = _Done(num_rows, group)
        while cut.has_rows:
            add = write_file(cut.take(done.next_rows()))
            written.keep([add])
            done.note(cut.num_taken, add.size)
    return written.adds, done.num_rows


class _Done:
    """Decides how many rows the next file has, by the files that were written."""

    def __init__(self, num_rows: int, group: RewriteGroup) -> None:
        self.num_rows = self._num_bytes = 0
        self._expected, self._target = num_rows, group.target_size_bytes
        self._bytes_per_row = group.size_bytes / max(num_rows, 1)

    def note(self, num_rows: int, num_bytes: int) -> None:
        """Record a written file."""
        self.num_rows += num_rows
        self._num_bytes += num_bytes
        if 2 * num_bytes > self._target:  # a file with few rows is mostly footer
            self._bytes_per_row = self._num_bytes / self.num_rows

    def next_rows(self) -> int | None:
        """The number of rows of the next file; None: all rows that are left."""
        left = self._expected - self.num_rows
        num_files = round(left * self._bytes_per_row / self._target)
        return -(-left // num_files) if num_files > 1 else None


class _Cut:
    """Batches that are taken in parts."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._next: pa.RecordBatch | None = None
        self.num_taken = 0
        """Number of rows of the last part."""

    @property
    def has_rows(self) -> bool:
        """Whether there are further rows."""
        while self._next is None or not len(self._next):
            self._next = next(self._batches, None)
            if self._next is None:
                return False
        return True

    def take(self, most: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the next rows.

        Args:
            most: The number of rows; None: all.
        """
        self.num_taken = 0
        while self.has_rows and (most is None or self.num_taken < most):
            assert self._next is not None
            batch, self._next = self._next, None
            if most is not None and len(batch) > most - self.num_taken:
                self._next = batch.slice(most - self.num_taken)
                batch = batch.slice(0, most - self.num_taken)
            self.num_taken += len(batch)
            yield batch


class _SpilledRows:
    """Sorts rows in parts, and keeps large rows in a temporary file.

    The file has no name, so a killed process leaves nothing behind.
    """

    def __init__(
        self, schema: pa.Schema, names: Sequence[str], part_bytes: int, memory_bytes: int
    ) -> None:
        """Hold no rows yet.

        Args:
            part_bytes: Approximate size of a part.
            memory_bytes: Parts beyond this size are written to the file.
        """
        self._schema, self._names, self._part_bytes = schema, names, part_bytes
        self._left_bytes = memory_bytes
        self._file: IO[bytes] | None = None

    def hold(self, batches: Iterator[pa.RecordBatch]) -> Sequence[SortedBatches]:
        """Sort rows; see `MergedFiles.hold`."""
        parts: list[SortedBatches] = []
        held: list[pa.RecordBatch] = []
        num_bytes = 0
        for batch in batches:
            held.append(batch)
            num_bytes += batch.nbytes
            if num_bytes >= self._part_bytes:
                parts.append(self._keep(held, num_bytes))
                held, num_bytes = [], 0
        return [*parts, self._keep(held, num_bytes)]

    def _keep(self, held: list[pa.RecordBatch], num_bytes: int) -> SortedBatches:
        rows = self._sort(held)
        if num_bytes > self._left_bytes:
            return self._spill(rows)
        self._left_bytes -= num_bytes
        return iter(rows.to_batches())

    def _sort(self, held: list[pa.RecordBatch]) -> pa.Table:
        return sort_rows(pa.Table.from_batches(held, self._schema), self._names)

    def _spill(self, rows: pa.Table) -> SortedBatches:
        if self._file is None:
            self._file = TemporaryFile(prefix="delta_ops-")  # noqa: SIM115 - as long as the rows
            weakref.finalize(self, self._file.close)
        places = []
        for batch in rows.combine_chunks().to_batches(_SPILLED_ROWS):
            encoded = batch.serialize()
            places.append((self._file.seek(0, 2), encoded.size))
            self._file.write(encoded)
        return self._read(places)

    def _read(self, places: Sequence[tuple[int, int]]) -> SortedBatches:
        assert self._file is not None
        for offset, num_bytes in places:
            self._file.seek(offset)
            encoded = pa.py_buffer(self._file.read(num_bytes))
            yield pa.ipc.read_record_batch(encoded, self._schema)
