"""Needed files: what no vacuum may delete, looked at again while it goes on.

A file that was not needed can come to be: by a commit that adds it, or because whoever gave the
keep-sets adds to them. Commits that come later can only add: what they remove is still remembered.
So of a newer version only the commits since the last look are read.
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
    """What a look at a table's log has found."""

    snapshot: Snapshot
    """The version that was the latest one."""
    kept_versions: frozenset[int]
    """Versions whose files are needed too, however old they are."""
    needed: Set[str]
    """Decoded paths of the files that are needed; of a later look, those that an earlier one may
    not have found."""


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
    """Find all files that are needed.

    Args:
        snapshot: The latest version.
        keep_last: How many of the last versions are kept.

    Raises:
        VersionNotFoundError: A version that is to be kept cannot be read.
        InvalidRequestError: The log does not remember what was removed so long ago.
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
    """Find what has come to be needed since the last look.

    Raises:
        CommitConflictError: The table promises more than it did, or names files otherwise.
        UnsupportedFeatureError: It has become a table that we must not touch.
        VersionNotFoundError: A version that is to be kept cannot be read.
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
        if added is None:  # a commit is gone: a checkpoint has what it said
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
