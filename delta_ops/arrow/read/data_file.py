"""One data file read: its live rows, as the table's columns.

Source: PROTOCOL.md, "Data Files", "Deletion Vectors".

What the log says counts: partition values, whatever stands in the file or its path, and which rows
are deleted. Only the columns that are wanted are read, and of the row groups those that can hold a
row that is wanted. Of a file in a store, that is all that is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from delta_ops.arrow.acero import evaluate
from delta_ops.arrow.coded_texts import batch_of, is_coded
from delta_ops.arrow.nesting import convert_in_pieces, has_views
from delta_ops.arrow.read.dictionary_pages import decoded_bytes, repeated_texts
from delta_ops.arrow.read.file_columns import FileColumns, OtherTypeError, lacks_ids
from delta_ops.arrow.read.legacy_days import LegacyCalendarError
from delta_ops.arrow.read.parquet_file import open_parquet
from delta_ops.arrow.read.row_groups import ChooseRowGroups
from delta_ops.error_texts import first_line
from delta_ops.errors import DataFileError, StorageError
from delta_ops.log import Snapshot
from delta_ops.log.deletion_vectors import load_deletion_vector
from delta_ops.log.outside_files import TableFiles
from delta_ops.planning.commit_changes import Deleted, Difference
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.deletion_vectors import chosen_rows, kept_rows
from delta_ops.protocol.row_tracking import RowColumns
from delta_ops.storage import FileInfo
from delta_ops.storage.parquet_ranges import (
    WINDOW_BYTES,
    ParquetReader,
    plan_windows,
    read_footer,
    read_window,
    validate_chunks,
    validate_chunks_of,
)

_BATCH_BYTES = 16 << 20
"""Size of a batch's columns, before they are decoded."""
_VALUE_BYTES = 8
"""Size of a value in a batch, about, where it takes less in the file."""
_BATCH_ROWS = 1 << 17
_SMALL_BYTES = 1 << 20
"""Size of a file of which columns may be read once more than is needed."""
_LARGE_GROUP_BYTES = 32 << 20
"""Columns of a row group that are not read whole, if they are larger together."""
_BUFFER_BYTES = 1 << 20
_MUCH_BYTES = 1 << 28
"""Size of a row group if each value were as large as its column is in the file: above it,
dictionaries are looked into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIds:
    """The ids of a file's rows, and the versions that changed them last.

    Source: PROTOCOL.md, "Reader Requirements for Row Tracking".
    """

    columns: RowColumns
    """What the file says of its rows stands in these, and counts before the rest."""
    base: int
    """The id of its first row."""
    commit_version: int


class Numbered(NamedTuple):
    """Rows by their numbers in the file, but those of a vector."""

    rows: BitMap64
    deleted: DeletionVector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A data file, and what the log says of its rows."""

    path: str
    """Canonical."""
    size: int
    """Bytes."""
    values: Mapping[str, pa.Scalar]
    """Values of columns that are the same in all its rows, by name."""
    rows: Deleted | Difference | Numbered | None = None
    """Which of them are wanted; None: all."""
    row_ids: RowIds | None = None
    """The ids of its rows; None where nobody asks for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """What is wanted of each file of a version."""

    files: TableFiles
    version: int
    schema: pa.Schema
    """Columns of the rows that are read, in the order of the table."""
    columns: FileColumns
    """Columns that files have; the others are among the values of each file."""
    coded: FileColumns | None = None
    """These columns of files whose dictionaries we chose to read; None: as those of the others."""
    condition: Any
    """An Arrow expression that is true for the rows wanted; None: all are."""
    row_groups: ChooseRowGroups | None = None
    """Chooses the row groups that can hold such rows; None: all can."""


def read_data_file(
    scan: FileScan, stored: StoredFile, *, use_threads: bool
) -> Iterator[pa.RecordBatch]:
    """The wanted rows of one file for which the condition is true, in their order.

    Args:
        scan: What is wanted.
        stored: The file.
        use_threads: Decode columns beside each other.

    Raises:
        DataFileError: The file or its deletion vector is gone, or cannot be read.
        OutsideFileError: One of them lies outside of the table and may not be read there.
        StorageError: The store failed.
    """
    choose = _chooser(scan, stored)
    with _reading(scan.files, scan.version, stored):
        for rows in _stored_rows(scan, stored, use_threads):
            known = rows if stored.row_ids is None else _number_rows(rows, stored.row_ids)
            places = None if choose is None else choose(rows.first, rows.num_rows)
            if rows.num_rows if places is None else len(places):
                wanted = _wanted_rows(scan, known, places, stored.values)
                yield from _filter_batches(scan, wanted)


def num_rows(snapshot: Snapshot, stored: StoredFile) -> int:
    """How many rows a file has, deleted ones included.

    Raises:
        DataFileError: The file is gone, or cannot be read.
        OutsideFileError: It lies outside of the table and may not be read there.
    """
    with _reading(snapshot.table_files, snapshot.version, stored):
        storage, path = snapshot.table_files.find(stored.path)
        with pq.ParquetFile(storage.open_input(path)) as file:
            stated = int(file.metadata.num_rows)
            of_groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        if stated != sum(of_groups):
            raise ValueError(f"its footer says {stated} rows, and {sum(of_groups)} by row groups")
        return stated


class _Rows(NamedTuple):
    """Neighbours in a file."""

    first: int
    """Number of the first of them in the file."""
    num_rows: int
    columns: pa.RecordBatch | None
    """None: no column is wanted."""
    texts: frozenset[str] = frozenset()
    """Columns that we chose to read as dictionaries, where they may stay so; others are such by
    their writer's wish."""


