"""History: what each version did, newest first, and which version a time stands for.

Source: PROTOCOL.md, "Commit Provenance Information"; the bounds of time travel are the reference's:
the last version at or before the time; before the first or after the last is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from delta_ops.errors import InvalidRequestError, TableNotFoundError, VersionNotFoundError
from delta_ops.log.commit_file import read_commit_if_there
from delta_ops.log.segment import LogListing, earliest_version, list_log
from delta_ops.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One version and its commitInfo."""

    version: int
    timestamp_ms: int
    """When its file was created, raised where needed so that times grow with versions."""
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
            timestamp_ms=times[version],
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


def version_at(storage: Storage, directory: str, timestamp: str | datetime) -> int:
    """The last version committed at or before a time.

    Raises:
        VersionNotFoundError: The time is before the earliest readable version or after the latest.
    """
    wanted_ms = timestamp_ms(timestamp)
    listing = list_log(storage, directory)
    earliest = earliest_version(listing)
    if earliest is None:
        raise TableNotFoundError(storage.uri)
    times = {v: t for v, t in monotone_times(listing).items() if v >= earliest}
    known = [version for version, time in times.items() if time <= wanted_ms]
    if not known:
        reason = f"the earliest version that can be read is {earliest}"
        if earliest in times:
            reason += f", of {_iso(times[earliest])}"
        raise VersionNotFoundError(storage.uri, f"timestamp {_iso(wanted_ms)}", reason)
    if wanted_ms > max(times.values()):
        last = max(times)
        raise VersionNotFoundError(
            storage.uri,
            f"timestamp {_iso(wanted_ms)}",
            f"that is after its latest version {last}, of {_iso(times[last])}",
        )
    return max(known)


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
    return round(zoned.timestamp() * 1000)


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
