"""History: what each version did, newest first, and which version a time stands for.

Source: PROTOCOL.md, "Commit Provenance Information" and "In-Commit Timestamps"; the bounds of time
travel are the reference's: the last version at or before the time; before the first or after the
last is an error. Where a log goes on from a version of another one, that version and those before
it are its history too, and what the other log did since is not.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    LogCorruptError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.lazy import lazy
from delta_ops.log.commit_file import Commit, read_commit_if_there, read_commits
from delta_ops.log.fresh_listing import retry_if_vanished
from delta_ops.log.outside_files import OutsideFiles
from delta_ops.log.segment import LogListing, earliest_version, list_log
from delta_ops.log.snapshot import Snapshot, open_snapshot
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import in_parallel

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_LINE_BYTES = 64 << 10
_MANY_COMMITS = 32
_GROUP_COMMITS = 256
_GROUP_BYTES = 4 << 20


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


class _Logged(NamedTuple):
    """A commit file, and the log that it stands in."""

    storage: Storage
    directory: str
    version: int
    info: FileInfo


def load_history(
    storage: Storage, directory: str, limit: int | None = None, *, base: Snapshot | None = None
) -> Iterator[HistoryEntry]:
    """Versions whose commit file is there, newest first.

    Args:
        limit: How many at most; None: all.
        base: What the first commit of the log follows.

    Raises:
        InvalidRequestError: `limit` is negative.
        TableNotFoundError: There is no table here.
        LogCorruptError: A commit is malformed.
    """
    if limit is not None and limit < 0:
        raise InvalidRequestError(f"there is no history of limit {limit}; give 0 or more")
    commits, _ = _commits_with_base(storage, directory, base)
    if not commits and base is None and list_log(storage, directory).latest_version is None:
        raise TableNotFoundError(storage.uri)
    times = _raised({version: each.info.modified_ms for version, each in commits.items()})
    own_times = _OwnTimes(storage, directory, base)
    versions = sorted(times, reverse=True)
    for version, commit in _read_in_groups(commits, versions[:limit]):
        values = commit.info.values if commit.info else {}
        own_time = _in_commit_timestamp(values)
        if own_time is not None and not own_times.count_at(version):
            own_time = None
        yield HistoryEntry(
            version=version,
            timestamp_ms=times[version] if own_time is None else own_time,
            operation=_text(values.get("operation")),
            operation_parameters=_mapping(values.get("operationParameters")),
            operation_metrics=_mapping(values.get("operationMetrics")),
            engine_info=_text(values.get("engineInfo")),
            user_metadata=_text(values.get("userMetadata")),
            commit_info=values,
        )


def _read_in_groups(
    commits: Mapping[int, _Logged], versions: Sequence[int]
) -> Iterator[tuple[int, Commit]]:
    """The commits that are still there, in the order of `versions`."""
    for group in _groups(commits, versions):
        storage = commits[group[0]].storage
        try:
            found = read_commits(storage, [commits[version].info for version in group])
        except (FileNotFoundError, LogCorruptError):
            yield from _read_one_by_one(commits, group)
        else:
            yield from zip(group, found, strict=True)


def _read_one_by_one(
    commits: Mapping[int, _Logged], versions: Sequence[int]
) -> Iterator[tuple[int, Commit]]:
    for version in versions:
        commit = read_commit_if_there(commits[version].storage, commits[version].directory, version)
        if commit is not None:
            yield version, commit


def _groups(commits: Mapping[int, _Logged], versions: Sequence[int]) -> Iterator[list[int]]:
    """The versions in groups of one store, of bounded size; the first are small.

    Whoever wants the latest version only shall not wait for others.
    """
    group: list[int] = []
    most, size = 1, 0
    for version in versions:
        storage, info = commits[version].storage, commits[version].info
        is_full = len(group) == most or size + info.size > _GROUP_BYTES
        if group and (is_full or storage is not commits[group[0]].storage):
            yield group
            group, most, size = [], min(2 * most, _GROUP_COMMITS), 0
        group.append(version)
        size += info.size
    if group:
        yield group


class _OwnTimes:
    """Whether times count that commits carry: they may be left from before they were dropped."""

    def __init__(self, storage: Storage, directory: str, base: Snapshot | None) -> None:
        self._open = partial(
            open_snapshot, storage, directory, base=base, outside=OutsideFiles("refuse", None)
        )

    def count_at(self, version: int) -> bool:
        return self._since is not None and version >= self._since

    @lazy
    def _since(self) -> int | None:
        """The first version; None if they do not count at the latest one.

        Only a table that can be opened tells it; of another one they are taken as they stand.
        """
        try:
            enabled = _enablement(self._open())
        except DeltaOpsError:
            return 0
        return None if enabled is None else enabled.version


def _commits_with_base(
    storage: Storage, directory: str, base: Snapshot | None
) -> tuple[dict[int, _Logged], int | None]:
    """Commits by version, and the earliest version from which every later one can be read."""
    listing = list_log(storage, directory)
    earliest = earliest_version(listing)
    own = {v: _Logged(storage, directory, v, info) for v, info in listing.commits.items()}
    if base is None:
        return own, earliest
    below, first = _commits_with_base(base.storage, base.log_directory, base.base)
    commits = {v: each for v, each in below.items() if v <= base.version}
    commits |= {v: each for v, each in own.items() if v > base.version}
    follow = [v for v in sorted(commits) if v > base.version]
    if follow == list(range(base.version + 1, base.version + 1 + len(follow))):
        earliest = base.version if first is None else min(first, base.version)
    return commits, earliest


def monotone_times(listing: LogListing) -> dict[int, int]:
    """The time of each version in ms, each at least 1 ms after the one before it."""
    return _raised({version: info.modified_ms for version, info in listing.commits.items()})


def latest_times(listing: LogListing, now_ms: int) -> dict[int, int]:
    """The latest time at which each version can have been committed, in ms; it never falls.

    A file that is older than one before it was dated by a clock that was set back: of it is known
    only that it was there before the next one, or before now.

    Args:
        now_ms: By the store's clock, in milliseconds since the Unix epoch.
    """
    return _latest({v: info.modified_ms for v, info in listing.commits.items()}, now_ms)


def _latest(found: Mapping[int, int], now_ms: int) -> dict[int, int]:
    raised = _raised(found)
    peaks = accumulate((found[version] for version in raised), max)
    is_back = {v: found[v] < peak for v, peak in zip(raised, peaks, strict=True)}
    times: dict[int, int] = {}
    until_ms = now_ms - 1
    for version in reversed(raised):
        if not is_back[version]:
            until_ms = raised[version]
        times[version] = max(until_ms, raised[version])
    return times


def _raised(found: Mapping[int, int]) -> dict[int, int]:
    times: dict[int, int] = {}
    previous = None
    for version in sorted(found):
        time = found[version]
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
    return retry_if_vanished(
        snapshot.storage, snapshot.log_directory, lambda: _version_at(snapshot, wanted_ms)
    )


def _version_at(snapshot: Snapshot, wanted_ms: int) -> int:
    commits, earliest = _commits_with_base(snapshot.storage, snapshot.log_directory, snapshot.base)
    if earliest is None:
        raise TableNotFoundError(snapshot.uri)
    versions = [v for v in sorted(commits) if earliest <= v <= snapshot.version]
    enabled = _enablement(snapshot)
    if enabled is not None and (wanted_ms >= enabled.timestamp_ms or enabled.version <= earliest):
        own = [v for v in versions if v >= enabled.version]
        return _last_before(
            snapshot, wanted_ms, own, lambda v: _read_timestamp(commits[v]), earliest=earliest
        )
    times = _raised({version: each.info.modified_ms for version, each in commits.items()})
    if enabled is not None:
        versions = [v for v in versions if v < enabled.version]
    return _last_before(
        snapshot,
        wanted_ms,
        versions,
        times.__getitem__,
        earliest=earliest,
        goes_on=enabled is not None,
    )


def version_from(snapshot: Snapshot, timestamp: str | datetime) -> int:
    """The first version committed at or after a time.

    Args:
        snapshot: The latest version.
        timestamp: Without a zone it is UTC.

    Raises:
        VersionNotFoundError: The time is after the latest version.
        LogCorruptError: A commit lacks the timestamp that its table demands.
    """
    wanted_ms = timestamp_ms(timestamp)
    times = CommitTimes(snapshot)
    found = bisect_left(times.versions, wanted_ms, key=times.of)
    if found == len(times.versions):
        raise VersionNotFoundError(
            snapshot.uri,
            f"timestamp {_iso(wanted_ms)}",
            f"that is after its latest version {snapshot.version}",
        )
    return times.versions[found]


class CommitTimes:
    """When each version that a snapshot's log still tells of was committed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._commits, _ = _commits_with_base(
            snapshot.storage, snapshot.log_directory, snapshot.base
        )
        self._of_files = _raised({v: each.info.modified_ms for v, each in self._commits.items()})
        self._enabled = _enablement(snapshot)
        self.versions = [v for v in sorted(self._commits) if v <= snapshot.version]
        """Ascending."""

    def last_before(self, time_ms: int, *, now_ms: int) -> int | None:
        """The last version that was committed at a time or before it, whatever clock was set back.

        Args:
            now_ms: As for `latest_times`.

        Raises:
            LogCorruptError: A commit lacks the timestamp that its table demands.
        """
        latest = _latest({v: each.info.modified_ms for v, each in self._commits.items()}, now_ms)
        found = bisect_right(
            self.versions, time_ms, key=lambda version: max(self.of(version), latest[version])
        )
        return self.versions[found - 1] if found else None

    def of(self, version: int) -> int:
        """Milliseconds since the Unix epoch; grows with the versions.

        Raises:
            LogCorruptError: The commit lacks the timestamp that its table demands.
        """
        if self._enabled is not None and version >= self._enabled.version:
            return _read_timestamp(self._commits[version])
        return self._of_files[version]


