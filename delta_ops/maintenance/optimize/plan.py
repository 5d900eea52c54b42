"""Chooses the files that optimize rewrites: small files of a partition that fit together. Pure.

A file is small if it has less than three quarters of the target size: rewriting a nearly full file
gains nothing. Small files are combined in the order of their age as long as they fit, so that files
written together stay together and keep their narrow ranges of values. Each group therefore becomes
one file; a file that fits with no neighbour is skipped. A file larger than `max_size_bytes` is a
group by itself and becomes several files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.transaction import RewriteGroup
from delta_ops.transaction.rewrite_group import RowOrder

Partition = frozenset[tuple[str, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizePlan:
    """Groups of files. Each becomes one file; a large file or an ordered group becomes several."""

    target_size_bytes: int
    groups: tuple[RewriteGroup, ...] = ()
    order: RowOrder | None = None
    """The order of the rows of each group; None: the present order."""

    @property
    def files(self) -> list[AddFile]:
        """The files to rewrite."""
        return [add for group in self.groups for add in group.files]

    @property
    def num_files(self) -> int:
        """How many files are rewritten."""
        return sum(len(group.files) for group in self.groups)

    @property
    def size_bytes(self) -> int:
        """Number of bytes to rewrite."""
        return sum(group.size_bytes for group in self.groups)

    @property
    def has_work(self) -> bool:
        """Whether there are files to rewrite."""
        return bool(self.groups)

    def fit_groups(self, max_bytes: int | None, table: str, cure: str = "") -> OptimizePlan:
        """The groups that fit into a budget, in their order.

        Args:
            cure: Text for the error: what to do instead of raising the budget.

        Raises:
            InvalidRequestError: There are groups, and none of them fits.
        """
        if max_bytes is None or not self.groups:
            return self
        fitting = self.take_within(max_bytes)
        if not fitting.groups:
            least = min(group.size_bytes for group in self.groups)
            raise InvalidRequestError(
                f"{table}: the budget of {max_bytes} bytes is less than the smallest group of "
                f"files, {least} bytes; raise it to that size{cure}"
            )
        return fitting

    def take_within(self, max_bytes: int) -> OptimizePlan:
        """The groups that fit into a budget, in their order; none if no group fits."""
        taken: list[RewriteGroup] = []
        left = max_bytes
        for group in self.groups:
            if group.size_bytes <= left:
                taken.append(group)
                left -= group.size_bytes
        return replace(self, groups=tuple(taken))

    def split(self, max_bytes: int) -> tuple[OptimizePlan, OptimizePlan]:
        """Split off the first groups with at most this many bytes in total, at least one group."""
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
        """The plan with only the files of these paths.

        Args:
            least: Groups that are left with fewer files are dropped.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAgain:
    """Plans again over the outputs of groups and the remaining files; see `plan_optimize`."""

    target_size_bytes: int
    min_files: int = 2
    min_size_bytes: int | None = None

    def __call__(self, files: Iterable[AddFile], bytes_per_byte: float = 1.0) -> OptimizePlan:
        """Choose the files to combine.

        Args:
            bytes_per_byte: Expected bytes of output per byte of input.
        """
        return plan_optimize(
            files,
            target_size_bytes=self.target_size_bytes,
            min_files=self.min_files,
            min_size_bytes=self.min_size_bytes,
            bytes_per_byte=bytes_per_byte,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, and how to plan again on its outputs."""

    plan: OptimizePlan
    candidates: Sequence[AddFile] = ()
    """Files that may be combined with outputs of the plan; includes the files of the plan."""
    plan_again: PlanAgain | None = None
    """None: outputs of the plan are final."""


def plan_optimize(
    files: Iterable[AddFile],
    *,
    target_size_bytes: int,
    min_files: int = 2,
    min_size_bytes: int | None = None,
    max_size_bytes: int | None = None,
    max_group_bytes: int | None = None,
    bytes_per_byte: float = 1.0,
) -> OptimizePlan:
    """Choose the files to combine, and files to cut.

    Args:
        files: Live files; files that are not small are skipped.
        target_size_bytes: The approximate size of new files.
        min_files: Smaller groups are skipped.
        min_size_bytes: Files of at least this size are large enough; three quarters of the target
            if None.
        max_size_bytes: Larger files are cut into files of about the target size; none if None.
        max_group_bytes: The most bytes of a group, if less than the target.
        bytes_per_byte: Expected bytes of output per byte of input. Files that another writer
            compressed less need more input for an output of the target size.

    Raises:
        InvalidRequestError: The target is not positive, `min_files` is less than 2, or the pieces
            of a cut file might be too large again.

    Examples:
        >>> _ = da.write("lake/orders", da.to_table("lake/orders"))
        >>> files = DeltaLog("lake/orders").snapshot().add_files()
        >>> [len(group.files) for group in plan_optimize(files, target_size_bytes=1 << 27).groups]
        [2]
    """
    validate_arguments(plan_optimize, locals())
    if target_size_bytes < 1:
        raise InvalidRequestError(f"the target size must be positive, not {target_size_bytes}")
    if min_files < 2:
        raise InvalidRequestError(f"{option('min_files')} must be at least 2, not {min_files}")
    if max_size_bytes is not None and max_size_bytes < 2 * target_size_bytes:
        raise InvalidRequestError(
            f"{option('max_size')} must be at least twice the target size of {target_size_bytes}, "
            f"not {max_size_bytes}: files are split into pieces of about the target size"
        )
    limit = small_file_limit(target_size_bytes) if min_size_bytes is None else min_size_bytes
    adds = list(files)
    input_bytes = round(target_size_bytes / bytes_per_byte)
    small_files = (add for add in adds if add.size < limit)
    groups = [
        RewriteGroup(files=(add,), target_size_bytes=target_size_bytes)
        for add in adds
        if max_size_bytes is not None and add.size > max_size_bytes
    ]
    groups += [
        RewriteGroup(files=tuple(group), target_size_bytes=input_bytes)
        for small in split_by_partition(small_files)
        for group in pack(small, min(input_bytes, max_group_bytes or input_bytes))
        if len(group) >= min_files
    ]
    return OptimizePlan(
        target_size_bytes=target_size_bytes,
        groups=tuple(sorted(groups, key=lambda group: group.files[0].path)),
    )


def validate_bounds(*, max_bytes: int | None, commit_bytes: int, min_size: int | None) -> None:
    """Reject invalid bounds of a run.

    Raises:
        InvalidRequestError: A bound is too small.
    """
    if max_bytes is not None and max_bytes < 1:
        raise InvalidRequestError(f"the budget must be positive, not {max_bytes} bytes")
    if commit_bytes < 1:
        raise InvalidRequestError(f"{option('commit_bytes')} must be positive, not {commit_bytes}")
    if min_size is not None and min_size < 0:
        raise InvalidRequestError(f"{option('min_size')} must be 0 or more, not {min_size}")


def split_by_partition(files: Iterable[AddFile]) -> list[list[AddFile]]:
    """The files of each partition."""
    partitions: dict[Partition, list[AddFile]] = {}
    for add in files:
        partitions.setdefault(partition_of(add), []).append(add)
    return list(partitions.values())


def partition_of(add: AddFile) -> Partition:
    """The partition of a file."""
    return frozenset(add.partition_values.items())


def age_key(add: AddFile) -> tuple[int, str]:
    """A sort key by modification time, so that files written together are neighbours."""
    return add.modification_time, add.path


def small_file_limit(target_size_bytes: int) -> int:
    """The default limit for small files, in bytes: 3/4 of the target size."""
    return -(-target_size_bytes * 3 // 4)


def pack(files: Iterable[AddFile], target_size_bytes: int) -> Iterator[list[AddFile]]:
    """Group files by age, as many as fit; a larger file is a group by itself."""
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
