"""File rows: read the wanted columns of a Parquet file in batches of bounded size.

From a store, only the wanted columns of the chosen row groups are fetched, window by window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.arrow.memory_pools import fast_pool
from delta_ops.arrow.read.dictionary_pages import (
    MANY_ROWS,
    SOME_ROWS,
    decoded_bytes,
    repeated_texts,
)
from delta_ops.arrow.read.file_columns import lacks_ids
from delta_ops.arrow.read.file_scan import FileScan, StoredFile
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
"""Size of a batch's columns before decoding."""
_VALUE_BYTES = 8
"""Approximate size of a value in a batch, even if it is smaller in the file."""
_BATCH_ROWS = 1 << 17
_LEAST_ROWS, _LEAST_COLUMN_BYTES, _WIDE_BYTES = 1 << 12, 32 << 10, 64 << 20
"""Minimum rows of a batch, as long as they stay below this size for each column, and for all: with
very many columns, a batch costs more than its rows."""
_SMALL_BYTES = 1 << 20
"""For files up to this size it is acceptable to read some columns twice."""
_BUFFER_BYTES = 1 << 20
_MUCH_BYTES = 1 << 28
"""Limit for the size of a row group if each value were as large as its whole column. Above this
limit, the dictionaries are read to find the size of the values."""


class FileRows(NamedTuple):
    """Consecutive rows of a file."""

    first: int
    """Number of the first row in the file."""
    num_rows: int
    columns: pa.RecordBatch | None
    """None if no column is wanted."""
    texts: frozenset[str] = frozenset()
    """Columns that we chose to read as dictionaries and that may stay so. Other dictionary columns
    exist because their writer chose so."""


