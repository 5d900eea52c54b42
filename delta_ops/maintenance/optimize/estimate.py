"""What a run would come to, told by a dry run: by its plan, the log and the runs before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.log.history import HistoryEntry
from delta_ops.maintenance.optimize.depth import depth_of
from delta_ops.maintenance.optimize.file_columns import FileColumns, load_file_columns
from delta_ops.maintenance.optimize.overlaps import Ints, Ranges
from delta_ops.maintenance.optimize.plan import OptimizePlan
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.transaction import RewriteGroup

VERSIONS_LOOKED_AT = 200
_RUNS = 5
_OPERATIONS = ("OPTIMIZE", "REORG")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What is expected of a plan."""

    num_files: int
    """Files that the groups become."""
    size_bytes: int
    depth: int | None
    """Clustering depth of the table afterwards, the files of a group taken as one; None: the plan
    has no order."""
    seconds: float | None
    """By the rate of the last runs; None: none of them tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What the last runs made of a byte."""

    bytes_per_byte: float = 1.0
    seconds_per_byte: float | None = None


def rates_of(history: Iterable[HistoryEntry], *, is_ordered: bool) -> Rates:
    """The rates of the last runs that laid rows out, or of those that did not.

    Args:
        history: Newest first; as many versions as shall be looked at.
    """
    runs = [
        figures
        for entry in history
        if entry.operation in _OPERATIONS and _is_ordered(entry) == is_ordered
        if (figures := _figures(entry))
    ][:_RUNS]
    removed, added, milliseconds = map(sum, zip(*runs, strict=True)) if runs else (0, 0, 0)
    if not removed:
        return Rates()
    return Rates(
        bytes_per_byte=added / removed, seconds_per_byte=milliseconds / 1000 / removed or None
    )


def estimate(snapshot: Snapshot, plan: OptimizePlan, history: Iterable[HistoryEntry]) -> Estimate:
    """What a plan is expected to come to."""
    looked_at = islice(history, VERSIONS_LOOKED_AT)
    rates = rates_of(looked_at, is_ordered=plan.order is not None)
    per_byte = rates.seconds_per_byte
    return Estimate(
        num_files=sum(_num_files(group, rates) for group in plan.groups),
        size_bytes=round(plan.size_bytes * rates.bytes_per_byte),
        depth=None if plan.order is None else _depth_after(snapshot, plan),
        seconds=None if per_byte is None else plan.size_bytes * per_byte,
    )


def _num_files(group: RewriteGroup, rates: Rates) -> int:
    if group.order is None and len(group.files) > 1:
        return 1
    return max(1, round(group.size_bytes * rates.bytes_per_byte / group.target_size_bytes))


def _depth_after(snapshot: Snapshot, plan: OptimizePlan) -> int:
    assert plan.order
    files = load_file_columns(snapshot, plan.order, with_ranges=True)
    paths, groups = [], []
    for number, group in enumerate(plan.groups):
        paths += canonical_texts((add.path for add in group.files), snapshot.uri)
        groups += [number] * len(group.files)
    places = pc.index_in(files.paths, value_set=pa.array(paths, pa.string()))
    group_of = pa.array(groups, pa.int64()).take(places).fill_null(-1).to_numpy()
    return depth_of(_put_together(files, group_of))


def _put_together(files: FileColumns, group_of: Ints) -> FileColumns:
    """Each group as one file that reaches as far as its files together.

    Args:
        group_of: By file, from 0; -1: it is in none.
    """
    grouped = np.flatnonzero(group_of >= 0)
    _, firsts, group = np.unique(group_of[grouped], return_index=True, return_inverse=True)
    first_of_each = grouped[firsts]

    def hull(values: Ints, outermost: np.ufunc) -> Ints:
        reached = values[first_of_each]
        outermost.at(reached, group, values[grouped])
        together = values.copy()
        together[first_of_each] = reached
        return together

    ranges = [Ranges(hull(r.lows, np.minimum), hull(r.highs, np.maximum)) for r in files.ranges]
    is_counted = group_of < 0
    is_counted[first_of_each] = True
    return replace(files, ranges=tuple(ranges)).take(np.flatnonzero(is_counted))


def _is_ordered(entry: HistoryEntry) -> bool:
    columns = (entry.operation_parameters.get(name) for name in ("zOrderBy", "clusterBy"))
    return any(each not in (None, [], "[]") for each in columns)


def _figures(entry: HistoryEntry) -> tuple[int, int, int] | None:
    names = ("numRemovedBytes", "numAddedBytes", "executionTimeMs")
    try:
        removed, added, milliseconds = (int(entry.operation_metrics[name]) for name in names)
    except (KeyError, TypeError, ValueError):  # another writer tells other things
        return None
    return removed, added, milliseconds
