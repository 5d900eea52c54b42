"""Time travel: finds the version for a time.

Source: PROTOCOL.md, "In-Commit Timestamps". The bounds follow the reference: the result is the last
version at or before the time. A time before the first or after the last version is an error.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta

from delta_ops.errors import InvalidRequestError, TableNotFoundError, VersionNotFoundError
from delta_ops.log.history.commit_times import CommitTimes, raised_times
from delta_ops.log.history.in_commit_timestamps import (
    in_commit_enablement,
    read_in_commit_timestamp,
)
from delta_ops.log.history.logged_commits import logged_commits
from delta_ops.log.segment import retry_if_vanished
from delta_ops.log.snapshot import Snapshot

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def version_at(snapshot: Snapshot, timestamp: str | date) -> int:
    """The last version committed at or before a time.

    Args:
        snapshot: The latest version.

    Raises:
        VersionNotFoundError: The time is before the earliest readable version or after the latest.
        LogCorruptError: A commit lacks the timestamp that its table requires.
    """
    wanted_ms = timestamp_ms(timestamp)
    return retry_if_vanished(
        snapshot.storage, snapshot.log_directory, lambda: _version_at(snapshot, wanted_ms)
    )


def version_from(snapshot: Snapshot, timestamp: str | date) -> int:
    """The first version committed at or after a time.

    Args:
        snapshot: The latest version.
        timestamp: UTC if it has no zone.

    Raises:
        VersionNotFoundError: The time is after the latest version.
        LogCorruptError: A commit lacks the timestamp that its table requires.
    """
    wanted_ms = timestamp_ms(timestamp)
    times = CommitTimes(snapshot)
    found = bisect_left(times.versions, wanted_ms, key=times.time_at)
    if found == len(times.versions):
        raise VersionNotFoundError(
            snapshot.uri,
            f"timestamp {_iso(wanted_ms)}",
            f"that is after its latest version {snapshot.version}",
        )
    return times.versions[found]


def timestamp_ms(timestamp: str | date) -> int:
    """Convert a time to ms since the Unix epoch; the default zone is UTC.

    A date means its midnight.

    Raises:
        InvalidRequestError: The string is not an ISO 8601 timestamp.
    """
    if not isinstance(timestamp, datetime):
        if isinstance(timestamp, date):
            timestamp = timestamp.isoformat()
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except (ValueError, TypeError) as error:
            raise InvalidRequestError(
                f"{timestamp!r} is not a timestamp; write it as 2026-01-31T00:00:00Z"
            ) from error
    zoned = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(milliseconds=1)


def _version_at(snapshot: Snapshot, wanted_ms: int) -> int:
    commits, earliest = logged_commits(snapshot.storage, snapshot.log_directory, snapshot.base)
    if earliest is None:
        raise TableNotFoundError(snapshot.uri)
    versions = [v for v in sorted(commits) if earliest <= v <= snapshot.version]
    enabled = in_commit_enablement(snapshot)
    if enabled is not None and (wanted_ms >= enabled.timestamp_ms or enabled.version <= earliest):
        own = [v for v in versions if v >= enabled.version]

        def time_of(version: int) -> int:
            return read_in_commit_timestamp(commits[version])

        return _find_last(snapshot, wanted_ms, own, time_of, earliest=earliest)
    times = raised_times({version: each.info.modified_ms for version, each in commits.items()})
    if enabled is not None:
        versions = [v for v in versions if v < enabled.version]
    return _find_last(
        snapshot,
        wanted_ms,
        versions,
        times.__getitem__,
        earliest=earliest,
        goes_on=enabled is not None,
    )


def _find_last(
    snapshot: Snapshot,
    wanted_ms: int,
    versions: Sequence[int],
    time_of: Callable[[int], int],
    *,
    earliest: int,
    goes_on: bool = False,
) -> int:
    """The last of these versions at or before the wanted time.

    Args:
        versions: Readable versions with a known time, ascending; times ascend as well.
        earliest: The first readable version; its commit may have been cleaned up.
        goes_on: Whether later versions follow.
    """
    wanted = f"timestamp {_iso(wanted_ms)}"
    if not versions:
        raise VersionNotFoundError(
            snapshot.uri,
            wanted,
            "the log has no commit left that shows when a version was committed",
        )
    first, last = versions[0], versions[-1]
    if wanted_ms < time_of(first):
        of_first = f"of {_iso(time_of(first))}"
        if earliest != first:
            of_first = f"and the earliest whose time is known is {first}, {of_first}"
        raise VersionNotFoundError(
            snapshot.uri,
            wanted,
            f"the earliest version that can be read is {min(earliest, first)}, {of_first}",
        )
    if not goes_on and wanted_ms > time_of(last):
        raise VersionNotFoundError(
            snapshot.uri,
            wanted,
            f"that is after its latest version {last}, of {_iso(time_of(last))}",
        )
    return versions[bisect_right(versions, wanted_ms, key=time_of) - 1]


def _iso(ms: int) -> str:
    if not 0 <= ms < 253_402_300_800_000:  # a commit may hold any number; Python ends with 9999
        return f"{ms} ms since 1970"
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
