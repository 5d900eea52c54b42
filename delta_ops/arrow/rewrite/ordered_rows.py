"""Ordered rows: sort any number of rows along a space-filling curve in bounded memory.

A sample splits the curve into buckets. Rows are distributed to the buckets, and each bucket is
sorted separately. Rows are therefore read once and, if they do not fit into memory, also written
and read once more. A bucket that is too large to be sorted is split again with its own sample. If
no sample can split it, its rows have equal ranks, and it stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.rewrite.axis_ranks import Axis, axis_of_sample, field_of
from delta_ops.arrow.rewrite.curve import Places, axis_bits, best_cut, places
from delta_ops.arrow.rewrite.row_buckets import RowBuckets
from delta_ops.protocol.arrow_values import array_of, numpy_of
from delta_ops.transaction.rewrite_group import CurveOrder

_SAMPLE_ROWS = 1 << 17
_SAMPLE_BYTES = 16 << 20
"""Maximum size of a sample, unless it would then have too few rows."""
_LEAST_SAMPLE_ROWS = 1 << 10
_CHUNK_ROWS = 1 << 18
_MOST_BUCKETS = 1 << 12
"""With more buckets, each would write and read too few rows at a time."""
_MUCH_BYTES = 256 << 20
"""More memory than this does not make buckets larger, but sorts more of them at once."""
_CUT_SLACK = 0.4
"""Maximum distance of a bucket's end from its wanted position, in bucket sizes."""
_MOST_CUTS = 3
"""After this many splits a bucket has few rows, or rows that no sample distinguishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorting:
    """How rows are sorted."""

    order: CurveOrder
    memory_bytes: int
    """Approximate bytes of rows that are held at once."""

    @property
    def bucket_bytes(self) -> int:
        """Approximate size of a bucket; a bucket of twice this size can still be sorted."""
        return max(1, min(self.memory_bytes, _MUCH_BYTES) // 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows that follow the previous piece on the curve; sorted when `tables` is called."""

    num_rows: int
    num_bytes: int
    """Approximate bytes in memory."""
    begins: int
    """Lower bound of the places in the piece."""
    tables: Callable[[], Iterator[SortedRows]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRows:
    """A batch of rows in curve order."""

    rows: pa.RecordBatch
    places: Places
    """Place of each row on the curve; ascending, except in buckets that no sample can split."""


def sorted_pieces(
    batches: Iterator[pa.RecordBatch],
    sorting: Sorting,
    num_rows: int,
    sample: Callable[[], pa.RecordBatch],
    at_least: int = 1,
) -> list[Piece]:
    """Return all rows in pieces that follow each other on the curve.

    Args:
        batches: The rows, all with one schema.
        num_rows: The number of rows.
        sample: Returns an evenly spread sample; called only if the rows do not fit into memory.
        at_least: Minimum number of pieces; fewer if too few rows have different places.
    """
    return _pieces(batches, sorting, num_rows, sample, at_least, 0)


def _pieces(
    batches: Iterator[pa.RecordBatch],
    sorting: Sorting,
    num_rows: int,
    sample: Callable[[], pa.RecordBatch],
    at_least: int,
    num_cuts: int,
) -> list[Piece]:
    held, held_bytes, held_rows = [], 0, 0
    is_all = True
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        held_rows += len(batch)
        if held_bytes > sorting.memory_bytes // 2:
            is_all = False
            break
    if not held_rows:
        return []
    known = sample_of(iter(held), held_rows, sorting) if is_all else sample()
    axes = [
        axis_of_sample(field_of(known, path), axis_bits(len(sorting.order.columns)))
        for path in sorting.order.columns
    ]
    row_bytes = max(1, held_bytes // held_rows)
    wanted = max(at_least, -(-row_bytes * num_rows // sorting.bucket_bytes))
    known_places = np.sort(_places(known, axes, sorting))
    bounds = _cut(known_places, min(wanted, _MOST_BUCKETS), len(axes))
    rows = chain(_giving_up(held), batches)
    buckets = _fill(rows, axes, bounds, sorting)
    return [
        Piece(
            num_rows=count,
            num_bytes=row_bytes * count,
            begins=int(bounds[number - 1]) if number else 0,
            tables=_tables_of(buckets, number, sorting, row_bytes, num_cuts),
        )
        for number, count in enumerate(buckets.num_rows)
        if count
    ]


def _giving_up(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held.reverse()
    while held:
        yield held.pop()


def sample_of(batches: Iterator[pa.RecordBatch], num_rows: int, sorting: Sorting) -> pa.RecordBatch:
    """Sample every n-th row, with the columns that determine the order.

    The sample has fewer rows if the values are long.

    Args:
        num_rows: The approximate number of rows in all batches.
    """
    names = list(dict.fromkeys(path[0] for path in sorting.order.columns))
    first, taken = 0, []
    step = 0
    for batch in batches:
        columns = batch.select(names)
        if not step:
            affordable = _SAMPLE_BYTES * len(batch) // max(1, columns.nbytes)
            sampled = max(_LEAST_SAMPLE_ROWS, min(affordable, _SAMPLE_ROWS))
            step = -(-max(num_rows, len(batch)) // sampled)
        taken.append(columns.take(array_of(np.arange(-first % step, len(batch), step))))
        first += len(batch)
    return _one_batch(taken)


def _cut(known: Places, num_buckets: int, num_axes: int) -> Places:
    """Return the places where buckets begin, except the first bucket."""
    size = len(known) / num_buckets
    cuts = (
        best_cut(known, round(size * number), int(size * _CUT_SLACK), num_axes)
        for number in range(1, num_buckets)
    )
    return np.unique(known[[cut for cut in cuts if cut < len(known)]])


def _fill(
    batches: Iterable[pa.RecordBatch], axes: Sequence[Axis], bounds: Places, sorting: Sorting
) -> RowBuckets:
    buckets: RowBuckets | None = None
    for rows in _chunks(batches, sorting):
        found = _places(rows, axes, sorting)
        numbers = np.searchsorted(bounds, found, "right").astype(np.uint16)
        order = np.argsort(numbers, kind="stable")  # linear time for 16-bit numbers
        together = pa.RecordBatch.from_arrays(
            [*rows.columns, array_of(found)], schema=_add_places(rows.schema)
        ).take(array_of(order))
        if buckets is None:
            half = sorting.memory_bytes // 2
            buckets = RowBuckets(together.schema, len(bounds) + 1, half)
        buckets.add(together, np.bincount(numbers, minlength=len(bounds) + 1).tolist())
    assert buckets
    buckets.finish()
    return buckets


def _tables_of(
    buckets: RowBuckets,
    number: int,
    sorting: Sorting,
    row_bytes: int,
    num_cuts: int,
) -> Callable[[], Iterator[SortedRows]]:
    num_rows = buckets.num_rows[number]
    is_large = num_rows * row_bytes > 2 * sorting.bucket_bytes

    def tables() -> Iterator[SortedRows]:
        batches = buckets.read(number)
        if not is_large:
            yield _sort(_one_batch(list(batches)), sorting)
        elif num_cuts == _MOST_CUTS:
            yield from (_sort(each, sorting) for each in _chunks(batches, sorting))
        else:
            # The memory for a bucket of twice the size, since other buckets are sorted at the same
            # time.
            less = replace(sorting, memory_bytes=4 * sorting.bucket_bytes)
            yield from _cut_again(buckets, number, less, num_cuts + 1)

    return tables


def _cut_again(
    buckets: RowBuckets, number: int, sorting: Sorting, num_cuts: int
) -> Iterator[SortedRows]:
    """Sort the rows of a bucket that is too large, with places from its own sample."""
    num_rows = buckets.num_rows[number]

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in buckets.read(number):
            schema = _drop_places(batch.schema)
            yield pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema)

    def sample() -> pa.RecordBatch:
        return sample_of(rows(), num_rows, sorting)

    for piece in _pieces(rows(), sorting, num_rows, sample, 2, num_cuts):
        yield from piece.tables()


def _sort(rows: pa.RecordBatch, sorting: Sorting) -> SortedRows:
    found: Places = numpy_of(rows.column(rows.num_columns - 1))
    if len(sorting.order.columns) == 1:
        order = _order_by_values(field_of(rows, sorting.order.columns[0]))
    else:
        order = np.argsort(found)
    plain = pa.RecordBatch.from_arrays(rows.columns[:-1], schema=_drop_places(rows.schema))
    return SortedRows(rows=plain.take(array_of(order)), places=found[order])


def _order_by_values(column: pa.Array) -> npt.NDArray[Any]:
    # Arrow sorts null and NaN next to each other.
    keys = {"is_valid": column.is_valid(), "value": column}
    if pa.types.is_floating(column.type):
        keys = {"is_valid": column.is_valid(), "is_nan": pc.is_nan(column), "value": column}
    order: npt.NDArray[Any] = numpy_of(
        pc.sort_indices(pa.RecordBatch.from_pydict(keys), [(name, "ascending") for name in keys])
    )
    return order


def _places(rows: pa.RecordBatch, axes: Sequence[Axis], sorting: Sorting) -> Places:
    ranks = [
        axis.rank(field_of(rows, path))
        for axis, path in zip(axes, sorting.order.columns, strict=True)
    ]
    return places(ranks, sorting.order.curve)


def _chunks(batches: Iterable[pa.RecordBatch], sorting: Sorting) -> Iterator[pa.RecordBatch]:
    """Combine batches to reduce the cost for each batch."""
    pending: list[pa.RecordBatch] = []
    num_bytes = num_rows = 0
    for batch in batches:
        pending.append(batch)
        num_bytes += batch.nbytes
        num_rows += len(batch)
        if num_bytes > sorting.bucket_bytes or num_rows > _CHUNK_ROWS:
            yield _one_batch(pending)
            pending, num_bytes, num_rows = [], 0, 0
    if num_rows:
        yield _one_batch(pending)


def _one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _add_places(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field("", pa.uint64()))


def _drop_places(schema: pa.Schema) -> pa.Schema:
    return pa.schema(list(schema)[:-1])
