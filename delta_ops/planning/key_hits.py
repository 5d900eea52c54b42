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
from delta_ops.protocol.file_bounds import lower_bound, upper_bound
from delta_ops.protocol.schema import INTEGER_RANGES, DataType
from delta_ops.protocol.stats import ColumnPath, parse_stats
from delta_ops.transaction.row_changes import num_live_rows


def find_likely_range(
    files: Iterable[AddFile],
    path: ColumnPath,
    data_type: DataType,
    keys: npt.NDArray[np.int64],
    least: float,
) -> tuple[int, int] | None:
    """Between which numbers the values of files lie, if keys are likely to meet rows of each.

    Args:
        files: Live files.
        path: A column of whole numbers, or a field, by physical names.
        data_type: Its type.
        keys: Values of the source, none of them twice, in any order.
        least: How many rows of each file must be likely to be met.

    Returns:
        The ends, or None: fewer are likely to be met in a file, it does not tell, or there is none.
    """
    ordered, (smallest, largest) = np.sort(keys), INTEGER_RANGES[data_type]
    ends: list[tuple[int, int]] = []
    for file in files:
        stats, num_rows = parse_stats(file.stats), num_live_rows(file)
        low: Any = stats and lower_bound(stats, path, data_type)
        high: Any = stats and upper_bound(stats, path, data_type)
        if low is None or high is None or num_rows is None:
            return None
        if low < smallest or high > largest:  # as no value of the type is
            return None
        first, end = np.searchsorted(ordered, low), np.searchsorted(ordered, high, "right")
        if int(end - first) * min(1.0, num_rows / (high - low + 1)) < least:
            return None
        ends.append((low, high))
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None
