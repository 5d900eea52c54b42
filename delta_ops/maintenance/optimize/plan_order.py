"""Chooses the files to lay out in an order. Pure.

New files, and files of another order, are combined with each other. If there is no such file there
is nothing to do, so that repeated runs end.

With one column, laid-out files are rewritten too if too many files would hold the same values; see
`overlaps`. With several columns, or if that would be too much, laid-out files are chosen by size.
Files that were laid out together are a cube, and cubes that are not much larger than the new files
are rewritten with them. So the cubes of a partition grow by a factor. Their number, and the number
of rewrites of a row, is the logarithm of the partition's bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.maintenance.optimize.file_columns import (
    FileColumns,
    axes_of,
    has_loose_files,
    load_file_columns,
)
from delta_ops.maintenance.optimize.overlaps import (
    Ints,
    Ranges,
    choose_overlapping,
    choose_small,
    find_last_in_place,
)
from delta_ops.maintenance.optimize.plan import OptimizePlan, age_key, small_file_limit
from delta_ops.maintenance.optimize.small_files import own_files_by_path, validate_predicate
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of
from delta_ops.protocol.predicate import Comparison, Predicate
from delta_ops.protocol.stats.file_bounds import upper_bound
from delta_ops.protocol.stats.file_stats import FileStats, parse_stats
from delta_ops.transaction import CurveOrder, RewriteGroup

MAX_GROUP_BYTES = 100 << 30
_GROWTH = 2
"""A cube is combined with new files until it has this many times their bytes."""
_NONE: Ints = np.array([], np.int64)


def plan_order(
    snapshot: Snapshot,
    order: CurveOrder,
    *,
    target_size_bytes: int,
    predicate: Predicate | None = None,
    min_files: int = 2,
    full: bool = False,
    max_group_bytes: int = MAX_GROUP_BYTES,
) -> OptimizePlan:
    """Choose the files to lay out, one group per partition.

    Args:
        target_size_bytes: The approximate size of new files.
        predicate: Only these partitions.
        min_files: Smaller groups are skipped, unless they are large in total.
        full: All files of a partition at any size, unless they are one cube already.
        max_group_bytes: The most bytes to lay out at once; the rest of a partition waits for the
            next run.

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
    if not full and not has_loose_files(snapshot, order):
        return OptimizePlan(target_size_bytes=target_size_bytes, order=order)
    limit = small_file_limit(target_size_bytes)
    by_overlap = not full and len(order.columns) == 1
    files = load_file_columns(snapshot, order, predicate, with_ranges=by_overlap)
    least_bytes = 1 if full else limit
    chosen = [
        each
        for each in choose_files(files, limit=limit, full=full, max_group_bytes=max_group_bytes)
        if len(each.files) >= min_files or _size(files, each.files) >= least_bytes
    ]
    groups = _load_groups(snapshot, order, files, chosen, target_size_bytes)
    return OptimizePlan(
        target_size_bytes=target_size_bytes,
        groups=tuple(sorted(groups, key=lambda group: group.files[0].path)),
        order=order,
    )


class Chosen(NamedTuple):
    """The files of a partition to lay out, as positions in `FileColumns`."""

    files: Ints
    last_in_place: Ints = _NONE
    """Rows beyond this file, if there is one, are kept apart, as by `RewriteGroup.separate`."""


def choose_files(
    files: FileColumns, *, limit: int, full: bool = False, max_group_bytes: int = MAX_GROUP_BYTES
) -> list[Chosen]:
    """Choose files for `plan_order` in each partition; an entry of the result may be empty.

    Args:
        files: If they have ranges (for one column), the choice follows overlaps.
        limit: Files of at least this many bytes are large enough.
    """
    return [
        _choose(files, numbers[~files.is_foreign[numbers]], limit, full, max_group_bytes)
        for numbers in files.group_by_partition()
    ]


def _choose(files: FileColumns, ours: Ints, limit: int, full: bool, max_bytes: int) -> Chosen:
    is_loose = files.cubes[ours] < 0
    loose, laid_out = ours[is_loose], ours[~is_loose]
    cubes, cube_of = np.unique(files.cubes[laid_out], return_inverse=True)
    if full:
        is_done = not len(loose) and len(cubes) == 1
        return Chosen(_NONE if is_done else ours)
    taken = _take_oldest(files, loose, max_bytes)
    if len(taken) < len(loose) or not len(taken) or not len(laid_out):
        return Chosen(taken)
    size = _size(files, taken)
    by_overlap = _choose_by_overlap(files, taken, laid_out, limit) if files.ranges else None
    if by_overlap is not None and _size(files, by_overlap.files) <= max(max_bytes, size):
        return by_overlap
    cube_sizes = np.zeros(len(cubes), np.int64)
    np.add.at(cube_sizes, cube_of, files.sizes[laid_out])
    chosen = _choose_cubes(cube_sizes, size, max_bytes)
    return Chosen(np.concatenate([taken, laid_out[np.isin(cube_of, chosen)]]))


