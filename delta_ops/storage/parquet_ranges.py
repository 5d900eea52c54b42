"""Parquet by ranges: reads the footer and chosen columns of a Parquet file in a store.

1. The end of the file is read first, and a second range if the footer is longer than that.
2. The columns are read in windows of row groups, so that memory does not grow with the file.
   Neighboring ranges become one request, and long ranges are split into several.
3. Arrow gets a window as a file in memory, and the pages outside of the window are never touched.
   Arrow's threads therefore never call Python. Such a call may abort a process that is about to
   exit.

All offsets in the file are checked against its size before memory is allocated.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# `pq.ParquetFile` selects by dotted path, so field b of `a` and a column `a.b` are the same.
from pyarrow._parquet import ParquetReader as ParquetReader  # noqa: PLC0414

from delta_ops.error_texts import first_line
from delta_ops.storage.contract import FileInfo, Readable
from delta_ops.storage.unchanging import read_unchanging

_MAGIC = b"PAR1"
_LENGTH_AND_MAGIC = 8
_TAIL_BYTES = 64 << 10
"""Bytes read from the end of each file: enough for most footers, and for small files as a whole."""
_FOOTER_BYTES = 512 << 20
"""Maximum length of a footer."""
_HOLE_BYTES = 256 << 10
"""Maximum gap between two ranges of one request; a second request would take as long."""
_REQUEST_BYTES = 8 << 20
WINDOW_BYTES = 64 << 20
_RESERVED_BYTES = 64 << 20
"""Address space reserved for files up to this size; it takes no memory."""

ByteRange = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of a Parquet file."""

    metadata: pq.FileMetaData
    size: int
    """Size of the file in bytes."""
    content: bytes
    """The whole file if it is small enough, else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Row groups that are read together, and their byte ranges."""

    row_groups: tuple[int, ...]
    ranges: tuple[ByteRange, ...]
    """Ascending, without overlaps."""

    @property
    def num_bytes(self) -> int:
        """Number of bytes to read."""
        return sum(end - start for start, end in self.ranges)


def read_footer(storage: Readable, file: FileInfo) -> Footer:
    """Read the footer of a Parquet file that never changes.

    Args:
        storage: Holds the file.
        file: Has the size from the listing or from the action that names the file.

    Raises:
        ValueError: The file is not a Parquet file of that size.
        FileNotFoundError: The file does not exist.
        StorageError: The file could not be read, or is shorter.
    """
    size = file.size
    if size < len(_MAGIC) + _LENGTH_AND_MAGIC:
        raise ValueError(f"a file of {size} bytes is too short for Parquet")
    start = max(0, size - _TAIL_BYTES)
    (tail,) = read_unchanging(storage, file, [(start, size)])
    if tail[-len(_MAGIC) :] != _MAGIC:
        raise ValueError(f"it does not end with the Parquet magic bytes at byte {size}")
    (length,) = struct.unpack_from("<I", tail, len(tail) - _LENGTH_AND_MAGIC)
    footer_start = size - _LENGTH_AND_MAGIC - length
    if footer_start < len(_MAGIC) or length > _FOOTER_BYTES:
        raise ValueError(f"a footer of {length} bytes does not belong in a file of {size} bytes")
    content = tail if start == 0 else b""
    if footer_start < start:
        (before,) = read_unchanging(storage, file, [(footer_start, start)])
        tail, start = before + tail, footer_start
    # Arrow expects the footer at the end of its input, and does not need the bytes before it.
    try:
        metadata = pq.read_metadata(pa.BufferReader(memoryview(tail)[footer_start - start :]))
    except OSError as error:
        raise ValueError(first_line(error)) from error
    return Footer(metadata=metadata, size=size, content=content)


def stored_schema(metadata: pq.FileMetaData) -> pa.Schema:
    """The columns of a file.

    Raises:
        ValueError: A column is nested deeper than Arrow reads, or has no Arrow type.
    """
    try:
        return metadata.schema.to_arrow_schema()
    except (OSError, pa.ArrowException) as error:
        raise ValueError(first_line(error)) from error


def validate_chunks(
    metadata: pq.FileMetaData, size: int, leaves: Sequence[int], row_groups: Sequence[int]
) -> None:
    """Reject a footer with column metadata that would make Arrow abort the process.

    `RowGroupMetaData.column` aborts if the footer contradicts itself, for example by histograms of
    different sizes. A reader finds the same problem but raises an error: it checks all columns
    before it reads a page. So a reader is opened and no rows are requested.

    Args:
        metadata: The footer.
        size: Bytes of the file.
        leaves: Numbers of the leaf columns that will be used.
        row_groups: Numbers of the row groups that will be used.

    Raises:
        ValueError: With Arrow's message.
    """
    if not leaves or not row_groups:
        return
    with contextlib.closing(ParquetReader()) as reader:
        # Arrow checks only the buffer's size; a new buffer per file would slow down the next read.
        nothing = _reserve_bytes(max(1 << size.bit_length(), _RESERVED_BYTES)).slice(0, size)
        reader.open(
            pa.BufferReader(nothing),
            use_memory_map=False,
            metadata=metadata,
            pre_buffer=len(row_groups) > 1,
        )
        _take_no_rows(reader, leaves, row_groups)


