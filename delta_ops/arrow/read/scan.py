"""Read a table's rows in this process.

The statistics of the log exclude files that cannot hold a matching row. The predicate then filters
the rows of the other files. Several files are read at a time; the rows keep the order of the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.char_columns import plan_padding
from delta_ops.arrow.expressions.conditions import Condition, condition_of
from delta_ops.arrow.read.file_columns import FileColumns
from delta_ops.arrow.read.file_scan import WHOLE_GROUP_BYTES, FileScan, Numbered, RowIds, StoredFile
from delta_ops.arrow.read.file_values import Partitioning, plan_partitioning
from delta_ops.arrow.read.ordered import ordered_batches
from delta_ops.arrow.read.projection import (
    drop_columns,
    plan_condition,
    plan_selection,
    project,
    select,
    unite,
)
from delta_ops.arrow.read.reading import (
    AHEAD_BYTES,
    ReadFiles,
    ReadRows,
    Request,
    read_all,
    read_soon,
)
from delta_ops.arrow.read.row_groups import choose_one_group, plan_row_groups
from delta_ops.clock import system_clock
from delta_ops.error_texts import first_line
from delta_ops.errors import InvalidRequestError, StorageError, naming_table
from delta_ops.log import Snapshot, Source, plan_scan, snapshot_of
from delta_ops.planning.commit_changes import Deleted
from delta_ops.planning.conditions import simplify_condition
from delta_ops.planning.recorded_reads import record_read
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import empty_table
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import Predicate, resolve
from delta_ops.protocol.row_tracking import (
    RowColumns,
    row_columns,
    tracked_definition,
    validate_ids,
)
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.table_definition import TableDefinition, validate

_ORDERED_GROUP_BYTES = 4 << 20
"""As `WHOLE_GROUP_BYTES`, for the files of an ordered scan: many can be open."""


def to_table(
    source: Source,
    columns: Sequence[str] | None = None,
    predicate: Predicate | Expression | str | None = None,
    *,
    version: int | None = None,
    timestamp: str | date | None = None,
    ref: str | None = None,
    partition_time_zone: str = "UTC",
) -> pa.Table:
    """Return the rows of a version or snapshot of the table; the latest version by default.

    Args:
        source: The table, as a handle, path or URI, or a snapshot.
        columns: Names in the wanted order; all if None. `a.b` is the struct `a` with its field `b`.
        predicate: The rows to return: a predicate of `col` or `parse_predicate`, an expression, or
            a Spark SQL string. Its comparisons of columns with literals serve data skipping.
        version: The version to read. Excludes `timestamp`.
        timestamp: Read the version of this time. A time without a zone is in UTC.
        ref: Read a tag or branch, such as `tag:2026-11`; see `delta_ops.versioning`.
        partition_time_zone: Time zone for partition timestamps without a zone.

    Raises:
        InvalidRequestError: A column does not exist, or the predicate does not fit the table.
        DataFileError: A data file or a deletion vector is missing or unreadable.
        OutsideFileError: A file outside of the table may not be read; see `DeltaLog`.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.

    Examples:
        >>> da.to_table("lake/orders", columns=["id"], predicate=col("country") == "NL").to_pylist()
        [{'id': 1}, {'id': 3}]
        >>> _ = da.delete("lake/orders")
        >>> da.to_table("lake/orders", version=0).num_rows  # before the delete
        3
    """
    validate_arguments(to_table, locals())
    snapshot, wanted = open_columns(snapshot_of(source, version, timestamp, ref), columns)
    batches = _matching_batches(snapshot, wanted, predicate, partition_time_zone)
    return pa.Table.from_batches(batches, arrow_schema_from_schema(wanted))


def to_batches(
    source: Source,
    columns: Sequence[str] | None = None,
    predicate: Predicate | Expression | str | None = None,
    *,
    version: int | None = None,
    timestamp: str | date | None = None,
    ref: str | None = None,
    partition_time_zone: str = "UTC",
    order_by: str | Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of `to_table` as batches, with a few batches in memory at a time.

    Args:
        order_by: Column or columns to order the rows by, ascending; nulls first, NaN last. Files
            that overlap are merged. Files that do not state that they are sorted by these columns
            are read whole. Use a sort key (`delta_ops.sortKey`) to keep memory small.

    Examples:
        >>> sum(batch.num_rows for batch in da.to_batches("lake/orders", columns=["id"]))
        3
    """
    validate_arguments(to_batches, locals())
    snapshot, wanted = open_columns(snapshot_of(source, version, timestamp, ref), columns)
    if order_by is not None:
        return ordered_batches(
            snapshot,
            wanted,
            order_by,
            lambda needed: _plan_request(
                snapshot,
                needed,
                predicate,
                partition_time_zone,
                whole_group_bytes=_ORDERED_GROUP_BYTES,
            ),
        )
    return _matching_batches(snapshot, wanted, predicate, partition_time_zone)


