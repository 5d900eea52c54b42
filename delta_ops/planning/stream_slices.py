"""Stream slices: which files of which versions belong to a batch after an offset, under limits.

Versions come in their order, and files in theirs, each once whatever the limits are. A slice ends
where the first snapshot ends, so that what comes after it is told by commits alone. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from delta_ops.errors import DeltaOpsError
from delta_ops.protocol.stream_offset import StreamOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLimits:
    """How much a slice holds at most; None: any number.

    A file is taken as long as neither limit is reached, so that the last one may go beyond the
    limit of bytes, and a slice has a file wherever there is one.
    """

    max_files: int | None = None
    max_bytes: int | None = None


class StreamVersion(NamedTuple):
    """What a stream sees of a version."""

    version: int
    num_files: int
    """How many files it gives."""
    sizes_from: Callable[[int], Iterable[int]]
    """Bytes of each file from one on, by its number from 0, in order."""
    is_whole: bool = False
    """Whether its files are read together or not at all."""
    obstacle: DeltaOpsError | None = None
    """Why the stream cannot go on with this version."""


def end_of_slice(
    start: StreamOffset, versions: Iterable[StreamVersion], limits: SliceLimits
) -> StreamOffset:
    """The place up to which the next batch reads; the start where there is nothing to read.

    What stands before an obstacle is read first.

    Args:
        start: Where the batch before it ended.
        versions: From the start's version on, without a hole; taken as far as they are needed.
        limits: What it may hold.

    Raises:
        DeltaOpsError: The obstacle that stands at the start.
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
    """Which files of a version's commit a batch reads, by their numbers.

    Args:
        start: Where the batch begins.
        end: Where it ends.
        version: From the start's to the end's.
    """
    is_first = version == start.version and not start.is_starting_version
    is_last = version == end.version
    return slice(start.index + 1 if is_first else 0, end.index + 1 if is_last else None)


def files_of_first_snapshot(start: StreamOffset, end: StreamOffset) -> slice | None:
    """Which files of the first snapshot a batch reads; None: no snapshot at all."""
    if not start.is_starting_version:
        return None
    return slice(start.index + 1, end.index + 1 if end.is_starting_version else None)


def versions_between(start: StreamOffset, end: StreamOffset) -> range:
    """The versions whose commits a batch reads."""
    first = start.version + 1 if start.is_starting_version else start.version
    if end.is_starting_version:
        return range(0)
    return range(first, end.version + (end.index >= 0))


class _Left:
    """What a slice may still take."""

    def __init__(self, limits: SliceLimits) -> None:
        self.limits, self.files, self.size_bytes = limits, 0, 0

    @property
    def is_used_up(self) -> bool:
        limits = self.limits
        return (limits.max_files is not None and self.files >= limits.max_files) or (
            limits.max_bytes is not None and self.size_bytes >= limits.max_bytes
        )

    def take(self, sizes: Iterable[int]) -> int:
        """How many of the files fit, in order."""
        taken = 0
        for size in sizes:
            if self.is_used_up:
                break
            self.files, self.size_bytes, taken = self.files + 1, self.size_bytes + size, taken + 1
        return taken

    def take_whole(self, sizes: Iterable[int]) -> int:
        """All files or none: none if others were taken before, and these do not fit."""
        limits, all_sizes = self.limits, list(sizes)
        files, size_bytes = self.files + len(all_sizes), self.size_bytes + sum(all_sizes)
        is_too_much = (limits.max_files is not None and files > limits.max_files) or (
            limits.max_bytes is not None and size_bytes > limits.max_bytes
        )
        if self.files and is_too_much:
            return 0
        self.files, self.size_bytes = files, size_bytes
        return len(all_sizes)
