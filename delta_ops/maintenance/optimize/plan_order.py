"""Which files are laid out in an order. Pure.

New files, and those of another order, are put together with each other. Where there is no such file
there is nothing to do, so that runs come to rest.

By one column, laid-out files are rewritten with them where too many would hold the same values;
see `overlaps`. By several columns, and where that would be too much, they are chosen by size: files
that were laid out together are a cube, and cubes that are not much larger than what is new are
rewritten with it. So the cubes of a partition grow by a factor, their number by the logarithm of
the partition's bytes, and a row is written again as many times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance.optimize.cubes import PROVIDER, cube_of
from delta_ops.maintenance.optimize.depth import OrderColumn
from delta_ops.maintenance.optimize.overlaps import (
    choose_overlapping,
    choose_small,
    find_last_in_place,
)
from delta_ops.maintenance.optimize.plan import (
    OptimizePlan,
    age_key,
    small_file_limit,
    split_by_partition,
)
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction import CurveOrder, RewriteGroup

MAX_GROUP_BYTES = 100 << 30
_GROWTH = 2
"""A cube is put together with new files until it has so many times their bytes."""


def plan_order(
    files: Iterable[AddFile],
    order: CurveOrder,
    *,
    target_size_bytes: int,
    min_files: int = 2,
    full: bool = False,
    max_group_bytes: int = MAX_GROUP_BYTES,
    column: OrderColumn | None = None,
) -> OptimizePlan:
    """Choose the files to lay out, a group to a partition.

    Args:
        files: Live files.
        target_size_bytes: About how large files should become.
        min_files: Fewer are not worth a rewrite, unless they are large together.
        full: All files of a partition, unless they are one cube already; of whatever size.
        max_group_bytes: How much is laid out at once; what is left of a partition waits for the
            next run.
        column: What an order by one column goes by; None: laid-out files are chosen by size.

    Raises:
        InvalidRequestError: The target is not positive, or a group may be a single file.
    """
    if target_size_bytes < 1:
        raise InvalidRequestError(f"the target size must be positive, not {target_size_bytes}")
    if min_files < 2:
        raise InvalidRequestError(f"min_files must be at least 2, not {min_files}")
    limit = small_file_limit(target_size_bytes)
    ours = (add for add in files if add.clustering_provider in (None, PROVIDER))
    chosen = (
        _choose(of_partition, order, full, max_group_bytes, limit, column)
        for of_partition in split_by_partition(ours)
    )
    groups = [
        RewriteGroup(
            files=tuple(sorted(files, key=age_key)),
            target_size_bytes=target_size_bytes,
            order=order,
            apart=apart,
        )
        for files, apart in chosen
        if len(files) >= min_files or _size(files) >= (1 if full else limit)
    ]
    return OptimizePlan(
        target_size_bytes=target_size_bytes,
        groups=tuple(sorted(groups, key=lambda group: group.files[0].path)),
        order=order,
    )


class _Chosen(NamedTuple):
    """The files of a partition to lay out."""

    files: Sequence[AddFile]
    apart: Predicate | None = None
    """As `RewriteGroup.apart`."""


def _choose(
    files: Iterable[AddFile],
    order: CurveOrder,
    full: bool,
    max_bytes: int,
    limit: int,
    column: OrderColumn | None,
) -> _Chosen:
    loose: list[AddFile] = []
    cubes: dict[str, list[AddFile]] = {}
    for add in files:
        cube = cube_of(add, order)
        (loose if cube is None else cubes.setdefault(cube, [])).append(add)
    laid_out = [add for cube in cubes.values() for add in cube]
    if full:
        is_done = not loose and len(cubes) == 1
        return _Chosen([] if is_done else [*loose, *laid_out])
    taken: list[AddFile] = []
    size = 0
    for add in sorted(loose, key=age_key):
        if len(taken) > 1 and size + add.size > max_bytes:
            return _Chosen(taken)
        taken.append(add)
        size += add.size
    if not taken or not cubes:
        return _Chosen(taken)
    by_overlap = _choose_by_overlap(taken, laid_out, limit, column) if column else None
    if by_overlap is not None and _size(by_overlap.files) <= max(max_bytes, size):
        return by_overlap
    chosen = choose_cubes({cube: _size(of) for cube, of in cubes.items()}, size, max_bytes)
    return _Chosen([*taken, *(add for cube in chosen for add in cubes[cube])])


def _choose_by_overlap(
    loose: Sequence[AddFile], laid_out: Sequence[AddFile], limit: int, column: OrderColumn
) -> _Chosen | None:
    files = [*laid_out, *loose]
    sizes = np.array([add.size for add in files], np.int64)
    is_rewritten = np.arange(len(files)) >= len(laid_out)
    is_rewritten[choose_small(sizes[: len(laid_out)], limit)] = True
    ranges = column.ranges(files)
    overlapping = choose_overlapping(ranges, sizes, is_rewritten)
    if overlapping is None:
        return None
    is_rewritten[overlapping] = True
    last = find_last_in_place(ranges, ~is_rewritten)
    return _Chosen(
        [files[number] for number in np.flatnonzero(is_rewritten)],
        apart=None if last is None else column.is_beyond(files[last]),
    )


def choose_cubes(
    sizes: Mapping[str, int], loose_bytes: int, max_bytes: int | None = None
) -> list[str]:
    """The cubes of a partition that new files are put together with.

    Args:
        sizes: Bytes of each cube.
        loose_bytes: Bytes of the new files. With more of them, or without a bound, no fewer cubes
            are chosen.
        max_bytes: Bound of all that is rewritten.
    """
    chosen: list[str] = []
    size = loose_bytes
    for cube, of_cube in sorted(sizes.items(), key=itemgetter(1)):
        if of_cube > _GROWTH * size or (max_bytes is not None and size + of_cube > max_bytes):
            break
        chosen.append(cube)
        size += of_cube
    return chosen


def _size(files: Iterable[AddFile]) -> int:
    return sum(add.size for add in files)
