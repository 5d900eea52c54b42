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
Unit = Literal["files", "commits", "bytes", "ratio", "share", "ms", "versions", "refs", "features"]
"""Unit of a value and its threshold; a share is from 0 to 1, a ratio from 1 on."""
Measure = Literal[
    "small_files",
    "commits_since_checkpoint",
    "commit_bytes_since_checkpoint",
    "expired_tombstones",
    "expired_log_files",
    "incomplete_checkpoints",
    "commits_since_scan_cache",
    "deleted_rows",
    "partition_skew",
    "file_size_skew",
    "stats_coverage",
    "clustering_depth",
    "unindexed_files",
    "index_selectivity",
    "promised_time_travel",
    "readable_time_travel",
    "unreachable_files",
    "lost_commits",
    "damaged_checkpoints",
    "refs_at_risk",
    "features",
]
"""In the order of display."""

_SHARES = ("deleted_rows", "stats_coverage", "index_selectivity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """The layout of a table by clustering columns or a sort key; zeros if it has none."""

    depth: int
    """The most files that may hold one combination of clustering values, or the most sorted runs
    that may hold one key."""
    loose_files: int
    """Files that have not been laid out by the clustering columns, or that are to be merged."""
    next_depth: int
    """The expected depth after the next optimize; equal to `depth` if there is no work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCacheFacts:
    """The scan cache of a table, beside its latest version."""

    num_files: int
    """Live files of the table."""
    interval: int
    """`delta_ops.scanCacheInterval`, in commits."""
    is_wanted: bool | None
    """`delta_ops.scanCache`; None if it is not set."""
    exists: bool
    """Whether there is a scan cache, usable or not."""
    age: int | None
    """Commits since the scan cache; None if there is none that can be used."""
    problem: str | None = None
    """Why the existing scan cache cannot be used, as part of a sentence."""

    def is_due(self, *, min_files: int, max_age: int) -> bool:
        """Whether a scan cache should be written.

        Args:
            min_files: A table without a scan cache gets one at this number of live files.
            max_age: A scan cache is written again after this number of commits.
        """
        if self.is_wanted is False:
            return False
        if self.age is not None:
            return self.age > 0 and self.age >= max_age
        return self.exists or self.is_wanted is True or self.num_files >= min_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a table at one version, which decide the due operations."""

    version: int
    mergeable_files: int
    """Small files that optimize would combine: a file without a partner stays small."""
    checkpoint_interval: int
    """`delta.checkpointInterval`, in commits."""
    commits_since_checkpoint: int
    commit_bytes_since_checkpoint: int
    incomplete_checkpoint_files: int
    """Files of checkpoints with missing parts, which some engines take for complete."""
    stale_checkpoint_files: int
    """Incomplete checkpoint files that no writer is completing."""
    deletable_log_files: int
    """Log files that a clean-up would delete."""
    cleanup_is_enabled: bool
    """`delta.enableExpiredLogCleanup`."""
    expired_tombstones: int
    """Tombstones whose retention is over."""
    expired_file_is_there: bool
    """Whether a file of a sample of the expired tombstones still exists."""
    refused: Mapping[str, tuple[str, ...]]
    """Operations that must not change the table, with the reasons: features, or a tag or branch
    that cannot be read."""
    scan_cache: ScanCacheFacts | None = None
    """The scan cache; None: not measured."""
    clustering: Clustering | None = None
    """The layout by clustering columns or a sort key; None: not measured."""
    unindexed_files: int = 0
    """Live files that an inverted index does not cover; the most of any index."""

    @property
    def stats_coverage(self) -> float | None:
        """Share of the files that have statistics; None if not measured."""
        return None

    @property
    def deleted_share(self) -> float | None:
        """Share of all rows that a purge would remove; None if not measured."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthThresholds:
    """Limits for measures; a measure beyond its limit is not "ok".

    Raises:
        InvalidRequestError: A threshold is negative or has the wrong type.

    Examples:
        >>> report = health("lake/orders", thresholds=HealthThresholds(commits_since_checkpoint=1))
        >>> report.operations
        ('checkpoint',)
    """

    small_files: int = 10
    """Due at this many files that optimize would combine."""
    commits_since_checkpoint: int | None = None
    """Due at this many commits; None: the table's `delta.checkpointInterval`."""
    commit_bytes_since_checkpoint: int = 64 << 20
    """Due at this many bytes, at any number of commits."""
    commits_since_scan_cache: int | None = None
    """Due at this many commits; None: the table's `delta_ops.scanCacheInterval`."""
    scan_cache_files: int = 10_000
    """Due in a table of this many live files that has no scan cache."""
    expired_tombstones: int = 1
    """Due at this many tombstones, if their files still exist."""
    expired_log_files: int = 1
    """Due at this many files."""
    clustering_depth: int = 4
    """Due if this many files of a table with clustering columns or a sort key may hold the same
    values, and some are not laid out."""
    unindexed_files: int = 10
    """Due at this many files that an inverted index does not cover."""
    index_selectivity: float = 0.5
    """Reported if a value of an index is in this share of the files, in tables of 100 files."""
    deleted_rows: float = 0.1
    """Due if deletion vectors mark this share of all rows, counted in files within the table."""
    partition_skew: float = 10.0
    """Reported if the largest partition has this many times the mean bytes, and more bytes than
    the target file size."""
    file_size_skew: float = 10.0
    """Reported if the largest file has this many times the target size."""
    stats_coverage: float = 0.95
    """Due if a smaller share of the files has statistics."""
    promised_time_travel_ms: int = 7 * DAY_MS
    """Reported if the retention promises time travel for less time."""

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
                    f"the threshold {each.name} must be {kind} of 0 or more, not {value!r}"
                )
            if each.name in _SHARES and value > 1:
                raise InvalidRequestError(
                    f"the threshold {each.name} is a share and must be at most 1, not {value!r}"
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
    """Name of the operation that cures a due finding."""
    advice: str
    """The next step in one sentence; "" if there is nothing to do."""


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
    """Build a finding that an operation cures.

    Args:
        cure: The advice if it is due.
        is_due: Whether it is due. None: due if the value is positive and reaches the threshold.
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
