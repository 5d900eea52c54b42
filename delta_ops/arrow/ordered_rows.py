"""Ordered rows: rows sorted along a curve in bounded memory, however many they are.

Rows are put into buckets that follow each other on the curve, as a sample of them cuts it, and each
bucket is sorted for itself. So they are read once and, where they do not fit into memory, written
and read once more. A bucket that has become too large to be sorted is cut again by a sample of its
own; one that no sample can cut has rows of equal ranks, and is left as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from tempfile import mkdtemp
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.axis_ranks import Axis, axis_of_sample, field_of
from delta_ops.arrow.curve import Places, axis_bits, best_cut, places
from delta_ops.arrow.row_buckets import RowBuckets
from delta_ops.transaction.rewrite_group import CurveOrder

SAMPLE_ROWS = 1 << 17
_CHUNK_BYTES = 32 << 20
_CHUNK_ROWS = 1 << 18
_MOST_BUCKETS = 256
"""Each has a file open."""
_CUT_SLACK = 0.4
"""How far from where it is wanted a cut may be, in sizes of a bucket."""
_MOST_CUTS = 3
"""A bucket of buckets of buckets has few rows, or rows that no sample tells apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorting:
    """How rows are sorted."""

    order: CurveOrder
    folder: str
    """Empty, on this machine; whoever made it deletes it."""
    memory_bytes: int
    """Rows that are held at once, about; those of a bucket are an eighth of it."""


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
    known = _spread_sample(held, held_rows) if is_all else sample()
    axes = [
        axis_of_sample(field_of(known, path), axis_bits(len(sorting.order.columns)))
        for path in sorting.order.columns
    ]
    row_bytes = max(1, held_bytes // held_rows)
    bucket_bytes = max(1, sorting.memory_bytes // 8)
    wanted = max(at_least, -(-row_bytes * num_rows // bucket_bytes))
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


def _spread_sample(batches: Sequence[pa.RecordBatch], num_rows: int) -> pa.RecordBatch:
    """Rows at equal distances."""
    step = -(-num_rows // SAMPLE_ROWS)
    first, taken = 0, []
    for batch in batches:
        numbers = np.arange(-first % step, len(batch), step)
        taken.append(batch.take(pa.array(numbers)))
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
    for rows in _chunks(batches):
        found = _places(rows, axes, sorting)
        numbers = np.searchsorted(bounds, found, "right").astype(np.uint16)
        order = np.argsort(numbers, kind="stable")  # of so short numbers, in linear time
        together = pa.RecordBatch.from_arrays(
            [*rows.columns, pa.array(found)], schema=_add_places(rows.schema)
        ).take(pa.array(order))
        if buckets is None:
            folder = mkdtemp(dir=sorting.folder)
            schema, half = together.schema, sorting.memory_bytes // 2
            buckets = RowBuckets(folder, schema, len(bounds) + 1, half)
        buckets.add(together, np.bincount(numbers, minlength=len(bounds) + 1).tolist())
    assert buckets
    buckets.close()
    return buckets


def _tables_of(
    buckets: RowBuckets,
    number: int,
    sorting: Sorting,
    row_bytes: int,
    num_cuts: int,
) -> Callable[[], Iterator[SortedRows]]:
    num_rows = buckets.num_rows[number]
    is_large = num_rows * row_bytes > sorting.memory_bytes // 3

    def tables() -> Iterator[SortedRows]:
        batches = buckets.take(number)
        if not is_large:
            yield _sort(_one_batch(list(batches)), sorting)
        elif num_cuts == _MOST_CUTS:
            yield from (_sort(each, sorting) for each in _chunks(batches))
        else:
            yield from _cut_again(batches, sorting, num_rows, num_cuts + 1)

    return tables


def _cut_again(
    batches: Iterator[pa.RecordBatch], sorting: Sorting, num_rows: int, num_cuts: int
) -> Iterator[SortedRows]:
    """The rows of a bucket that is too large, by places of their own."""
    folder = mkdtemp(dir=sorting.folder)
    path = os.path.join(folder, "all.arrows")
    step = -(-num_rows // SAMPLE_ROWS)
    taken, first = [], 0
    schema = None
    with pa.OSFile(path, "wb") as sink:
        writer = None
        for batch in batches:
            schema = schema or _drop_places(batch.schema)
            rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema)
            writer = writer or pa.ipc.new_stream(sink, schema)
            writer.write_batch(rows)
            taken.append(rows.take(pa.array(np.arange(-first % step, len(rows), step))))
            first += len(rows)
        assert writer
        writer.close()

    def read_stored() -> Iterator[pa.RecordBatch]:
        with pa.OSFile(path) as file, pa.ipc.open_stream(file) as stream:
            yield from stream
        os.unlink(path)

    pieces = _pieces(read_stored(), sorting, num_rows, lambda: _one_batch(taken), 2, num_cuts)
    for piece in pieces:
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


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches put together, so that what is done to each is worth it."""
    pending: list[pa.RecordBatch] = []
    num_bytes = num_rows = 0
    for batch in batches:
        pending.append(batch)
        num_bytes += batch.nbytes
        num_rows += len(batch)
        if num_bytes > _CHUNK_BYTES or num_rows > _CHUNK_ROWS:
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
