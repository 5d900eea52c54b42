"""Plans the merges of a table with a sort key; `sorted_runs` chooses the files of a partition."""

from __future__ import annotations

import numpy as np

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.maintenance.optimize.file_columns import FileColumns, load_file_columns
from delta_ops.maintenance.optimize.overlaps import Ints
from delta_ops.maintenance.optimize.plan import OptimizePlan, age_key, small_file_limit
from delta_ops.maintenance.optimize.small_files import own_files_by_path, validate_predicate
from delta_ops.maintenance.optimize.sorted_runs import (
    Budget,
    MergeLimits,
    RunFiles,
    choose_merges,
    run_depth,
)
from delta_ops.option_words import option
from delta_ops.protocol.arrow_values import array_of
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.sort_key import sort_columns
from delta_ops.transaction import KeyOrder, RewriteGroup


def key_order(snapshot: Snapshot) -> KeyOrder | None:
    """The order by the sort key; None if the table has none."""
    columns = sort_columns(snapshot.definition)
    return KeyOrder(columns=tuple((each.name,) for each in columns)) if columns else None


def plan_runs(
    snapshot: Snapshot,
    order: KeyOrder,
    *,
    target_size_bytes: int,
    predicate: Predicate | None = None,
    min_files: int = 2,
    min_size_bytes: int | None = None,
    full: bool = False,
    max_bytes: int | None = None,
) -> OptimizePlan:
    """Choose the files to merge.

    Args:
        target_size_bytes: The approximate size of new files.
        predicate: Only these partitions.
        min_files: Merges of fewer files are left out.
        min_size_bytes: Files of at least this size are large enough; three quarters of the target
            if None.
        full: All files of each partition, unless they are one run already.
        max_bytes: The most bytes to merge.

    Raises:
        InvalidRequestError: The target is not positive, `min_files` is less than 2, or the
            predicate uses a column that is no partition column.
    """
    if target_size_bytes < 1:
        raise InvalidRequestError(f"the target size must be positive, not {target_size_bytes}")
    if min_files < 2:
        raise InvalidRequestError(f"{option('min_files')} must be at least 2, not {min_files}")
    if predicate is not None:
        validate_predicate(predicate, snapshot)
    limits = MergeLimits(
        target_size_bytes=target_size_bytes,
        small_bytes=small_file_limit(target_size_bytes)
        if min_size_bytes is None
        else min_size_bytes,
        min_files=min_files,
    )
    files = load_file_columns(snapshot, order, predicate, with_ranges=True)
    partitions = files.group_by_partition()
    if full:
        chosen = [numbers for numbers in partitions if _is_unsorted(files, numbers)]
    else:
        chosen = _choose(files, partitions, limits, Budget(max_bytes))
    if not chosen:
        return OptimizePlan(target_size_bytes=target_size_bytes, order=order)
    paths = own_files_by_path(snapshot, files.paths.take(array_of(np.concatenate(chosen))))
    groups = [
        RewriteGroup(
            # A checkpoint may name a file twice, but its rows exist once.
            files=tuple(
                sorted(
                    (
                        paths[path]
                        for path in dict.fromkeys(files.paths.take(array_of(each)).to_pylist())
                    ),
                    key=age_key,
                )
            ),
            target_size_bytes=target_size_bytes,
            order=order,
        )
        for each in chosen
    ]
    return OptimizePlan(target_size_bytes=target_size_bytes, groups=tuple(groups), order=order)


def depth_of_runs(files: FileColumns) -> int:
    """The most sorted runs of a partition that may hold one key.

    Args:
        files: Loaded with ranges, for the sort key.
    """
    partitions = files.group_by_partition()
    return max((run_depth(_run_files(files, each)) for each in partitions), default=0)


def _choose(
    files: FileColumns, partitions: list[Ints], limits: MergeLimits, budget: Budget
) -> list[Ints]:
    """The files of each merge; the deepest partitions first, if there is a budget."""
    if budget.left_bytes is not None:
        depths = [run_depth(_run_files(files, each)) for each in partitions]
        order = sorted(range(len(partitions)), key=lambda each: -depths[each])
        partitions = [partitions[each] for each in order]
    return [
        numbers[merge]
        for numbers in partitions
        for merge in choose_merges(_run_files(files, numbers), limits, budget)
    ]


def _is_unsorted(files: FileColumns, numbers: Ints) -> bool:
    runs = files.cubes[numbers]
    return len(numbers) > 1 and (bool((runs < 0).any()) or len(np.unique(runs)) > 1)


def _run_files(files: FileColumns, numbers: Ints) -> RunFiles:
    (ranges,) = files.ranges
    ends = np.concatenate([ranges.lows[numbers], ranges.highs[numbers]])
    if len(numbers) < len(ranges.lows):
        _, ends = np.unique(ends, return_inverse=True)
    lows, highs = np.split(ends, 2)
    return RunFiles(
        ranges=ranges._replace(lows=lows, highs=highs),
        runs=files.cubes[numbers],
        sizes=files.sizes[numbers],
    )
