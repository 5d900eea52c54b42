"""Read one data file: its live rows, with the table's columns.

Source: PROTOCOL.md, "Data Files", "Deletion Vectors".

The log decides the partition values, even if the file or its path has others, and which rows are
deleted. Only the wanted columns are read, and only row groups that can hold a wanted row. Nothing
else is fetched from a store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from delta_ops.arrow.acero import evaluate
from delta_ops.arrow.dictionary_columns import batch_of, fit_in_array, is_encoded
from delta_ops.arrow.nesting import convert_in_pieces, has_views
from delta_ops.arrow.read.file_columns import OtherTypeError
from delta_ops.arrow.read.file_rows import FileRows, read_rows
from delta_ops.arrow.read.file_scan import FileScan, Numbered, RowIds, StoredFile
from delta_ops.arrow.read.legacy_days import LegacyCalendarError
from delta_ops.error_texts import first_line
from delta_ops.errors import DataFileError, StorageError
from delta_ops.log import Snapshot
from delta_ops.log.deletion_vectors import load_deletion_vector
from delta_ops.log.outside_files import TableFiles
from delta_ops.planning.commit_changes import Deleted, Difference
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.arrow_values import repeat, scalar
from delta_ops.protocol.deletion_vectors import chosen_rows, kept_rows


def read_data_file(
    scan: FileScan, stored: StoredFile, *, use_threads: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file that match the scan, in file order.

    Args:
        scan: The wanted columns and rows.
        stored: The file.
        use_threads: Decode columns in parallel.

    Raises:
        DataFileError: The file or its deletion vector is missing or unreadable.
        OutsideFileError: The file or its deletion vector lies outside of the table, and reading it
            there is not allowed.
        StorageError: The store failed.
    """
    choose = _plan_row_selection(scan, stored)
    with _reading(scan.files, scan.version, stored):
        for rows in read_rows(scan, stored, use_threads):
            known = rows if stored.row_ids is None else _number_rows(rows, stored.row_ids)
            places = None if choose is None else choose(rows.first, rows.num_rows)
            if rows.num_rows if places is None else len(places):
                wanted = _wanted_rows(scan, known, places, stored.values)
                yield from _filter_batches(scan, wanted)


def num_rows(snapshot: Snapshot, stored: StoredFile) -> int:
    """Return the number of rows in a file, including deleted rows.

    Raises:
        DataFileError: The file is missing or unreadable.
        OutsideFileError: The file lies outside of the table, and reading it there is not allowed.
    """
    with _reading(snapshot.table_files, snapshot.version, stored):
        storage, path = snapshot.table_files.find(stored.path)
        with pq.ParquetFile(storage.open_input(path)) as file:
            stated = int(file.metadata.num_rows)
            of_groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        if stated != sum(of_groups):
            raise ValueError(
                f"its footer has {stated} rows, but its row groups have {sum(of_groups)}"
            )
        return stated


def _plan_row_selection(scan: FileScan, stored: StoredFile) -> Callable[[int, int], Any] | None:
    """Plan how to select the wanted rows of a file; None if all rows are wanted.

    Returns:
        A function of a block of rows, given by its first row number and its number of rows. It
        returns the positions of the wanted rows in the block.
    """

    def load(vector: DeletionVector) -> BitMap64:
        return load_deletion_vector(scan.files, scan.version, stored.path, vector)

    match stored.rows:
        case Deleted(vector):
            return partial(kept_rows, load(vector))
        case Difference(vector, other):
            rows = load(vector)
            return partial(chosen_rows, rows - load(other) if other else rows)
        case Numbered(rows, vector):
            return partial(chosen_rows, rows - load(vector) if vector else rows)
    return None


def _number_rows(rows: FileRows, ids: RowIds) -> FileRows:
    """Add row ids and commit versions; values stored in the file have priority."""
    first = ids.base + rows.first
    numbers = pa.arange(first, first + rows.num_rows)
    versions = pa.repeat(scalar(ids.commit_version, pa.int64()), rows.num_rows)
    columns = pa.RecordBatch.from_arrays([], names=[]) if rows.columns is None else rows.columns
    fields, arrays = list(columns.schema), list(columns.columns)
    for name, made in zip(ids.columns, (numbers, versions), strict=True):
        place = columns.schema.get_field_index(name)
        if place < 0:
            fields.append(pa.field(name, made.type))
            arrays.append(made)
        else:
            arrays[place] = pc.coalesce(arrays[place], made)
    return rows._replace(columns=pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))


