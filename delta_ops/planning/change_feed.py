"""The change feed: choose the files with the rows that the commits of a range changed.

Source: PROTOCOL.md, "Change Data Files", "Reader Requirements for AddCDCFile", "Deletion Vectors".

If a commit has change data files, only these are read. Otherwise its changes follow from its adds
and removes that change data, see `commit_changes`. All rows have the columns of the last version of
the range, or of the latest version, even if the columns had other names earlier. A range is
rejected if the feed was off for one of its versions, a column had an incompatible type, or column
mapping was removed. Both engines read the files that are chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from delta_ops.errors import InvalidRequestError, LogCorruptError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.log.history.commit_times import CommitTimes
from delta_ops.log.history.time_travel import timestamp_ms, version_at, version_from
from delta_ops.option_words import option
from delta_ops.planning.changes_request import ChangesRequest, error_without_feed
from delta_ops.planning.commit_changes import Deleted, Difference, changes_of_files
from delta_ops.protocol.actions import AddFile, Metadata, RemoveFile
from delta_ops.protocol.change_data import CHANGE_TYPE_COLUMN
from delta_ops.protocol.columns.mapping import is_mapped, physical_name
from delta_ops.protocol.features import Engine
from delta_ops.protocol.file_names import commit_name
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.properties.known import CHANGE_DATA_FEED
from delta_ops.protocol.properties.property import is_on
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    TIMESTAMP,
    StructField,
    StructType,
    schema_from_json,
)
from delta_ops.protocol.schema.widening import unreadable_columns
from delta_ops.protocol.table_definition import TableDefinition, validate

CHANGE_TYPE = StructField(CHANGE_TYPE_COLUMN, STRING)
"""insert, delete, update_preimage or update_postimage."""
COMMIT_VERSION = StructField("_commit_version", LONG)
COMMIT_TIMESTAMP = StructField("_commit_timestamp", TIMESTAMP)
_OF_CHANGES = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file with rows of the feed."""

    path: str
    """Canonical path."""
    size: int
    """In bytes; 0 if the log does not record it."""
    version: int
    """The version of the commit."""
    partition_columns: frozenset[str]
    """Names of the feed's columns whose values come from the log; the file may lack them."""
    partition_values: Mapping[str, str | None]
    """Partition values in the log's format."""
    change: Mapping[str, Any]
    """Constant values of the feed's own columns. A change data file stores the change type in its
    rows."""
    rows: Deleted | Difference | None = None
    """The wanted rows; None means all."""

    @property
    def is_change_data(self) -> bool:
        """Whether the file stores the change type of each row."""
        return CHANGE_TYPE.name not in self.change


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeed:
    """The changes of a range of versions."""

    log: DeltaLog
    first: int
    """The first version of the range; after `end` if the range has no commits."""
    end: Snapshot
    """The last version of the range."""
    schema_snapshot: Snapshot
    """The snapshot whose columns the changes have."""
    is_stream: bool = False
    """Whether a stream reads the changes."""
    schema: StructType = field(init=False)
    """The table's columns, then the columns of the feed."""
    _names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        fields = (*self.schema_snapshot.schema.fields, *_OF_CHANGES)
        object.__setattr__(self, "schema", StructType(fields))
        object.__setattr__(self, "_names", frozenset(each.name for each in fields))

    @property
    def definition(self) -> TableDefinition:
        """The table definition of `schema_snapshot`."""
        return self.schema_snapshot.definition

    def constant_columns(self, file: ChangedFile) -> tuple[StructField, ...]:
        """Return the columns whose values are the same in all rows of a file.

        The values come from the log; the file may lack the columns.
        """
        partitions = (f for f in self.schema.fields if f.name in file.partition_columns)
        return (*partitions, *(each for each in _OF_CHANGES if each.name in file.change))

    def insert_files(self, adds: Iterable[AddFile], version: int) -> Iterator[ChangedFile]:
        """Yield files whose rows count as inserted by the commit of a version.

        Raises:
            VersionNotFoundError: The commit was cleaned up, so that its time is unknown.
        """
        partitions = self._partition_columns(self.schema_snapshot.metadata)
        times = CommitTimes(self.schema_snapshot)
        if version not in times.versions:
            raise _cleaned_up(self.end.uri, version, times)
        time_ms = times.time_at(version)
        values = {
            CHANGE_TYPE.name: "insert",
            COMMIT_VERSION.name: version,
            COMMIT_TIMESTAMP.name: _commit_time(self.end.uri, version, time_ms),
        }
        for add in adds:
            yield ChangedFile(
                path=canonical_path(add.path, self.end.uri),
                size=add.size,
                version=version,
                partition_columns=partitions,
                partition_values=self._rename_for_feed(add.partition_values),
                change=values,
                rows=Deleted(add.deletion_vector) if add.deletion_vector else None,
            )

    def files(self) -> Iterator[ChangedFile]:
        """Yield all files to read, in the order of the commits.

        Raises:
            InvalidRequestError: The range cannot be read. Raised immediately for its first and last
                version, and during iteration for versions in between.
            VersionNotFoundError: A commit of the range was cleaned up.
        """
        if self.first > self.end.version:
            return iter(())
        metadata = self.log.snapshot(self.first).metadata
        self._validate(self.first, metadata)
        self._validate(self.end.version, self.end.metadata)
        return self._files(metadata)

    def _files(self, metadata: Metadata) -> Iterator[ChangedFile]:
        partitions = self._partition_columns(metadata)
        times = CommitTimes(self.end)
        expected = self.first
        for commit in self.log.commits(self.first, self.end.version):
            if commit.version != expected:
                break
            expected += 1
            if commit.metadata is not None and commit.version > self.first:
                self._validate(commit.version, commit.metadata)
                partitions = self._partition_columns(commit.metadata)
            values = _commit_values(self.end.uri, commit, times)
            yield from self._files_of(commit, partitions, values)
        if expected <= self.end.version:
            raise _cleaned_up(self.end.uri, expected, times)

    def _files_of(
        self, commit: Commit, partitions: frozenset[str], values: Mapping[str, Any]
    ) -> Iterator[ChangedFile]:
        uri = self.end.uri
        for cdc in commit.cdc:
            yield ChangedFile(
                path=canonical_path(cdc.path, uri),
                size=cdc.size,
                version=commit.version,
                partition_columns=partitions,
                partition_values=self._rename_for_feed(cdc.partition_values),
                change=values,
            )
        if commit.cdc:
            return
        before: Mapping[str, Mapping[str, str | None]] = {}
        for change, action, rows in changes_of_files(commit, uri):
            # Files that this commit removes may have been written under a previous partitioning.
            is_older = commit.metadata is not None and isinstance(action, RemoveFile)
            in_log = action.partition_values
            if in_log is None and (partitions or is_older):
                before = before or self._values_by_path(commit.version - 1)
                in_log = self._values_of_add(commit.version, action.path, before)
            in_log = self._rename_for_feed(in_log or {})
            yield ChangedFile(
                path=canonical_path(action.path, uri),
                size=action.size or 0,
                version=commit.version,
                partition_columns=self._columns_in(in_log) if is_older else partitions,
                partition_values=in_log,
                change={**values, CHANGE_TYPE.name: change},
                rows=rows,
            )

    @property
    def _key(self) -> Callable[[StructField], str]:
        """Returns the key of a field; equal keys in two versions mean the same column."""
        # If mapping was added within the range, physical names equal the earlier names.
        return physical_name if self.definition.is_mapped else lambda each: each.name.lower()

    def _partition_columns(self, metadata: Metadata) -> frozenset[str]:
        """Return the feed's columns that are partition columns in this metadata."""
        keys = {
            self._key(each)
            for each in schema_from_json(metadata.schema_string).fields
            if each.name in metadata.partition_columns
        }
        return frozenset(
            each.name for each in self.schema_snapshot.schema.fields if self._key(each) in keys
        )

    def _rename_for_feed(self, values: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """Return partition values under the feed's names; old names may differ in case."""
        if self.definition.is_mapped or values.keys() <= self._names:
            return values
        by_key = {name.lower(): text for name, text in values.items()}
        return {name: by_key[name.lower()] for name in self._names if name.lower() in by_key}

    def _columns_in(self, values: Mapping[str, str | None]) -> frozenset[str]:
        """Return the feed's columns that these partition values name."""
        fields = self.schema_snapshot.schema.fields
        if not self.definition.is_mapped:
            return self._names.intersection(values)
        return frozenset(each.name for each in fields if physical_name(each) in values)

    def _values_by_path(self, version: int) -> Mapping[str, Mapping[str, str | None]]:
        adds = self.log.snapshot(version).add_files()
        return {canonical_path(add.path, self.end.uri): add.partition_values for add in adds}

    def _values_of_add(
        self, version: int, path: str, before: Mapping[str, Mapping[str, str | None]]
    ) -> Mapping[str, str | None]:
        """Return partition values for a remove without values, from the add of the same file."""
        found = before.get(canonical_path(path, self.end.uri))
        if found is not None:
            return found
        raise LogCorruptError(
            self.end.uri,
            f"version {version}",
            f"it removes {path} without partitionValues, and the version before does not have "
            "that file",
        )

    def _validate(self, number: int, metadata: Metadata) -> None:
        uri = self.end.uri
        if not is_on(CHANGE_DATA_FEED, metadata.configuration):
            versions = range(self.first, self.end.version + 1)
            raise error_without_feed(self.log, number, versions, is_stream=self.is_stream)
        if is_mapped(metadata) and not self.definition.is_mapped:
            raise InvalidRequestError(
                f"{uri}: the changes of version {number} cannot be read with those of version "
                f"{self.schema_snapshot.version}: column mapping was removed in between; end "
                "before that version, or begin with it"
            )
        schema = schema_from_json(metadata.schema_string)
        for path, was, becomes in unreadable_columns(
            schema, self.schema_snapshot.schema, self._key
        ):
            raise InvalidRequestError(
                f"{uri}: the changes of version {number} cannot be read with those of version "
                f"{self.schema_snapshot.version}: column {path} was {was.name} and became "
                f"{becomes.name}; end before the commit that changed it, or begin after it"
            )
        kept = {self._key(each) for each in self.schema_snapshot.schema.fields}
        for gone in (each for each in schema.fields if self._key(each) not in kept):
            # The values of the dropped column would be null under its name.
            if gone.name.lower() in self.schema_snapshot.schema.fields_by_lower_name:
                raise InvalidRequestError(
                    f"{uri}: the changes of version {number} cannot be read with those of version "
                    f"{self.schema_snapshot.version}: column {gone.name} was dropped, and another "
                    "column has its name; end before the commit that dropped it, or begin after it"
                )


def plan_changes(log: DeltaLog, request: ChangesRequest, *, engine: Engine) -> ChangeFeed:
    """Plan the changes of a range.

    Raises:
        InvalidRequestError: The range is invalid, or a column has a name that the feed reserves.
        VersionNotFoundError: A version of the range does not exist.
        UnsupportedFeatureError: The engine cannot read the rows.
    """
    latest = log.snapshot()
    first, last = _range(latest, request)
    end = latest if last == latest.version else log.snapshot(last)
    schema_snapshot = _schema_snapshot(end, latest, request.schema)
    validate(end.definition, "read", table=end.uri, engine=engine)
    validate(schema_snapshot.definition, "read", table=end.uri, engine=engine)
    _validate_names(schema_snapshot)
    return ChangeFeed(log=log, first=first, end=end, schema_snapshot=schema_snapshot)


def changes_until(log: DeltaLog, schema_snapshot: Snapshot, versions: range) -> ChangeFeed:
    """Plan the changes of consecutive versions, with the columns of a snapshot.

    Raises:
        InvalidRequestError: A column has a name that the feed reserves.
        VersionNotFoundError: The last version does not exist.
    """
    _validate_names(schema_snapshot)
    last = versions[-1] if versions else schema_snapshot.version
    end = schema_snapshot if last == schema_snapshot.version else log.snapshot(last)
    return ChangeFeed(
        log=log,
        first=versions.start if versions else last + 1,
        end=end,
        schema_snapshot=schema_snapshot,
        is_stream=True,
    )


def _schema_snapshot(end: Snapshot, latest: Snapshot, schema: str) -> Snapshot:
    """Return the snapshot whose columns the changes have."""
    match schema:
        case "end":
            return end
        case "latest":
            return latest
    raise InvalidRequestError(f'there is no schema {schema!r} of changes; give "end" or "latest"')


def _range(latest: Snapshot, request: ChangesRequest) -> tuple[int, int]:
    start_version, start_timestamp = request.start_version, request.start_timestamp
    end_version, end_timestamp = request.end_version, request.end_timestamp
    if (start_version is None) == (start_timestamp is None):
        raise InvalidRequestError(
            f"give either {option('start_version')} or {option('start_timestamp')}"
        )
    if end_version is not None and end_timestamp is not None:
        raise InvalidRequestError(
            f"give {option('end_version')} or {option('end_timestamp')}, not both"
        )
    first = start_version if start_timestamp is None else version_from(latest, start_timestamp)
    assert first is not None
    last = latest.version if end_version is None else min(end_version, latest.version)
    if end_timestamp is not None:
        last = version_at(latest, end_timestamp)
    if first < 0 or first > latest.version:
        raise VersionNotFoundError(
            latest.uri, f"version {first}", f"its latest version is {latest.version}"
        )
    if last < first and not _is_pause(start_timestamp, end_timestamp):
        raise InvalidRequestError(
            f"{latest.uri}: the first version {first} is after the last version {last}; give "
            "versions in order",
            "DELTA_INVALID_CDC_RANGE",
        )
    return first, last


def _is_pause(start: str | date | None, end: str | date | None) -> bool:
    """Return whether a range without commits is valid: a range of times without a write."""
    return start is not None and end is not None and timestamp_ms(start) <= timestamp_ms(end)


def _validate_names(schema_snapshot: Snapshot) -> None:
    fields = schema_snapshot.schema.fields
    taken = {each.name.lower() for each in fields}
    # A renamed column keeps its physical name in files, and must not have a name of the feed there.
    is_by_name = schema_snapshot.definition.mapping_mode == "name"
    in_files = {physical_name(each).lower(): each.name for each in fields if is_by_name}
    for each in _OF_CHANGES:
        if each.name in taken:
            raise InvalidRequestError(
                f"{schema_snapshot.uri} has a column {each.name}, a name that the change data feed "
                "reserves; copy the values to a new column, and drop this column"
            )
        if each.name in in_files:
            raise InvalidRequestError(
                f"{schema_snapshot.uri}: column {in_files[each.name]} has the name {each.name} in "
                "data files, which the change data feed reserves; copy the values to a new column, "
                "and drop this column"
            )


def _cleaned_up(table: str, version: int, times: CommitTimes) -> VersionNotFoundError:
    later = [each for each in times.versions if each > version]
    cure = f"; the first commit that is left is version {later[0]}" if later else ""
    return VersionNotFoundError(
        table, f"version {version}", f"its commit file was cleaned up{cure}"
    )


def _commit_values(table: str, commit: Commit, times: CommitTimes) -> Mapping[str, Any]:
    own = commit.in_commit_timestamp
    time_ms = times.time_at(commit.version) if own is None else own
    return {
        COMMIT_VERSION.name: commit.version,
        COMMIT_TIMESTAMP.name: _commit_time(table, commit.version, time_ms),
    }


def _commit_time(table: str, version: int, time_ms: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError as error:
        reason = f"its time, {time_ms} ms after 1970, is beyond the year 9999; correct it"
        raise LogCorruptError(table, commit_name(version), reason) from error
