"""Live files as columns, to plan and judge a layout.

A run rewrites only a few files of a million, so only these become Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.log.version.pruning import match_files, values_of
from delta_ops.maintenance.optimize.cubes import are_foreign, are_loose, cubes_of, order_tags
from delta_ops.maintenance.optimize.overlaps import Ints, Ranges
from delta_ops.maintenance.optimize.run_tags import runs_of
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH, merge_chunks
from delta_ops.protocol.arrow_values import array_of, numpy_of, scalar
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.file_paths import are_absolute
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import TIMESTAMP, TIMESTAMP_NTZ, ColumnPath, DataType, leaves
from delta_ops.protocol.stats.file_domains import MILLISECOND, domains_at_once, domains_one_by_one
from delta_ops.transaction.rewrite_group import CurveOrder, KeyOrder, RowOrder

_TAGS = ["tags", "clusteringProvider"]
_COLUMNS = [CANONICAL_PATH, "path", "partitionValues", "size", "modificationTime", *_TAGS]

Axes = Mapping[ColumnPath, DataType]
"""Columns by physical names, with their types."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileColumns:
    """The live files that may be laid out again: each column has an entry for each file.

    A file that a checkpoint names twice has two entries.
    """

    paths: pa.Array
    """Canonical paths."""
    sizes: Ints
    """In bytes."""
    times: Ints
    """Modification times in milliseconds."""
    partitions: Ints
    """Partition numbers."""
    cubes: Ints
    """Cube numbers, or run numbers of a sort key; -1: the file was not laid out in the order."""
    is_foreign: npt.NDArray[np.bool_]
    """Whether the file has another clustering provider."""
    ranges: tuple[Ranges, ...] = ()
    """For each column of a `CurveOrder`, or one for a `KeyOrder`; empty if not requested."""

    def group_by_partition(self) -> list[Ints]:
        """The file numbers of each partition."""
        if not len(self.partitions):
            return []
        numbers = np.argsort(self.partitions, kind="stable")
        return np.split(numbers, np.flatnonzero(np.diff(self.partitions[numbers])) + 1)

    def take(self, numbers: Ints) -> FileColumns:
        """Some of the files."""
        return FileColumns(
            paths=self.paths.take(array_of(numbers)),
            sizes=self.sizes[numbers],
            times=self.times[numbers],
            partitions=self.partitions[numbers],
            cubes=self.cubes[numbers],
            is_foreign=self.is_foreign[numbers],
            ranges=tuple(Ranges(each.lows[numbers], each.highs[numbers]) for each in self.ranges),
        )


def has_loose_files(snapshot: Snapshot, order: CurveOrder) -> bool:
    """Whether a file was not laid out in the order; loads only tags."""
    tags = order_tags(snapshot, order)
    return any(
        pc.any(are_loose(batch, tags), min_count=0).as_py()
        for adds in snapshot.stream_live(_TAGS)
        for batch in merge_chunks(adds).to_batches()
    )


def load_file_columns(
    snapshot: Snapshot,
    order: RowOrder,
    predicate: Predicate | None = None,
    *,
    with_ranges: bool = False,
) -> FileColumns:
    """Load the live files within the table.

    Args:
        predicate: Only these partitions.
    """
    partition_names = tuple(snapshot.definition.partition_names.values())
    axes = axes_of(snapshot, order) if with_ranges else {}
    is_key = isinstance(order, KeyOrder)
    laid_out = _plan_marks(snapshot, order)

    def columns_of(adds: pa.RecordBatch) -> list[pa.Array]:
        return [
            adds[CANONICAL_PATH],
            adds["size"],
            pc.fill_null(adds["modificationTime"], scalar(0)),
            are_foreign(adds),
            laid_out(adds),
            *(values_of(adds["partitionValues"], name) for name in partition_names),
            *(_bounds(adds["stats"], axes, nulls_first=is_key) if axes else ()),
        ]

    columns = [columns_of(adds) for adds in _own_files(snapshot, predicate, with_stats=bool(axes))]
    paths, sizes, times, is_foreign, cubes, *others = map(
        pa.concat_arrays, zip(*columns, strict=True)
    )
    partition_values, bounds = others[: len(partition_names)], others[len(partition_names) :]
    ranges = tuple(_ranges(*bounds[n : n + 3]) for n in range(0, len(bounds), 3))
    return FileColumns(
        paths=paths,
        sizes=numpy_of(sizes),
        times=numpy_of(times),
        partitions=_number_partitions(partition_values, len(paths)),
        cubes=np.where(_bools(cubes.is_null()), -1, _codes(cubes)),
        is_foreign=_bools(is_foreign),
        ranges=(_join_ranges(ranges),) if is_key and ranges else ranges,
    )


