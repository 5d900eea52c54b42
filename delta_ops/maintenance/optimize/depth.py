"""Clustering depth: how many files may hold one combination of values, from statistics alone.

A file is a box: on each column's axis it extends from the smallest to the largest value. The depth
at a point is the number of boxes around it, and the depth of files is the greatest depth of any
point: a read of one row there opens so many files. A file without a bound is unbounded on that
side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from delta_ops.maintenance.optimize.file_columns import FileColumns
from delta_ops.maintenance.optimize.overlaps import Ranges

_MOST_POINTS = 4096
"""The most points of an axis to check on the next axes; if there are more, evenly spread points."""

_Grid = npt.NDArray[Any]
"""A row for each axis, a column for each box."""


def depth_of(files: FileColumns) -> int:
    """The greatest depth of any partition.

    Args:
        files: Loaded with ranges.
    """
    depths = (
        max_depth([Ranges(each.lows[numbers], each.highs[numbers]) for each in files.ranges])
        for numbers in files.group_by_partition()
    )
    return max(depths, default=0)


def max_depth(ranges: Sequence[Ranges]) -> int:
    """The maximum number of boxes around one point.

    The result is approximate for thousands of boxes with several axes.

    Args:
        ranges: The boxes, on each axis.
    """
    lows, highs = (np.array(each) for each in zip(*ranges, strict=True))
    return _deepest(lows, highs, 0)


def _deepest(lows: _Grid, highs: _Grid, least: int) -> int:
    """The greatest depth, at least `least`; it occurs where boxes start on each axis."""
    if lows.shape[1] <= least:
        return least
    starts = np.sort(lows[0])
    if len(lows) == 1:
        begun = np.searchsorted(starts, starts, "right")
        ended = np.searchsorted(np.sort(highs[0]), starts, "left")
        return max(least, int((begun - ended).max()))
    starts = starts[np.flatnonzero(np.diff(starts, prepend=starts[0] - 1))]
    return _deepest_at(starts[:: -(-len(starts) // _MOST_POINTS)], lows, highs, least)


def _deepest_at(points: _Grid, lows: _Grid, highs: _Grid, least: int) -> int:
    """The greatest depth at some points of the first axis, by bisection: most boxes are narrow."""
    is_near = (lows[0] <= points[-1]) & (highs[0] >= points[0])
    near = lows[:, is_near], highs[:, is_near]
    if len(points) == 1:
        return _deepest(near[0][1:], near[1][1:], least)
    if near[0].shape[1] > least:
        middle = len(points) // 2
        for half in (points[:middle], points[middle:]):
            least = _deepest_at(half, *near, least)
    return least
