"""What optimize rewrites: small files of a partition that fit together into one. Pure.

A file is small if it has less than three quarters of the target size: rewriting what is nearly
full gains nothing. Small files are taken in the order of their age and put together as long as they
fit, so that files written together stay together and keep their narrow ranges of values. Each group
therefore becomes one file; a file that fits with no neighbour is left alone. A file that is too
large, where that is asked about, is a group by itself and becomes several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddFile
from delta_ops.transaction import CurveOrder, RewriteGroup

DEFAULT_TARGET_SIZE_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizePlan:
    """Groups of files, each to become one file, or as many as it or its order is cut into."""

    target_size_bytes: int
    groups: tuple[RewriteGroup, ...] = ()
    order: CurveOrder | None = None
    """The order of the rows of each group; None: that in which they are."""

    @property
    def files(self) -> list[AddFile]:
        """The files to be rewritten."""
        return [add for group in self.groups for add in group.files]

    @property
    def num_files(self) -> int:
        """How many files are rewritten."""
        return sum(len(group.files) for group in self.groups)

    @property
    def size_bytes(self) -> int:
        """Bytes to be rewritten."""
        return sum(group.size_bytes for group in self.groups)

    @property
    def has_work(self) -> bool:
        """Whether any files are better put together."""
        return bool(self.groups)

    def fit_groups(self, max_bytes: int | None, table: str, cure: str = "") -> OptimizePlan:
        """The groups that fit into a budget, in their order.

        Args:
            cure: What else there is to do but to raise it.

        Raises:
            InvalidRequestError: There are groups, and none of them fits.
        """
        if max_bytes is None or not self.groups:
            return self
        fitting = self.take_within(max_bytes)
        if not fitting.groups:
            least = min(group.size_bytes for group in self.groups)
            raise InvalidRequestError(
                f"{table}: the budget of {max_bytes} bytes is below that of the smallest group of "
                f"files, {least} bytes; raise it to that{cure}"
            )
        return fitting

    def take_within(self, max_bytes: int) -> OptimizePlan:
        """The groups that fit into a budget, in their order; none if none does."""
        taken: list[RewriteGroup] = []
        left = max_bytes
        for group in self.groups:
            if group.size_bytes <= left:
                taken.append(group)
                left -= group.size_bytes
        return replace(self, groups=tuple(taken))

    def split(self, max_bytes: int) -> tuple[OptimizePlan, OptimizePlan]:
        """The first groups that have so many bytes together, one at least, and the others."""
        taken: list[RewriteGroup] = []
        size = 0
        for group in self.groups:
            size += group.size_bytes
            if taken and size > max_bytes:
                break
            taken.append(group)
        rest = self.groups[len(taken) :]
        return replace(self, groups=tuple(taken)), replace(self, groups=rest)

    def keep_files(self, paths: Collection[str], least: int) -> OptimizePlan:
        """The groups without files of other paths.

        Args:
            least: Groups that have come to fewer files are left out.
        """
        groups = (
            (group, tuple(add for add in group.files if add.path in paths)) for group in self.groups
        )
        kept = (
            replace(group, files=files)
            for group, files in groups
            if len(files) >= min(least, len(group.files))
        )
        return replace(self, groups=tuple(kept))


PlanAgain = Callable[[Iterable[AddFile]], OptimizePlan]
"""Plans over what has come of groups, and the files beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, and what follows it."""

    plan: OptimizePlan
    candidates: Sequence[AddFile] = ()
    """Files that may be put together with what comes of the plan, its own among them."""
    plan_again: PlanAgain | None = None
    """None: what comes of the plan stays as it is."""


def plan_optimize(
    files: Iterable[AddFile],
    *,
    target_size_bytes: int,
    min_files: int = 2,
    min_size_bytes: int | None = None,
    max_size_bytes: int | None = None,
    max_group_bytes: int | None = None,
) -> OptimizePlan:
    """Choose the files to put together, and those to cut.

    Args:
        files: Live files; those that are not small are passed over.
        target_size_bytes: About how large files should become.
        min_files: Fewer are not worth a rewrite.
        min_size_bytes: The size from which on a file is large enough; three quarters of the target
            if None.
        max_size_bytes: Larger files are cut into files of about the target size; none if None.
        max_group_bytes: No more are put together, where that is less than the target.

    Raises:
        InvalidRequestError: The target is not positive, a group may be a single file, or what a
            file is cut into might be too large again.
    """
    validate_arguments(plan_optimize, locals())
    if target_size_bytes < 1:
        raise InvalidRequestError(f"the target size must be positive, not {target_size_bytes}")
    if min_files < 2:
        raise InvalidRequestError(f"min_files must be at least 2, not {min_files}")
    if max_size_bytes is not None and max_size_bytes < 2 * target_size_bytes:
        raise InvalidRequestError(
            f"max_size must be at least twice the target size of {target_size_bytes}, not "
            f"{max_size_bytes}: what a file is cut into is about as large as that"
        )
    limit = small_file_limit(target_size_bytes) if min_size_bytes is None else min_size_bytes
    given = list(files)
    small_files = (add for add in given if add.size < limit)
    groups = [
        RewriteGroup(files=(add,), target_size_bytes=target_size_bytes)
        for add in given
        if max_size_bytes is not None and add.size > max_size_bytes
    ]
    groups += [
        RewriteGroup(files=tuple(group), target_size_bytes=target_size_bytes)
        for small in split_by_partition(small_files)
        for group in pack(small, min(target_size_bytes, max_group_bytes or target_size_bytes))
        if len(group) >= min_files
    ]
    return OptimizePlan(
        target_size_bytes=target_size_bytes,
        groups=tuple(sorted(groups, key=lambda group: group.files[0].path)),
    )


def validate_bounds(*, max_bytes: int | None, commit_bytes: int, min_size: int | None) -> None:
    """Refuse bounds of a run that mean nothing.

    Raises:
        InvalidRequestError: One is too small.
    """
    if max_bytes is not None and max_bytes < 1:
        raise InvalidRequestError(f"the budget must be positive, not {max_bytes} bytes")
    if commit_bytes < 1:
        raise InvalidRequestError(f"commit_bytes must be positive, not {commit_bytes}")
    if min_size is not None and min_size < 0:
        raise InvalidRequestError(f"min_size must be 0 or more, not {min_size}")


def split_by_partition(files: Iterable[AddFile]) -> list[list[AddFile]]:
    """The files of each partition."""
    partitions: dict[frozenset[tuple[str, str | None]], list[AddFile]] = {}
    for add in files:
        partitions.setdefault(frozenset(add.partition_values.items()), []).append(add)
    return list(partitions.values())


def age_key(add: AddFile) -> tuple[int, str]:
    """A key to sort files by, so that neighbours were written about the same time."""
    return add.modification_time, add.path


def small_file_limit(target_size_bytes: int) -> int:
    """The size in bytes from which on a file is large enough."""
    return -(-target_size_bytes * 3 // 4)


def pack(files: Iterable[AddFile], target_size_bytes: int) -> Iterator[list[AddFile]]:
    """Files in the order of their age, as many together as fit; a larger one stands alone."""
    group: list[AddFile] = []
    size = 0
    for add in sorted(files, key=age_key):
        if group and size + add.size > target_size_bytes:
            yield group
            group, size = [], 0
        group.append(add)
        size += add.size
    if group:
        yield group
