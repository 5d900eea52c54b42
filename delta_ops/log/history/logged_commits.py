"""Logged commits: the commit files of a log and of its base, if any.

A log can follow a version of another log, its base: a branch of the same table. Its history then
starts with the commits of the base up to that version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from delta_ops.errors import LogCorruptError
from delta_ops.log.commit_file import Commit, read_commit_if_there, read_commits
from delta_ops.log.segment import earliest_version, list_log
from delta_ops.log.snapshot import Snapshot
from delta_ops.storage import FileInfo, Storage

_GROUP_COMMITS = 256
_GROUP_BYTES = 4 << 20


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


def read_in_groups(
    commits: Mapping[int, LoggedCommit], versions: Sequence[int]
) -> Iterator[tuple[int, Commit]]:
    """Yield the commits that still exist, in the order of `versions`.

    Commits are decoded together, because the JSON parser takes as long to start as to parse ten
    small commits. An error is raised after the commits before it were yielded.
    """
    for group in _groups(commits, versions):
        storage = commits[group[0]].storage
        try:
            found = read_commits(storage, [commits[version].info for version in group])
        except (FileNotFoundError, LogCorruptError):
            yield from _read_one_by_one(commits, group)
        else:
            yield from zip(group, found, strict=True)


def _read_one_by_one(
    commits: Mapping[int, LoggedCommit], versions: Sequence[int]
) -> Iterator[tuple[int, Commit]]:
    for version in versions:
        commit = read_commit_if_there(commits[version].storage, commits[version].directory, version)
        if commit is not None:
            yield version, commit


def _groups(commits: Mapping[int, LoggedCommit], versions: Sequence[int]) -> Iterator[list[int]]:
    """Group the versions by store, in groups of bounded size that start small.

    Small first groups make the latest version available early.
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
