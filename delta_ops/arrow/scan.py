"""Read a table's rows in this process.

Files that cannot hold a matching row are left out by the log's statistics; of the others, the rows
for which the predicate is true are kept. Files are read several at a time, and their rows come in
the order of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial

import pyarrow as pa

from delta_ops.arrow.data_file_read import FileScan, PartitionColumn, read_data_file
from delta_ops.arrow.file_columns import FileColumns
from delta_ops.arrow.projection import plan_selection, project, united
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.column_mapping import mapping_mode, physical_name
from delta_ops.protocol.features import validate_readable
from delta_ops.protocol.predicate import Predicate, resolve, to_arrow
from delta_ops.protocol.predicate import columns as predicate_columns
from delta_ops.protocol.schema import StructType
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead

_SMALL_BYTES = 16 << 20
"""A file up to this is read whole, beside others; a larger one goes by in batches."""
_DECODED = 4
"""How many times larger rows are in memory than in files, about."""
_AHEAD_BYTES = 256 << 20
"""Of rows that are read while the caller takes the ones before."""
_LOCAL_FILES = 4
"""Files of a disk that are read at once."""


def to_table(
    source: DeltaLog | Snapshot,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    *,
    partition_time_zone: str = "UTC",
) -> pa.Table:
    """The rows of the latest version, or of a snapshot.

    Args:
        source: The table.
        columns: Names, in the order wanted; all of them if None. `a.b` is the struct `a` with its
            field `b` alone.
        predicate: Keeps the rows for which it is true.
        partition_time_zone: In which partition values of type timestamp are read that name no zone.

    Raises:
        InvalidRequestError: A column is not there, or the predicate does not fit the table.
        DataFileError: A data file or a deletion vector is gone or cannot be read.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    snapshot, wanted = _opened(source, columns)
    files = snapshot.add_files(predicate)
    batches = _batches(snapshot, files, wanted, predicate, partition_time_zone)
    return pa.Table.from_batches(batches, arrow_schema_from_schema(wanted))


def to_batches(
    source: DeltaLog | Snapshot,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    *,
    partition_time_zone: str = "UTC",
) -> Iterator[pa.RecordBatch]:
    """The same rows as `to_table`, as batches; a few of them are in memory at a time."""
    snapshot, wanted = _opened(source, columns)
    files = snapshot.add_files(predicate)
    return _batches(snapshot, files, wanted, predicate, partition_time_zone)


def read_files(
    snapshot: Snapshot,
    files: Iterable[AddFile],
    columns: Sequence[str],
    predicate: Predicate | None = None,
) -> Iterator[pa.RecordBatch]:
    """The matching rows of these live files, in the order of the files.

    Raises:
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    snapshot, wanted = _opened(snapshot, columns)
    return _batches(snapshot, files, wanted, predicate, "UTC")


def _opened(
    source: DeltaLog | Snapshot, columns: Sequence[str] | None
) -> tuple[Snapshot, StructType]:
    snapshot = source.snapshot() if isinstance(source, DeltaLog) else source
    # Before its schema is asked for, which may have types that Arrow lacks.
    validate_readable(snapshot.protocol, snapshot.metadata, table=snapshot.uri)
    return snapshot, project(snapshot.schema, columns)


def _batches(
    snapshot: Snapshot,
    files: Iterable[AddFile],
    wanted: StructType,
    predicate: Predicate | None,
    partition_time_zone: str,
) -> Iterator[pa.RecordBatch]:
    scan = plan_file_scan(snapshot, wanted, predicate, partition_time_zone)
    select = plan_selection(scan.schema, arrow_schema_from_schema(wanted))
    max_files = _LOCAL_FILES if snapshot.storage.has_native_input else MAX_CONCURRENCY
    calls = ((add.size * _DECODED, partial(_read, scan, add)) for add in files)
    with closing(run_ahead(calls, _AHEAD_BYTES, max_files)) as read:
        for batches in read:
            yield from map(select, batches)


def plan_file_scan(
    snapshot: Snapshot, wanted: StructType, predicate: Predicate | None, partition_time_zone: str
) -> FileScan:
    """What to read of each file."""
    parts, condition = [wanted], None
    if predicate is not None:
        resolved = resolve(predicate, snapshot.schema)
        condition = to_arrow(resolved, snapshot.schema)
        parts.append(project(snapshot.schema, sorted(predicate_columns(resolved))))
    schema = united(snapshot.schema, parts)
    in_log = set(snapshot.partition_columns)
    partitions = {
        each.name: PartitionColumn(
            physical_name(each) if snapshot.is_mapped else each.name, each.data_type
        )
        for each in schema.fields
        if each.name in in_log
    }
    of_files = StructType(tuple(each for each in schema.fields if each.name not in in_log))
    return FileScan(
        storage=snapshot.storage,
        version=snapshot.version,
        schema=arrow_schema_from_schema(schema),
        columns=FileColumns(schema=of_files, mode=mapping_mode(snapshot.metadata)),
        partitions=partitions,
        partition_time_zone=partition_time_zone,
        condition=condition,
    )


def _read(scan: FileScan, add: AddFile) -> Iterable[pa.RecordBatch]:
    """Read here and now where it is small, else by whoever takes the batches."""
    if add.size <= _SMALL_BYTES:
        return list(read_data_file(scan, add, use_threads=False))
    return read_data_file(scan, add, use_threads=True)
