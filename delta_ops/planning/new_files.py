"""New files: plan which changed files are written together to one new file.

A delete, update or merge replaces the files that it changes. Small files of one partition are
replaced together by one new file, so that a change of many small files does not leave as many new
ones. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from delta_ops.protocol.actions import AddFile

_LEAST_SHARE = 4
"""To keep all writers busy, a new file may be smaller than the target by this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file to write."""

    sources: Sequence[AddFile]
    """The files whose rows it gets, in their order; all of one partition."""
    num_bytes: int
    """Approximate size of the rows to write, as they are stored."""

    @property
    def source_bytes(self) -> int:
        """Size of the files to read."""
        return sum(each.size for each in self.sources)


def plan_new_files(
    sources: Iterable[tuple[AddFile, int]], target_bytes: int, num_writers: int
) -> list[NewFile]:
    """Plan the new files.

    No file is cut: a file above the target size gets a new file of its own. Partition values are
    compared as the log has them, since equal values may have different texts.

    Args:
        sources: The changed files, each with the number of bytes to write again.
        target_bytes: The target size of a file.
        num_writers: Number of files that can be written at once.
    """
    by_partition: dict[_Values, list[tuple[AddFile, int]]] = {}
    for file, num_bytes in sources:
        by_partition.setdefault(_values_of(file), []).append((file, num_bytes))
    total = sum(size for files in by_partition.values() for _, size in files)
    share = min(target_bytes, max(total // max(num_writers, 1), target_bytes // _LEAST_SHARE, 1))
    return [new for files in by_partition.values() for new in _cut(files, target_bytes, share)]


def are_one_for_each_partition(planned: Sequence[NewFile]) -> bool:
    """Return whether no two new files belong to the same partition."""
    return len({_values_of(each.sources[0]) for each in planned}) == len(planned)


_Values = frozenset[tuple[str, str | None]]


def _values_of(file: AddFile) -> _Values:
    return frozenset(file.partition_values.items())


def _cut(
    files: Sequence[tuple[AddFile, int]], target_bytes: int, share_bytes: int
) -> Iterable[NewFile]:
    """Cut the files of a partition into runs of about equal size."""
    total = max(1, sum(size for _, size in files))
    num_runs = max(1, -(-total // target_bytes), round(total / share_bytes))
    runs: dict[int, list[tuple[AddFile, int]]] = {}
    start = 0
    for file, size in files:
        middle = start + size // 2
        runs.setdefault(middle * num_runs // total, []).append((file, size))
        start += size
    for run in runs.values():
        yield NewFile(sources=[file for file, _ in run], num_bytes=sum(size for _, size in run))
