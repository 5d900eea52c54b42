"""Needed files: the files that no vacuum may delete, updated during a vacuum.

A file becomes needed if a commit adds it, or if the caller adds to the versions to keep. Later
commits can only add needed files, because the tombstones of removed files protect them. So only the
commits since the last look are read.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass

from delta_ops.errors import CommitConflictError
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.admission import validate_vacuumable
from delta_ops.maintenance.vacuum.reachable import (
    paths_added_since,
    paths_of_last_versions,
    paths_of_versions,
    reachable_paths,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The state of a table's log at one time of a vacuum."""

    snapshot: Snapshot
    """The latest version at that time."""
    kept_versions: frozenset[int]
    """Versions whose files are needed at any age."""
    needed: Set[str]
    """Decoded paths of the needed files. A later look has only files that the last look may lack.
    """


def first_look(
    log: DeltaLog,
    snapshot: Snapshot,
    *,
    now_ms: int,
    retention_ms: int,
    keep_versions: Collection[int],
    keep_last: int,
    on_event: OnEvent,
) -> Look:
    """Find all needed files.

    Args:
        snapshot: The latest version.
        keep_last: How many of the last versions are kept.

    Raises:
        VersionNotFoundError: A version to keep cannot be read.
        InvalidRequestError: The log no longer has the removes of that time.
    """
    kept_versions = frozenset(keep_versions)
    needed = reachable_paths(snapshot, now_ms=now_ms, retention_ms=retention_ms, on_event=on_event)
    needed |= paths_of_versions(log, kept_versions)
    if keep_last:
        needed |= paths_of_last_versions(log, snapshot, keep_last)
    return Look(snapshot=snapshot, kept_versions=kept_versions, needed=needed)


def look_again(
    log: DeltaLog, last: Look, *, now_ms: int, retention_ms: int, keep_versions: Collection[int]
) -> Look:
    """Find files that are newly needed since the last look.

    Raises:
        CommitConflictError: The table's retention was raised, or the table was replaced or
            repartitioned.
        UnsupportedFeatureError: The table has a feature that forbids a vacuum.
        VersionNotFoundError: A version to keep cannot be read.
    """
    kept_versions = last.kept_versions | frozenset(keep_versions)
    newer = last.snapshot.refresh()
    is_newer = newer.version != last.snapshot.version
    if is_newer:
        validate_vacuumable(newer)
        _validate_same_promise(last.snapshot, newer)
    needed = paths_of_versions(log, kept_versions - last.kept_versions)
    if is_newer:
        added = paths_added_since(log, last.snapshot, newer)
        if added is None:  # a commit is gone, but a checkpoint has its actions
            added = reachable_paths(newer, now_ms=now_ms, retention_ms=retention_ms)
        needed |= added
    return Look(snapshot=newer, kept_versions=kept_versions, needed=needed)


def _validate_same_promise(old: Snapshot, new: Snapshot) -> None:
    before, after = old.properties, new.properties
    if after.deleted_file_retention_ms > before.deleted_file_retention_ms:
        reason = "keeps removed files for longer (delta.deletedFileRetentionDuration)"
    elif new.metadata.id != old.metadata.id or new.partition_columns != old.partition_columns:
        reason = "put another table, or another partitioning, in its place"
    else:
        return
    raise CommitConflictError(new.uri, new.version, reason)
