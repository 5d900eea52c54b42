"""Finding texts: the findings of a health report in words, with figures and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from delta_ops.clock import DAY_MS, HOUR_MS
from delta_ops.maintenance.thresholds import Finding, Measure
from delta_ops.units import count_text, size_text


def finding_text(finding: Finding) -> str:
    """The figure of a finding and its limit.

    Example: `36 commits since the last checkpoint, limit 10`.
    """
    return _TEXTS[finding.measure](finding.value, finding.threshold)


def _count_text(noun: str, after: str = "") -> Callable[[Any, Any], str]:
    return lambda value, limit: f"{count_text(value, noun)}{after}, limit {limit:,}"


def _list_text(noun: str, after: str = "") -> Callable[[Any, Any], str]:
    return lambda values, _: (
        f"{noun if len(values) == 1 else f'{noun}s'} {', '.join(values)}{after}"
    )


def _time_text(ms: float) -> str:
    if ms >= DAY_MS:
        return f"{ms / DAY_MS:,.3g} days"
    return f"{ms / HOUR_MS:.3g} hours"


_TEXTS: Mapping[Measure, Callable[[Any, Any], str]] = {
    "small_files": _count_text("small file"),
    "commits_since_checkpoint": _count_text("commit", " since the last checkpoint"),
    "commit_bytes_since_checkpoint": lambda value, limit: (
        f"{size_text(value)} of commits since the last checkpoint, limit {size_text(limit)}"
    ),
    "expired_tombstones": _count_text("removed file", " past the retention"),
    "expired_log_files": _count_text("log file", " past the retention"),
    "incomplete_checkpoints": _count_text("file", " of incomplete checkpoints"),
    "deleted_rows": lambda value, limit: f"{value:.3g} of all rows are deleted, limit {limit:g}",
    "partition_skew": lambda value, limit: (
        f"the largest partition has {value:.3g} times the mean size, limit {limit:g}"
    ),
    "file_size_skew": lambda value, limit: (
        f"the largest file has {value:.3g} times the target size, limit {limit:g}"
    ),
    "stats_coverage": lambda value, limit: (
        f"{value:.3g} of the files have statistics, required {limit:g}"
    ),
    "clustering_depth": _count_text("file", " may hold the same clustering values"),
    "promised_time_travel": lambda value, limit: (
        f"time travel is promised for {_time_text(value)}, required {_time_text(limit)}"
    ),
    "readable_time_travel": lambda value, limit: (
        f"versions of the last {_time_text(value)} are readable, promised {_time_text(limit)}"
    ),
    "unreachable_files": lambda value, limit: (
        f"the log is kept for {_time_text(value)}, but removed files for {_time_text(limit)}"
    ),
    "lost_commits": _list_text("lost version"),
    "damaged_checkpoints": _list_text("damaged checkpoint"),
    "features": _list_text("unsupported feature"),
}
