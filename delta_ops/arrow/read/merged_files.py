"""Merged files: yields the rows of files in the order of columns, without sorting all rows.

1. Files are opened in the order of the lowest value that their statistics allow, so only files that
   overlap are open at the same time.
2. A file that states the order is read batch by batch, or its row groups are, each on its own, if
   only they state it. Another file is read whole, and sorted.
3. Unread rows are not below the last rows that were read. So all rows up to the first of these are
   complete: they are merged, and yielded.

Memory holds a few batches of each open file or row group, and the open files without a stated
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.sorting import NULL, VALUE, is_sorted, ranks_of, sort_rows
from delta_ops.errors import DataFileError
from delta_ops.log import Snapshot
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import FALSE_SCALAR, array_of, numpy_of, scalar
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.schema import TIMESTAMP, StructField
from delta_ops.protocol.stats.file_bounds import lower_bound, null_count
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.protocol.values.partition_values import parse

_Value = tuple[int, Any]
"""The rank of a value, and the value as an integer or Python value; 0 for null and NaN."""
Bound = tuple[_Value, ...]
"""Values of the first columns of the order; a shorter bound is below all rows that begin so."""
_FIRST: Bound = ((NULL, 0),)
_YIELDED_ROWS = 1 << 16
_HELD_ROWS = 1 << 20
"""Rows of all open files that a step may copy."""
_TIMES = (pa.types.is_timestamp, pa.types.is_date)

SortedBatches = Iterator[pa.RecordBatch]
HoldSorted = Callable[[Iterator[pa.RecordBatch]], Sequence[SortedBatches]]
"""Splits the rows of a file into sorted parts, and yields the batches of each."""


@dataclass(slots=True)
class _Open:
    """An open file: rows in memory, and unread rows."""

    rows: pa.Table
    """Sorted."""
    rest: Iterator[pa.RecordBatch] | None
    """Further rows, none below these; None if there are none."""
    batch: pa.RecordBatch | None = None
    """The next rows of `rest`; None: not read."""
    last: Bound = _FIRST
    """The last of `rows` that were taken from the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFiles:
    """Files to read in the order of columns."""

    snapshot: Snapshot
    order: Sequence[StructField]
    """The columns, at least one; the rows have them all."""
    schema: pa.Schema
    """The columns of the rows."""
    read: Callable[[AddFile], Iterator[pa.RecordBatch]]
    """Yields the rows of a file."""
    sorted_parts: Callable[[AddFile], Sequence[SortedBatches]]
    """The rows of a file in parts, each of which the file says to have the order; empty: a file
    without a stated order."""
    hold: HoldSorted | None = None
    """Sorts the rows of a file without a stated order; None: as one part in memory."""
    most_bytes: int | None = None
    """If open files have more bytes of rows in memory, `hold` takes further files; None: never."""

    def batches(self, files: Iterable[AddFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files in order; rows that are equal in all columns in any order.

        Raises:
            DataFileError: A file cannot be read, or its rows do not have the order that it states.
        """
        waiting = sorted(((self._lowest(add), add) for add in files), key=lambda each: each[0])
        waiting.reverse()
        opened: list[_Open] = []
        while waiting or opened:
            unread = [each for each in opened if each.rest is not None]
            first = min(unread, key=lambda each: each.last, default=None)
            limit = None if first is None else first.last
            is_next = bool(waiting) and (limit is None or waiting[-1][0] <= limit)
            yield from self._take(opened, waiting[-1][0] if is_next else limit)
            if is_next:
                opened += self._open(waiting.pop()[1], opened)
            elif first is not None:
                self._read_more(first, len(opened))
            opened = [each for each in opened if len(each.rows) or each.rest is not None]

    def _take(self, opened: Sequence[_Open], limit: Bound | None) -> Iterator[pa.RecordBatch]:
        """Remove the rows up to a bound from the open files, and yield them in order."""
        found = []
        for each in opened:
            is_all = limit is None or each.last <= limit
            number = len(each.rows) if limit is None or is_all else self._count(each.rows, limit)
            if number:
                found.append(each.rows.slice(0, number))
                each.rows = each.rows.slice(number)
        if found:
            rows = pa.concat_tables(found)
            if len(found) > 1:
                rows = self._merge(rows)
            yield from rows.combine_chunks().to_batches(_YIELDED_ROWS)

    def _merge(self, rows: pa.Table) -> pa.Table:
        """Sort rows that are some sorted parts, one after the other."""
        (first, *others) = (rows[name] for name in self._names)
        is_number = pa.types.is_integer(first.type) or any(is_of(first.type) for is_of in _TIMES)
        if others or not is_number or first.null_count:
            return sort_rows(rows, self._names)
        # For such rows, numpy's stable sort is a merge, and faster than Arrow's sort.
        numbers = numpy_of(_plain_values(first).combine_chunks())
        return rows.take(array_of(np.argsort(numbers, kind="stable")))

    def _count(self, rows: pa.Table, limit: Bound) -> int:
        """Count the rows that are not above a bound."""
        below: Any = FALSE_SCALAR
        is_equal: Any = None
        for field, (rank, value) in zip(self.order, limit, strict=False):
            values = rows[field.name]
            ranks, wanted = ranks_of(values), scalar(rank, pa.int8())
            is_less, is_same = pc.less(ranks, wanted), pc.equal(ranks, wanted)
            if rank == VALUE:
                plain = _plain_values(values)
                other = scalar(value, plain.type)
                is_lower = pc.fill_null(pc.less(plain, other), FALSE_SCALAR)
                is_less = pc.or_(is_less, pc.and_(is_same, is_lower))
                is_same = pc.and_(is_same, pc.fill_null(pc.equal(plain, other), FALSE_SCALAR))
            below = pc.or_(below, is_less if is_equal is None else pc.and_(is_equal, is_less))
            is_equal = is_same if is_equal is None else pc.and_(is_equal, is_same)
        if len(limit) == len(self.order):
            below = pc.or_(below, is_equal)
        return int(pc.sum(below, min_count=0).as_py())

    def _open(self, add: AddFile, others: Sequence[_Open]) -> list[_Open]:
        parts: Sequence[SortedBatches] = [
            self._verify_order(add, part) for part in self.sorted_parts(add)
        ]
        if not parts or self._is_full(others):
            parts = self._sort(chain(*parts) if parts else self.read(add))
        opened = [_Open(self.schema.empty_table(), part) for part in parts]
        for each in opened:
            self._read_more(each, len(others) + len(opened))
        return opened

    def _sort(self, batches: Iterator[pa.RecordBatch]) -> Sequence[SortedBatches]:
        if self.hold is not None:
            return self.hold(batches)
        rows = pa.Table.from_batches(batches, self.schema)
        return [iter(sort_rows(rows, self._names).to_batches())]

    def _is_full(self, opened: Sequence[_Open]) -> bool:
        """Whether open files have too many rows in memory."""
        if self.hold is None or self.most_bytes is None:
            return False
        batches = (each.batch for each in opened if each.batch is not None)
        num_bytes: int = sum(each.nbytes for each in batches)
        num_bytes += sum(each.rows.nbytes for each in opened)
        return num_bytes > self.most_bytes

    def _verify_order(self, add: AddFile, batches: Iterator[pa.RecordBatch]) -> SortedBatches:
        """Check the stated order of a file while its rows are read."""
        end = self.schema.empty_table()
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            if not is_sorted(pa.concat_tables([end, rows]), self._names):
                path = canonical_path(add.path, self.snapshot.uri)
                reason = (
                    f"states that its rows are sorted by {', '.join(self._names)}, but they are "
                    f"not; read the table without {option('order_by')}, and overwrite these rows"
                )
                raise DataFileError(self.snapshot.uri, self.snapshot.version, path, reason)
            end = rows.slice(max(len(rows) - 1, 0)) if len(rows) else end
            yield batch

    def _read_more(self, opened: _Open, num_open: int) -> None:
        """Take the next rows of a file; few rows if many files are open."""
        assert opened.rest is not None
        if opened.batch is None:
            opened.batch = next((each for each in opened.rest if len(each)), None)
        if opened.batch is None:
            opened.rest = None
            return
        number = max(_HELD_ROWS // num_open, _YIELDED_ROWS)
        read = pa.Table.from_batches([opened.batch.slice(0, number)])
        opened.batch = opened.batch.slice(number) if len(opened.batch) > number else None
        opened.rows = pa.concat_tables([opened.rows, read]) if len(opened.rows) else read
        opened.last = self._key_of(read.slice(len(read) - 1))

    def _key_of(self, row: pa.Table) -> Bound:
        return tuple(_value_of(row[each.name]) for each in self.order)

    @property
    def _names(self) -> list[str]:
        return [each.name for each in self.order]

    def _lowest(self, add: AddFile) -> Bound:
        """A bound at or below every row of a file."""
        stats = parse_stats(add.stats)
        first = self.order[0]
        path = (physical_name(first),)
        if path[0] in add.partition_values:
            if first.data_type == TIMESTAMP:
                return _FIRST  # a time without a zone depends on the request
            value = parse(add.partition_values[path[0]], first.data_type)
            return _FIRST if value is None else self._make_bound(value)
        if stats is None or null_count(stats, path) != 0:
            return _FIRST
        value = lower_bound(stats, path, first.data_type)
        return _FIRST if value is None else self._make_bound(value)

    def _make_bound(self, value: Any) -> Bound:
        data_type = self.schema.field(self.order[0].name).type
        try:
            return (_value_of(pa.chunked_array([array_of([value], data_type)])),)
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            return _FIRST


def _value_of(values: pa.ChunkedArray) -> _Value:
    """The first value."""
    rank = ranks_of(values)[0].as_py()
    return rank, _plain_values(values)[0].as_py() if rank == VALUE else 0


def _plain_values(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as integers, because Python lacks some of them."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if any(is_of(values.type) for is_of in _TIMES):
        return values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values
