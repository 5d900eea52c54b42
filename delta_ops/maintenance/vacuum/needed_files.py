"""Needed files: what no vacuum may delete, looked at again while it goes on.

A file that was not needed can come to be: by a commit that adds it, or because whoever gave the
keep-sets adds to them. Commits that come later can only add: what they remove is still remembered.
So of a newer version only the commits since the last look are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from delta_ops.errors import CommitConflictError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.admission import validate_vacuumable
from delta_ops.maintenance.reachable import (
    alike_paths,
    paths_added_since,
    paths_of_last_versions,
    paths_of_versions,
    reachable_paths,
    real_paths,
)


class NeededFiles:
    """Decoded paths of the files that are needed; `paths` is one set, which grows.

    Args:
        snapshot: The latest version.
        keep_versions: Whose files are needed too, however old they are; may change.
        keep_last: How many of the last versions are such.

    Raises:
        VersionNotFoundError: A version that is to be kept cannot be read.
        InvalidRequestError: The log does not remember what was removed so long ago.
    """

    def __init__(
        self,
        log: DeltaLog,
        snapshot: Snapshot,
        *,
        now_ms: int,
        retention_ms: int,
        keep_versions: Collection[int] = (),
        keep_last: int = 0,
        on_event: OnEvent = ignore,
    ) -> None:
        self.snapshot = snapshot
        self._log = log
        self._now_ms, self._retention_ms = now_ms, retention_ms
        self._keep_versions, self._kept_versions = keep_versions, set(keep_versions)
        self._links: dict[str, str | None] = {}
        self._listed: Collection[str] = ()
        self.paths = reachable_paths(
            snapshot, now_ms=now_ms, retention_ms=retention_ms, on_event=on_event
        )
        self.paths |= paths_of_versions(log, self._kept_versions)
        if keep_last:
            self.paths |= paths_of_last_versions(log, snapshot, keep_last)

    def note_names(self, links: Mapping[str, str | None], listed: Collection[str]) -> None:
        """Add the other names that needed files have, and so for all that comes to be needed.

        Args:
            links: As for `real_paths`.
            listed: Files of a disk that may be deleted, for `alike_paths`.
        """
        self._links |= links
        self._listed = listed
        self.paths |= self.other_names(self.paths)

    def other_names(self, paths: Collection[str]) -> set[str]:
        """Names that the files of these paths have too, of those that were noted."""
        return real_paths(paths, self._links) | alike_paths(paths, self._listed)

    def look_again(self) -> None:
        """Add what has come to be needed since.

        Raises:
            CommitConflictError: The table promises more than it did, or names files otherwise.
            UnsupportedFeatureError: It has become a table that we must not touch.
        """
        newer_versions = set(self._keep_versions) - self._kept_versions
        kept = paths_of_versions(self._log, newer_versions)
        self.paths |= kept | self.other_names(kept)
        self._kept_versions |= newer_versions
        newer = self.snapshot.refresh()
        if newer.version == self.snapshot.version:
            return
        validate_vacuumable(newer)
        _validate_same_promise(self.snapshot, newer)
        added = paths_added_since(self._log, self.snapshot, newer)
        if added is None:  # a commit is gone: a checkpoint has what it said
            added = reachable_paths(newer, now_ms=self._now_ms, retention_ms=self._retention_ms)
        self.paths |= added | self.other_names(added)
        self.snapshot = newer


def _validate_same_promise(old: Snapshot, new: Snapshot) -> None:
    before, after = old.properties, new.properties
    if after.deleted_file_retention_ms > before.deleted_file_retention_ms:
        reason = "keeps removed files for longer (delta.deletedFileRetentionDuration)"
    elif new.metadata.id != old.metadata.id or new.partition_columns != old.partition_columns:
        reason = "put another table, or another partitioning, in its place"
    else:
        return
    raise CommitConflictError(new.uri, new.version, reason)
