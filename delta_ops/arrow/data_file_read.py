"""One data file read: its live rows, as the table's columns.

Source: PROTOCOL.md, "Data Files", "Deletion Vectors", "Partition Value Serialization".

What the log says counts: partition values, whatever stands in the file or its path, and which rows
are deleted. Only the columns that are wanted are read, and of the row groups those that can hold a
matching row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from delta_ops.arrow.file_columns import FileColumns, lacks_ids
from delta_ops.arrow.nesting import in_pieces
from delta_ops.errors import DataFileError
from delta_ops.log.deletion_vector_read import load_deletion_vector
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_types import arrow_type_from_type
from delta_ops.protocol.deletion_vectors import kept_rows
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.partition_values import parse
from delta_ops.protocol.schema import DataType
from delta_ops.storage import Storage

_BATCH_BYTES = 16 << 20
"""Of the columns of a batch, before they are decoded."""
_BATCH_ROWS = 1 << 17
_PARQUET: Mapping[str, Any] = {"coerce_int96_timestamp_unit": "us"}


class PartitionColumn(NamedTuple):
    """A column whose values stand in the log."""

    stored_name: str
    """In `partitionValues`."""
    data_type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """What is wanted of each file of a version."""

    storage: Storage
    version: int
    schema: pa.Schema
    """Of the rows that are read, in the order of the table."""
    columns: FileColumns
    """Those of them that files have."""
    partitions: Mapping[str, PartitionColumn]
    """The others, by name."""
    partition_time_zone: str
    condition: Any
    """An Arrow expression that is true for the rows wanted; None: all are."""


def read_data_file(scan: FileScan, add: AddFile, *, use_threads: bool) -> Iterator[pa.RecordBatch]:
    """The live rows of one file for which the condition is true, in their order.

    Args:
        scan: What is wanted.
        add: The file, as the log has it.
        use_threads: Decode columns beside each other.

    Raises:
        DataFileError: The file or its deletion vector is gone, or cannot be read.
        LogCorruptError: A partition value is none of its column's type.
        StorageError: The store failed.
    """
    storage = scan.storage
    path = canonical_path(add.path, storage.uri)
    deleted = (
        load_deletion_vector(storage, scan.version, path, add.deletion_vector)
        if add.deletion_vector
        else None
    )
    values = _partition_values(scan, add)
    with _reading(scan, path), pq.ParquetFile(storage.open_input(path), **_PARQUET) as file:
        for stored in _stored_rows(scan.columns, file, use_threads):
            live = stored if deleted is None else _without(stored, deleted)
            if live.num_rows:
                yield from _matching(scan, _table_rows(scan, live, values))


class _Rows(NamedTuple):
    """Neighbours in a file."""

    first: int
    """Number of the first of them in the file."""
    num_rows: int
    columns: pa.RecordBatch | None
    """None: no column is wanted."""


def _stored_rows(columns: FileColumns, file: pq.ParquetFile, use_threads: bool) -> Iterator[_Rows]:
    stored, metadata = file.schema_arrow, file.metadata
    if columns.mode == "id" and lacks_ids(stored):
        raise ValueError("its columns have no ids, and those of the table are mapped by id")
    names = columns.names_in(stored)
    if not names:
        yield _Rows(0, metadata.num_rows, None)
        return
    first = 0
    batch_rows = _batch_rows(metadata)
    for batch in file.iter_batches(batch_rows, columns=names, use_threads=use_threads):
        yield _Rows(first, len(batch), batch)
        first += len(batch)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    num_bytes = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    per_row: int = num_bytes // max(metadata.num_rows, 1)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(per_row, 1)))


def _without(rows: _Rows, deleted: BitMap64) -> _Rows:
    kept = kept_rows(deleted, rows.first, rows.num_rows)
    if kept is None:
        return rows
    columns = None if rows.columns is None else rows.columns.take(kept)
    return _Rows(rows.first, len(kept), columns)


def _table_rows(
    scan: FileScan, rows: _Rows, values: Mapping[str, pa.Scalar]
) -> Iterable[pa.RecordBatch]:
    """In as many batches as the sizes of texts make necessary."""
    if rows.columns is None:
        of_file = [each for each in scan.schema if each.name not in values]
        nulls = [pa.nulls(rows.num_rows, each.type) for each in of_file]
        return [_joined(scan, nulls, rows.num_rows, values)]
    to_columns = scan.columns.converter(rows.columns.schema)
    return in_pieces(
        rows.columns,
        lambda batch: _joined(scan, to_columns(batch.columns, len(batch)), len(batch), values),
    )


def _joined(
    scan: FileScan, columns: Sequence[pa.Array], num_rows: int, values: Mapping[str, pa.Scalar]
) -> pa.RecordBatch:
    """Columns of the file and those of the log, in the table's order."""
    of_file = iter(columns)
    arrays = [
        pa.repeat(values[each.name], num_rows) if each.name in values else next(of_file)
        for each in scan.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=scan.schema)


def _matching(scan: FileScan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if scan.condition is None:
        yield from batches
        return
    for batch in batches:
        yield from pa.Table.from_batches([batch]).filter(scan.condition).to_batches()


def _partition_values(scan: FileScan, add: AddFile) -> dict[str, pa.Scalar]:
    found = {}
    for name, column in scan.partitions.items():
        text = add.partition_values.get(column.stored_name)
        value = parse(text, column.data_type, time_zone=scan.partition_time_zone)
        found[name] = pa.scalar(value, arrow_type_from_type(column.data_type))
    return found


@contextmanager
def _reading(scan: FileScan, path: str) -> Iterator[None]:
    """Errors of Arrow and of what the file says of itself, in our own words."""
    try:
        yield
    except FileNotFoundError as error:
        reason = (
            "is gone, though the log names it; restore it from a backup, or read an older version "
            "that does not need it"
        )
        raise DataFileError(scan.storage.uri, scan.version, path, reason) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = f"cannot be read ({_first_line(error)}); restore it from a backup"
        raise DataFileError(scan.storage.uri, scan.version, path, reason) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0].rstrip(".")
