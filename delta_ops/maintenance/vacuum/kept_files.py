"""Kept files: finds the files that kept versions need, besides those of the latest version.

A file that is live in a version is live in the next kept version too, or a commit between the two
removes it. So the commits after the first kept version show the files of all kept versions, and no
version is opened. A version whose later commits are gone is opened instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import pyarrow as pa

from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit, stream_commits, stream_commits_with
from delta_ops.log.segment import earliest_version, list_log, retry_if_vanished
from delta_ops.log.version.reconciliation import EMPTY_TAIL, file_rows
from delta_ops.maintenance.vacuum.reachable import paths_named_by, protected_paths
from delta_ops.protocol.arrow_values import array_of
from delta_ops.storage import FileInfo

_NAMES = ["path", "deletionVector"]
"""The columns that name the files of an action."""
_NO_REMOVES = EMPTY_TAIL.removes.rows.select(_NAMES)


def paths_of_versions(log: DeltaLog, latest: Snapshot, versions: Collection[int]) -> set[str]:
    """Decoded paths that some versions need, and paths that their commits name.

    Args:
        latest: A version whose own files are known to be needed; their paths may be left out.

    Raises:
        VersionNotFoundError: A version cannot be read.
        LogCorruptError: The log is damaged, or listed commits are repeatedly gone when they are
            read.
    """
    if not versions:
        return set()
    return retry_if_vanished(
        latest.storage, latest.log_directory, lambda: _paths_of_versions(log, latest, versions)
    )


def _paths_of_versions(log: DeltaLog, latest: Snapshot, versions: Collection[int]) -> set[str]:
    listing = list_log(latest.storage, latest.log_directory)
    earliest = None if latest.base else earliest_version(listing)
    # The listing has every commit after each of these versions.
    near = range(latest.version + 1 if earliest is None else earliest, latest.version + 1)
    paths: set[str] = set()
    kept = sorted(version for version in {*versions} if version in near)
    for version in sorted({*versions}.difference(kept)):
        paths |= _paths_of_opened(log, version)
    return paths | _paths_by_difference(latest, listing.commits, kept) if kept else paths


def _paths_of_opened(log: DeltaLog, version: int) -> set[str]:
    snapshot = log.snapshot(version)
    paths: set[str] = set()
    for files in snapshot.stream_live(_NAMES):
        paths.update(protected_paths(files, snapshot))
    for commit in log.commits(version, version):
        paths.update(paths_named_by(commit, snapshot))
    return paths


def _paths_by_difference(
    latest: Snapshot, commits: Mapping[int, FileInfo], kept: Sequence[int]
) -> set[str]:
    """The paths that kept versions need and the latest version lacks, and their change data.

    Args:
        commits: The commits by version; all commits after the first kept version.
        kept: Ascending.
    """
    versions = [each for each in range(kept[0], latest.version + 1) if each in commits]
    files = [commits[each] for each in versions]
    found = stream_commits_with(latest.storage, files, ["remove", "cdc"])
    wanted = frozenset(kept)
    paths: set[str] = set()
    span: list[_Change] = []
    for version, file, commit in zip(versions, files, found, strict=True):
        if version > kept[0]:
            span.append(_change_of(commit, file))
        if version in wanted or version == latest.version:
            for removes in _earlier_files(span, latest):
                paths.update(protected_paths(removes, latest))
            span = []
        if version in wanted and commit is not None:
            paths.update(paths_named_by(commit, latest))
    return paths


class _Change(NamedTuple):
    """The names in a commit."""

    file: FileInfo
    adds: pa.Table | None
    """None if the commit was not decoded, because it has no removes."""
    removes: pa.Table


def _change_of(commit: Commit | None, file: FileInfo) -> _Change:
    if commit is None:
        return _Change(file, None, _NO_REMOVES)
    return _Change(file, commit.adds.select(_NAMES), commit.removes.select(_NAMES))


def _earlier_files(span: Sequence[_Change], latest: Snapshot) -> Iterator[pa.Table]:
    """Yield the removed files of successive commits, except files that these commits have added."""
    last = max((number for number, each in enumerate(span) if len(each.removes)), default=0)
    undecoded = [[each.file] for each in span[:last] if each.adds is None]
    added: set[str] = set()
    with closing(stream_commits(latest.storage, undecoded)) as decoded:
        for change in span[: last + 1]:
            keys = _keys(change.removes, latest)
            yield change.removes.filter(array_of([key not in added for key in keys], pa.bool_()))
            if change is not span[last]:
                adds = change.adds if change.adds is not None else next(decoded)[0].adds
                added.update(_keys(adds, latest))


def _keys(files: pa.Table, latest: Snapshot) -> list[str]:
    """The key of each file in the log."""
    return file_rows(files.select(_NAMES), latest.uri).keys.to_pylist() if len(files) else []


def paths_of_last_versions(log: DeltaLog, latest: Snapshot, number: int) -> set[str]:
    """Paths that the last versions need, if these versions are readable.

    A version whose commit names no files has the same files as the version before, and does not
    count. Otherwise each vacuum, which commits two such versions, would release the files of two
    more versions.
    """
    earliest = earliest_version(list_log(latest.storage, latest.log_directory)) or 0
    first = _first_of_last(log, latest.version, earliest, number)
    return paths_of_versions(log, latest, range(first, latest.version + 1))


def _first_of_last(log: DeltaLog, latest: int, earliest: int, number: int) -> int:
    """The first of the last `number` versions; a missing commit counts as a version."""
    top, window, counted = latest, number, 0
    while top >= earliest:
        bottom = max(top - window + 1, earliest)
        commits = {commit.version: commit for commit in log.commits(bottom, top)}
        for version in range(top, bottom - 1, -1):
            commit = commits.get(version)
            counted += commit is None or _names_files(commit)
            if counted == number:
                return version
        top, window = bottom - 1, 2 * window
    return earliest


def _names_files(commit: Commit) -> bool:
    return bool(len(commit.adds) or len(commit.removes) or commit.cdc)
