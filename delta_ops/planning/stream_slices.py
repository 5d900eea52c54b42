"""Stream slices: choose the files of a batch after an offset, under limits.

Versions and their files come in order, and each file exactly once under any limits. A slice ends at
the end of the first snapshot, so that later slices depend on commits only. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from delta_ops.errors import DeltaOpsError
from delta_ops.protocol.stream_offset import StreamOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLimits:
    """Maximum size of a slice; None means no limit.

    A file is added as long as neither limit is reached. The last file may therefore exceed the byte
    limit, and a slice is never empty if there is a file.
    """

    max_files: int | None = None
    max_bytes: int | None = None


class StreamVersion(NamedTuple):
    """The properties of a version that decide how a stream reads it."""

    version: int
    num_files: int
    """Number of files to read."""
    sizes_from: Callable[[int], Iterable[int]]
    """Returns the sizes in bytes of the files from a number on, counted from 0, in order."""
    is_whole: bool = False
    """Whether the files must all be in one slice."""
    obstacle: DeltaOpsError | None = None
    """Why this version blocks the stream."""


def end_of_slice(
    start: StreamOffset, versions: Iterable[StreamVersion], limits: SliceLimits
) -> StreamOffset:
    """Return the end of the next batch; equals the start if there is nothing to read.

    Everything before an obstacle is read first.

    Args:
        start: The end of the previous batch.
        versions: Versions from the start's version on, without a gap; read as far as needed.
        limits: The limits of the batch.

    Raises:
        DeltaOpsError: The obstacle, if it is at the start.
    """
    end, left = start, _Left(limits)
    for each in versions:
        if each.obstacle is not None:
            if end == start:
                raise each.obstacle
            return end
        sizes = each.sizes_from(end.index + 1)
        taken = left.take_whole(sizes) if each.is_whole else left.take(sizes)
        if taken < each.num_files - (end.index + 1):
            if taken == 0:
                return end
            return StreamOffset(
                table_id=end.table_id,
                version=each.version,
                index=end.index + taken,
                is_starting_version=end.is_starting_version,
            )
        was_start, end = end.is_starting_version, end.next_version()
        if was_start or left.is_used_up:
            return end
    return end


def files_between(start: StreamOffset, end: StreamOffset, version: int) -> slice:
    """Return the range of a commit's files that a batch reads, by number.

    Args:
        start: The start of the batch.
        end: The end of the batch.
        version: A version from the start's version to the end's.
    """
    is_first = version == start.version and not start.is_starting_version
    is_last = version == end.version
    return slice(start.index + 1 if is_first else 0, end.index + 1 if is_last else None)


def files_of_first_snapshot(start: StreamOffset, end: StreamOffset) -> slice | None:
    """Return the range of files of the first snapshot that a batch reads; None if it reads none."""
    if not start.is_starting_version:
        return None
    return slice(start.index + 1, end.index + 1 if end.is_starting_version else None)


def versions_between(start: StreamOffset, end: StreamOffset) -> range:
    """Return the versions whose commits a batch reads."""
    first = start.version + 1 if start.is_starting_version else start.version
    if end.is_starting_version:
        return range(0)
    return range(first, end.version + (end.index >= 0))


class _Left:
    """Tracks what a slice may still take."""

    def __init__(self, limits: SliceLimits) -> None:
        self.limits, self.files, self.size_bytes = limits, 0, 0

    @property
    def is_used_up(self) -> bool:
        limits = self.limits
        return (limits.max_files is not None and self.files >= limits.max_files) or (
            limits.max_bytes is not None and self.size_bytes >= limits.max_bytes
        )

    def take(self, sizes: Iterable[int]) -> int:
        """Take files in order while they fit; returns their number."""
        taken = 0
        for size in sizes:
            if self.is_used_up:
                break
            self.files, self.size_bytes, taken = self.files + 1, self.size_bytes + size, taken + 1
        return taken

    def take_whole(self, sizes: Iterable[int]) -> int:
        """Take all files; take none if the slice has other files and these do not fit."""
        limits, all_sizes = self.limits, list(sizes)
        files, size_bytes = self.files + len(all_sizes), self.size_bytes + sum(all_sizes)
        is_too_much = (limits.max_files is not None and files > limits.max_files) or (
            limits.max_bytes is not None and size_bytes > limits.max_bytes
        )
        if self.files and is_too_much:
            return 0
        self.files, self.size_bytes = files, size_bytes
        return len(all_sizes)
