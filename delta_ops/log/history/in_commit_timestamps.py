"""In-commit timestamps: times stored in commits, and the first version that has them.

Source: PROTOCOL.md, "In-Commit Timestamps". They grow with the versions. The commit loop
chooses the timestamp of a new commit.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from delta_ops.errors import LogCorruptError
from delta_ops.log.history.logged_commits import LoggedCommit
from delta_ops.log.segment import LogListing
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.properties.known import IN_COMMIT_TIMESTAMPS
from delta_ops.protocol.properties.property import is_on

_FIRST_LINE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Enablement:
    """The first version with an in-commit timestamp, and its time."""

    version: int
    timestamp_ms: int


def in_commit_enablement(snapshot: Snapshot) -> Enablement | None:
    """Where in-commit timestamps begin; None if they are off at this version.

    Raises:
        LogCorruptError: The table's properties for it are not numbers.
    """
    configuration = snapshot.metadata.configuration
    if not is_on(IN_COMMIT_TIMESTAMPS, configuration):
        return None
    names = ("EnablementVersion", "EnablementTimestamp")
    # Without these properties, every commit has a timestamp.
    texts = [configuration.get(f"delta.inCommitTimestamp{name}", "0") for name in names]
    try:
        version, timestamp = map(int, texts)
    except ValueError as error:
        raise LogCorruptError(
            snapshot.uri,
            "metaData",
            f"delta.inCommitTimestampEnablementVersion and -Timestamp are {' and '.join(texts)}, "
            "but must be numbers",
        ) from error
    return Enablement(version=version, timestamp_ms=timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class InCommitTimes:
    """In-commit timestamps of some versions; they grow with the versions."""

    since_version: int
    """From this version on, file times do not count."""
    by_version: Mapping[int, int]
    """Milliseconds since the Unix epoch."""


def load_in_commit_times(
    snapshot: Snapshot, listing: LogListing, around_ms: int
) -> InCommitTimes | None:
    """Load the in-commit timestamps that a search for a time needs.

    None if the table has none.

    Args:
        snapshot: The latest version.
        listing: The listing of its log.
        around_ms: The time to search for, in milliseconds since the Unix epoch.

    Raises:
        FileNotFoundError: A listed commit is gone.
        LogCorruptError: A commit lacks the timestamp that its table requires.
    """
    enabled = in_commit_enablement(snapshot)
    if enabled is None:
        return None
    found: dict[int, int] = {}

    def time_of(version: int) -> int:
        info = listing.commits[version]
        logged = LoggedCommit(snapshot.storage, snapshot.log_directory, version, info)
        found[version] = read_in_commit_timestamp(logged)
        return found[version]

    versions = [v for v in sorted(listing.commits) if enabled.version <= v <= snapshot.version]
    bisect_right(versions, around_ms, key=time_of)
    return InCommitTimes(since_version=enabled.version, by_version=found)


def read_in_commit_timestamp(commit: LoggedCommit) -> int:
    """Read a commit's own timestamp from its first line, in ms since the Unix epoch.

    Raises:
        LogCorruptError: The commit has none.
    """
    storage, info = commit.storage, commit.info
    (head,) = storage.read_ranges(info.path, [(0, min(info.size, _FIRST_LINE_BYTES))])
    if b"\n" not in head and info.size > _FIRST_LINE_BYTES:
        head = storage.read(info.path)
    try:
        timestamp = _in_commit_timestamp(json.loads(head.partition(b"\n")[0])["commitInfo"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        timestamp = None
    if timestamp is None:
        raise LogCorruptError(
            storage.uri,
            info.path,
            "it does not begin with a commitInfo that has an inCommitTimestamp, which the table "
            "requires (delta.enableInCommitTimestamps)",
        )
    return timestamp


def _in_commit_timestamp(info: Mapping[str, Any]) -> int | None:
    value = info.get("inCommitTimestamp")
    return value if type(value) is int else None
