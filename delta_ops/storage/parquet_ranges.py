"""Parquet by ranges: of a file that lies in a store, the footer and the columns that are wanted.

1. The file's end is read first, and once more if the footer is longer than what came.
2. The columns wanted are read in windows of row groups, so that memory does not grow with the file.
   Ranges that are next to each other are one request, and long ones several.
3. Arrow gets a window as a file in memory whose other pages are never touched, so that its threads
   never call Python: a thread that does may abort a process that is about to exit.

What the file says of itself is compared with its size before anything is allocated.
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

# `pq.ParquetFile` has columns by paths: the field b of `a` and the column `a.b` are one to it.
from pyarrow._parquet import ParquetReader as ParquetReader  # noqa: PLC0414

from delta_ops.error_texts import first_line
from delta_ops.storage.contract import FileInfo, Readable
from delta_ops.storage.unchanging import read_unchanging

_MAGIC = b"PAR1"
_LENGTH_AND_MAGIC = 8
_TAIL_BYTES = 64 << 10
"""Bytes at a file's end that are read unasked: the footer of most files, and small files whole."""
_FOOTER_BYTES = 512 << 20
"""The longest footer that is read."""
_HOLE_BYTES = 256 << 10
"""Unwanted bytes that are read rather than asked around; one request of many takes as long."""
_REQUEST_BYTES = 8 << 20
WINDOW_BYTES = 64 << 20
_RESERVED_BYTES = 64 << 20
"""Addresses that are kept for files up to this size; they take no memory."""