@dataclass(frozen=True, slots=True, kw_only=True)
class InCommitTimes:
    """Times that commits carry, of some of them: they grow with the versions."""

    since_version: int
    """From this version on, what the files say of times does not count."""
    by_version: Mapping[int, int]
    """Milliseconds since the Unix epoch."""


def load_in_commit_times(
    snapshot: Snapshot, listing: LogListing, around_ms: int
) -> InCommitTimes | None:
    """In-commit times, as many as tell the last version of a time; None where the table has none.

    Args:
        snapshot: The latest version.
        listing: The listing of its log.
        around_ms: Milliseconds since the Unix epoch.

    Raises:
        FileNotFoundError: A commit is gone that is listed.
        LogCorruptError: A commit lacks the timestamp that its table demands.
    """
    enabled = _enablement(snapshot)
    if enabled is None:
        return None
    found: dict[int, int] = {}

    def time_of(version: int) -> int:
        info = listing.commits[version]
        logged = _Logged(snapshot.storage, snapshot.log_directory, version, info)
        found[version] = _read_timestamp(logged)
        return found[version]

    versions = [v for v in sorted(listing.commits) if enabled.version <= v <= snapshot.version]
    bisect_right(versions, around_ms, key=time_of)
    return InCommitTimes(since_version=enabled.version, by_version=found)


