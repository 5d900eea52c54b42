"""Key hits: estimate whether the keys of a source match rows of each file.

Integers that were assigned in sequence lie close together. Consider the source keys between the
lowest and the highest value of a file. The share of these keys that exist in the file is estimated
as its number of rows divided by the number of integers in that range.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.schema import INTEGER_RANGES, ColumnPath, DataType
from delta_ops.protocol.stats.file_bounds import lower_bound, null_count, upper_bound
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.transaction.row_changes import num_live_rows

MOST_RANGES = 64
"""Maximum number of separate ranges; more ranges are combined into one."""

Range = tuple[int, int]
"""The lowest and the highest number."""


def find_likely_ranges(
    files: Iterable[AddFile],
    path: ColumnPath,
    data_type: DataType,
    keys: npt.NDArray[np.int64],
    least: float,
) -> list[Range] | None:
    """Return the value ranges of files if the keys probably match rows of each file.

    Args:
        files: Live files.
        path: An integer column or field, by physical names.
        data_type: The type of the column.
        keys: Distinct values of the source, in any order.
        least: Minimum number of expected matches in each file.

    Returns:
        Ascending ranges that do not touch; None if a file has fewer expected matches, or lacks
        statistics.
    """
    ordered, (smallest, largest) = np.sort(keys), INTEGER_RANGES[data_type]
    found: list[Range] = []
    for file in files:
        stats, num_live = parse_stats(file.stats), num_live_rows(file)
        low: Any = stats and lower_bound(stats, path, data_type)
        high: Any = stats and upper_bound(stats, path, data_type)
        if stats is None or low is None or high is None or num_live is None:
            return None
        if low < smallest or high > largest:  # not possible for values of the type
            return None
        first, end = np.searchsorted(ordered, low), np.searchsorted(ordered, high, "right")
        num_rows = num_live - (null_count(stats, path) or 0)
        if int(end - first) * min(1.0, num_rows / (high - low + 1)) < least:
            return None
        found.append((low, high))
    return _unite(found)


def _unite(ranges: Iterable[Range]) -> list[Range]:
    """Combine ranges that overlap or touch."""
    united: list[Range] = []
    for low, high in sorted(ranges):
        if united and low <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(united[-1][1], high))
        else:
            united.append((low, high))
    return united if len(united) <= MOST_RANGES else [(united[0][0], united[-1][1])]
