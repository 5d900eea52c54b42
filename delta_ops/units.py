"""Units: sizes, durations and numbers in readable form."""

from __future__ import annotations


def size_text(size_bytes: int) -> str:
    """Format bytes: `1.5 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = size_bytes / 1024
    for unit in ("KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def duration_text(duration_ms: float) -> str:
    """Format a duration: `7 days`, `1.5 hours`."""
    for ms, noun in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if duration_ms >= ms:
            number = duration_ms / ms
            count = f"{number:.3g}" if number < 1000 else f"{number:,.0f}"
            return f"{count} {noun}{'' if count == '1' else 's'}"
    return f"{duration_ms / 1000:.3g} seconds"


def count_text(count: int, noun: str) -> str:
    """Format a count with its noun: `1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