def _last_before(
    snapshot: Snapshot,
    wanted_ms: int,
    versions: Sequence[int],
    time_of: Callable[[int], int],
    *,
    earliest: int,
    goes_on: bool = False,
) -> int:
    """The last of these versions whose time is not after the wanted one.

    Args:
        versions: Ascending, as are their times; those that can be read and have a time.
        earliest: The first that can be read; its commit may have been cleaned up.
        goes_on: Whether later versions follow them.
    """
    wanted = f"timestamp {_iso(wanted_ms)}"
    if not versions:
        raise VersionNotFoundError(
            snapshot.uri, wanted, "no commit is left from which its version could be told"
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


def _read_timestamp(commit: _Logged) -> int:
    """A commit's own time, which stands in its first line."""
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
            "demands (delta.enableInCommitTimestamps)",
        )
    return timestamp


def _in_commit_timestamp(info: Mapping[str, Any]) -> int | None:
    value = info.get("inCommitTimestamp")
    return value if type(value) is int else None


def _text(value: Any) -> str | None:
    """What a writer said, if it is the text that it should be; `commit_info` has the rest."""
    return value if isinstance(value, str) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def timestamp_ms(timestamp: str | datetime) -> int:
    """A time as ms since the Unix epoch; without a zone it is UTC.

    Raises:
        InvalidRequestError: The text is no ISO 8601 timestamp.
    """
    if not isinstance(timestamp, datetime):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except (ValueError, TypeError) as error:
            raise InvalidRequestError(
                f"{timestamp!r} is no timestamp; write it as 2026-01-31T00:00:00Z"
            ) from error
    zoned = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(milliseconds=1)


def _iso(ms: int) -> str:
    if not 0 <= ms < 253_402_300_800_000:  # a commit may say any number; Python ends with 9999
        return f"{ms} ms since 1970"
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def version_of_transaction(
    storage: Storage, directory: str, app_id: str, version: int, *, base: Snapshot | None = None
) -> int | None:
    """The version whose commit carries a txn; None if its commit file cannot be found.

    A commit that is damaged is passed over: the txn is known from elsewhere, and an old commit may
    be one that no version needs any more.

    Args:
        base: What the first commit of the log follows.
    """
    commits, _ = _commits_with_base(storage, directory, base)
    newest_first = [commits[number] for number in sorted(commits, reverse=True)]
    # It is among the last ones, nearly always; else as many are read at once as have been already.
    start, end = 0, 1
    while start < len(newest_first):
        group = newest_first[start:end]
        for commit in in_parallel(_read_if_possible, group):
            for txn in commit.transactions if commit else ():
                if commit and (txn.app_id, txn.version) == (app_id, version):
                    return commit.version
        start, end = end, end + min(end, _MANY_COMMITS)
    return None


def _read_if_possible(logged: _Logged) -> Commit | None:
    try:
        return read_commit_if_there(logged.storage, logged.directory, logged.version)
    except LogCorruptError:
        return None
