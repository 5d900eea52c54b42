"""Byte ranges [start, end) of a file: validates requests and answers."""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.errors import InvalidRequestError, StorageError


def validate_ranges(ranges: Sequence[tuple[int, int]]) -> None:
    """Reject a range that is negative or ends before it starts, by `InvalidRequestError`."""
    for start, end in ranges:
        if not 0 <= start <= end:
            raise InvalidRequestError(
                f"The byte range [{start}, {end}) is invalid because it is negative or ends "
                "before its start. Give offsets from the first byte of the file."
            )


def validate_parts(
    place: str, ranges: Sequence[tuple[int, int]], parts: Sequence[bytes]
) -> list[bytes]:
    """Return `parts` if each is as long as its range; stores cut ranges short without an error.

    Raises:
        StorageError: The file ends before a range does.
    """
    for (start, end), part in zip(ranges, parts, strict=True):
        if len(part) != end - start:
            reason = (
                f"it has {len(part)} bytes in [{start}, {end}); the file is shorter than the log "
                "or its footer says"
            )
            raise StorageError(place, "read", reason)
    return list(parts)
