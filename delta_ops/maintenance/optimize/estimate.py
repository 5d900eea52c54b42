"""What a run would come to, told by a dry run: by its plan, the log and the runs before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from delta_ops.log import Snapshot
from delta_ops.log.history import HistoryEntry
from delta_ops.maintenance.optimize.depth import Box, axes_of, boxes_of, max_depth
from delta_ops.maintenance.optimize.plan import OptimizePlan, split_by_partition
from delta_ops.maintenance.optimize.small_files import own_files
from delta_ops.protocol.actions import AddFile
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
    axes = axes_of(snapshot, plan.order)
    group_of = {add.path: at for at, group in enumerate(plan.groups) for add in group.files}

    def depth(files: Sequence[AddFile]) -> int:
        boxes: list[Box] = []
        rewritten: dict[int, list[Box]] = {}
        for add, box in zip(files, boxes_of(files, axes), strict=True):
            group = group_of.get(add.path)
            (boxes if group is None else rewritten.setdefault(group, [])).append(box)
        return max_depth([*boxes, *map(_hull, rewritten.values())])

    return max(map(depth, split_by_partition(own_files(snapshot))), default=0)


def _hull(boxes: Sequence[Box]) -> Box:
    return [
        (_outermost(min, [low for low, _ in axis]), _outermost(max, [high for _, high in axis]))
        for axis in zip(*boxes, strict=True)
    ]


def _outermost(choose: Any, bounds: Sequence[Any]) -> Any:
    return None if any(bound is None for bound in bounds) else choose(bounds)


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