def open_reader(
    snapshot: Snapshot, columns: Sequence[str] | None = None, predicate: Predicate | None = None
) -> pa.RecordBatchReader:
    """Return the rows of `to_batches` as a stream for other libraries; see `read_soon`."""
    _, wanted = open_columns(snapshot, columns)
    batches = _matching_batches(snapshot, wanted, predicate, "UTC", read_soon)
    return pa.RecordBatchReader.from_batches(arrow_schema_from_schema(wanted), batches)


def schema_of_reading(
    snapshot: Snapshot, columns: Sequence[str] | None = None, predicate: Predicate | None = None
) -> pa.Schema:
    """Return the schema of `open_reader`, and check its arguments, without reading a file."""
    _, wanted = open_columns(snapshot, columns)
    if predicate is not None:
        resolve(predicate, snapshot.schema)
    return arrow_schema_from_schema(wanted)


def export_schema(source: Source, path: str | os.PathLike[str]) -> None:
    """Write an empty Parquet file with all columns, for tools that take a schema from a file.

    Args:
        source: The table, at its latest version, or a snapshot.
        path: A local path. The file must not exist yet.

    Raises:
        InvalidRequestError: The file exists already, or Parquet does not support the columns.
        StorageError: The file cannot be written.

    Examples:
        >>> import pyarrow.parquet as pq
        >>> da.export_schema("lake/orders", "orders.parquet")
        >>> pq.read_schema("orders.parquet").names
        ['id', 'country', 'price']
    """
    validate_arguments(export_schema, locals())
    snapshot, wanted = open_columns(snapshot_of(source), None)
    content, place = pa.BufferOutputStream(), os.fspath(path)
    try:
        pq.write_table(empty_table(arrow_schema_from_schema(wanted)), content)
        with open(path, "xb") as file:
            file.write(content.getvalue())
    except pa.ArrowException as error:
        raise InvalidRequestError(
            f"{snapshot.uri}: Parquet cannot hold its columns ({first_line(error)})"
        ) from error
    except FileExistsError as error:
        raise InvalidRequestError(f"{place} already exists; choose another path") from error
    except OSError as error:
        raise StorageError(place, "written", error.strerror or repr(error)) from error
    except ValueError as error:
        raise InvalidRequestError(f"{place!r} is not the path of a file ({error})") from error


