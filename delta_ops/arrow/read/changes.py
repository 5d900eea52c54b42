"""The change data feed as Arrow data: which rows each commit inserted, deleted and updated.

Which files give which rows, and what ranges are refused: see `planning.change_feed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.char_columns import plan_padding
from delta_ops.arrow.read.data_file import FileScan, StoredFile
from delta_ops.arrow.read.file_columns import FileColumns
from delta_ops.arrow.read.file_values import Partitioning
from delta_ops.arrow.read.projection import drop_columns, plan_selection, project
from delta_ops.arrow.read.reading import read_soon
from delta_ops.arrow.read.scan import plan_condition
from delta_ops.errors import naming_table
from delta_ops.log import TableOrPlace, log_of
from delta_ops.planning.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ChangedFile,
    ChangeFeed,
    plan_changes,
)
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema, arrow_type_from_type

_IN_LOG = (COMMIT_VERSION, COMMIT_TIMESTAMP)
"""Columns of the feed that no file has."""


def read_changes(
    source: TableOrPlace,
    start_version: int | None = None,
    end_version: int | None = None,
    *,
    start_timestamp: str | date | None = None,
    end_timestamp: str | date | None = None,
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
        DataFileError: A file is gone, for example vacuumed, or cannot be read. The first few
            megabytes are read at once. What is wrong with a later file is raised when its rows are
            taken; `pa.table(reader)` then raises an `ArrowInvalid` with the text, where
            `reader.read_all()` raises the error itself.
        OutsideFileError: A file lies outside of the table and may not be read there.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    validate_arguments(read_changes, locals())
    feed = plan_changes(
        log_of(source),
        start_version,
        end_version,
        start_timestamp,
        end_timestamp,
        schema,
        engine="arrow",
    )
    with naming_table(feed.log.uri):
        wanted = project(feed.schema, columns)
        read, condition = plan_condition(feed.schema, wanted, predicate)
    plan = _Plan(feed, read, condition, partition_time_zone)
    # Here and now, so that a range is refused before its first row is asked for.
    files = plan.stored_files(feed.files())
    select = plan_selection(arrow_schema_from_schema(read), arrow_schema_from_schema(wanted))
    rows = map(plan_padding(wanted), map(select, read_soon(feed.log.storage, files)))
    return pa.RecordBatchReader.from_batches(arrow_schema_from_schema(wanted), rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scans:
    """How files are read while the table has the same partition columns."""

    partitioning: Partitioning
    """How the partition columns that are read have their values."""
    derived: FileScan
    """How data files are read, from which the changes are derived."""
    stored: FileScan
    """How change data files are read, which say themselves what each row is."""


class _Plan:
    """How to read the files of a feed."""

    def __init__(
        self, feed: ChangeFeed, schema: StructType, condition: Any, partition_time_zone: str
    ) -> None:
        self._feed, self._schema, self._condition = feed, schema, condition
        self._time_zone = partition_time_zone
        self._scans: dict[frozenset[str], _Scans] = {}

    def stored_files(self, files: Iterator[ChangedFile]) -> Iterator[tuple[FileScan, StoredFile]]:
        """Scan and file of each, in their order."""
        for file in files:
            scans = self._scans.get(file.partition_columns)
            if scans is None:
                scans = self._plan_scans(file.partition_columns)
                self._scans[file.partition_columns] = scans
            scan = scans.stored if file.is_change_data else scans.derived
            yield replace(scan, version=file.version), self._stored_file(file, scans)

    def _plan_scans(self, partition_columns: frozenset[str]) -> _Scans:
        partitions = tuple(each for each in self._schema.fields if each.name in partition_columns)
        of_log = [*partitions, *_IN_LOG]
        return _Scans(
            partitioning=Partitioning(
                columns=partitions,
                is_mapped=self._feed.definition.is_mapped,
                time_zone=self._time_zone,
            ),
            derived=self._scan(drop_columns(self._schema, [*of_log, CHANGE_TYPE])),
            stored=self._scan(drop_columns(self._schema, of_log)),
        )

    def _scan(self, of_files: StructType) -> FileScan:
        return FileScan(
            files=self._feed.end.table_files,
            version=self._feed.end.version,
            schema=arrow_schema_from_schema(self._schema),
            columns=FileColumns(schema=of_files, mode=self._feed.definition.mapping_mode),
            condition=self._condition,
        )

    def _stored_file(self, file: ChangedFile, scans: _Scans) -> StoredFile:
        of_log = scans.partitioning.values(file.partition_values, self._feed.end.uri, file.path)
        of_change = {
            each.name: pa.scalar(file.change[each.name], arrow_type_from_type(each.data_type))
            for each in (CHANGE_TYPE, *_IN_LOG)
            if each.name in file.change
        }
        return StoredFile(
            path=file.path, size=file.size, values={**of_log, **of_change}, rows=file.rows
        )
