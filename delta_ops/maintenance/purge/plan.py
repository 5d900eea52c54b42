"""Chooses the files that a purge rewrites. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance.optimize.plan import OptimizePlan, pack, split_by_partition
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.stats.file_stats import num_records
from delta_ops.transaction import KeyOrder, RewriteGroup


def plan_purge(
    files: Iterable[AddFile],
    *,
    target_size_bytes: int,
    deleted_share: float | None = 0.0,
    lacking_statistics: bool = False,
    otherwise: Collection[str] = (),
    max_group_bytes: int | None = None,
    order: KeyOrder | None = None,
) -> OptimizePlan:
    """Choose the files to rewrite and group files that fit into one new file. Pure.

    Args:
        otherwise: Paths of files to rewrite for other reasons.
        max_group_bytes: As for `plan_optimize`.
        order: The order of the rows of each new file. Files are then rewritten one by one, because
            a file of several files would overlap more files.

    Raises:
        InvalidRequestError: The target is not positive.

    Examples:
        >>> files = DeltaLog("lake/orders").snapshot().add_files()
        >>> plan_purge(files, target_size_bytes=1 << 27).groups  # no file has deleted rows
        ()
    """
    validate_arguments(plan_purge, locals())
    if target_size_bytes < 1:
        raise InvalidRequestError(f"the target size must be positive, not {target_size_bytes}")

    def is_chosen(add: AddFile) -> bool:
        if add.path in otherwise:
            return True
        rows = num_records(add.stats)
        if rows is None and lacking_statistics:
            return True
        if deleted_share is None:
            return False
        if rows is None:
            return add.deletion_vector is not None
        deleted = add.deletion_vector.cardinality if add.deletion_vector else 0
        return deleted > 0 and deleted >= deleted_share * rows

    chosen = filter(is_chosen, files)
    packed = (
        ((add,) for add in chosen)
        if order is not None
        else (
            tuple(group)
            for of_partition in split_by_partition(chosen)
            for group in pack(
                of_partition, min(target_size_bytes, max_group_bytes or target_size_bytes)
            )
        )
    )
    groups = (
        RewriteGroup(files=group, target_size_bytes=target_size_bytes, order=order)
        for group in packed
    )
    return OptimizePlan(
        target_size_bytes=target_size_bytes,
        groups=tuple(sorted(groups, key=lambda group: group.files[0].path)),
    )