def _plan_marks(snapshot: Snapshot, order: RowOrder) -> Callable[[pa.RecordBatch], pa.Array]:
    """Plan how to find the cube or the sorted run of each file."""
    if isinstance(order, KeyOrder):
        return partial(runs_of, definition=snapshot.definition)
    return partial(cubes_of, order=order_tags(snapshot, order))


def axes_of(snapshot: Snapshot, order: RowOrder) -> Axes:
    """The columns that rows are ordered by: the type by physical path."""
    types = dict(leaves(snapshot.schema))
    return {physical_path(path, snapshot.schema): types[path] for path in order.columns}


def _own_files(
    snapshot: Snapshot, predicate: Predicate | None, *, with_stats: bool
) -> Iterator[pa.RecordBatch]:
    """Live files inside the table; at least one batch."""
    columns = [*_COLUMNS, "stats"] if with_stats else _COLUMNS
    for adds in snapshot.stream_live(columns):
        is_outside = are_absolute(adds[CANONICAL_PATH])
        # Copying all files would take longer than all other steps.
        has_others = pc.any(is_outside, min_count=0).as_py()
        own = adds.filter(pc.invert(is_outside)) if has_others else adds
        if predicate is not None:
            own = match_files(own, predicate, snapshot.definition, snapshot.uri)
        yield from merge_chunks(own).to_batches() or [_no_rows(own.schema)]


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)


def _bounds(stats: pa.Array, axes: Axes, *, nulls_first: bool) -> Iterator[pa.Array]:
    """Three arrays for each column: lowest value, highest value, and whether there are values.

    Args:
        nulls_first: Whether a file with nulls has no lowest value.
    """
    domains = dict(domains_at_once(stats, axes))
    missing = {path: data_type for path, data_type in axes.items() if path not in domains}
    domains |= domains_one_by_one(stats, missing) if missing else {}
    for path, data_type in axes.items():
        domain = domains[path]
        yield pc.if_else(domain.has_nulls, pa.NULL, domain.low) if nulls_first else domain.low
        # The bound as the writer computed it: otherwise neighbouring files would overlap.
        is_time = data_type in (TIMESTAMP, TIMESTAMP_NTZ)
        yield pc.subtract(domain.high, MILLISECOND) if is_time else domain.high
        yield domain.has_values


def _ranges(low: pa.Array, high: pa.Array, has_values: pa.Array) -> Ranges:
    """Convert bounds to ranks from 1; a missing upper bound gets a rank above all others.

    Files that hold only nulls are together at 0.
    """
    codes = numpy_of(pc.rank(pa.concat_arrays([low, high]), "ascending", tiebreaker="dense"))
    lows = np.where(_bools(low.is_null()), 0, codes[: len(low)].astype(np.int64))
    highs = codes[len(low) :].astype(np.int64)
    highs[_bools(high.is_null())] = codes.max(initial=0) + 1
    highs[~_bools(has_values)] = 0
    return Ranges(lows, np.maximum(lows, highs))


def _join_ranges(ranges: Sequence[Ranges]) -> Ranges:
    """The ranges of all columns together, as ranks: the first columns decide."""
    if len(ranges) == 1:
        return ranges[0]
    ends = np.stack([np.concatenate(each) for each in ranges], axis=1)
    _, ranks = np.unique(ends, axis=0, return_inverse=True)
    return Ranges(*np.split(ranks.reshape(-1), 2))


def _number_partitions(values: Sequence[pa.Array], num_files: int) -> Ints:
    numbers = np.zeros(num_files, np.int64)
    for each in values:
        codes = _codes(each)
        both = numbers * (codes.max(initial=0) + 1) + codes
        _, numbers = np.unique(both, return_inverse=True)
    return numbers


def _codes(texts: pa.Array) -> Ints:
    """Number strings from 0; equal strings have the same number."""
    codes: Ints = numpy_of(texts.dictionary_encode(null_encoding="encode").indices.cast("int64"))
    return codes


def _bools(values: pa.Array) -> npt.NDArray[np.bool_]:
    bools: npt.NDArray[np.bool_] = numpy_of(values)
    return bools