def read_files(
    snapshot: Snapshot,
    files: Iterable[AddFile],
    columns: Sequence[str],
    predicate: Predicate | None = None,
    definition: TableDefinition | None = None,
    ahead_bytes: int = AHEAD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows of live files as they are stored, in the order of the files.

    Char columns are not padded.

    Args:
        definition: The table definition used to write the files, if it differs from the snapshot's.
        ahead_bytes: As for `read_all`.

    Raises:
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    return plan_reading(snapshot, columns, predicate, definition, ahead_bytes)(files)


def read_kept(
    snapshot: Snapshot,
    files: Iterable[AddFile],
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    ahead_bytes: int = AHEAD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of live files as they are stored, with their row ids and commit versions.

    A rewrite keeps these values when it moves a row to another file.

    Args:
        columns: Columns of the table and of `row_tracking.tracked_definition`; None means all.
        predicate: Selects the rows to return.
        ahead_bytes: As for `read_all`.
    """
    return plan_reading_kept(snapshot, columns, predicate, ahead_bytes)(files)


def read_numbered(
    snapshot: Snapshot, files: Iterable[tuple[AddFile, BitMap64 | None]]
) -> Iterator[pa.RecordBatch]:
    """Yield chosen rows of live files, with all columns of `read_kept`.

    Args:
        files: Files and row numbers. Numbers count from 0 in file order, and deleted rows among
            them are skipped. None means all live rows.
    """
    stored = tracked_definition(snapshot.definition, snapshot.uri)
    validate(stored, "read", table=snapshot.uri)
    read = _plan_scan(snapshot, stored.schema, None, "UTC", stored)

    def choose_rows(add: AddFile, rows: BitMap64 | None) -> StoredFile:
        file = read.stored_file(add)
        return file if rows is None else replace(file, rows=Numbered(rows, add.deletion_vector))

    chosen = ((read.scan, choose_rows(add, rows)) for add, rows in files)
    return map(read.select, read_all(snapshot.storage, chosen))


def plan_reading(
    snapshot: Snapshot,
    columns: Sequence[str],
    predicate: Predicate | None = None,
    definition: TableDefinition | None = None,
    ahead_bytes: int = AHEAD_BYTES,
    encoded: Collection[str] = (),
) -> ReadFiles:
    """Plan `read_files` once for a caller that reads many files one by one.

    Args:
        encoded: Columns that may stay dictionary-encoded, see `dictionary_columns`. Must be empty
            if there is a predicate.
    """
    definition = definition or snapshot.definition
    # Validate before the Arrow schema is built: it may have types that Arrow lacks.
    validate(definition, "read", table=snapshot.uri)
    wanted = select(definition.schema, columns)
    return _plan_batches(snapshot, wanted, predicate, "UTC", definition, ahead_bytes, encoded)


def plan_reading_kept(
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    ahead_bytes: int = AHEAD_BYTES,
    encoded: Collection[str] = (),
) -> ReadFiles:
    """Plan `read_kept` once for a caller that reads many files; see `plan_reading`."""
    stored = tracked_definition(snapshot.definition, snapshot.uri)
    names = stored.arrow_schema.names if columns is None else columns
    return plan_reading(snapshot, names, predicate, stored, ahead_bytes, encoded)


def open_columns(snapshot: Snapshot, columns: Sequence[str] | None) -> tuple[Snapshot, StructType]:
    """Return the snapshot, which must be readable, and the schema of the chosen columns."""
    # Validate before the schema is used: it may have types that Arrow lacks.
    validate(snapshot.definition, "read", table=snapshot.uri)
    with naming_table(snapshot.uri):
        return snapshot, project(snapshot.schema, columns)


def _matching_batches(
    snapshot: Snapshot,
    wanted: StructType,
    predicate: Predicate | Expression | str | None,
    partition_time_zone: str,
    read_rows: ReadRows = read_all,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a user's request, with char columns padded."""
    request = _plan_request(snapshot, wanted, predicate, partition_time_zone, read_rows)
    return request.read(request.files)


def _plan_request(
    snapshot: Snapshot,
    wanted: StructType,
    predicate: Predicate | Expression | str | None,
    partition_time_zone: str,
    read_rows: ReadRows = read_all,
    whole_group_bytes: int = WHOLE_GROUP_BYTES,
) -> Request:
    """Plan a user's request."""
    implied, condition = split_condition(predicate, snapshot)
    files = plan_scan(snapshot, implied, partition_time_zone=partition_time_zone)
    record_read(snapshot, implied)
    needed = wanted
    if condition is not None:
        in_condition = select(snapshot.schema, condition.columns)
        needed = unite(snapshot.schema, [wanted, in_condition])
    planned = _plan_scan(snapshot, needed, implied, partition_time_zone, snapshot.definition)
    whole = replace(planned.scan, whole_group_bytes=whole_group_bytes)
    keep = plan_selection(*map(arrow_schema_from_schema, (needed, wanted)))
    pad = plan_padding(wanted)

    def read(adds: Iterable[AddFile], scan: FileScan = whole) -> Iterator[pa.RecordBatch]:
        stored = ((scan, planned.stored_file(add)) for add in adds)
        rows: Iterator[pa.RecordBatch] = map(planned.select, read_rows(snapshot.storage, stored))
        if condition is not None:
            rows = (keep(batch.filter(condition.mask(batch))) for batch in rows)
        return map(pad, rows)

    def read_row_group(add: AddFile, number: int) -> Iterator[pa.RecordBatch]:
        choose = choose_one_group(whole.row_groups, number)
        return read([add], replace(whole, row_groups=choose))

    return Request(files=files, read=read, read_row_group=read_row_group)


def split_condition(
    predicate: Predicate | Expression | str | None, snapshot: Snapshot
) -> tuple[Predicate | None, Condition | None]:
    """Split a condition into a predicate for data skipping, and a filter of rows if needed."""
    predicate = simplify_condition(predicate)
    if predicate is None or isinstance(predicate, Predicate):
        return predicate, None
    with naming_table(snapshot.uri):
        condition = condition_of(predicate, snapshot.schema, system_clock())
    return condition.selection.implied, condition


def _plan_batches(
    snapshot: Snapshot,
    wanted: StructType,
    predicate: Predicate | None,
    partition_time_zone: str,
    definition: TableDefinition,
    ahead_bytes: int = AHEAD_BYTES,
    encoded: Collection[str] = (),
) -> ReadFiles:
    planned = _plan_scan(snapshot, wanted, predicate, partition_time_zone, definition, encoded)

    def read(files: Iterable[AddFile]) -> Iterator[pa.RecordBatch]:
        stored = ((planned.scan, planned.stored_file(add)) for add in files)
        return map(planned.select, read_all(snapshot.storage, stored, ahead_bytes))

    return read


class _PlannedScan(NamedTuple):
    scan: FileScan
    stored_file: Callable[[AddFile], StoredFile]
    """Describes a file and all its live rows."""
    select: Callable[[pa.RecordBatch], pa.RecordBatch]
    """Keeps only the wanted columns of a batch."""


def _plan_scan(
    snapshot: Snapshot,
    wanted: StructType,
    predicate: Predicate | None,
    partition_time_zone: str,
    definition: TableDefinition,
    encoded: Collection[str] = (),
) -> _PlannedScan:
    schema, condition = plan_condition(definition.schema, wanted, predicate)
    mode = definition.mapping_mode
    partitioning = plan_partitioning(schema, definition, partition_time_zone)
    columns = FileColumns(schema=drop_columns(schema, partitioning.columns), mode=mode)
    scan = FileScan(
        files=snapshot.table_files,
        version=snapshot.version,
        schema=arrow_schema_from_schema(schema),
        columns=columns,
        encoded=replace(columns, encoded=frozenset(encoded)) if encoded else None,
        condition=condition,
        row_groups=plan_row_groups(definition.schema, partitioning.columns, mode, predicate),
    )
    tracked = row_columns(definition, snapshot.uri)
    if tracked is not None and tracked.row_id not in schema.fields_by_lower_name:
        tracked = None

    def stored_file(add: AddFile) -> StoredFile:
        return stored_file_of(add, partitioning, snapshot.uri, tracked)

    select = plan_selection(scan.schema, arrow_schema_from_schema(wanted))
    return _PlannedScan(scan, stored_file, select)


def stored_file_of(
    add: AddFile, partitioning: Partitioning, table: str, tracked: RowColumns | None = None
) -> StoredFile:
    """Describe a live file and all its live rows."""
    path = canonical_path(add.path, table)
    return StoredFile(
        path=path,
        size=add.size,
        values=partitioning.values(add.partition_values, table, path),
        rows=Deleted(add.deletion_vector) if add.deletion_vector else None,
        row_ids=None if tracked is None else _row_ids(add, tracked, table),
    )


def _row_ids(add: AddFile, columns: RowColumns, table: str) -> RowIds:
    validate_ids(add, table)
    assert add.base_row_id is not None
    assert add.default_row_commit_version is not None
    return RowIds(
        columns=columns, base=add.base_row_id, commit_version=add.default_row_commit_version
    )
