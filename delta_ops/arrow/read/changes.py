"""The change data feed as Arrow data: the rows that each commit inserted, deleted and updated.

See `planning.change_feed` for the files that are read, and for the ranges that are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import pyarrow as pa

from delta_ops.arguments import shares_options
from delta_ops.arrow.char_columns import plan_padding
from delta_ops.arrow.read.file_columns import FileColumns
from delta_ops.arrow.read.file_scan import FileScan, StoredFile
from delta_ops.arrow.read.file_values import Partitioning
from delta_ops.arrow.read.projection import drop_columns, plan_condition, plan_selection, project
from delta_ops.arrow.read.reading import read_soon
from delta_ops.errors import naming_table
from delta_ops.log import TableOrPlace, log_of
from delta_ops.planning.change_feed import ChangedFile, ChangeFeed, plan_changes
from delta_ops.planning.changes_request import ChangesOptions, ChangesRequest
from delta_ops.protocol.arrow_values import scalar
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.implication import predicate_of
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema, arrow_type_from_type


@shares_options(ChangesRequest)
def read_changes(
    source: TableOrPlace,
    start_version: int | None = None,
    end_version: int | None = None,
    *,
    predicate: Predicate | Expression | str | None = None,
    partition_time_zone: str = "UTC",
    **options: Unpack[ChangesOptions],
) -> pa.RecordBatchReader:
    """Return the rows that commits changed, in the order of the commits.

    The first few megabytes are read immediately. An error in a later file, or in the middle of the
    range, is raised when its rows are read. `pa.table(reader)` then raises an `ArrowInvalid` with
    the text of the error; `reader.read_all()` raises the error itself.

    Args:
        source: The table, as a handle, path or URI.
        predicate: The rows to return: a predicate of `col` or `parse_predicate`, or a Spark SQL
            string. It may use the columns of the feed.
        partition_time_zone: As in `to_table`.

    Raises:
        DataFileError: A file is missing, for example vacuumed, or unreadable.

    Examples:
        >>> changed = {"delta.enableChangeDataFeed": "true"}
        >>> _ = da.write("lake/visits", pa.table({"id": [1, 2]}), configuration=changed)
        >>> _ = da.delete("lake/visits", col("id") == 2)
        >>> changes = da.read_changes("lake/visits", start_version=0).read_all()
        >>> [(row["_change_type"], row["id"]) for row in changes.to_pylist()]
        [('insert', 1), ('insert', 2), ('delete', 2)]
    """
    request = ChangesRequest(
        start_version=start_version, end_version=end_version, predicate=predicate, **options
    )
    feed = plan_changes(log_of(source), request, engine="arrow")
    with naming_table(feed.log.uri):
        wanted = project(feed.schema, request.columns)
        read, condition = plan_condition(feed.schema, wanted, predicate_of(request.predicate))
    plan = _Plan(feed, read, condition, partition_time_zone)
    # Plan the files now, so that an invalid range is rejected before the first row is read.
    files = plan.stored_files(feed.files())
    select = plan_selection(arrow_schema_from_schema(read), arrow_schema_from_schema(wanted))
    rows = map(plan_padding(wanted), map(select, read_soon(feed.log.storage, files)))
    return pa.RecordBatchReader.from_batches(arrow_schema_from_schema(wanted), rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedScan:
    """How to read files with the same constant columns."""

    partitioning: Partitioning
    """The partition columns to read, and how their values are stored."""
    of_change: Sequence[StructField]
    """The feed's own columns that the files do not store."""
    scan: FileScan


class _Plan:
    """Plans how to read the files of a feed."""

    def __init__(
        self, feed: ChangeFeed, schema: StructType, condition: Any, partition_time_zone: str
    ) -> None:
        self._feed, self._schema, self._condition = feed, schema, condition
        self._time_zone = partition_time_zone
        self._scans: dict[tuple[frozenset[str], bool], _PlannedScan] = {}

    def stored_files(self, files: Iterator[ChangedFile]) -> Iterator[tuple[FileScan, StoredFile]]:
        """Yield the scan and the stored file for each changed file, in order."""
        for file in files:
            key = file.partition_columns, file.is_change_data
            planned = self._scans.get(key)
            if planned is None:
                planned = self._scans[key] = self._plan_scan(file)
            yield replace(planned.scan, version=file.version), self._stored_file(file, planned)

    def _plan_scan(self, file: ChangedFile) -> _PlannedScan:
        constant = self._feed.constant_columns(file)
        names = file.partition_columns
        return _PlannedScan(
            partitioning=Partitioning(
                columns=tuple(each for each in self._schema.fields if each.name in names),
                is_mapped=self._feed.definition.is_mapped,
                time_zone=self._time_zone,
            ),
            of_change=[each for each in constant if each.name not in names],
            scan=FileScan(
                files=self._feed.end.table_files,
                version=self._feed.end.version,
                schema=arrow_schema_from_schema(self._schema),
                columns=FileColumns(
                    schema=drop_columns(self._schema, constant),
                    mode=self._feed.definition.mapping_mode,
                ),
                condition=self._condition,
            ),
        )

    def _stored_file(self, file: ChangedFile, planned: _PlannedScan) -> StoredFile:
        of_log = planned.partitioning.values(file.partition_values, self._feed.end.uri, file.path)
        of_change = {
            each.name: scalar(file.change[each.name], arrow_type_from_type(each.data_type))
            for each in planned.of_change
        }
        return StoredFile(
            path=file.path, size=file.size, values={**of_log, **of_change}, rows=file.rows
        )
