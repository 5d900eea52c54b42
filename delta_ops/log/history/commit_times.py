"""Commit times: the time of each version, from its file or from its in-commit timestamp.

Source: PROTOCOL.md, "In-Commit Timestamps". File times are raised where needed, as in the
reference, so that later versions have later times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate

from delta_ops.log.history.in_commit_timestamps import (
    in_commit_enablement,
    read_in_commit_timestamp,
)
from delta_ops.log.history.logged_commits import logged_commits
from delta_ops.log.segment import LogListing
from delta_ops.log.snapshot import Snapshot


def monotone_times(listing: LogListing) -> dict[int, int]:
    """File times in ms, each raised to at least 1 ms after the previous version."""
    return raised_times({version: info.modified_ms for version, info in listing.commits.items()})


def latest_times(listing: LogListing, now_ms: int) -> dict[int, int]:
    """The latest possible commit time of each version, in ms; never decreases.

    If a file is older than the file of an earlier version, a clock was set back, and its time is
    wrong. The commit time is then at most the next version's time, or now.

    Args:
        now_ms: Milliseconds since the Unix epoch, by the store's clock.
    """
    return _find_latest({v: info.modified_ms for v, info in listing.commits.items()}, now_ms)


class CommitTimes:
    """Commit times of the versions whose commit files the snapshot's log still has."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._commits, _ = logged_commits(snapshot.storage, snapshot.log_directory, snapshot.base)
        self._modified = {v: each.info.modified_ms for v, each in self._commits.items()}
        self._of_files = raised_times(self._modified)
        self._enabled = in_commit_enablement(snapshot)
        self.versions = [v for v in sorted(self._commits) if v <= snapshot.version]
        """Ascending."""

    def version_before(self, time_ms: int, *, now_ms: int) -> int | None:
        """The last version committed at or before a time, even if clocks were set back.

        Args:
            now_ms: As for `latest_times`.

        Raises:
            LogCorruptError: A commit lacks the in-commit timestamp that its table requires.
        """
        latest = _find_latest(self._modified, now_ms)
        found = bisect_right(
            self.versions, time_ms, key=lambda version: max(self.time_at(version), latest[version])
        )
        return self.versions[found - 1] if found else None

    def time_at(self, version: int) -> int:
        """Commit time in milliseconds since the Unix epoch; later versions have later times.

        Raises:
            LogCorruptError: The commit lacks the in-commit timestamp that its table requires.
        """
        if self._enabled is not None and version >= self._enabled.version:
            return read_in_commit_timestamp(self._commits[version])
        return self._of_files[version]


def raised_times(found: Mapping[int, int]) -> dict[int, int]:
    """Times in ms by version, raised to at least 1 ms after the previous version."""
    times: dict[int, int] = {}
    previous = None
    for version in sorted(found):
        time = found[version]
        if previous is not None:
            time = max(time, previous + 1)
        times[version] = previous = time
    return times


def _find_latest(found: Mapping[int, int], now_ms: int) -> dict[int, int]:
    raised = raised_times(found)
    peaks = accumulate((found[version] for version in raised), max)
    is_back = {v: found[v] < peak for v, peak in zip(raised, peaks, strict=True)}
    times: dict[int, int] = {}
    until_ms = now_ms - 1
    for version in reversed(raised):
        if not is_back[version]:
            until_ms = raised[version]
        times[version] = max(until_ms, raised[version])
    return times
