"""Estimates the outcome of a run from its plan, the log and earlier runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.log.history.history import HistoryEntry
from delta_ops.maintenance.optimize.cubes import is_in_cube
from delta_ops.maintenance.optimize.depth import depth_of
from delta_ops.maintenance.optimize.file_columns import FileColumns, load_file_columns
from delta_ops.maintenance.optimize.overlaps import Ints, Ranges
from delta_ops.maintenance.optimize.plan import OptimizePlan, Planned
from delta_ops.maintenance.optimize.plan_runs import depth_of_runs
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of, numpy_of, scalar
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.protocol.stats.file_stats import num_records
from delta_ops.transaction import KeyOrder, RewriteGroup

VERSIONS_LOOKED_AT = 200
_RUNS = 5
_ALIKE = 4
"""Two runs are comparable if the average sizes of their input files differ at most by this factor.
"""
_LATEST = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The expected outcome of a plan."""

    num_files: int
    """Number of files after the run, with the files that outputs are merged with."""
    size_bytes: int
    depth: int | None
    """Clustering depth of the table after the run, with each group as one file.

    None: the plan has no order.
    """
    seconds: float | None
    """Expected duration at the rate of the last runs; None: no run has a rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The kind of a run; runs of the same kind are comparable."""

    operation: str
    is_ordered: bool
    """Whether the runs laid rows out."""
    file_bytes: float
    """Bytes of an input file, on average; combining small files saves the largest share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Output bytes and seconds of the last runs for each byte of live rows."""

    bytes_per_byte: float = 1.0
    seconds_per_byte: float | None = None


class _Figures(NamedTuple):
    """The metrics of a run in the log."""

    files: int
    removed: int
    added: int
    vectors: int
    milliseconds: int


def rates_of(history: Iterable[HistoryEntry], kind: Kind) -> Rates:
    """Compute the rates of the last runs of a kind.

    Args:
        history: The versions to look at, newest first.
    """
    runs = [
        figures
        for entry in history
        if entry.operation == kind.operation and _is_ordered(entry) == kind.is_ordered
        if (figures := _figures(entry)) and _are_alike(figures.removed / figures.files, kind)
    ][:_RUNS]
    # The bytes of files with deletion vectors include an unknown share of deleted rows.
    whole = [run for run in runs if not run.vectors]
    return Rates(
        bytes_per_byte=_ratio((run.added, run.removed) for run in whole) or 1.0,
        seconds_per_byte=_ratio((run.milliseconds / 1000, run.removed) for run in runs),
    )


def estimate(
    snapshot: Snapshot, planned: Planned, operation: str, history: Iterable[HistoryEntry]
) -> Estimate:
    """Estimate the outcome of a plan.

    Args:
        operation: The name of the operation in the history.
    """
    plan = planned.plan
    is_ordered = plan.order is not None
    kind = Kind(
        operation=operation,
        is_ordered=is_ordered,
        file_bytes=plan.size_bytes / plan.num_files,
    )
    rates = rates_of(islice(history, VERSIONS_LOOKED_AT), kind)
    outputs = _outputs(planned, rates)
    per_byte = rates.seconds_per_byte
    return Estimate(
        num_files=sum(each.num_files for each in outputs),
        size_bytes=round(sum(each.size_bytes for each in outputs)),
        depth=depth_after(snapshot, plan) if is_ordered else None,
        seconds=None if per_byte is None else plan.size_bytes * per_byte,
    )


class _Outputs(NamedTuple):
    """The expected output of a group."""

    num_files: int
    size_bytes: float


def _outputs(planned: Planned, rates: Rates) -> list[_Outputs]:
    """The expected outputs of all groups after all rounds."""
    plan, plan_again = planned.plan, planned.plan_again
    if plan_again is None:
        return [_outputs_of(group, rates) for group in plan.groups]
    done: list[_Outputs] = []
    outputs: dict[str, _Outputs] = {}
    loose = {add.path: add for add in planned.candidates or plan.files}
    while plan.has_work:
        for group in plan.groups:
            size = sum(
                outputs.pop(add.path).size_bytes
                if add.path in outputs
                else _expected_bytes(add, rates)
                for add in group.files
            )
            for add in group.files:
                loose.pop(add.path, None)
            if len(group.files) == 1:
                done.append(_outputs_of(group, rates))
                continue
            expected = _placeholder(group, round(size))
            loose[expected.path], outputs[expected.path] = (
                expected,
                _Outputs(1 if size else 0, size),
            )
        plan = plan_again(loose.values())
    return [*done, *outputs.values()]


