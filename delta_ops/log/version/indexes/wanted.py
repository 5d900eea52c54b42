"""Wanted values of an index: what a part of a condition looks for, compared with sort keys.

`choose_groups` chooses the row groups of a run that can hold wanted values, and `find_wanted` finds
the wanted values among entries.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.log.version.indexes.run_file import OpenRun, RunFile, index_keys
from delta_ops.protocol.arrow_values import FALSE_SCALAR, array_of, numpy_of, scalar
from delta_ops.protocol.predicate.nodes import Comparison, In, IsNull, Leaf
from delta_ops.protocol.schema import ColumnPath, DataType

MIN_FILES = 8
"""Fewer files are opened at once, in less time than the indexes are listed."""
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_UNKNOWN_SHARE = 0.1
"""Expected share of the wanted values in a row group at the end of a range."""
_UNFIT = (pa.ArrowException, ValueError, ArithmeticError, TypeError)
"""Errors of a value that the type of the index cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysOf:
    """Values of a column: only rows with one of them are needed."""

    column: ColumnPath
    """As in the table's schema."""
    data_type: DataType
    values: pa.Array
    """In the column's type. A null among them is ignored: it matches no row."""


@dataclass(frozen=True, slots=True)
class Nulls:
    """Wants null."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Wants some values."""

    keys: pa.Array
    """Sort keys: distinct, ascending, without null."""


@dataclass(frozen=True, slots=True)
class Range:
    """Wants the values that satisfy all of these comparisons."""

    bounds: tuple[tuple[str, pa.Scalar], ...]
    """Operators, such as "<", and sort keys."""


Wanted = Nulls | Keys | Range


def values_wanted_by(leaf: Leaf, data_type: DataType) -> Wanted | None:
    """The values that match a resolved part of a condition; None if an index cannot find it.

    Args:
        leaf: Compares the column of the index.
        data_type: The type of the index.
    """
    match leaf:
        case IsNull():
            return Nulls()
        case Comparison(padded_to=int()) | In(padded_to=int()) | Comparison(operator="!="):
            return None
        case Comparison(operator="==", value=value):
            return wanted_keys([value], data_type)
        case Comparison(operator=operator, value=value):
            found = wanted_keys([value], data_type)
            return found and Range(((operator, found.keys[0]),))
        case In(values=values):  # a null among the values is never equal
            return wanted_keys([each for each in values if each is not None], data_type)


def wanted_keys(values: Any, data_type: DataType) -> Keys | None:
    """Wants some values; None if one does not fit the type of the index.

    Args:
        values: Python values, or an Arrow array.
    """
    try:
        keys = index_keys(values, data_type)
    except _UNFIT:
        return None
    distinct = keys.drop_null().unique()
    return Keys(distinct.take(pc.sort_indices(distinct)))


def choose_groups(groups: pa.Table, wanted: Wanted) -> npt.NDArray[np.bool_]:
    """For each row group of a run, whether it can hold a wanted value.

    Args:
        groups: `OpenRun.entries`.
    """
    is_null: npt.NDArray[np.bool_] = numpy_of(groups["is_null"])
    match wanted:
        case Nulls():
            return is_null
        case Range(bounds=bounds):
            return ~is_null & _all_of(_reaches(groups, *each) for each in bounds)
        case Keys(keys=keys):
            return ~is_null & _hold_any(groups, keys)


def estimate_shares(groups: pa.Table, wanted: Range) -> npt.NDArray[np.float64]:
    """For each row group that `choose_groups` chose, the expected share of its entries.

    Numbers count as evenly spread. For other values, an estimate knows only whether a bound of the
    range lies within the row group.
    """
    if not pt.is_integer(groups["low"].type):
        is_whole = _all_of(_is_whole(groups, key) for _, key in wanted.bounds)
        return np.where(is_whole, 1.0, _UNKNOWN_SHARE)
    # An estimate may round large numbers.
    first = numpy_of(groups["low"].cast(pa.float64(), safe=False))
    end = numpy_of(groups["high"].cast(pa.float64(), safe=False)) + 1
    low, high = first, end
    for operator, key in wanted.bounds:
        number = float(key.as_py()) + (operator in (">", "<="))
        if operator.startswith(">"):
            low = np.maximum(low, number)
        else:
            high = np.minimum(high, number)
    shares: npt.NDArray[np.float64] = np.clip((high - low) / np.maximum(end - first, 1.0), 0.0, 1.0)
    return shares


