"""DeltaLog: the handle of a table. Making one does no I/O."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import copy
from datetime import date
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.log.history.history import HistoryEntry, load_history
from delta_ops.log.history.time_travel import version_at
from delta_ops.log.outside_files import OutsideFiles, OutsideRule
from delta_ops.log.segment import list_log
from delta_ops.log.snapshot import Snapshot, open_snapshot
from delta_ops.storage import Lock, RangeCache, Storage, open_storage

LOG_DIRECTORY = "_delta_log"

Place = str | os.PathLike[str]
"""Where a table is: a local path or any URI that fsspec knows."""


class DeltaLog:
    """A table by its place; pickles, and shows no credential.

    Args:
        uri: The table's root: a local path or any URI that fsspec knows.
        storage_options: What fsspec's file system takes, or the same by the names of the
            environment (`AWS_ENDPOINT_URL`, ...).
        lock: Within which commits are created, for a store that cannot do so exclusively by
            itself; see `delta_ops.storage.Lock` for what it must guarantee.
        cache: Where this machine keeps what it reads of checkpoints, so that the next process
            need not ask the store for it. Of tables on S3, GCS and Azure; any other does not use
            it. Whoever may read the directory may read what is in it, whatever the store permits.
        storage: Already opened, for callers that wrap one; `uri`, lock and cache are then its own,
            and the options are those of files outside.
        log_directory: Relative to the table's root.
        base: A snapshot from another log of the same files that the first commit of this one
            follows; versions are counted on from it, and those before it are read from its log.
        outside: Whether files are read that the log names outside of the table, as shallow clones
            do: "read", or "refuse" for whoever does not trust the log. Or storage options by
            prefix, `{"s3://other/": {...}}`, for stores that the table's own options do not open.
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
        self.log_directory = log_directory
        self.base = base
        self.outside = OutsideFiles(outside, storage_options)

    @property
    def uri(self) -> str:
        """The table's root, without credentials."""
        return self.storage.uri

    def __repr__(self) -> str:
        return f"DeltaLog({self.uri!r})"

    def over(self, storage: Storage) -> DeltaLog:
        """This table by another storage of its root."""
        log = copy(self)
        log.storage = storage
        return log

    def exists(self) -> bool:
        """Whether there is a table here."""
        latest = list_log(self.storage, self.log_directory).latest_version
        return latest is not None or self.base is not None

    def snapshot(self, version: int | None = None, timestamp: str | date | None = None) -> Snapshot:
        """The table at a version, at a time, or at its latest version.

        A time is UTC unless it has a zone; a date is its midnight.

        Raises:
            InvalidRequestError: What was given is no version or no time.
            TableNotFoundError: There is no table here.
            VersionNotFoundError: That version or time cannot be read.
            LogCorruptError: The log is damaged.
            UnsupportedFeatureError: The table uses what we cannot read.
        """
        validate_arguments(DeltaLog.snapshot, locals())
        if version is not None and timestamp is not None:
            raise InvalidRequestError("give a version or a timestamp, not both")
        if timestamp is not None:
            latest = self._open()
            version = version_at(latest, timestamp)
            if version == latest.version:
                return latest
        return self._open(version)

    def _open(self, version: int | None = None) -> Snapshot:
        return open_snapshot(
            self.storage, self.log_directory, version, self.base, outside=self.outside
        )

    def snapshot_if_exists(self) -> Snapshot | None:
        """The latest version, or None where there is no table yet."""
        try:
            return self.snapshot()
        except TableNotFoundError:
            return None

    def history(self, limit: int | None = None) -> Iterator[HistoryEntry]:
        """What each version did, newest first."""
        validate_arguments(DeltaLog.history, locals())
        return load_history(self.storage, self.log_directory, limit, base=self.base)

    def commits(self, start_version: int, end_version: int | None = None) -> Iterator[Commit]:
        """The commits from one version to another, both included, oldest first.

        Versions whose commit file was cleaned up are left out.
        """
        validate_arguments(DeltaLog.commits, locals())
        return self._commits(start_version, end_version)

    def _commits(self, start_version: int, end_version: int | None) -> Iterator[Commit]:
        # From the one before, which tells a clean-up from a listing that missed the first.
        first = max(start_version - 1, 0)
        listing = list_log(self.storage, self.log_directory, from_version=first)
        for version in sorted(listing.commits):
            if version >= start_version and (end_version is None or version <= end_version):
                commit = read_commit_if_there(self.storage, self.log_directory, version)
                if commit is not None:
                    yield commit


TableOrPlace = DeltaLog | Place
Source = DeltaLog | Snapshot | Place


def log_of(table: TableOrPlace, storage_options: Mapping[str, Any] | None = None) -> DeltaLog:
    """The handle that was given, or one of the table at a place."""
    return table if isinstance(table, DeltaLog) else DeltaLog(table, storage_options)


def snapshot_of(
    source: Source, version: int | None = None, timestamp: str | date | None = None
) -> Snapshot:
    """The snapshot that was given, or one of a table as `DeltaLog.snapshot` has it.

    Raises:
        InvalidRequestError: A version or a time was given beside a snapshot.
        TableNotFoundError, VersionNotFoundError, LogCorruptError, UnsupportedFeatureError: As
            `DeltaLog.snapshot`.
    """
    if not isinstance(source, Snapshot):
        return log_of(source).snapshot(version, timestamp)
    if version is not None or timestamp is not None:
        raise InvalidRequestError(
            f"{source.uri}: what is read is a snapshot, of version {source.version}; give its "
            "table instead, or leave version and timestamp out"
        )
    return source