def _take_oldest(files: FileColumns, numbers: Ints, max_bytes: int) -> Ints:
    """The oldest files that fit; at least two, if there are two."""
    if _size(files, numbers) <= max_bytes:
        return numbers
    keys = pa.table(
        {"time": array_of(files.times[numbers]), "path": files.paths.take(array_of(numbers))}
    )
    by_age: Ints = numbers[pc.sort_indices(keys, [("time", "ascending"), ("path", "ascending")])]
    num_fitting = int(np.searchsorted(np.cumsum(files.sizes[by_age]), max_bytes, "right"))
    return by_age[: max(num_fitting, 2)]


def _choose_by_overlap(
    files: FileColumns, loose: Ints, laid_out: Ints, limit: int
) -> Chosen | None:
    numbers = np.concatenate([laid_out, loose])
    sizes = files.sizes[numbers]
    is_rewritten = np.arange(len(numbers)) >= len(laid_out)
    is_rewritten[choose_small(sizes[: len(laid_out)], limit)] = True
    ranges = _ranges_among(files, numbers)
    overlapping = choose_overlapping(ranges, sizes, is_rewritten)
    if overlapping is None:
        return None
    is_rewritten[overlapping] = True
    last = find_last_in_place(ranges, ~is_rewritten)
    return Chosen(numbers[is_rewritten], _NONE if last is None else numbers[[last]])


def _ranges_among(files: FileColumns, numbers: Ints) -> Ranges:
    """The ranges of some files, as ranks among these files."""
    (of_all,) = files.ranges
    ends = np.concatenate([of_all.lows[numbers], of_all.highs[numbers]])
    if len(numbers) < len(of_all.lows):
        _, ends = np.unique(ends, return_inverse=True)
    return Ranges(*np.split(ends, 2))


def _choose_cubes(sizes: Ints, loose_bytes: int, max_bytes: int) -> list[int]:
    """The cubes of a partition to combine with new files.

    Args:
        sizes: Bytes of each cube.
        loose_bytes: Bytes of the new files.
        max_bytes: The most bytes to rewrite in total.
    """
    chosen: list[int] = []
    size = loose_bytes
    for cube in np.argsort(sizes, kind="stable"):
        if sizes[cube] > _GROWTH * size or size + sizes[cube] > max_bytes:
            break
        chosen.append(int(cube))
        size += int(sizes[cube])
    return chosen


def _load_groups(
    snapshot: Snapshot,
    order: CurveOrder,
    files: FileColumns,
    chosen: Sequence[Chosen],
    target_size_bytes: int,
) -> list[RewriteGroup]:
    """Load the complete add actions of the chosen files into groups."""
    if not chosen:
        return []
    wanted = np.concatenate([numbers for each in chosen for numbers in each])
    by_path = own_files_by_path(snapshot, files.paths.take(array_of(wanted)))

    def adds_of(numbers: Ints) -> list[AddFile]:
        # A checkpoint may name a file twice, but its rows exist once.
        paths = dict.fromkeys(files.paths.take(array_of(numbers)).to_pylist())
        return [by_path[path] for path in paths]

    return [
        RewriteGroup(
            files=tuple(sorted(adds_of(each.files), key=age_key)),
            target_size_bytes=target_size_bytes,
            order=order,
            separate=_beyond(snapshot, order, adds_of(each.last_in_place)),
        )
        for each in chosen
    ]


def _beyond(snapshot: Snapshot, order: CurveOrder, last: Sequence[AddFile]) -> Predicate | None:
    """A predicate for rows above all values of a file; None without a file or bound."""
    for add in last:
        ((stored, data_type),) = axes_of(snapshot, order).items()
        bound = upper_bound(parse_stats(add.stats) or FileStats(), stored, data_type)
        if bound is not None:
            return Comparison(order.columns[0], ">", bound)
    return None


def _size(files: FileColumns, numbers: Ints) -> int:
    return int(files.sizes[numbers].sum())
