"""Ordered rows: rows sorted along a curve in bounded memory, however many they are.

Rows are put into buckets that follow each other on the curve, as a sample of them cuts it, and each
bucket is sorted for itself. So they are read once and, where they do not fit into memory, written
and read once more. A bucket that has become too large to be sorted is cut again by a sample of its
own; one that no sample can cut has rows of equal ranks, and is left as it is.
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
from delta_ops.transaction.rewrite_group import CurveOrder

_SAMPLE_ROWS = 1 << 17
_SAMPLE_BYTES = 16 << 20
"""A sample has no more, unless it would have next to no rows."""
_LEAST_SAMPLE_ROWS = 1 << 10
_CHUNK_ROWS = 1 << 18
_MOST_BUCKETS = 1 << 12
"""More buckets would each hold little to write and to read at once."""
_MUCH_BYTES = 256 << 20
"""Memory from which on more of it makes no larger buckets, but lets more of them be sorted at
once."""
_CUT_SLACK = 0.4
"""How far from where it is wanted a cut may be, in sizes of a bucket."""
_MOST_CUTS = 3
"""A bucket of buckets of buckets has few rows, or rows that no sample tells apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorting:
    """How rows are sorted."""

    order: CurveOrder
    memory_bytes: int
    """Rows that are held at once, about."""

    @property
    def bucket_bytes(self) -> int:
        """About how large a bucket is; one of twice its size can be sorted."""
        return max(1, min(self.memory_bytes, _MUCH_BYTES) // 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows that come after those of the piece before, and are sorted when they are asked for."""

    num_rows: int
    num_bytes: int
    """In memory, about."""
    begins: int
    """The least place there may be in it."""
    tables: Callable[[], Iterator[SortedRows]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRows:
    """Neighbours on the curve."""

    rows: pa.RecordBatch
    places: Places
    """Place of each row on the curve; ascending, as far as rows could be told apart."""


def sorted_pieces(
    batches: Iterator[pa.RecordBatch],
    sorting: Sorting,
    num_rows: int,
    sample: Callable[[], pa.RecordBatch],
    at_least: int = 1,
) -> list[Piece]:
    """All rows, in pieces that follow each other on the curve.

    Args:
        batches: The rows; all of one schema.
        num_rows: How many there are.
        sample: Gives some of them, spread evenly; called only where they do not fit into memory.
        at_least: The least number of pieces, if places differ.
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
    """Rows at equal distances, with the columns of the order; fewer of long values.

    Args:
        num_rows: How many there are, about.
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
        taken.append(columns.take(pa.array(np.arange(-first % step, len(batch), step))))
        first += len(batch)
    return _one_batch(taken)


def _cut(known: Places, num_buckets: int, num_axes: int) -> Places:
    """Places at which a bucket begins, but for the first."""
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
        order = np.argsort(numbers, kind="stable")  # of so short numbers, in linear time
        together = pa.RecordBatch.from_arrays(
            [*rows.columns, pa.array(found)], schema=_add_places(rows.schema)
        ).take(pa.array(order))
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
            # As much as a bucket of twice the size takes, since others are sorted meanwhile.
            less = replace(sorting, memory_bytes=4 * sorting.bucket_bytes)
            yield from _cut_again(buckets, number, less, num_cuts + 1)

    return tables


def _cut_again(
    buckets: RowBuckets, number: int, sorting: Sorting, num_cuts: int
) -> Iterator[SortedRows]:
    """The rows of a bucket that is too large, by places of their own."""
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
    found: Places = rows.column(rows.num_columns - 1).to_numpy()
    if len(sorting.order.columns) == 1:
        order = _order_by_values(field_of(rows, sorting.order.columns[0]))
    else:
        order = np.argsort(found)
    plain = pa.RecordBatch.from_arrays(rows.columns[:-1], schema=_drop_places(rows.schema))
    return SortedRows(rows=plain.take(pa.array(order)), places=found[order])


def _order_by_values(column: pa.Array) -> npt.NDArray[Any]:
    # Arrow puts null and NaN beside each other.
    keys = {"is_valid": column.is_valid(), "value": column}
    if pa.types.is_floating(column.type):
        keys = {"is_valid": column.is_valid(), "is_nan": pc.is_nan(column), "value": column}
    order: npt.NDArray[Any] = pc.sort_indices(
        pa.RecordBatch.from_pydict(keys), [(name, "ascending") for name in keys]
    ).to_numpy()
    return order


def _places(rows: pa.RecordBatch, axes: Sequence[Axis], sorting: Sorting) -> Places:
    ranks = [
        axis.rank(field_of(rows, path))
        for axis, path in zip(axes, sorting.order.columns, strict=True)
    ]
    return places(ranks, sorting.order.curve)


def _chunks(batches: Iterable[pa.RecordBatch], sorting: Sorting) -> Iterator[pa.RecordBatch]:
    """Batches put together, so that what is done to each is worth it."""
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