def read_rows(scan: FileScan, stored: StoredFile, use_threads: bool) -> Iterator[FileRows]:
    """Yield all rows of the row groups that the scan chooses, in order.

    Raises:
        ValueError: The file contradicts itself, or its columns have no ids.
        OSError, pa.ArrowException: The file cannot be read.
    """
    storage, path = scan.files.find(stored.path)
    least_rows = SOME_ROWS if scan.encoded else MANY_ROWS
    if storage.has_native_input:
        source = storage.open_input(path)
        expected = scan.latest_texts.leaves
        with closing(open_parquet(source, dictionaries=expected)) as file:
            metadata, size = file.metadata, source.size()
            leaves, chunk_numbers = _leaves_in(scan, file.schema_arrow, metadata)
            if metadata.num_row_groups == 1 and size <= _SMALL_BYTES:
                validate_chunks_of(file, chunk_numbers)
            else:
                validate_chunks(metadata, size, chunk_numbers, _all_groups(metadata))
            groups = _row_groups(scan, metadata)
            texts = repeated_texts(metadata, chunk_numbers, groups, least_rows)
            most = scan.whole_group_bytes
            buffer_bytes = _buffer_bytes(metadata, leaves, groups, most) if size > most else 0
            scan.latest_texts.leaves = texts
            reopens = bool(texts != expected or buffer_bytes)
            rows = open_parquet(source, metadata, texts, buffer_bytes) if reopens else file
            names = _names_of(texts, metadata) if scan.encoded else frozenset()
            yield from _rows_of_groups(
                rows, source, leaves, chunk_numbers, groups, use_threads, names
            )
        return
    # The time is unknown: the cache for files of the log is not used for rows.
    info = FileInfo(path, stored.size or storage.stat(path).size, modified_ms=0)
    footer = read_footer(storage, info)
    schema = footer.metadata.schema.to_arrow_schema()
    leaves, chunk_numbers = _leaves_in(scan, schema, footer.metadata)
    validate_chunks(footer.metadata, footer.size, leaves, _all_groups(footer.metadata))
    groups = _row_groups(scan, footer.metadata)
    texts = repeated_texts(footer.metadata, leaves, groups, least_rows)
    names = _names_of(texts, footer.metadata) if scan.encoded else frozenset()
    for window in plan_windows(footer, leaves, groups, WINDOW_BYTES // 2):
        source = pa.BufferReader(read_window(storage, info, footer, window))
        with closing(open_parquet(source, footer.metadata, texts)) as file:
            yield from _rows_of_groups(
                file, source, leaves, chunk_numbers, window.row_groups, use_threads, names
            )


def _names_of(leaves: Sequence[int], metadata: pq.FileMetaData) -> frozenset[str]:
    return frozenset(metadata.schema.column(i).name for i in leaves)


def _leaves_in(
    scan: FileScan, stored: pa.Schema, metadata: pq.FileMetaData
) -> tuple[Sequence[int], Sequence[int]]:
    """Return the leaves to read, and the leaves whose sizes are needed from the footer.

    There can be many small files, and reading the sizes is slow. A file with several row groups
    needs the sizes of all leaves, because its row groups may be chosen by their columns.
    """
    if scan.columns.mode == "id" and lacks_ids(stored):
        raise ValueError("its columns have no ids, but the table maps columns by id")
    leaves = scan.columns.leaves_in(stored)
    if metadata.num_row_groups != 1 or leaves.are_repeated:
        return leaves.numbers, leaves.numbers
    return leaves.numbers, () if _has_little(metadata.row_group(0)) else leaves.of_any_size


def _row_groups(scan: FileScan, metadata: pq.FileMetaData) -> Sequence[int]:
    return _all_groups(metadata) if scan.row_groups is None else scan.row_groups(metadata)


def _has_little(group: pq.RowGroupMetaData) -> bool:
    """Return whether values are small in memory, even if each is as large as the row group."""
    most: int = group.total_byte_size * max(group.num_rows, 1)
    return 0 < most <= _MUCH_BYTES


def _buffer_bytes(
    metadata: pq.FileMetaData, leaves: Sequence[int], row_groups: Sequence[int], most: int
) -> int:
    """Return how many bytes of a column to read at once; 0 means all, which is faster."""
    large = [
        group
        for group in map(metadata.row_group, row_groups)
        if group.total_byte_size > most  # otherwise its columns are small too
    ]
    sizes = (sum(group.column(i).total_compressed_size for i in leaves) for group in large)
    return _BUFFER_BYTES if max(sizes, default=0) > most else 0


def _all_groups(metadata: pq.FileMetaData) -> range:
    return range(metadata.num_row_groups)


def _rows_of_groups(
    file: ParquetReader,
    source: pa.NativeFile,
    leaves: Sequence[int],
    chunk_numbers: Sequence[int],
    row_groups: Sequence[int],
    use_threads: bool,
    texts: frozenset[str],
) -> Iterator[FileRows]:
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    counts = [group.num_rows for group in groups]
    firsts = [0, *accumulate(counts)]
    wanted = [groups[i] for i in row_groups]
    if chunk_numbers:
        row_bytes = _bytes_of_chunks(source, wanted, chunk_numbers)
        row_bytes += _VALUE_BYTES * (len(leaves) - len(chunk_numbers))
    else:
        row_bytes = _mean_bytes(wanted)
    batch_rows = _rows_of_bytes(row_bytes, leaves)
    for neighbours in _runs(row_groups):
        first = firsts[neighbours[0]]
        if not leaves:
            end = first + sum(counts[i] for i in neighbours)
            for start in range(first, end, _BATCH_ROWS):
                yield FileRows(start, min(_BATCH_ROWS, end - start), None)
            continue
        for batch in file.iter_batches(batch_rows, neighbours, leaves, use_threads):
            yield FileRows(first, len(batch), batch, texts)
            first += len(batch)


def _runs(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Group ascending numbers into runs of consecutive numbers."""
    run: list[int] = []
    for number in numbers:
        if run and number != run[-1] + 1:
            yield run
            run = []
        run.append(number)
    if run:
        yield run


def _mean_bytes(groups: Sequence[pq.RowGroupMetaData]) -> int:
    """Return the mean size of a row in the file."""
    num_rows: int = sum(group.num_rows for group in groups)
    num_bytes: int = sum(group.total_byte_size for group in groups)
    return num_bytes // max(num_rows, 1)


def _bytes_of_chunks(
    source: pa.NativeFile, groups: Sequence[pq.RowGroupMetaData], chunk_numbers: Sequence[int]
) -> int:
    """Return the mean size of these columns in a row, for the row group with the largest rows."""
    num_bytes = num_rows = most = 0
    for group in groups:
        chunks = [group.column(i) for i in chunk_numbers]
        of_group = sum(chunk.total_uncompressed_size for chunk in chunks)
        if sum(chunk.total_uncompressed_size * chunk.num_values for chunk in chunks) > _MUCH_BYTES:
            of_group = sum(decoded_bytes(source, chunk) for chunk in chunks)
            most = max(most, of_group // max(group.num_rows, 1))
        num_bytes, num_rows = num_bytes + of_group, num_rows + group.num_rows
    return max(num_bytes // max(num_rows, 1), most)


def _rows_of_bytes(row_bytes: int, leaves: Sequence[int]) -> int:
    """Return the number of rows of a batch."""
    # Equal numbers take almost no space in a file, but full size in a batch.
    decoded_bytes = max(_VALUE_BYTES * len(leaves), row_bytes, 1)
    wide_bytes = min(_WIDE_BYTES, _LEAST_COLUMN_BYTES * len(leaves))
    least_rows = min(_LEAST_ROWS, wide_bytes // decoded_bytes)
    return max(1, min(_BATCH_ROWS, max(_BATCH_BYTES // decoded_bytes, least_rows)))


def open_parquet(
    source: pa.NativeFile,
    metadata: pq.FileMetaData | None = None,
    dictionaries: Sequence[int] = (),
    buffer_bytes: int = 0,
) -> ParquetReader:
    """Open the file; closing it closes the source.

    Args:
        source: A local or in-memory file.
        metadata: The file's footer, if known.
        dictionaries: String leaves to read dictionary-encoded.
        buffer_bytes: How many bytes of a column are read at once; 0 means a whole row group's.
    """
    reader = ParquetReader(memory_pool=fast_pool())
    reader.open(
        source,
        metadata=metadata,
        read_dictionary=dictionaries or None,
        coerce_int96_timestamp_unit="us",
        buffer_size=buffer_bytes,
        arrow_extensions_enabled=True,
        # Other threads would only pass on data that is already here.
        pre_buffer=False,
    )
    return reader
