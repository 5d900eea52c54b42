"""Key ranges: the table rows and files that the keys of a source can match.

`cover_keys` returns a predicate, and scans use it to skip files. It lists the values if they are
few. Otherwise it covers them with ranges, separated by the largest gaps between values.

`find_likely_ranges` estimates whether the keys match rows of each file. Integers that were assigned
in sequence lie close together. Consider the source keys between the lowest and the highest value of
a file. The share of these keys that exist in the file is estimated as its number of rows divided by
the number of integers in that range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of, numpy_of
from delta_ops.protocol.predicate import TRUE, Always, Or, Predicate, all_of
from delta_ops.protocol.predicate import Column as PredicateColumn
from delta_ops.protocol.schema import INTEGER_RANGES, ColumnPath, DataType
from delta_ops.protocol.stats.file_bounds import lower_bound, null_count, upper_bound
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.transaction.row_changes import num_live_rows

_FEW_VALUES = 64
"""Maximum number of keys to list; more keys are covered by this many ranges."""
MOST_RANGES = 64
"""Maximum number of ranges from `find_likely_ranges`; more ranges are combined into one."""
Range = tuple[int, int]
"""The lowest and the highest number."""


def cover_keys(paths: Sequence[ColumnPath], keys: Sequence[pa.Array]) -> Predicate:
    """Return a predicate that is true for every target row whose keys are among these.

    Args:
        paths: Columns or fields of the target.
        keys: Source values for each path, in the target's types.
    """
    return all_of(each for each in map(_cover, paths, keys) if each is not TRUE)


def cover_ranges(path: ColumnPath, lows: pa.Array, highs: pa.Array) -> Predicate:
    """Return a predicate that is true for every value in these ranges, and for few others.

    Args:
        path: A column or field of the target.
        lows: The lowest values of ranges that do not overlap, ascending; at least one.
        highs: The highest value of each range.
    """
    column = PredicateColumn(path)
    try:
        ranges = [(lows[a].as_py(), highs[b].as_py()) for a, b in _ranges(lows, highs)]
    except (ValueError, OverflowError):  # times outside of Python's range
        return TRUE
    return Or(tuple((column >= low) & (column <= high) for low, high in ranges))


def _cover(path: ColumnPath, keys: pa.Array) -> Predicate:
    values = keys.drop_null()
    if not len(values):
        return Always(False)
    if pa.types.is_floating(values.type):
        return TRUE
    values = _take_distinct(values)
    if len(values) <= _FEW_VALUES:
        try:
            return PredicateColumn(path).isin(values.to_pylist())
        except (ValueError, OverflowError):  # times outside of Python's range
            return TRUE
    return cover_ranges(path, values, values)


def _take_distinct(values: pa.Array) -> pa.Array:
    """Sort values and drop duplicates; fastest if they are already sorted."""
    ordered = values.take(pc.sort_indices(values))
    is_other = pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1))
    return ordered.filter(pa.concat_arrays([array_of([True]), is_other]))


def _ranges(lows: pa.Array, highs: pa.Array) -> list[tuple[int, int]]:
    """Combine neighbouring ranges across small gaps; return the first and last index of each."""
    last = len(lows) - 1
    first_value: Any = lows[0].as_py()
    if len(lows) <= _FEW_VALUES:
        cuts = list(range(last))
    elif isinstance(first_value, int | date | datetime) and not isinstance(first_value, bool):
        gaps = numpy_of(pc.subtract(_numbers(lows).slice(1), _numbers(highs).slice(0, last)))
        num_small = last - (_FEW_VALUES - 1)
        cuts = sorted(np.argpartition(gaps, num_small)[num_small:].tolist())
    else:
        step = len(lows) / _FEW_VALUES
        cuts = [int(step * i) for i in range(1, _FEW_VALUES)]
    starts = [0, *(cut + 1 for cut in cuts)]
    return list(zip(starts, [*cuts, last], strict=True))


def _numbers(values: pa.Array) -> pa.Array:
    width = pa.int32() if values.type.bit_width == 32 else pa.int64()
    numbers = values.cast(width if not pa.types.is_integer(values.type) else pa.int64())
    return numbers.cast(pa.float64(), safe=False)


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
