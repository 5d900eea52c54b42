"""History: what each version did, newest first, and which version a time stands for.

Source: PROTOCOL.md, "Commit Provenance Information" and "In-Commit Timestamps"; the bounds of time
travel are the reference's: the last version at or before the time; before the first or after the
last is an error.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from delta_ops.errors import (
    InvalidRequestError,
    LogCorruptError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.log.commit_file import read_commit_if_there
from delta_ops.log.segment import LogListing, earliest_version, list_log
from delta_ops.log.snapshot import Snapshot
from delta_ops.storage import FileInfo, Storage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_LINE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One version and its commitInfo."""

    version: int
    timestamp_ms: int
    """Its in-commit timestamp, or when its file was created, raised where needed so that times grow
    with versions."""
    operation: str | None
    operation_parameters: Mapping[str, Any]
    operation_metrics: Mapping[str, Any]
    engine_info: str | None
    user_metadata: str | None
    commit_info: Mapping[str, Any]
    """All that the writer said, by JSON name."""


def load_history(
    storage: Storage, directory: str, limit: int | None = None
) -> Iterator[HistoryEntry]:
    """Versions whose commit file is there, newest first."""
    listing = list_log(storage, directory)
    if listing.latest_version is None:
        raise TableNotFoundError(storage.uri)
    times = monotone_times(listing)
    versions = sorted(times, reverse=True)
    for version in versions if limit is None else versions[:limit]:
        commit = read_commit_if_there(storage, directory, version)
        if commit is None:
            continue
        values = commit.info.values if commit.info else {}
        yield HistoryEntry(
            version=version,
            timestamp_ms=_in_commit_timestamp(values) or times[version],
            operation=values.get("operation"),
            operation_parameters=values.get("operationParameters") or {},
            operation_metrics=values.get("operationMetrics") or {},
            engine_info=values.get("engineInfo"),
            user_metadata=values.get("userMetadata"),
            commit_info=values,
        )


def monotone_times(listing: LogListing) -> dict[int, int]:
    """The time of each version in ms, each at least 1 ms after the one before it."""
    times: dict[int, int] = {}
    previous = None
    for version in sorted(listing.commits):
        time = listing.commits[version].modified_ms
        if previous is not None:
            time = max(time, previous + 1)
        times[version] = previous = time
    return times


def version_at(snapshot: Snapshot, timestamp: str | datetime) -> int:
    """The last version committed at or before a time.

    Args:
        snapshot: The latest version.

    Raises:
        VersionNotFoundError: The time is before the earliest readable version or after the latest.
        LogCorruptError: A commit lacks the timestamp that its table demands.
    """
    wanted_ms = timestamp_ms(timestamp)
    listing = list_log(snapshot.storage, snapshot.log_directory)
    earliest = earliest_version(listing)
    if earliest is None:
        raise TableNotFoundError(snapshot.uri)
    enabled = _enablement(snapshot)
    if enabled is not None and (wanted_ms >= enabled.timestamp_ms or enabled.version <= earliest):
        versions = [v for v in listing.commits if max(earliest, enabled.version) <= v]
        versions = [v for v in sorted(versions) if v <= snapshot.version]
        return _last_before(
            snapshot, wanted_ms, versions, lambda v: _read_timestamp(snapshot, listing.commits[v])
        )
    times = monotone_times(listing)
    versions = [v for v in times if earliest <= v and (enabled is None or v < enabled.version)]
    return _last_before(
        snapshot, wanted_ms, versions, lambda v: times[v], goes_on=enabled is not None
    )


def _last_before(
    snapshot: Snapshot,
    wanted_ms: int,
    versions: Sequence[int],
    time_of: Callable[[int], int],
    *,
    goes_on: bool = False,
) -> int:
    """The last of these versions whose time is not after the wanted one.

    Args:
        versions: Ascending, as are their times.
        goes_on: Whether later versions follow them.
    """
    wanted = f"timestamp {_iso(wanted_ms)}"
    if not versions:
        raise VersionNotFoundError(
            snapshot.uri, wanted, "no commit is left from which its version could be told"
        )
    first, last = versions[0], versions[-1]
    if wanted_ms < time_of(first):
        raise VersionNotFoundError(
            snapshot.uri,
            wanted,
            f"the earliest version that can be read is {first}, of {_iso(time_of(first))}",
        )
    if not goes_on and wanted_ms > time_of(last):
        raise VersionNotFoundError(
            snapshot.uri,
            wanted,
            f"that is after its latest version {last}, of {_iso(time_of(last))}",
        )
    return versions[bisect_right(versions, wanted_ms, key=time_of) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Enablement:
    """From when on commits carry their own time."""

    version: int
    timestamp_ms: int


def _enablement(snapshot: Snapshot) -> _Enablement | None:
    configuration = snapshot.metadata.configuration
    if configuration.get("delta.enableInCommitTimestamps", "").lower() != "true":
        return None
    names = ("EnablementVersion", "EnablementTimestamp")
    # Without them, every commit of the table has one.
    texts = [configuration.get(f"delta.inCommitTimestamp{name}", "0") for name in names]
    try:
        version, timestamp = map(int, texts)
    except ValueError as error:
        raise LogCorruptError(
            snapshot.uri,
            "metaData",
            f"delta.inCommitTimestampEnablementVersion and -Timestamp are {' and '.join(texts)}, "
            "and should be numbers",
        ) from error
    return _Enablement(version=version, timestamp_ms=timestamp)


def _read_timestamp(snapshot: Snapshot, commit: FileInfo) -> int:
    """A commit's own time, which stands in its first line."""
    ranges = [(0, min(commit.size, _FIRST_LINE_BYTES))]
    (head,) = snapshot.storage.read_ranges(commit.path, ranges)
    if b"\n" not in head and commit.size > _FIRST_LINE_BYTES:
        head = snapshot.storage.read(commit.path)
    try:
        info = json.loads(head.partition(b"\n")[0])["commitInfo"]
        timestamp = _in_commit_timestamp(info)
    except (ValueError, KeyError, TypeError):
        timestamp = None
    if timestamp is None:
        raise LogCorruptError(
            snapshot.uri,
            commit.path,
            "it does not begin with a commitInfo that has an inCommitTimestamp, which the table "
            "demands (delta.enableInCommitTimestamps)",
        )
    return timestamp


def _in_commit_timestamp(info: Mapping[str, Any]) -> int | None:
    value = info.get("inCommitTimestamp")
    return value if type(value) is int else None


def timestamp_ms(timestamp: str | datetime) -> int:
    """A time as ms since the Unix epoch; without a zone it is UTC.

    Raises:
        InvalidRequestError: The text is no ISO 8601 timestamp.
    """
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError as error:
            raise InvalidRequestError(
                f"{timestamp!r} is no timestamp; write it as 2026-01-31T00:00:00Z"
            ) from error
    zoned = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(milliseconds=1)


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def version_of_transaction(
    storage: Storage, directory: str, app_id: str, version: int
) -> int | None:
    """The version whose commit carries a txn; None if its commit file was cleaned up."""
    listing = list_log(storage, directory)
    for candidate in sorted(listing.commits, reverse=True):
        commit = read_commit_if_there(storage, directory, candidate)
        for txn in commit.transactions if commit else ():
            if (txn.app_id, txn.version) == (app_id, version):
                return candidate
    return None
