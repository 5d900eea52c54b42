"""Vacuum lite: finds the files to delete in the log, without a listing.

The rules are the same as in Delta Lake. Commits older than the horizon name the files that they
removed, and their change data. Commits that an earlier vacuum processed are skipped. Only a full
vacuum finds files that no commit removed (files of writers that died). If the log has lost an
unprocessed commit, a lite vacuum is refused, since it would never find the files that the commit
removed.

The file `_last_vacuum_info` in the log records the last version that a vacuum processed, as in
Delta Lake.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.log.history.commit_times import CommitTimes
from delta_ops.log.same_table import withdrawing_if_replaced
from delta_ops.log.segment import retry_if_vanished
from delta_ops.maintenance.vacuum.reachable import vector_paths
from delta_ops.protocol.file_paths import canonical_texts, is_absolute
from delta_ops.storage.paths import is_valid

INFO_FILE = "_last_vacuum_info"
_KEY = "latestCommitVersionOutsideOfRetentionWindow"


class CommitRange(NamedTuple):
    """Commits, the first and the last included."""

    first: int
    last: int


def last_version_before(snapshot: Snapshot, horizon_ms: int, now_ms: int) -> int | None:
    """The last version that was committed at or before the horizon; None if there is none.

    Args:
        horizon_ms: As `now_ms`, in milliseconds since the Unix epoch.
        now_ms: By the store's clock.

    Raises:
        LogCorruptError: A commit lacks the in-commit timestamp that the table requires, or listed
            commits are repeatedly gone when they are read.
    """

    return retry_if_vanished(
        snapshot.storage,
        snapshot.log_directory,
        lambda: CommitTimes(snapshot).version_before(horizon_ms, now_ms=now_ms),
    )


def first_commit(snapshot: Snapshot) -> int:
    """The first version whose commit is in the log; the version itself if there is none."""
    return min(CommitTimes(snapshot).versions, default=snapshot.version)


def commits_to_look_at(snapshot: Snapshot, horizon_ms: int, now_ms: int) -> CommitRange | None:
    """The expired commits that no vacuum has processed; None if there are none.

    Args:
        horizon_ms: As for `last_version_before`; so is `now_ms`.

    Raises:
        InvalidRequestError: Some of these commits are gone from the log.
    """
    last = last_version_before(snapshot, horizon_ms, now_ms)
    done = _load_info(snapshot)
    first = 0 if done is None else done + 1
    earliest = first_commit(snapshot)
    if first < earliest:
        raise InvalidRequestError(
            f"{snapshot.uri}: a lite vacuum needs the commits from version {first} on, and the "
            f"log begins with {earliest}, so files that were removed earlier would never be "
            "found; run a full vacuum"
        )
    if last is None or first > last:
        return None
    return CommitRange(first, last)


def removed_paths(log: DeltaLog, snapshot: Snapshot, commits: CommitRange) -> Iterator[str]:
    """Removed files within the table, their deletion vectors and change data, each once."""
    seen: set[str] = set()
    read = 0
    for commit in log.commits(*commits):
        read += 1
        for path in _paths_removed_by(commit, snapshot):
            if path not in seen and not is_absolute(path) and is_valid(path):
                seen.add(path)
                yield path
    if read != commits.last - commits.first + 1:
        raise InvalidRequestError(
            f"{snapshot.uri}: commits between the versions {commits.first} and {commits.last} are "
            "missing from the log, so a lite vacuum cannot know which files they removed; run a "
            "full vacuum"
        )


def save_info(snapshot: Snapshot, version: int) -> None:
    """Record the last processed version, unless a later version is recorded."""
    done = _load_info(snapshot)
    if done is None or done < version:
        text = json.dumps({_KEY: version}, separators=(",", ":"))
        path = f"{snapshot.log_directory}/{INFO_FILE}"
        with withdrawing_if_replaced(snapshot, lambda: [path]):
            snapshot.storage.replace(path, text.encode())


def _paths_removed_by(commit: Commit, snapshot: Snapshot) -> Iterator[str]:
    yield from vector_paths(commit.removes["deletionVector"], snapshot)
    paths = [*commit.removes["path"].to_pylist(), *(cdc.path for cdc in commit.cdc)]
    yield from canonical_texts(paths, snapshot.uri)


def _load_info(snapshot: Snapshot) -> int | None:
    """The recorded version; None if there is none or it cannot be parsed."""
    try:
        found = json.loads(snapshot.storage.read(f"{snapshot.log_directory}/{INFO_FILE}"))[_KEY]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return found if type(found) is int and 0 <= found <= snapshot.version else None
