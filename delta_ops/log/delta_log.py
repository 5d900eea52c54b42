"""DeltaLog: the handle of a table. Creating a handle does no I/O."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import copy
from datetime import date
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import (
    InvalidRequestError,
    LogCorruptError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.log.commit_file import Commit
from delta_ops.log.history.history import HistoryEntry, load_history
from delta_ops.log.history.logged_commits import LoggedCommit, read_in_groups
from delta_ops.log.history.time_travel import version_at
from delta_ops.log.outside_files import OutsideFiles, OutsideRule
from delta_ops.log.refs.anchors import open_anchor
from delta_ops.log.refs.branches import (
    branch_log_directory,
    find_branch,
    validate_exists,
)
from delta_ops.log.refs.refs import Branch, Session, Tag, find_tag, parse_ref
from delta_ops.log.refs.sessions import find_session, load_session_snapshot
from delta_ops.log.refs.side_logs import is_side_log
from delta_ops.log.same_table import validate_version_of_ref
from delta_ops.log.segment import list_log
from delta_ops.log.session_place import ForkPlace
from delta_ops.log.snapshot import Snapshot, open_snapshot
from delta_ops.storage import Lock, RangeCache, Storage, open_storage

LOG_DIRECTORY = "_delta_log"

Place = str | os.PathLike[str]
"""Location of a table: a local path or any URI that fsspec supports."""


class DeltaLog:
    """Handle of a table at a location; can be pickled, and its repr shows no credentials.

    Args:
        uri: The table's root: a local path or any URI that fsspec supports.
        storage_options: Options for fsspec's file system, or the same options under the names of
            environment variables (`AWS_ENDPOINT_URL`, ...).
        lock: Lock to hold while a commit is created, for stores without exclusive create; see
            `delta_ops.storage.Lock` for the guarantees that it must give.
        cache: Directory on this machine for data read from checkpoints, so that the next process
            need not read it from the store again. For tables on S3, GCS and Azure; other tables
            ignore it. Everyone who may read the directory can read its content, whatever the
            store permits.
        storage: An open storage, for callers that wrap one. Its own `uri`, lock and cache are
            used, and `storage_options` apply to files outside of the table.
        log_directory: Relative to the table's root.
        base: A snapshot from another log of the same files. The first commit of this log follows
            its version; that version and all before it are read from the other log.
        outside: Whether to read files that the log names outside of the table, as shallow clones
            do: "read", or "refuse" if you do not trust the log. Or storage options by prefix,
            `{"s3://other/": {...}}`, for stores that the table's own options do not open.

    Examples:
        >>> log = DeltaLog("lake/orders")
        >>> log.exists(), DeltaLog("lake/nothing").exists()
        (True, False)
        >>> log.snapshot().num_files
        1
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        *,
        lock: Lock | None = None,
        cache: RangeCache | None = None,
        storage: Storage | None = None,
        log_directory: str = LOG_DIRECTORY,
        base: Snapshot | None = None,
        outside: OutsideRule = "read",
    ) -> None:
        validate_arguments(DeltaLog.__init__, locals())
        self.storage = (
            open_storage(uri, storage_options, lock=lock, cache=cache)
            if storage is None
            else storage
        )
        if base is not None and base.uri != self.storage.uri:
            raise InvalidRequestError(
                f"{self.storage.uri}: the base is a snapshot of another table, {base.uri}; give a "
                "snapshot of this table"
            )
        self.log_directory = log_directory
        self.base = base
        self.outside = OutsideFiles(outside, storage_options)

    @property
    def uri(self) -> str:
        """The table's root, without credentials."""
        return self.storage.uri

    def __repr__(self) -> str:
        own = self.log_directory == LOG_DIRECTORY
        return (
            f"DeltaLog({self.uri!r})" if own else f"DeltaLog({self.uri!r}, {self.log_directory!r})"
        )

    def over(self, storage: Storage) -> DeltaLog:
        """A handle of this table that uses another storage of its root."""
        log = copy(self)
        log.storage = storage
        return log

    def exists(self) -> bool:
        """Whether there is a table here."""
        latest = list_log(self.storage, self.log_directory).latest_version
        return latest is not None or self.base is not None

    def snapshot(
        self,
        version: int | None = None,
        timestamp: str | date | None = None,
        *,
        ref: str | None = None,
    ) -> Snapshot:
        """Open the table at a version, a time, a tag or a branch, or at its latest version.

        A time is UTC unless it has a zone; a date means its midnight. A tag, a branch or the rows
        of a session are given as a ref, such as `tag:2026-11`, `branch:audit` or `session:<id>`;
        see `delta_ops.versioning`.

        Raises:
            InvalidRequestError: The argument is not a version, time or ref, or several were given.
            TableNotFoundError: There is no table here.
            VersionNotFoundError: That version or time cannot be read.
            LogCorruptError: The log is damaged.
            UnsupportedFeatureError: The table uses features that delta_ops cannot read.

        Examples:
            >>> _ = da.delete("lake/orders", col("id") == 1)
            >>> log = DeltaLog("lake/orders")
            >>> log.snapshot().version, log.snapshot(version=0).version
            (1, 0)
        """
        validate_arguments(DeltaLog.snapshot, locals())
        if sum(each is not None for each in (version, timestamp, ref)) > 1:
            raise InvalidRequestError("give a version, a timestamp or a ref, not several of them")
        if ref is not None:
            return self._open_ref(ref)
        if timestamp is not None:
            latest = self._open()
            version = version_at(latest, timestamp)
            if version == latest.version:
                return latest
        return self._open(version)

    def snapshot_with_files(self, version: int | None = None) -> Snapshot:
        """Open a version, or the latest, whose live files the caller will read.

        The checkpoint, which has the files, is opened instead of the version's checksum. So lost
        commits, which checksums show, are not noticed; commits and `health` notice them.

        Raises:
            TableNotFoundError, VersionNotFoundError, LogCorruptError, UnsupportedFeatureError: As
                `snapshot`.

        Examples:
            >>> len(DeltaLog("lake/orders").snapshot_with_files().add_files())
            1
        """
        validate_arguments(DeltaLog.snapshot_with_files, locals())
        return self._open(version, with_files=True)

    @property
    def main(self) -> DeltaLog:
        """The table's own log; the same handle unless this log is of a branch or session."""
        if not is_side_log(self.log_directory):
            return self
        log = copy(self)
        log.log_directory, log.base = LOG_DIRECTORY, None
        return log

    def on_branch(self, branch: Branch) -> DeltaLog:
        """The log of a branch of this table.

        Raises:
            VersionNotFoundError: The base version of the branch cannot be read.
        """
        log, main = copy(self), self.main
        log.log_directory = branch_log_directory(branch.id)
        log.base = main._open_base(branch)
        return log

    def on_fork(self, place: ForkPlace, base: Snapshot) -> DeltaLog:
        """The log of one writer of a session.

        Args:
            place: Where the log is.
            base: The rows of the session that the writer sees.
        """
        log = copy(self)
        log.log_directory, log.base = place.log_directory, base
        return log

    def open_session_base(self, session: Session) -> Snapshot:
        """Open the base version of a session of this table.

        Raises:
            VersionNotFoundError: The version cannot be read, or belongs to another table.
        """
        return self.main._open_base(session)

    def _open_ref(self, ref: str) -> Snapshot:
        kind, name = parse_ref(ref)
        if kind == "session":
            session = find_session(self.storage, name)
            return load_session_snapshot(self.open_session_base(session), session)
        if kind == "branch":
            return self.on_branch(find_branch(self.storage, name))._open()
        return self.main._open_tag(find_tag(self.storage, name))

    def _open_tag(self, tag: Tag) -> Snapshot:
        snapshot = self._open(tag.version)
        validate_version_of_ref(
            snapshot, table_id=tag.table_id, txn_id=tag.txn_id, ref=f"tag {tag.name}", kind="tag"
        )
        return snapshot

    def _open_base(self, ref: Branch | Session) -> Snapshot:
        snapshot = self._open(ref.base_version)
        kind = "branch" if isinstance(ref, Branch) else "session"
        validate_version_of_ref(
            snapshot,
            table_id=ref.table_id,
            txn_id=ref.txn_id,
            ref=f"{kind} {ref.name if isinstance(ref, Branch) else ref.id}",
            kind=kind,
        )
        return snapshot

    def _open(self, version: int | None = None, *, with_files: bool = False) -> Snapshot:
        try:
            snapshot = open_snapshot(
                self.storage,
                self.log_directory,
                version,
                self.base,
                outside=self.outside,
                with_files=with_files,
            )
        except (VersionNotFoundError, LogCorruptError):
            anchored = None if version is None else self._open_anchored(version)
            if anchored is None:
                raise
            return anchored
        if self.base is not None and snapshot.version == self.base.version:
            # A branch without commits looks like a deleted branch whose log is gone.
            validate_exists(self.storage, self.log_directory)
        return snapshot

    def _open_anchored(self, version: int) -> Snapshot | None:
        """A version that the log has lost, by its anchor; None if it has none."""
        if self.log_directory != LOG_DIRECTORY:
            return None
        found = open_anchor(self.storage, self.log_directory, version, self.outside)
        is_ours = found is not None and found.metadata.id == self._open().metadata.id
        return found if is_ours else None

    def snapshot_if_exists(self) -> Snapshot | None:
        """Open the latest version; None if there is no table yet."""
        try:
            return self.snapshot()
        except TableNotFoundError:
            return None

    def history(self, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Yield the history entry of each version, newest first.

        Examples:
            >>> _ = da.delete("lake/orders", col("id") == 1)
            >>> [(entry.version, entry.operation) for entry in DeltaLog("lake/orders").history()]
            [(1, 'DELETE'), (0, 'WRITE')]
        """
        validate_arguments(DeltaLog.history, locals())
        return load_history(self.storage, self.log_directory, limit, base=self.base)

    def commits(self, start_version: int, end_version: int | None = None) -> Iterator[Commit]:
        """Yield the commits from one version to another, both included, oldest first.

        Versions whose commit file was cleaned up are skipped.

        Examples:
            >>> da.write("lake/orders", da.to_table("lake/orders")).version
            1
            >>> [commit.adds.num_rows for commit in DeltaLog("lake/orders").commits(0)]
            [1, 1]
        """
        validate_arguments(DeltaLog.commits, locals())
        return self._commits(start_version, end_version)

    def _commits(self, start_version: int, end_version: int | None) -> Iterator[Commit]:
        # One version early, so that a first version missed by the listing is noticed as a gap.
        first = max(start_version - 1, 0 if self.base is None else self.base.version + 1)
        listing = list_log(self.storage, self.log_directory, from_version=first)
        commits = {
            version: LoggedCommit(self.storage, self.log_directory, version, info)
            for version, info in sorted(listing.commits.items())
            if version >= start_version and (end_version is None or version <= end_version)
        }
        for _, commit in read_in_groups(commits, list(commits)):
            yield commit


TableOrPlace = DeltaLog | Place
Source = DeltaLog | Snapshot | Place


def log_of(table: TableOrPlace, storage_options: Mapping[str, Any] | None = None) -> DeltaLog:
    """Return the given handle, or make a handle of the table at a location."""
    return table if isinstance(table, DeltaLog) else DeltaLog(table, storage_options)


def snapshot_of(
    source: Source,
    version: int | None = None,
    timestamp: str | date | None = None,
    ref: str | None = None,
) -> Snapshot:
    """Return the given snapshot, or open a table as `DeltaLog.snapshot` does.

    Raises:
        InvalidRequestError: A version, a time or a ref was given together with a snapshot.
        TableNotFoundError, VersionNotFoundError, LogCorruptError, UnsupportedFeatureError: As
            `DeltaLog.snapshot`.
    """
    if not isinstance(source, Snapshot):
        return log_of(source).snapshot(version, timestamp, ref=ref)
    if (version, timestamp, ref) != (None, None, None):
        raise InvalidRequestError(
            f"{source.uri}: the source is a snapshot of version {source.version}; give its table "
            "instead, or leave version, timestamp and ref out"
        )
    return source