def _stored_rows(scan: FileScan, stored: StoredFile, use_threads: bool) -> Iterator[_Rows]:
    storage, path = scan.files.find(stored.path)
    if storage.has_native_input:
        source = storage.open_input(path)
        with closing(open_parquet(source)) as file:
            metadata, size = file.metadata, source.size()
            leaves, asked = _leaves_in(scan, file.schema_arrow, metadata)
            if metadata.num_row_groups == 1 and size <= _SMALL_BYTES:
                validate_chunks_of(file, asked)
            else:
                validate_chunks(metadata, size, asked, _all_groups(metadata))
            groups = _row_groups(scan, metadata)
            texts = repeated_texts(metadata, asked, groups)
            is_large = size > _LARGE_GROUP_BYTES
            buffer_bytes = _buffer_bytes(metadata, leaves, groups) if is_large else 0
            opens_anew = bool(texts or buffer_bytes)
            rows = open_parquet(source, metadata, texts, buffer_bytes) if opens_anew else file
            names = _names_of(texts, metadata) if scan.coded else frozenset()
            yield from _rows_of_groups(rows, source, leaves, asked, groups, use_threads, names)
        return
    # Without a time: a cache for what the log is read by is none for the rows.
    info = FileInfo(path, stored.size or storage.stat(path).size, modified_ms=0)
    footer = read_footer(storage, info)
    schema = footer.metadata.schema.to_arrow_schema()
    leaves, asked = _leaves_in(scan, schema, footer.metadata)
    validate_chunks(footer.metadata, footer.size, leaves, _all_groups(footer.metadata))
    groups = _row_groups(scan, footer.metadata)
    texts = repeated_texts(footer.metadata, leaves, groups)
    names = _names_of(texts, footer.metadata) if scan.coded else frozenset()
    for window in plan_windows(footer, leaves, groups, WINDOW_BYTES // 2):
        source = pa.BufferReader(read_window(storage, info, footer, window))
        with closing(open_parquet(source, footer.metadata, texts)) as file:
            yield from _rows_of_groups(
                file, source, leaves, asked, window.row_groups, use_threads, names
            )


def _names_of(leaves: Sequence[int], metadata: pq.FileMetaData) -> frozenset[str]:
    return frozenset(metadata.schema.column(i).name for i in leaves)


def _leaves_in(
    scan: FileScan, stored: pa.Schema, metadata: pq.FileMetaData
) -> tuple[Sequence[int], Sequence[int]]:
    """The leaves to read, and those of which only the footer's columns tell how large values are.

    Small files are many, and to ask takes long. Of several row groups all are asked, since those
    that are wanted may be chosen by what their columns say.
    """
    if scan.columns.mode == "id" and lacks_ids(stored):
        raise ValueError("its columns have no ids, and those of the table are mapped by id")
    leaves = scan.columns.leaves_in(stored)
    if metadata.num_row_groups != 1 or leaves.are_repeated:
        return leaves.numbers, leaves.numbers
    return leaves.numbers, () if _has_little(metadata.row_group(0)) else leaves.of_any_size


def _row_groups(scan: FileScan, metadata: pq.FileMetaData) -> Sequence[int]:
    return _all_groups(metadata) if scan.row_groups is None else scan.row_groups(metadata)


def _has_little(group: pq.RowGroupMetaData) -> bool:
    """Whether all values are little memory, even if each were as large as the row group is."""
    most: int = group.total_byte_size * max(group.num_rows, 1)
    return 0 < most <= _MUCH_BYTES


def _buffer_bytes(
    metadata: pq.FileMetaData, leaves: Sequence[int], row_groups: Sequence[int]
) -> int:
    """How much of a column to read at once; 0: all of it, which takes less time."""
    large = [
        group
        for group in map(metadata.row_group, row_groups)
        if group.total_byte_size > _LARGE_GROUP_BYTES  # or its columns need not be asked
    ]
    sizes = (sum(group.column(i).total_compressed_size for i in leaves) for group in large)
    return _BUFFER_BYTES if max(sizes, default=0) > _LARGE_GROUP_BYTES else 0


def _all_groups(metadata: pq.FileMetaData) -> range:
    return range(metadata.num_row_groups)


def _rows_of_groups(
    file: ParquetReader,
    source: pa.NativeFile,
    leaves: Sequence[int],
    asked: Sequence[int],
    row_groups: Sequence[int],
    use_threads: bool,
    texts: frozenset[str],
) -> Iterator[_Rows]:
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    counts = [group.num_rows for group in groups]
    firsts = [0, *accumulate(counts)]
    wanted = [groups[i] for i in row_groups]
    if asked:
        row_bytes = _bytes_of_asked(source, wanted, asked)
        row_bytes += _VALUE_BYTES * (len(leaves) - len(asked))
    else:
        row_bytes = _mean_bytes(wanted)
    batch_rows = _rows_of_bytes(row_bytes, leaves)
    for neighbours in _runs(row_groups):
        first = firsts[neighbours[0]]
        if not leaves:
            end = first + sum(counts[i] for i in neighbours)
            for start in range(first, end, _BATCH_ROWS):
                yield _Rows(start, min(_BATCH_ROWS, end - start), None)
            continue
        for batch in file.iter_batches(batch_rows, neighbours, leaves, use_threads):
            yield _Rows(first, len(batch), batch, texts)
            first += len(batch)


def _runs(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Ascending numbers, those together that follow each other."""
    run: list[int] = []
    for number in numbers:
        if run and number != run[-1] + 1:
            yield run
            run = []
        run.append(number)
    if run:
        yield run


def _mean_bytes(groups: Sequence[pq.RowGroupMetaData]) -> int:
    """Size of a row in the file."""
    num_rows: int = sum(group.num_rows for group in groups)
    num_bytes: int = sum(group.total_byte_size for group in groups)
    return num_bytes // max(num_rows, 1)


def _bytes_of_asked(
    source: pa.NativeFile, groups: Sequence[pq.RowGroupMetaData], asked: Sequence[int]
) -> int:
    """Size of a row's values of these leaves, where it is largest."""
    num_bytes = num_rows = most = 0
    for group in groups:
        chunks = [group.column(i) for i in asked]
        of_group = sum(chunk.total_uncompressed_size for chunk in chunks)
        if sum(chunk.total_uncompressed_size * chunk.num_values for chunk in chunks) > _MUCH_BYTES:
            of_group = sum(decoded_bytes(source, chunk) for chunk in chunks)
            most = max(most, of_group // max(group.num_rows, 1))
        num_bytes, num_rows = num_bytes + of_group, num_rows + group.num_rows
    return max(num_bytes // max(num_rows, 1), most)


def _rows_of_bytes(row_bytes: int, leaves: Sequence[int]) -> int:
    """How many rows make a batch."""
    # Equal numbers take next to nothing in a file, and as much as others in a batch.
    per_row = max(row_bytes, _VALUE_BYTES * len(leaves), 1)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // per_row))


def _chooser(scan: FileScan, stored: StoredFile) -> Callable[[int, int], Any] | None:
    """Which rows are wanted of some that follow each other; None where all are."""

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


def _number_rows(rows: _Rows, ids: RowIds) -> _Rows:
    """The rows with their ids and versions, as if each stood in the file."""
    first = ids.base + rows.first
    numbers = pa.arange(first, first + rows.num_rows)
    versions = pa.repeat(pa.scalar(ids.commit_version, pa.int64()), rows.num_rows)
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
    rows: _Rows,
    places: pa.UInt64Array | None,
    values: Mapping[str, pa.Scalar],
) -> Iterator[pa.RecordBatch]:
    """The rows at these places, ascending, as those of the table; all of them if None."""
    if places is None:
        yield from _table_rows(scan, rows, values)
    elif rows.columns is None or not any(map(has_views, rows.columns.schema.types)):
        columns = None if rows.columns is None else rows.columns.take(places)
        wanted = rows._replace(num_rows=len(places), columns=columns)
        yield from _table_rows(scan, wanted, values)
    else:  # of which Arrow cannot take some
        first = 0
        for batch in _table_rows(scan, rows, values):
            end = first + len(batch)
            is_here = pc.and_(pc.greater_equal(places, first), pc.less(places, end))
            yield batch.take(pc.subtract(places.filter(is_here), pa.scalar(first, pa.uint64())))
            first = end


def _table_rows(
    scan: FileScan, rows: _Rows, values: Mapping[str, pa.Scalar]
) -> Iterable[pa.RecordBatch]:
    """Batches, as many as the sizes of texts make necessary."""
    if rows.columns is None:
        of_file = [each for each in scan.schema if each.name not in values]
        nulls = [pa.nulls(rows.num_rows, each.type) for each in of_file]
        return [_join_columns(scan, nulls, rows.num_rows, values)]
    read = rows.columns.schema
    if not values and scan.columns.are_as_read(read):
        # Files may be many and small, and to make a batch anew takes long beside their reading.
        return [rows.columns.replace_schema_metadata(None) if read.metadata else rows.columns]
    columns = scan.columns
    if scan.coded and all(each.name in rows.texts for each in read if is_coded(each.type)):
        columns = scan.coded
    to_columns = columns.converter(read)
    return convert_in_pieces(
        rows.columns,
        lambda batch: _join_columns(
            scan, to_columns(batch.columns, len(batch)), len(batch), values
        ),
    )


def _join_columns(
    scan: FileScan, columns: Sequence[pa.Array], num_rows: int, values: Mapping[str, pa.Scalar]
) -> pa.RecordBatch:
    """Columns of the file and those of the log, in the table's order."""
    of_file = iter(columns)
    arrays = [
        pa.repeat(values[each.name], num_rows) if each.name in values else next(of_file)
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
        # Arrow's filter node would copy a batch of which all rows are wanted, and cut up any other.
        if mask.true_count == len(mask):
            yield batch
        elif mask.true_count:
            yield batch.filter(mask)


@contextmanager
def _reading(files: TableFiles, version: int, stored: StoredFile) -> Iterator[None]:
    """Errors of Arrow and of what the file says of itself, in our own words."""
    table, path = files.uri, stored.path
    try:
        yield
    except FileNotFoundError as error:
        reason = (
            "is gone, though the log names it; restore it from a backup, or read an older version "
            "that does not need it"
        )
        raise DataFileError(table, version, path, reason) from error
    except StorageError as error:
        # A store merely fails where a file is too short.
        storage, place = files.find(path)
        size = storage.stat(place).size
        if size >= stored.size:
            raise
        reason = f"has {size} bytes, and {stored.size} by the log; restore it from a backup"
        raise DataFileError(table, version, path, reason) from error
    except OtherTypeError as error:
        reason = f"cannot be read ({error}); read a version, or changes to one, that has its type"
        raise DataFileError(table, version, path, reason) from error
    except LegacyCalendarError as error:
        reason = f"cannot be read exactly ({error}); leave out the column, or read it with Spark"
        raise DataFileError(table, version, path, reason) from error
    except MemoryError as error:
        reason = (
            f"takes more memory to read than there is ({first_line(error)}); read fewer columns, "
            "or where there is more memory"
        )
        raise DataFileError(table, version, path, reason) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = f"cannot be read ({first_line(error)}); restore it from a backup"
        raise DataFileError(table, version, path, reason) from error