ByteRange = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What a Parquet file says of itself."""

    metadata: pq.FileMetaData
    size: int
    """Bytes of the file."""
    content: bytes
    """The whole file where its end was all of it, else nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Row groups that are read together."""

    row_groups: tuple[int, ...]
    ranges: tuple[ByteRange, ...]
    """Ascending, apart from each other."""

    @property
    def num_bytes(self) -> int:
        """Bytes that are read."""
        return sum(end - start for start, end in self.ranges)


def read_footer(storage: Readable, file: FileInfo) -> Footer:
    """The footer of a Parquet file that never changes.

    Args:
        storage: Holds the file.
        file: With the size that it is said to have.

    Raises:
        ValueError: It is no Parquet file of that size.
        FileNotFoundError: It is not there.
        StorageError: It could not be read, or ends earlier.
    """
    size = file.size
    if size < len(_MAGIC) + _LENGTH_AND_MAGIC:
        raise ValueError(f"a file of {size} bytes is too short for Parquet")
    start = max(0, size - _TAIL_BYTES)
    (tail,) = read_unchanging(storage, file, [(start, size)])
    if tail[-len(_MAGIC) :] != _MAGIC:
        raise ValueError(f"its bytes up to {size} do not end as Parquet does")
    (length,) = struct.unpack_from("<I", tail, len(tail) - _LENGTH_AND_MAGIC)
    footer_start = size - _LENGTH_AND_MAGIC - length
    if footer_start < len(_MAGIC) or length > _FOOTER_BYTES:
        raise ValueError(f"a footer of {length} bytes does not belong in a file of {size} bytes")
    content = tail if start == 0 else b""
    if footer_start < start:
        (before,) = read_unchanging(storage, file, [(footer_start, start)])
        tail, start = before + tail, footer_start
    # Arrow looks for the footer at the end of what it is given, and has no use for the rest here.
    try:
        metadata = pq.read_metadata(pa.BufferReader(memoryview(tail)[footer_start - start :]))
    except OSError as error:
        raise ValueError(first_line(error)) from error
    return Footer(metadata=metadata, size=size, content=content)


def stored_schema(metadata: pq.FileMetaData) -> pa.Schema:
    """The columns of a file.

    Raises:
        ValueError: They are nested deeper than Arrow reads, or of no type that it has.
    """
    try:
        return metadata.schema.to_arrow_schema()
    except (OSError, pa.ArrowException) as error:
        raise ValueError(first_line(error)) from error


def validate_chunks(
    metadata: pq.FileMetaData, size: int, leaves: Sequence[int], row_groups: Sequence[int]
) -> None:
    """Refuse a footer of whose columns Arrow cannot even be asked: it would end the process.

    `RowGroupMetaData.column` aborts where the footer contradicts itself, for example by histograms
    of another size. A reader finds the same and raises: it looks at all columns before it reads a
    page, and is asked for no rows.

    Args:
        metadata: What is asked of `column` afterwards, for these leaves of these row groups.
        size: Bytes of the file.

    Raises:
        ValueError: With Arrow's words.
    """
    if not leaves or not row_groups:
        return
    with contextlib.closing(ParquetReader()) as reader:
        # Only its size is looked at; to make and free one for each file would slow the next read.
        nothing = _reserve_bytes(max(1 << size.bit_length(), _RESERVED_BYTES)).slice(0, size)
        reader.open(
            pa.BufferReader(nothing),
            use_memory_map=False,
            metadata=metadata,
            pre_buffer=len(row_groups) > 1,
        )
        _take_no_rows(reader, leaves, row_groups)


def validate_chunks_of(file: ParquetReader, leaves: Sequence[int]) -> None:
    """Refuse what `validate_chunks` refuses, of a small open file that has one row group.

    Reads the columns, and decodes none of them: that takes half the time.
    """
    if leaves:
        _take_no_rows(file, leaves, [0])


def _take_no_rows(reader: ParquetReader, leaves: Sequence[int], row_groups: Sequence[int]) -> None:
    try:
        next(reader.iter_batches(0, row_groups, column_indices=leaves, use_threads=False), None)
    except OSError as error:
        raise ValueError(first_line(error)) from error


def leaves_among(metadata: pq.FileMetaData, columns: Collection[str]) -> list[int]:
    """The numbers of the leaf columns that are, or are in, one of these by its dotted path."""
    leaves = range(metadata.num_columns)
    return [i for i in leaves if _is_among(metadata.schema.column(i).path, columns)]


def plan_windows(
    footer: Footer, leaves: Sequence[int], row_groups: Iterable[int], max_bytes: int
) -> Iterator[Window]:
    """The windows that hold these columns of these row groups.

    Args:
        footer: The file's.
        leaves: Numbers of leaf columns.
        row_groups: Ascending.
        max_bytes: Size of a window; a row group fits into one, however large it is.

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
    """The bytes of a window where they are in the file, as `open_window` takes them.

    Raises:
        FileNotFoundError: The file is gone.
        StorageError: It could not be read, or ends earlier.
    """
    if footer.content:
        return pa.py_buffer(footer.content)
    pieces = [piece for each in window.ranges for piece in _split(each)]
    sparse = _sparse_bytes(max((end for _, end in pieces), default=1))
    for (start, end), part in zip(pieces, read_unchanging(storage, file, pieces), strict=True):
        sparse[start:end] = part
    return pa.py_buffer(sparse)


def open_window(footer: Footer, content: pa.Buffer, **options: Any) -> pq.ParquetFile:
    """The file, of which only a window's row groups and columns may be read.

    Args:
        footer: The file's.
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
            f"its column {chunk.path_in_schema} is said to lie in the bytes [{start}, {end}) of "
            f"a file of {size} bytes"
        )
    return start, end


def _merge(ranges: Iterable[ByteRange]) -> Iterator[ByteRange]:
    """Ranges that cover these, with neighbours in one; none of them empty."""
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
    """Zeros, of which those that are never touched take no memory."""
    if sys.platform != "linux":
        return mmap.mmap(-1, size)
    # Reserved, a table larger than memory would be refused; 0x4000 is MAP_NORESERVE, which the
    # module knows from Python 3.13 on.
    kept = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    sparse = mmap.mmap(-1, size, flags=kept)
    with contextlib.suppress(OSError):  # of a kernel without huge pages
        sparse.madvise(mmap.MADV_NOHUGEPAGE)  # a page is touched whole
    return sparse
