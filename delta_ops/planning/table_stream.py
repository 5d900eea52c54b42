"""Table stream: a table as a source that is read continuously, slice by slice.

A query starts with its first snapshot, or with the commits from some version; then it reads the
commits that follow. The content of a slice depends only on its two offsets, so that a repeated
batch reads the same rows. Both engines read the files that are chosen here.

Commits that were read stay in memory until the slices have passed them. The files of the first
snapshot are ordered by modification time, then by their paths in the log. Only their times stay in
memory. The other fields are loaded for a moving window of files.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import takewhile
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import (
    InvalidRequestError,
    TableNotFoundError,
    TableReplacedError,
    VersionNotFoundError,
)
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import read_commits
from delta_ops.log.history.time_travel import version_from
from delta_ops.log.segment import LogListing, list_log
from delta_ops.log.version.repeated_files import drop_repeated
from delta_ops.option_words import option
from delta_ops.planning.change_feed import ChangedFile, ChangeFeed, changes_until
from delta_ops.planning.stream_commits import (
    StreamCommit,
    StreamRules,
    blocked_commit,
    find_change_of_columns,
    view_commit,
)
from delta_ops.planning.stream_slices import (
    SliceLimits,
    StreamVersion,
    end_of_slice,
    files_between,
    files_of_first_snapshot,
    versions_between,
)
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import ADD, add_files
from delta_ops.protocol.arrow_values import array_of, scalar
from delta_ops.protocol.stream_offset import StreamOffset
from delta_ops.storage import FileInfo

_AHEAD, _AHEAD_BYTES = 64, 8 << 20
"""Maximum number and bytes of commits that are decoded together; the first commit has no limit."""
_TIME, _NUMBER = "modificationTime", "delta_ops number"
_COLUMNS = [name for name in ADD.names if name not in ("stats", "tags")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """The options of a stream."""

    starting_version: int | Literal["latest"] | None = None
    """The first commit to read, or only commits after the latest; None reads the first snapshot and
    then commits."""
    starting_timestamp: str | date | None = None
    """Alternative: starts with the first commit at or after this time."""
    limits: SliceLimits = field(default_factory=SliceLimits)
    rules: StreamRules = field(default_factory=StreamRules)
    exclude: re.Pattern[str] | None = None
    """Files whose path in the log matches are not read."""

    @property
    def has_start(self) -> bool:
        """Whether the request says where to start."""
        return self.starting_version is not None or self.starting_timestamp is not None


class TableStream:
    """A table as one query reads it.

    Args:
        log: The table.
        schema_snapshot: The snapshot whose columns the stream has. A new query begins with it.
        request: The options.
    """

    def __init__(self, log: DeltaLog, schema_snapshot: Snapshot, request: StreamRequest) -> None:
        self.log, self.schema_snapshot, self._request = log, schema_snapshot, request
        self._last: int | None = None
        self._listing = LogListing(commits={}, checkpoints=(), v2_checkpoints=frozenset())
        self._seen: dict[int, StreamCommit] = {}
        self._first_snapshot: tuple[int, FilesByTime] | None = None
        self._is_checked = False

    def stop_at_latest(self) -> None:
        """Read up to the current latest version, and ignore later versions."""
        self._list(self.schema_snapshot.version)
        self._last = self._listing.latest_version

    def end_after(
        self, start: StreamOffset | None, limits: SliceLimits | None = None
    ) -> StreamOffset | None:
        """Return the end offset of the next slice; None if there is nothing to read yet.

        Args:
            start: The end of the previous slice; None at the start.
            limits: Limits of the slice; None means the limits of the request.

        Raises:
            InvalidRequestError: The offset belongs to another table, the start is invalid, or the
                next commit blocks the stream.
            VersionNotFoundError: Unread commits were cleaned up.
            TableReplacedError: The table was replaced.
        """
        if start is None and self._request.starting_version == "latest":
            # An empty slice records the latest version, for a query that restarts.
            return self._place(self._latest_version() + 1)
        begin = self._beginning() if start is None else self._own(start)
        end = end_of_slice(begin, self._versions(begin), limits or self._request.limits)
        return None if start is None and end == begin else end

    def adds_between(self, start: StreamOffset | None, end: StreamOffset) -> list[AddFile]:
        """Return the files of a slice in order; a file counts once for each version.

        Args:
            start: As for `end_after`.
            end: The result of `end_after`.
        """
        begin, end = self._beginning_before(start, end), self._own(end)
        found = [add for table in self._first_adds(begin, end) for add in add_files(table)]
        versions = versions_between(begin, end)
        commits = self._commits_from(versions.start) if versions else iter(())
        for commit in takewhile(lambda each: each.seen.version < versions.stop, commits):
            if commit.seen.obstacle is not None:
                raise commit.seen.obstacle
            taken = files_between(begin, end, commit.seen.version)
            found += add_files(commit.adds[taken])
        return [add for add in found if self._is_wanted(add.path)]

    def changes_between(
        self, start: StreamOffset | None, end: StreamOffset
    ) -> tuple[ChangeFeed, list[ChangedFile]]:
        """Return the changes of a slice; arguments as for `adds_between`."""
        begin, end = self._beginning_before(start, end), self._own(end)
        versions = versions_between(begin, end)
        for place in (begin, end):
            self._refuse_middle(place)
        feed = changes_until(self.log, self.schema_snapshot, versions)
        found: list[ChangedFile] = []
        for table in self._first_adds(begin, end):
            found += feed.insert_files(add_files(table), begin.version)
        by_version: dict[int, list[ChangedFile]] = {}
        for file in feed.files() if versions else ():
            by_version.setdefault(file.version, []).append(file)
        for version, files in by_version.items():
            found += files[files_between(begin, end, version)]
        return feed, [each for each in found if self._is_wanted(each.path)]

    def _refuse_middle(self, place: StreamOffset) -> None:
        """Reject an offset in the middle of changes that must be read together; other engines may
        create it."""
        if place.index < 0 or place.is_starting_version:
            return
        if next(self._commits_from(place.version)).seen.is_whole:
            raise InvalidRequestError(
                f"{self.log.uri}: the checkpoint is in the middle of version {place.version}, but "
                "the changes of a version are read together; start again with "
                f"starting_version={place.version} and another checkpoint"
            )

    def _is_wanted(self, path: str) -> bool:
        return self._request.exclude is None or self._request.exclude.search(path) is None

    def _place(self, version: int) -> StreamOffset:
        return StreamOffset(table_id=self.schema_snapshot.metadata.id, version=version)

    def _own(self, offset: StreamOffset) -> StreamOffset:
        if offset.table_id == self.schema_snapshot.metadata.id:
            return offset
        raise InvalidRequestError(
            f"{self.log.uri} has the id {self.schema_snapshot.metadata.id}, but the checkpoint "
            f"belongs to a query on the table with the id {offset.table_id}; give each table its "
            f"own {option('checkpoint_location')}"
        )

    def _beginning(self) -> StreamOffset:
        """Return the start offset of a query that has read nothing."""
        version, time = self._request.starting_version, self._request.starting_timestamp
        if time is not None:
            version = version_from(self.log.snapshot(), time)
        if version is None:
            first = self.schema_snapshot.version
            return StreamOffset(
                table_id=self.schema_snapshot.metadata.id, version=first, is_starting_version=True
            )
        assert version != "latest"
        latest = self._latest_version(from_version=version)
        if version > latest:
            raise VersionNotFoundError(
                self.log.uri, f"version {version}", f"its latest version is {latest}"
            )
        return self._place(version)

    def _beginning_before(self, start: StreamOffset | None, end: StreamOffset) -> StreamOffset:
        """Return the start of a slice; Spark passes no start for the first slice of a query."""
        if start is not None:
            return self._own(start)
        if self._request.starting_version == "latest":
            return end
        if self._request.has_start:
            return self._beginning()
        version = end.version if end.is_starting_version else end.version - 1
        return StreamOffset(table_id=end.table_id, version=version, is_starting_version=True)

    def _latest_version(self, from_version: int | None = None) -> int:
        self._list(self.schema_snapshot.version if from_version is None else from_version)
        latest = self._listing.latest_version
        return (
            self.schema_snapshot.version
            if latest is None
            else max(latest, self.schema_snapshot.version)
        )

    def _first_files(self, version: int) -> FilesByTime:
        if self._first_snapshot is None or self._first_snapshot[0] != version:
            schema_snapshot = self.schema_snapshot
            snapshot = (
                schema_snapshot
                if version == schema_snapshot.version
                else self.log.snapshot(version)
            )
            obstacle = find_change_of_columns(version, snapshot.metadata, schema_snapshot)
            if obstacle is not None:
                raise obstacle
            self._first_snapshot = (version, FilesByTime(snapshot))
        return self._first_snapshot[1]

    def _first_adds(self, start: StreamOffset, end: StreamOffset) -> Iterator[pa.Table]:
        taken = files_of_first_snapshot(start, end)
        if taken is None:
            self._first_snapshot = None  # the first snapshot is not needed again
        else:
            yield from self._first_files(start.version).rows_between(taken)

    def _versions(self, start: StreamOffset) -> Iterator[StreamVersion]:
        if start.is_starting_version:
            files = self._first_files(start.version)
            yield StreamVersion(start.version, len(files), files.sizes_from)
        else:
            self._check_columns(start.version)
            yield from (commit.seen for commit in self._commits_from(start.version))

    def _check_columns(self, version: int) -> None:
        """Check the columns once if the stream starts at an older version."""
        if self._is_checked or version > self.schema_snapshot.version:
            return
        self._is_checked = True
        try:
            metadata = self.log.snapshot(version).metadata
        except VersionNotFoundError:
            return  # the remaining commits show changes of columns
        obstacle = find_change_of_columns(version, metadata, self.schema_snapshot)
        if obstacle is not None:
            raise obstacle

    def _commits_from(self, version: int) -> Iterator[StreamCommit]:
        self._seen = {number: each for number, each in self._seen.items() if number >= version}
        is_fresh = False
        while self._last is None or version <= self._last:
            if version not in self._seen and version not in self._listing.commits:
                if is_fresh:
                    hole = self._explain_hole(version)
                    if hole is not None:
                        yield hole
                    return
                self._list(version)
                is_fresh = True
                continue
            if version not in self._seen:
                self._look_ahead(version)
            yield self._seen[version]
            version += 1

    def _list(self, version: int) -> None:
        """List the log from the version before `version`, which every valid log has."""
        self._listing = list_log(
            self.log.storage, self.log.log_directory, from_version=max(version - 1, 0)
        )

    def _look_ahead(self, version: int) -> None:
        files: list[FileInfo] = []
        size_bytes = 0
        for number in range(version, version + _AHEAD):
            info = self._listing.commits.get(number)
            if info is None or (self._last is not None and number > self._last):
                break
            size_bytes += info.size
            if files and size_bytes > _AHEAD_BYTES:
                break
            files.append(info)
        try:
            commits = read_commits(self.log.storage, files)
        except FileNotFoundError:
            self._seen[version] = blocked_commit(version, self._cleaned_up(version))
            return
        rules = self._request.rules
        self._seen |= {
            each.version: view_commit(each, rules, self.schema_snapshot) for each in commits
        }

    def _explain_hole(self, version: int) -> StreamCommit | None:
        """Return why a version is missing; None if it does not exist yet."""
        if self._listing.latest_version is None:
            self._list(0)
        latest = self._listing.latest_version
        if latest is None:
            return blocked_commit(version, TableNotFoundError(self.log.uri))
        if latest < version - 1:
            reason = (
                f"is at version {latest}, but this stream has already read version {version - 1}"
            )
            consequence = "The table was rolled back; start again with another checkpoint."
            return blocked_commit(version, TableReplacedError(self.log.uri, reason, consequence))
        if latest == version - 1:
            return None
        return blocked_commit(version, self._cleaned_up(version))

    def _cleaned_up(self, version: int) -> VersionNotFoundError:
        left = min((v for v in self._listing.commits if v > version), default=None)
        rest = "no later commit remains" if left is None else f"the next remaining commit is {left}"
        return VersionNotFoundError(
            self.log.uri,
            f"version {version}",
            f"its commit was cleaned up before this stream read it, and {rest}; start again with "
            "another checkpoint, and raise delta.logRetentionDuration to keep the log longer",
        )


class FilesByTime:
    """The live files of a snapshot, numbered from 0.

    Args:
        window: Number of files in memory; more if more files have the same time.
    """

    def __init__(self, snapshot: Snapshot, window: int = 100_000) -> None:
        self._snapshot, self._window = snapshot, window
        times = pa.concat_tables(snapshot.stream_live([_TIME]))[_TIME].combine_chunks()
        times = pc.fill_null(times, scalar(0))
        self._times = times.take(pc.sort_indices(times))
        self._loaded = pa.table({_NUMBER: array_of([], pa.int64())})
        self._first = self._end = 0
        """The range of file numbers in memory."""

    def __len__(self) -> int:
        return len(self._times)

    def sizes_from(self, first: int) -> Iterator[int]:
        """Yield the sizes in bytes of the files, starting with file number `first`."""
        while first < len(self):
            rows = self._rows_from(first)
            yield from rows["size"].to_pylist()
            first = self._end

    def rows_between(self, numbers: slice) -> Iterator[pa.Table]:
        """Yield the files with these numbers as rows of `arrow_schemas.ADD`, without duplicates."""
        first, stop, _ = numbers.indices(len(self))
        while first < stop:
            rows = self._rows_from(first)
            rows = rows.filter(pc.less(rows[_NUMBER], scalar(stop)))
            # A checkpoint from another writer may list a file twice.
            yield _add_rows(drop_repeated(rows, self._snapshot.uri))
            first = self._end

    def _rows_from(self, first: int) -> pa.Table:
        if not self._first <= first < self._end:
            self._load(first)
        return self._loaded.slice(first - self._first)

    def _load(self, first: int) -> None:
        """Load a window that starts at this file, or at the first file with the same time."""
        last = min(first + self._window, len(self)) - 1
        from_ms, to_ms = self._times[first].as_py(), self._times[last].as_py()
        self._loaded = None  # free the previous window first
        tables = []
        for table in self._snapshot.stream_live(_COLUMNS):
            times = pc.fill_null(table[_TIME], scalar(0))
            is_within = pc.and_(
                pc.greater_equal(times, scalar(from_ms)), pc.less_equal(times, scalar(to_ms))
            )
            tables.append(table.set_column(_COLUMNS.index(_TIME), _TIME, times).filter(is_within))
        rows = pa.concat_tables(tables).sort_by([(_TIME, "ascending"), ("path", "ascending")])
        self._first = bisect_left(self._times, from_ms, key=lambda time: time.as_py())
        self._end = bisect_right(self._times, to_ms, key=lambda time: time.as_py())
        numbers = array_of(range(self._first, self._end), pa.int64())
        self._loaded = rows.append_column(_NUMBER, numbers)


def _add_rows(rows: pa.Table) -> pa.Table:
    columns = [
        rows[field.name] if field.name in _COLUMNS else pa.nulls(len(rows), field.type)
        for field in ADD
    ]
    return pa.table(columns, schema=ADD)
