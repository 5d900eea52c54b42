"""Key hits: whether the keys of a source are likely to meet rows of each file.

Whole numbers that were given one after the other lie close together. Of a source's keys between the
least and the greatest value of a file, so large a part is likely to be there as the file has rows
for each number between these.
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
"""Ranges up to so many are told apart, more are one."""

Range = tuple[int, int]
"""The least and the greatest of some numbers."""


def find_likely_ranges(
    files: Iterable[AddFile],
    path: ColumnPath,
    data_type: DataType,
    keys: npt.NDArray[np.int64],
    least: float,
) -> list[Range] | None:
    """The ranges in which the values of files lie, if keys are likely to meet rows of each file.

    Args:
        files: Live files.
        path: A column of whole numbers, or a field, by physical names.
        data_type: Its type.
        keys: Values of the source, none of them twice, in any order.
        least: How many rows of each file must be likely to be met.

    Returns:
        The ranges, in order and apart; None where a file is not so likely to be met, or does not
        tell.
    """
    ordered, (smallest, largest) = np.sort(keys), INTEGER_RANGES[data_type]
    found: list[Range] = []
    for file in files:
        stats, num_live = parse_stats(file.stats), num_live_rows(file)
        low: Any = stats and lower_bound(stats, path, data_type)
        high: Any = stats and upper_bound(stats, path, data_type)
        if stats is None or low is None or high is None or num_live is None:
            return None
        if low < smallest or high > largest:  # as no value of the type is
            return None
        first, end = np.searchsorted(ordered, low), np.searchsorted(ordered, high, "right")
        num_rows = num_live - (null_count(stats, path) or 0)
        if int(end - first) * min(1.0, num_rows / (high - low + 1)) < least:
            return None
        found.append((low, high))
    return _unite(found)


def _unite(ranges: Iterable[Range]) -> list[Range]:
    """Ranges that do not touch each other, with the same numbers."""
    united: list[Range] = []
    for low, high in sorted(ranges):
        if united and low <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(united[-1][1], high))
        else:
            united.append((low, high))
    return united if len(united) <= MOST_RANGES else [(united[0][0], united[-1][1])]