def expected_entries(runs: Sequence[RunFile], wanted: Wanted) -> float:
    """The expected number of wanted entries, by the figures of the runs alone."""
    if not isinstance(wanted, Keys):
        return math.inf
    each = sum(run.num_entries / max(run.num_values, 1) for run in runs)
    return len(wanted.keys) * each


def entries_among(opened: OpenRun, groups: npt.NDArray[np.bool_], wanted: Wanted) -> float:
    """The expected number of wanted entries in row groups."""
    rows = numpy_of(opened.entries["rows"])[groups]
    match wanted:
        case Keys(keys=keys):
            mean = opened.run.num_entries / max(opened.run.num_values, 1)
            chosen = opened.entries.filter(array_of(groups))
            same = pc.fill_null(pc.equal(chosen["low"], chosen["high"]), False)
            of_one_value = int(rows[numpy_of(same)].sum())
            return float(min(max(len(keys) * mean, of_one_value), rows.sum()))
        case Nulls():
            return float(rows.sum())
        case Range():
            chosen = opened.entries.filter(array_of(groups))
            return float((rows * estimate_shares(chosen, wanted)).sum())


def find_wanted(values: pa.Array, data_type: DataType, wanted: Wanted) -> npt.NDArray[np.int64]:
    """The places of entries with a wanted value.

    Args:
        values: Values of entries, in the order of a run.
    """
    if isinstance(wanted, Nulls):
        return np.flatnonzero(numpy_of(values.is_null()))
    keys = index_keys(values, data_type)
    match wanted:
        case Range(bounds=bounds):
            found = reduce(pc.and_, (_COMPARE[each](keys, key) for each, key in bounds))
        case Keys(keys=listed) if pt.is_integer(keys.type) and not keys.null_count:
            return _search(numpy_of(keys), numpy_of(listed))
        case Keys(keys=listed):
            found = pc.equal(keys, listed[0]) if len(listed) == 1 else pc.is_in(keys, listed)
    return np.flatnonzero(numpy_of(pc.fill_null(found, FALSE_SCALAR)))


def _search(numbers: npt.NDArray[Any], listed: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The places of listed numbers among ascending numbers."""
    first = np.searchsorted(numbers, listed)
    counts = np.searchsorted(numbers, listed, "right") - first
    ends = counts.cumsum()
    places: npt.NDArray[np.int64] = np.arange(counts.sum()) + np.repeat(
        first - (ends - counts), counts
    )
    return places


def _reaches(groups: pa.Table, operator: str, key: pa.Scalar) -> npt.NDArray[np.bool_]:
    """For each row group, whether a value between its bounds can satisfy a comparison."""
    # The lowest value decides "<", and the highest value decides ">".
    bound = groups["low" if operator.startswith("<") else "high"]
    can = pc.or_kleene(bound.is_null(), _COMPARE[operator](bound, key))
    return np.asarray(numpy_of(pc.fill_null(can, FALSE_SCALAR)))


def _is_whole(groups: pa.Table, key: pa.Scalar) -> npt.NDArray[np.bool_]:
    """For each row group, whether a key is surely not between its bounds."""
    outside = pc.or_kleene(pc.less(key, groups["low"]), pc.greater(key, groups["high"]))
    return np.asarray(numpy_of(pc.fill_null(outside, FALSE_SCALAR)))


def _all_of(masks: Iterable[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    return reduce(np.logical_and, masks)


def _hold_any(groups: pa.Table, keys: pa.Array) -> npt.NDArray[np.bool_]:
    """For each row group, whether one of the ascending keys lies between its bounds."""
    if pt.is_integer(keys.type):
        numbers = numpy_of(keys)
        # Only a group of nulls has no bounds.
        lows = numpy_of(pc.fill_null(groups["low"].cast(pa.int64()), scalar(0)))
        highs = numpy_of(pc.fill_null(groups["high"].cast(pa.int64()), scalar(0)))
        first, end = np.searchsorted(numbers, lows), np.searchsorted(numbers, highs, "right")
        found: npt.NDArray[np.bool_] = first < end
        return found
    listed = keys.to_pylist()

    def holds_any(low: Any, high: Any) -> bool:
        at = 0 if low is None else bisect_left(listed, low)
        return at < len(listed) and (high is None or listed[at] <= high)

    bounds = zip(groups["low"].to_pylist(), groups["high"].to_pylist(), strict=True)
    return np.fromiter((holds_any(*each) for each in bounds), np.bool_, len(groups))
