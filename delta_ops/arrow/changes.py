"""The change data feed: which rows each commit inserted, deleted and updated.

Source: PROTOCOL.md, "Change Data Files", "Reader Requirements for AddCDCFile", "Deletion Vectors".

Where a commit has change data files, they are all there is to read of it. Else its rows follow from
its adds and removes that change data, see `commit_changes`. Rows come as the last version of the
range has its columns, or the latest version, through whatever they were called before;
where the feed was off for a version, a column had a type that is none of its own, or column mapping
was given up, the range is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.char_columns import plan_padding
from delta_ops.arrow.commit_changes import changes_of_files
from delta_ops.arrow.data_file_read import Deleted, Difference, FileScan, StoredFile
from delta_ops.arrow.file_columns import FileColumns
from delta_ops.arrow.file_values import Partitioning
from delta_ops.arrow.projection import drop_columns, plan_selection, project
from delta_ops.arrow.reading import read_all
from delta_ops.arrow.scan import plan_condition
from delta_ops.errors import InvalidRequestError, LogCorruptError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.commit_file import Commit
from delta_ops.log.commit_times import CommitTimes
from delta_ops.log.time_travel import timestamp_ms, version_at, version_from
from delta_ops.protocol.actions import Metadata
from delta_ops.protocol.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.column_mapping import is_mapped, physical_name
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    TIMESTAMP,
    StructField,
    StructType,
    schema_from_json,
)
from delta_ops.protocol.table_definition import validate
from delta_ops.protocol.type_widening import unreadable_columns

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = (
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
)
_OF_CHANGES = (
    StructField(CHANGE_TYPE, STRING),
    StructField(COMMIT_VERSION, LONG),
    StructField(COMMIT_TIMESTAMP, TIMESTAMP),
)
_ENABLED = "delta.enableChangeDataFeed"


def read_changes(
    source: TableOrPlace,
    start_version: int | None = None,
    end_version: int | None = None,
    *,
    start_timestamp: str | datetime | None = None,
    end_timestamp: str | datetime | None = None,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    schema: Literal["end", "latest"] = "end",
    partition_time_zone: str = "UTC",
) -> pa.RecordBatchReader:
    """The rows that commits changed, in the order of the commits.

    Args:
        source: The table, by its handle, its path or URI.
        start_version: The first commit whose changes are wanted, or
        start_timestamp: the first commit at or after a time, in UTC unless it has a zone.
        end_version: The last one; the latest version if it is not given or greater, or
        end_timestamp: the last commit at or before a time. No commit may lie between two times.
        columns: Names in the order wanted; by default those of the table, and then `_change_type`
            (insert, delete, update_preimage, update_postimage), `_commit_version` and
            `_commit_timestamp`.
        predicate: Keeps the rows for which it is true; it may name any of these columns.
        schema: Whether the columns are those of the last version of the range, or of the latest
            version of the table. A column or a field that came later than a row is null in it.
        partition_time_zone: As in `to_table`.

    Raises:
        InvalidRequestError: The range is none, the feed was off for one of its versions, column
            mapping was given up in it, or a column is not there or had another type. What is in the
            middle of a range may be found only when its rows are taken.
        VersionNotFoundError: A version of the range is not there, or was cleaned up.
        DataFileError: A file is gone, for example vacuumed, or cannot be read.
        OutsideFileError: A file lies outside of the table and may not be read there.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    validate_arguments(read_changes, locals())
    log = log_of(source)
    latest = log.snapshot()
    first, last = _range(latest, start_version, end_version, start_timestamp, end_timestamp)
    end = latest if last == latest.version else log.snapshot(last)
    shape = _shape(end, latest, schema)
    validate(end.definition, "read", table=end.uri)
    validate(shape.definition, "read", table=end.uri)
    _validate_names(shape)
    of_range = StructType((*shape.schema.fields, *_OF_CHANGES))
    wanted = project(of_range, columns)
    plan = _Plan(log, end, shape, of_range, wanted, predicate, partition_time_zone)
    files = plan.files(log.snapshot(first)) if first <= last else iter(())
    select = plan_selection(arrow_schema_from_schema(plan.schema), arrow_schema_from_schema(wanted))
    rows = map(plan_padding(wanted), map(select, read_all(log.storage, files)))
    return pa.RecordBatchReader.from_batches(arrow_schema_from_schema(wanted), rows)


