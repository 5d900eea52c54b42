"""Which files are laid out in an order. Pure.

Files that were laid out together are a cube. New files, and those of another order, are put
together with each other and with the cubes that are not much larger: so the cubes of a partition
grow by a factor, their number by the logarithm of the partition's bytes, and a row is written again
as many times. Where there is no such file there is nothing to do, so that runs come to rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance.optimize.cubes import PROVIDER, cube_of
from delta_ops.maintenance.optimize.plan import (
    OptimizePlan,
    age_key,
    small_file_limit,
    split_by_partition,
)
from delta_ops.protocol.actions import AddFile
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
) -> OptimizePlan:
    """Choose the files to lay out, a group to a partition.

    Args:
        files: Live files.
        target_size_bytes: About how large files should become.
        min_files: Fewer are not worth a rewrite, unless they are large together.
        full: All files of a partition, unless they are one cube already; of whatever size.
        max_group_bytes: How much is laid out at once; what is left of a partition waits for the
            next run.

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
        _choose(of_partition, order, full, max_group_bytes)
        for of_partition in split_by_partition(ours)
    )
    groups = [
        RewriteGroup(
            files=tuple(sorted(group, key=age_key)),
            target_size_bytes=target_size_bytes,
            order=order,
        )
        for group in chosen
        if len(group) >= min_files or _size(group) >= (1 if full else limit)
    ]
    return OptimizePlan(
        target_size_bytes=target_size_bytes,
        groups=tuple(sorted(groups, key=lambda group: group.files[0].path)),
        order=order,
    )


def _choose(
    files: Iterable[AddFile], order: CurveOrder, full: bool, max_bytes: int
) -> list[AddFile]:
    loose: list[AddFile] = []
    cubes: dict[str, list[AddFile]] = {}
    for add in files:
        cube = cube_of(add, order)
        (loose if cube is None else cubes.setdefault(cube, [])).append(add)
    if full:
        is_done = not loose and len(cubes) == 1
        return [] if is_done else [*loose, *(add for cube in cubes.values() for add in cube)]
    taken: list[AddFile] = []
    size = 0
    for add in sorted(loose, key=age_key):
        if len(taken) > 1 and size + add.size > max_bytes:
            return taken
        taken.append(add)
        size += add.size
    for cube_files in sorted(cubes.values(), key=_size) if taken else ():
        of_cube = _size(cube_files)
        if of_cube > _GROWTH * size or size + of_cube > max_bytes:
            break
        taken += cube_files
        size += of_cube
    return taken


def _size(files: Iterable[AddFile]) -> int:
    return sum(add.size for add in files)