def validate_chunks_of(file: ParquetReader, leaves: Sequence[int]) -> None:
    """Reject a footer as `validate_chunks` does, for a small open file with one row group.

    Reads the columns but decodes none of them, which takes half the time.
    """
    if leaves:
        _take_no_rows(file, leaves, [0])


def _take_no_rows(reader: ParquetReader, leaves: Sequence[int], row_groups: Sequence[int]) -> None:
    try:
        next(reader.iter_batches(0, row_groups, column_indices=leaves, use_threads=False), None)
    except OSError as error:
        raise ValueError(first_line(error)) from error


def leaves_among(metadata: pq.FileMetaData, columns: Collection[str]) -> list[int]:
    """Numbers of the leaf columns with one of these dotted paths, or below one of them."""
    leaves = range(metadata.num_columns)
    return [i for i in leaves if _is_among(metadata.schema.column(i).path, columns)]


def plan_windows(
    footer: Footer, leaves: Sequence[int], row_groups: Iterable[int], max_bytes: int
) -> Iterator[Window]:
    """Plan the windows that contain these columns of these row groups.

    Args:
        footer: The file's footer.
        leaves: Numbers of leaf columns.
        row_groups: Ascending.
        max_bytes: Maximum size of a window; a single row group may be larger.

    Raises:
        ValueError: A column would lie outside of the file.
    """
    metadata = footer.metadata
    groups: list[int] = []
    ranges: list[ByteRange] = []
    num_bytes = 0
    for group in row_groups:
        of_group = metadata.row_group(group)
        of_next = [_range_of(of_group.column(i), footer.size) for i in leaves]
        next_bytes = sum(end - start for start, end in of_next)
        if groups and num_bytes + next_bytes > max_bytes:
            yield Window(row_groups=tuple(groups), ranges=tuple(_merge(ranges)))
            groups, ranges, num_bytes = [], [], 0
        groups.append(group)
        ranges += of_next
        num_bytes += next_bytes
    if groups:
        yield Window(row_groups=tuple(groups), ranges=tuple(_merge(ranges)))


def read_window(storage: Readable, file: FileInfo, footer: Footer, window: Window) -> pa.Buffer:
    """Read a window's bytes into a buffer, at their offsets in the file, for `open_window`.

    Raises:
        FileNotFoundError: The file is gone.
        StorageError: The file could not be read, or is shorter.
    """
    if footer.content:
        return pa.py_buffer(footer.content)
    pieces = [piece for each in window.ranges for piece in _split(each)]
    sparse = _sparse_bytes(max((end for _, end in pieces), default=1))
    for (start, end), part in zip(pieces, read_unchanging(storage, file, pieces), strict=True):
        sparse[start:end] = part
    return pa.py_buffer(sparse)


def open_window(footer: Footer, content: pa.Buffer, **options: Any) -> pq.ParquetFile:
    """Open a file from a window's bytes; only its row groups and columns may be read.

    Args:
        footer: The file's footer.
        content: From `read_window`.
        options: Passed to `pyarrow.parquet.ParquetFile`.
    """
    return pq.ParquetFile(pa.BufferReader(content), metadata=footer.metadata, **options)


def _is_among(leaf: str, columns: Collection[str]) -> bool:
    return any(leaf == name or leaf.startswith(f"{name}.") for name in columns)


def _range_of(chunk: pq.ColumnChunkMetaData, size: int) -> ByteRange:
    start, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    if dictionary is not None and 0 < dictionary < start:
        start = dictionary
    end = start + chunk.total_compressed_size
    if not 0 <= start <= end <= size:
        raise ValueError(
            f"its column {chunk.path_in_schema} should be in the bytes [{start}, {end}) of a file "
            f"of {size} bytes"
        )
    return start, end


def _merge(ranges: Iterable[ByteRange]) -> Iterator[ByteRange]:
    """Merge overlapping and neighboring ranges; empty ranges are dropped."""
    covered: ByteRange | None = None
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if covered is not None and start <= covered[1] + _HOLE_BYTES:
            covered = covered[0], max(covered[1], end)
            continue
        if covered is not None:
            yield covered
        covered = start, end
    if covered is not None:
        yield covered


def _split(whole: ByteRange) -> Sequence[ByteRange]:
    start, end = whole
    return [
        (first, min(first + _REQUEST_BYTES, end)) for first in range(start, end, _REQUEST_BYTES)
    ]


@lru_cache(maxsize=2)
def _reserve_bytes(size: int) -> pa.Buffer:
    return pa.py_buffer(_sparse_bytes(size))


def _sparse_bytes(size: int) -> mmap.mmap:
    """Zero bytes; pages that are never touched take no memory."""
    if sys.platform != "linux":
        return mmap.mmap(-1, size)
    # If memory were reserved, a file larger than memory would fail. 0x4000 is MAP_NORESERVE, which
    # the module defines since Python 3.13.
    kept = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    sparse = mmap.mmap(-1, size, flags=kept)
    with contextlib.suppress(OSError):  # raised by kernels without huge pages
        sparse.madvise(mmap.MADV_NOHUGEPAGE)  # touching one byte takes the whole page
    return sparse