def _placeholder(group: RewriteGroup, size: int) -> AddFile:
    """A placeholder for the output of a group; sorts after all files by age."""
    path = f"expected/{group.files[0].path}"
    add = replace(group.files[0], path=path, size=size, modification_time=_LATEST)
    return replace(add, stats=None, deletion_vector=None)


def _outputs_of(group: RewriteGroup, rates: Rates) -> _Outputs:
    """The expected output of a group that is not merged again."""
    size = sum(
        # Files that were laid out before will not shrink again.
        _live_bytes(add) if group.order and is_in_cube(add.tags) else _expected_bytes(add, rates)
        for add in group.files
    )
    if not size:
        return _Outputs(0, 0)
    if group.order is None:
        cut = round(group.size_bytes / group.target_size_bytes)
        return _Outputs(max(1, cut) if len(group.files) == 1 else 1, size)
    # The first file is cut by the bytes of the input, the others by the bytes of the output.
    by_input, by_output = (round(n / group.target_size_bytes) for n in (group.size_bytes, size))
    return _Outputs(max(1, by_output, min(by_input, by_output + 1)), size)


def _expected_bytes(add: AddFile, rates: Rates) -> float:
    return _live_bytes(add) * rates.bytes_per_byte


def _live_bytes(add: AddFile) -> float:
    """The bytes of a file in proportion to its live rows."""
    rows = num_records(add.stats)
    if add.deletion_vector is None or not rows:
        return add.size
    return add.size * max(0, rows - add.deletion_vector.cardinality) / rows


def depth_after(snapshot: Snapshot, plan: OptimizePlan) -> int:
    """The expected clustering depth after an ordering plan; each group counts as one file."""
    assert plan.order
    files = load_file_columns(snapshot, plan.order, with_ranges=True)
    paths, groups = [], []
    for number, group in enumerate(plan.groups):
        paths += canonical_texts((add.path for add in group.files), snapshot.uri)
        groups += [number] * len(group.files)
    places = pc.index_in(files.paths, value_set=array_of(paths, pa.string()))
    group_of = numpy_of(array_of(groups, pa.int64()).take(places).fill_null(scalar(-1)))
    merged = _merge_groups(files, group_of)
    return depth_of_runs(merged) if isinstance(plan.order, KeyOrder) else depth_of(merged)


def _merge_groups(files: FileColumns, group_of: Ints) -> FileColumns:
    """Replace each group by one file whose ranges cover all its files.

    Args:
        group_of: The number of each file's group; -1 for a file without a group.
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
    cubes = files.cubes.copy()
    cubes[first_of_each] = -1
    merged = replace(files, ranges=tuple(ranges), cubes=cubes)
    return merged.take(np.flatnonzero(is_counted))


def _is_ordered(entry: HistoryEntry) -> bool:
    columns = (entry.operation_parameters.get(name) for name in ("zOrderBy", "clusterBy", "sortBy"))
    return any(each not in (None, [], "[]") for each in columns)


def _ratio(figures: Iterable[tuple[float, int]]) -> float | None:
    """The sum of the figures per byte; None if there are none, or the sum is 0."""
    total, total_bytes = 0.0, 0
    for figure, size_bytes in figures:
        total += figure
        total_bytes += size_bytes
    return total / total_bytes if total else None


def _are_alike(file_bytes: float, kind: Kind) -> bool:
    return kind.file_bytes / _ALIKE <= file_bytes <= kind.file_bytes * _ALIKE


def _figures(entry: HistoryEntry) -> _Figures | None:
    names = ("numRemovedFiles", "numRemovedBytes", "numAddedBytes", "numDeletionVectorsRemoved")
    try:
        figures = _Figures(*(int(entry.operation_metrics[n]) for n in (*names, "executionTimeMs")))
    except (KeyError, TypeError, ValueError):  # another writer records other metrics
        return None
    return figures if figures.files > 0 and figures.removed > 0 else None
