"""Logged commits: the commit files of a log and of its base, if any.

A log can follow a version of another log, its base: a branch of the same table. Its history then
starts with the commits of the base up to that version.
"""

from __future__ import annotations

from typing import NamedTuple

from delta_ops.log.segment import earliest_version, list_log
from delta_ops.log.snapshot import Snapshot
from delta_ops.storage import FileInfo, Storage


class LoggedCommit(NamedTuple):
    """A commit file and its log."""

    storage: Storage
    directory: str
    version: int
    info: FileInfo


def logged_commits(
    storage: Storage, directory: str, base: Snapshot | None
) -> tuple[dict[int, LoggedCommit], int | None]:
    """Find commits by version, and the earliest version since which every version can be read.

    Args:
        base: The snapshot of another log that the first commit of this log follows.
    """
    listing = list_log(storage, directory)
    earliest = earliest_version(listing)
    own = {v: LoggedCommit(storage, directory, v, info) for v, info in listing.commits.items()}
    if base is None:
        return own, earliest
    below, first = logged_commits(base.storage, base.log_directory, base.base)
    commits = {v: each for v, each in below.items() if v <= base.version}
    commits |= {v: each for v, each in own.items() if v > base.version}
    follow = [v for v in sorted(commits) if v > base.version]
    if follow == list(range(base.version + 1, base.version + 1 + len(follow))):
        earliest = base.version if first is None else min(first, base.version)
    return commits, earliest