def _shape(end: Snapshot, latest: Snapshot, schema: str) -> Snapshot:
    """The version whose columns the changes have."""
    match schema:
        case "end":
            return end
        case "latest":
            return latest
    raise InvalidRequestError(f'there is no schema {schema!r} of changes; give "end" or "latest"')


def _range(
    latest: Snapshot,
    start_version: int | None,
    end_version: int | None,
    start_timestamp: str | datetime | None,
    end_timestamp: str | datetime | None,
) -> tuple[int, int]:
    if (start_version is None) == (start_timestamp is None):
        raise InvalidRequestError("give either start_version or start_timestamp")
    if end_version is not None and end_timestamp is not None:
        raise InvalidRequestError("give end_version or end_timestamp, not both")
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
            f"{latest.uri}: the changes from version {first} to version {last} are no range"
        )
    return first, last


def _is_pause(start: str | datetime | None, end: str | datetime | None) -> bool:
    """Whether a range without a commit is one nevertheless: that of a time when nobody wrote."""
    return start is not None and end is not None and timestamp_ms(start) <= timestamp_ms(end)


def _validate_names(end: Snapshot) -> None:
    taken = {each.name.lower() for each in end.schema.fields}
    for each in _OF_CHANGES:
        if each.name in taken:
            raise InvalidRequestError(
                f"{end.uri} has a column {each.name}, which is a name of the change data feed; "
                "rename the column"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """How the files of a version are read, and of those after it that have its metadata."""

    partitioning: Partitioning
    """How the wanted partition columns are read."""
    derived: FileScan
    """How data files are read, from which the changes are derived."""
    stored: FileScan
    """How change data files are read, which say themselves what each row is."""


class _Plan:
    """What to read of each commit of a range."""

    def __init__(
        self,
        log: DeltaLog,
        end: Snapshot,
        shape: Snapshot,
        schema: StructType,
        wanted: StructType,
        predicate: Predicate | None,
        partition_time_zone: str,
    ) -> None:
        self._log, self._end, self._shape = log, end, shape
        self.schema, self._condition = plan_condition(schema, wanted, predicate)
        self._time_zone = partition_time_zone
        # Where mapping came in the middle of the range, physical names are those of before it.
        self._mode = shape.definition.mapping_mode
        self._key: Callable[[StructField], str] = (
            physical_name if shape.definition.is_mapped else lambda each: each.name.lower()
        )

    def files(self, start: Snapshot) -> Iterator[tuple[FileScan, StoredFile]]:
        """Scan and file of all that is to be read, in the order of the commits.

        Args:
            start: The first version of the range.

        Raises:
            InvalidRequestError: At once, if the range cannot be read from its first version on, or
                not to its last one.
        """
        version = self._version(start.version, start.metadata)
        self._validate(self._end.version, self._end.metadata)
        return self._files(start, version)

    def _files(self, start: Snapshot, version: _Version) -> Iterator[tuple[FileScan, StoredFile]]:
        times = CommitTimes(self._end)
        expected = start.version
        for commit in self._log.commits(start.version, self._end.version):
            if commit.version != expected:
                break
            expected += 1
            if commit.metadata is not None and commit.version > start.version:
                version = self._version(commit.version, commit.metadata)
            values = _commit_values(commit, times)
            for scan, file in self._files_of(commit, version, values):
                yield replace(scan, version=commit.version), file
        if expected <= self._end.version:
            raise VersionNotFoundError(
                self._end.uri, f"version {expected}", "its commit file was cleaned up"
            )

    def _version(self, number: int, metadata: Metadata) -> _Version:
        self._validate(number, metadata)
        partitions = {
            self._key(each)
            for each in schema_from_json(metadata.schema_string).fields
            if each.name in metadata.partition_columns
        }
        partitioning = Partitioning(
            columns=tuple(each for each in self.schema.fields if self._key(each) in partitions),
            is_mapped=self._shape.definition.is_mapped,
            time_zone=self._time_zone,
        )
        of_log = [*partitioning.columns, *_OF_CHANGES]
        stored = drop_columns(self.schema, [*partitioning.columns, *_OF_CHANGES[1:]])
        return _Version(
            partitioning=partitioning,
            derived=self._scan(number, drop_columns(self.schema, of_log)),
            stored=self._scan(number, stored),
        )

    def _scan(self, number: int, of_files: StructType) -> FileScan:
        return FileScan(
            files=self._end.table_files,
            version=number,
            schema=arrow_schema_from_schema(self.schema),
            columns=FileColumns(schema=of_files, mode=self._mode),
            condition=self._condition,
        )

    def _validate(self, number: int, metadata: Metadata) -> None:
        uri = self._end.uri
        if metadata.configuration.get(_ENABLED, "").lower() != "true":
            raise InvalidRequestError(
                f"{uri}: the changes of version {number} cannot be read, because {_ENABLED} was "
                "off; begin after it, or end before it"
            )
        if is_mapped(metadata) and self._mode == "none":
            raise InvalidRequestError(
                f"{uri}: the changes of version {number} cannot be read with those of version "
                f"{self._shape.version}: column mapping was given up in between; end before that "
                "version, or begin with it"
            )
        schema = schema_from_json(metadata.schema_string)
        for path, was, becomes in unreadable_columns(schema, self._shape.schema, self._key):
            raise InvalidRequestError(
                f"{uri}: the changes of version {number} cannot be read with those of version "
                f"{self._shape.version}: column {path} was {was.name} and became {becomes.name}; "
                "end before the commit that changed it, or begin after it"
            )

    def _files_of(
        self,
        commit: Commit,
        version: _Version,
        values: Mapping[str, pa.Scalar],
    ) -> Iterator[tuple[FileScan, StoredFile]]:
        for cdc in commit.cdc:
            partitions = self._typed_values(version, cdc.partition_values, cdc.path)
            yield version.stored, self._stored_file(cdc.path, cdc.size, {**partitions, **values})
        if commit.cdc:
            return
        for change, action, rows in changes_of_files(commit, self._end.uri):
            in_log = action.partition_values
            if in_log is None:
                in_log = self._partition_values(commit.version, version, action.path)
            partitions = self._typed_values(version, in_log, action.path)
            of_log = {**partitions, **values, CHANGE_TYPE: pa.scalar(change)}
            yield version.derived, self._stored_file(action.path, action.size or 0, of_log, rows)

    def _typed_values(
        self, version: _Version, in_log: Mapping[str, str | None], path: str
    ) -> dict[str, pa.Scalar]:
        return version.partitioning.values(in_log, self._end.uri, path)

    def _stored_file(
        self,
        path: str,
        size: int,
        values: Mapping[str, pa.Scalar],
        rows: Deleted | Difference | None = None,
    ) -> StoredFile:
        return StoredFile(
            path=canonical_path(path, self._end.uri), size=size, values=values, rows=rows
        )

    def _partition_values(
        self, number: int, version: _Version, path: str
    ) -> Mapping[str, str | None]:
        """Partition values of the add that a remove without any cancels."""
        if not version.partitioning.columns:
            return {}
        wanted = canonical_path(path, self._end.uri)
        for add in self._log.snapshot(number - 1).add_files():
            if canonical_path(add.path, self._end.uri) == wanted:
                return add.partition_values
        raise LogCorruptError(
            self._end.uri,
            f"version {number}",
            f"it removes {path} without partitionValues, and that file was not there before",
        )


def _commit_values(commit: Commit, times: CommitTimes) -> dict[str, pa.Scalar]:
    own = commit.in_commit_timestamp
    time_ms = times.time_at(commit.version) if own is None else own
    return {
        COMMIT_VERSION: pa.scalar(commit.version, pa.int64()),
        COMMIT_TIMESTAMP: pa.scalar(time_ms * 1000, pa.timestamp("us", "UTC")),
    }
