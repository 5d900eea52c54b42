"""Vacuum lite: which files the log itself tells to be deletable, without a listing.

The rules are the reference's. The commits that are older than the horizon name what they removed,
and their change data; what an earlier vacuum has dealt with is passed over. What no commit removed
(files of writers that died) is found by a full vacuum only, and so is what a commit removed that is
gone from the log: then this is refused, since it would never be found.

How far the last vacuum came stands in `_last_vacuum_info` of the log, as the reference writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.log.fresh_listing import retry_if_vanished
from delta_ops.log.history.commit_times import CommitTimes
from delta_ops.log.same_table import withdrawing_if_replaced
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
    """The last version that was committed at the horizon or before it, if there is one.

    Args:
        horizon_ms: As `now_ms`, in milliseconds since the Unix epoch.
        now_ms: By the store's clock.

    Raises:
        LogCorruptError: A commit lacks the timestamp that its table demands, or those that are
            listed are gone when they are read, again and again.
    """

    return retry_if_vanished(
        snapshot.storage,
        snapshot.log_directory,
        lambda: CommitTimes(snapshot).version_before(horizon_ms, now_ms=now_ms),
    )


def commits_to_look_at(snapshot: Snapshot, horizon_ms: int, now_ms: int) -> CommitRange | None:
    """The commits whose removed files may go and that no vacuum has looked at; None if none.

    Args:
        horizon_ms: As for `last_version_before`; so is `now_ms`.

    Raises:
        InvalidRequestError: Some of them are gone from the log.
    """
    last = last_version_before(snapshot, horizon_ms, now_ms)
    done = _load_info(snapshot)
    first = 0 if done is None else done + 1
    there = set(CommitTimes(snapshot).versions)
    earliest = min(there, default=snapshot.version)
    if first < earliest:
        raise InvalidRequestError(
            f"{snapshot.uri}: a lite vacuum needs the commits from version {first} on, and the log "
            f"begins with {earliest}, so that files which were removed before would never be "
            "found; run a full vacuum"
        )
    if last is None or first > last:
        return None
    return CommitRange(first, last)


def removed_paths(log: DeltaLog, snapshot: Snapshot, commits: CommitRange) -> Iterator[str]:
    """Files in the table that these commits removed, their vectors, and their change data, once."""
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
            "gone from the log, so that a lite vacuum cannot tell what they removed; run a full "
            "vacuum"
        )


def save_info(snapshot: Snapshot, version: int) -> None:
    """Note that what was removed up to a version is dealt with, unless more is noted."""
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
    """The version that is noted; what cannot be understood notes nothing."""
    try:
        found = json.loads(snapshot.storage.read(f"{snapshot.log_directory}/{INFO_FILE}"))[_KEY]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return found if type(found) is int and 0 <= found <= snapshot.version else None
