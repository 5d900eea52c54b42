"""Clustering depth: how many files may hold one combination of values, by their statistics alone.

A file is a box: on each column's axis from its smallest value to its largest. The depth at a point
is the number of boxes around it, and the depth of files is that where it is greatest: there, so
many files are opened for one row. A file without a bound may hold anything on that side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.maintenance.due import Clustering
from delta_ops.maintenance.optimize.cubes import PROVIDER, cube_of
from delta_ops.maintenance.optimize.order import clustering_order
from delta_ops.maintenance.optimize.overlaps import Ranges
from delta_ops.maintenance.optimize.small_files import own_files
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.column_mapping import physical_path
from delta_ops.protocol.file_bounds import lower_bound, upper_bound
from delta_ops.protocol.file_domains import domains_at_once, domains_one_by_one
from delta_ops.protocol.predicate import Comparison, Predicate
from delta_ops.protocol.schema import TIMESTAMP, TIMESTAMP_NTZ, DataType, leaves
from delta_ops.protocol.stats import ColumnPath, FileStats, parse_stats
from delta_ops.transaction.rewrite_group import CurveOrder

Box = Sequence[tuple[Any, Any]]
"""The bounds of a file on each axis, both inclusive; None: there is none."""

_MOST_POINTS = 4096
"""Points of an axis that are looked at by the axes after it; of more, evenly spread ones."""


def load_clustering(snapshot: Snapshot) -> Clustering:
    """How far a table is laid out by its clustering columns; of one without, there is nothing."""
    order = clustering_order(snapshot)
    if order is None:
        return Clustering(depth=0, loose_files=0)
    files = own_files(snapshot)
    loose = [
        add
        for add in files
        if cube_of(add, order) is None and add.clustering_provider in (None, PROVIDER)
    ]
    boxes = boxes_of(files, axes_of(snapshot, order))
    return Clustering(depth=max_depth(boxes), loose_files=len(loose))


def axes_of(snapshot: Snapshot, order: CurveOrder) -> list[tuple[ColumnPath, DataType]]:
    """The columns of an order by physical names, with their types."""
    types = dict(leaves(snapshot.schema))
    return [(physical_path(path, snapshot.schema), types[path]) for path in order.columns]


def boxes_of(files: Iterable[AddFile], axes: Sequence[tuple[ColumnPath, DataType]]) -> list[Box]:
    """The boxes of files.

    Args:
        axes: Columns by physical names, with their types.
    """
    nothing = FileStats()
    return [
        [(lower_bound(stats, path, kind), upper_bound(stats, path, kind)) for path, kind in axes]
        for stats in (parse_stats(add.stats) or nothing for add in files)
    ]


class OrderColumn:
    """The column of an order by one, as files tell of it.

    Args:
        snapshot: The table.
        order: An order by one column.
    """

    def __init__(self, snapshot: Snapshot, order: CurveOrder) -> None:
        (self._path,) = order.columns
        ((self._stored, self._type),) = axes_of(snapshot, order)

    def ranges(self, files: Sequence[AddFile]) -> Ranges:
        """The ranges of files; of those without bounds, all there is."""
        stats = pa.array([add.stats for add in files], pa.string())
        wanted = {self._stored: self._type}
        found = domains_at_once(stats, wanted) or domains_one_by_one(stats, wanted)
        domain = found[self._stored]
        high = domain.high
        if self._type in (TIMESTAMP, TIMESTAMP_NTZ):  # as it was written: neighbours would overlap
            high = pc.subtract(high, pa.scalar(1000, pa.duration("us")))
        lows, highs = _rank_keys(domain.low, high)
        highs[pc.invert(domain.has_values).to_numpy(zero_copy_only=False)] = 0
        return Ranges(lows, np.maximum(lows, highs))

    def is_beyond(self, add: AddFile) -> Predicate | None:
        """Whether a row has a greater value than all of a file; None: that is not known."""
        stats = parse_stats(add.stats) or FileStats()
        bound = upper_bound(stats, self._stored, self._type)
        return None if bound is None else Comparison(self._path, ">", bound)


def _rank_keys(low: pa.Array, high: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Bounds of files as ranks from 1; what has none goes beyond all."""
    known = [each.drop_null().to_numpy(zero_copy_only=False) for each in (low, high)]
    values, ranks = np.unique(np.concatenate(known), return_inverse=True)
    lows, highs = np.zeros(len(low), np.int64), np.full(len(high), len(values) + 1, np.int64)
    lows[low.is_valid().to_numpy(zero_copy_only=False)] = ranks[: len(known[0])] + 1
    highs[high.is_valid().to_numpy(zero_copy_only=False)] = ranks[len(known[0]) :] + 1
    return lows, highs


def max_depth(boxes: Sequence[Box]) -> int:
    """The most boxes around one point; with thousands of boxes on several axes, about."""
    if not boxes:
        return 0
    lows, highs = zip(*map(_rank, zip(*boxes, strict=True)), strict=True)
    return _deepest(np.array(lows), np.array(highs))


def _rank(bounds: Sequence[tuple[Any, Any]]) -> tuple[list[int], list[int]]:
    """Bounds of one axis as whole numbers in their order; what has no bound goes beyond all."""
    values = sorted({value for pair in bounds for value in pair if value is not None})
    ranks = {value: rank for rank, value in enumerate(values, 1)}
    lows = [0 if low is None else ranks[low] for low, _ in bounds]
    return lows, [len(ranks) + 1 if high is None else ranks[high] for _, high in bounds]


def _deepest(lows: npt.NDArray[Any], highs: npt.NDArray[Any]) -> int:
    """The greatest depth; it is reached where a box begins, on each axis."""
    starts = np.unique(lows[0])
    if len(lows) == 1:
        begun = np.searchsorted(np.sort(lows[0]), starts, "right")
        ended = np.searchsorted(np.sort(highs[0]), starts, "left")
        return int((begun - ended).max())
    points = starts[:: -(-len(starts) // _MOST_POINTS)]
    around = ((lows[0] <= point) & (highs[0] >= point) for point in points)
    return max(_deepest(lows[1:, each], highs[1:, each]) for each in around)
