"""Thresholds: the facts of a table, the limits for them, and the findings that result.

Values only. The `findings` of a registry entry compare facts with thresholds and decide whether its
operation is due. Jobs, sensors, checks, fleets, health and the terminal all use these findings, and
differ only in their thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from delta_ops.clock import DAY_MS
from delta_ops.errors import InvalidRequestError

Verdict = Literal["ok", "due", "look"]
Unit = Literal["files", "commits", "bytes", "ratio", "share", "ms", "versions", "features"]
"""Unit of a value and its threshold; a share is from 0 to 1, a ratio from 1 on."""
Measure = Literal[
    "small_files",
    "commits_since_checkpoint",
    "commit_bytes_since_checkpoint",
    "expired_tombstones",
    "expired_log_files",
    "incomplete_checkpoints",
    "deleted_rows",
    "partition_skew",
    "file_size_skew",
    "stats_coverage",
    "clustering_depth",
    "promised_time_travel",
    "readable_time_travel",
    "unreachable_files",
    "lost_commits",
    "damaged_checkpoints",
    "features",
]
"""In the order in which findings are shown."""

_SHARES = ("deleted_rows", "stats_coverage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """How far a clustered table is laid out; zeros where a table is not clustered."""

    depth: int
    """The most files that may hold one combination of values of its clustering columns."""
    loose_files: int
    """Files that have not been laid out by them."""
    next_depth: int
    """The depth that the next optimize is expected to leave; as it is, where there is nothing to
    do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What maintenance decides by: a table at one version."""

    version: int
    mergeable_files: int
    """Small files that optimize would put together: a file that is alone stays small."""
    checkpoint_interval: int
    """`delta.checkpointInterval`, in commits."""
    commits_since_checkpoint: int
    commit_bytes_since_checkpoint: int
    incomplete_checkpoint_files: int
    """Files of checkpoints that are not all there, which some engines take for whole ones."""
    stale_checkpoint_files: int
    """Incomplete checkpoint files that nobody is completing any more."""
    deletable_log_files: int
    """Log files that a clean-up would delete."""
    cleanup_is_enabled: bool
    """`delta.enableExpiredLogCleanup`."""
    expired_tombstones: int
    """Tombstones whose retention is over."""
    expired_file_is_there: bool
    """Whether one of a sample of the expired tombstones' files has not been deleted yet."""
    refused: Mapping[str, tuple[str, ...]]
    """Operations that must not touch the table, with the features that forbid it."""

    clustering: Clustering | None = None
    """How far a clustered table is laid out; None: nobody has looked."""

    @property
    def stats_coverage(self) -> float | None:
        """Share of the files that have statistics; None where nobody has looked at them."""
        return None

    @property
    def deleted_share(self) -> float | None:
        """Share of all rows that a purge would leave out; None where nobody has looked."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthThresholds:
    """Thresholds from which on a measure is not "ok".

    Raises:
        InvalidRequestError: One is negative, or of a kind that it cannot be.
    """

    small_files: int = 10
    """Due from this many files on that optimize would put together."""
    commits_since_checkpoint: int | None = None
    """Due from this many on; None: the table's `delta.checkpointInterval`."""
    commit_bytes_since_checkpoint: int = 64 << 20
    """Due from this many on, however few the commits."""
    expired_tombstones: int = 1
    """Due from this many on, if their files are still there."""
    expired_log_files: int = 1
    """Due from this many on."""
    clustering_depth: int = 4
    """Due where so many files of a clustered table may hold the same values, and some of them have
    not been laid out."""
    deleted_rows: float = 0.1
    """Due from this share of all rows on that deletion vectors mark, in the table's own files."""
    partition_skew: float = 10.0
    """The largest partition has so many times the bytes of the mean, and those of a whole file."""
    file_size_skew: float = 10.0
    """The largest file has so many times the bytes that a file should have."""
    stats_coverage: float = 0.95
    """A smaller share of the files has statistics."""
    promised_time_travel_ms: int = 7 * DAY_MS
    """Versions are promised for less."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            is_whole = "int" in str(each.type)
            if value is None and "None" in str(each.type):
                continue
            fits = isinstance(value, int if is_whole else int | float)
            if not fits or isinstance(value, bool) or not 0 <= value < math.inf:
                kind = "a whole number" if is_whole else "a number"
                raise InvalidRequestError(
                    f"the threshold {each.name} must be {kind} from 0 on, not {value!r}"
                )
            if each.name in _SHARES and value > 1:
                raise InvalidRequestError(
                    f"the threshold {each.name} is a share and 1 at most, not {value!r}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One measure of a table."""

    measure: Measure
    value: int | float | tuple[str, ...]
    threshold: int | float | tuple[str, ...]
    unit: Unit
    verdict: Verdict
    operation: str | None
    """Name of the operation that cures it when it is due."""
    advice: str
    """What to do, in one sentence; "" where nothing is."""


def due_finding(
    measure: Measure,
    value: float,
    threshold: float,
    unit: Unit,
    *,
    operation: str,
    cure: str,
    is_due: bool | None = None,
) -> Finding:
    """A finding that an operation cures.

    Args:
        cure: The advice if it is due.
        is_due: Whether it is due; None: if the value is positive and reaches the threshold.
    """
    if is_due is None:
        is_due = value > 0 and value >= threshold
    return Finding(
        measure=measure,
        value=value,
        threshold=threshold,
        unit=unit,
        verdict="due" if is_due else "ok",
        operation=operation,
        advice=cure if is_due else "",
    )