def _wanted_rows(
    scan: FileScan,
    rows: FileRows,
    places: pa.UInt64Array | None,
    values: Mapping[str, pa.Scalar],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at these ascending positions with the table's columns; None means all rows."""
    if places is None:
        yield from _table_rows(scan, rows, values)
    elif rows.columns is None or not any(map(has_views, rows.columns.schema.types)):
        columns = None if rows.columns is None else rows.columns.take(places)
        wanted = rows._replace(num_rows=len(places), columns=columns)
        yield from _table_rows(scan, wanted, values)
    else:  # Arrow's take does not support view types: convert first
        first = 0
        for batch in _table_rows(scan, rows, values):
            end = first + len(batch)
            is_here = pc.and_(pc.greater_equal(places, scalar(first)), pc.less(places, scalar(end)))
            yield batch.take(pc.subtract(places.filter(is_here), scalar(first, pa.uint64())))
            first = end


def _table_rows(
    scan: FileScan, rows: FileRows, values: Mapping[str, pa.Scalar]
) -> Iterable[pa.RecordBatch]:
    """Yield batches of table rows; large strings may need several batches."""
    if rows.columns is None:
        of_file = [each for each in scan.schema if each.name not in values]
        nulls = [pa.nulls(rows.num_rows, each.type) for each in of_file]
        return [_join_columns(scan, nulls, rows.num_rows, values)]
    read = rows.columns.schema
    columns = scan.columns
    if rows.texts and scan.encoded and _are_texts(read, rows.texts):
        columns = scan.encoded
    if not values and columns.are_as_read(read) and _fit_in_arrays(rows.columns, rows.texts):
        # Files may be small and many; building a new batch is slow compared with reading it.
        return [rows.columns.replace_schema_metadata(None) if read.metadata else rows.columns]
    to_columns = columns.converter(read)
    return convert_in_pieces(
        rows.columns,
        lambda batch: _join_columns(
            scan, to_columns(batch.columns, len(batch)), len(batch), values
        ),
    )


def _are_texts(read: pa.Schema, texts: Collection[str]) -> bool:
    """Return whether we chose to read all dictionary columns as dictionaries."""
    return all(each.name in texts for each in read if is_encoded(each.type))


def _fit_in_arrays(columns: pa.RecordBatch, texts: Iterable[str]) -> bool:
    """Return whether the strings that we chose to read as dictionaries may stay so."""
    return all(fit_in_array(columns[name]) for name in texts)


def _join_columns(
    scan: FileScan, columns: Sequence[pa.Array], num_rows: int, values: Mapping[str, pa.Scalar]
) -> pa.RecordBatch:
    """Combine the file's columns with the values of the log, in the table's order."""
    of_file = iter(columns)
    arrays = [
        repeat(values[each.name], num_rows) if each.name in values else next(of_file)
        for each in scan.schema
    ]
    return (
        batch_of(scan.schema, arrays)
        if arrays
        else pa.record_batch({"": pa.nulls(num_rows)}).select([])
    )


def _filter_batches(scan: FileScan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if scan.condition is None:
        yield from batches
        return
    for batch in batches:
        mask = evaluate(scan.condition, batch)
        # Arrow's filter node would copy a batch even if all rows match, and would split other
        # batches.
        if mask.true_count == len(mask):
            yield batch
        elif mask.true_count:
            yield batch.filter(mask)


@contextmanager
def _reading(files: TableFiles, version: int, stored: StoredFile) -> Iterator[None]:
    """Translate Arrow's errors and contradictions in the file into our errors."""
    table, path = files.uri, stored.path
    try:
        yield
    except FileNotFoundError as error:
        reason = (
            "is missing, though the table needs it; restore it from a backup, or read an older "
            "version that does not need it"
        )
        raise DataFileError(table, version, path, reason) from error
    except StorageError as error:
        # The store reports no more than a failure if a file is too short.
        storage, place = files.find(path)
        size = storage.stat(place).size
        if size >= stored.size:
            raise
        reason = f"has {size} bytes, but the log records {stored.size}; restore it from a backup"
        raise DataFileError(table, version, path, reason) from error
    except OtherTypeError as error:
        reason = f"cannot be read ({error}); read a version in which the column has its type"
        raise DataFileError(table, version, path, reason) from error
    except LegacyCalendarError as error:
        reason = f"cannot be read exactly ({error}); leave out the column, or read it with Spark"
        raise DataFileError(table, version, path, reason) from error
    except MemoryError as error:
        reason = (
            f"needs more memory than is available ({first_line(error)}); read fewer columns, or "
            "use more memory"
        )
        raise DataFileError(table, version, path, reason) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = f"cannot be read ({first_line(error)}); restore it from a backup"
        raise DataFileError(table, version, path, reason) from error
