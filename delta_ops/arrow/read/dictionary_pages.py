"""Dictionary pages: find repeated strings in a data file, and their size after decoding.

Source: the Parquet format, "Data Pages" (`PageHeader`, `DictionaryPageHeader`), in Thrift's compact
protocol.

A string in a dictionary takes a few bits for each row in the file, but its whole length for each
row in memory. Footers record only the size in the file. It takes half the time to read the
dictionary indices and build the strings at the end, and less if few of the rows are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

_TEXTS = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_HEADER_BYTES = 64
"""Bytes to read of a page header: enough to reach the number of values of a dictionary page."""
_INTEGER, _STRUCT = 5, 12
_PAGE_BYTES, _OF_DICTIONARY = 2, 7
_NUM_VALUES = 1
MANY_ROWS = 1 << 14
"""In smaller row groups, decoding strings later takes as long as reading them plain."""
SOME_ROWS = 1 << 12
"""In smaller row groups, handling a dictionary takes longer than looking up its strings."""
_WITHOUT_REPEATS = ("parquet-cpp-arrow version", "parquet-mr version", "parquet-rs version")
"""Writers whose dictionaries have no duplicates: with duplicates, Arrow gives wrong indices."""
_NUMBER_BYTES = 3
"""Bytes for each value. A plain string takes four bytes and its length; an index takes up to two,
plus a share of the dictionary."""


@dataclass(slots=True)
class LatestTexts:
    """The leaves that were read as dictionaries in the latest file.

    Most files of a table are alike, so the next file is opened with the same leaves. It is opened
    again if its footer says otherwise. Several threads may read and replace the leaves.
    """

    leaves: list[int] = field(default_factory=list)


def repeated_texts(
    metadata: pq.FileMetaData,
    leaves: Sequence[int],
    row_groups: Sequence[int],
    least_rows: int = MANY_ROWS,
) -> list[int]:
    """Return the given leaves whose strings use dictionaries in all of these row groups.

    A leaf with nulls may still contain plain strings; then it is only read more slowly.

    Args:
        leaves: Leaves already checked by `validate_chunks`.
        least_rows: The rows from which it pays; `SOME_ROWS` if the strings may stay encoded.
    """
    if metadata.num_rows < least_rows or not metadata.created_by.startswith(_WITHOUT_REPEATS):
        return []
    groups = [metadata.row_group(i) for i in row_groups]
    if any(group.num_rows < least_rows for group in groups):
        return []
    schema = metadata.schema
    texts = [i for i in leaves if _is_text(schema.column(i))]
    return [i for i in texts if all(_repeats(group.column(i)) for group in groups)]


def _is_text(column: pq.ColumnSchema) -> bool:
    """Return whether it is a top-level column of strings or bytes."""
    return (
        column.physical_type == "BYTE_ARRAY"
        and column.path == column.name
        and column.logical_type.type in ("STRING", "NONE")
    )


def _repeats(chunk: pq.ColumnChunkMetaData) -> bool:
    most: int = chunk.num_values * _NUMBER_BYTES
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)


def decoded_bytes(source: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> int:
    """Return the approximate size in memory of a column of a row group.

    Args:
        source: The file.
        chunk: The column's metadata in the footer.
    """
    stated: int = chunk.total_uncompressed_size
    start = chunk.dictionary_page_offset
    if chunk.physical_type not in _TEXTS or not start or start < 0:
        return stated
    sizes = _sizes(source.read_at(_HEADER_BYTES, start))
    if sizes is None:
        return stated
    page_bytes, num_values = sizes
    decoded: int = page_bytes // num_values * chunk.num_values
    return max(stated, decoded)


def _sizes(header: bytes) -> tuple[int, int] | None:
    """Return the size and number of values in a dictionary page; None for another page's header."""
    at = field = page_bytes = 0
    try:
        while True:
            field, kind, at = field + (header[at] >> 4), header[at] & 15, at + 1
            if (field, kind) == (_OF_DICTIONARY, _STRUCT):
                break
            if kind != _INTEGER:
                return None
            number, at = _integer(header, at)
            if field == _PAGE_BYTES:
                page_bytes = number
        if header[at] != _NUM_VALUES << 4 | _INTEGER:
            return None
        num_values, _ = _integer(header, at + 1)
    except IndexError:
        return None
    return (page_bytes, num_values) if page_bytes >= 0 and num_values > 0 else None


def _integer(header: bytes, at: int) -> tuple[int, int]:
    """Return a signed integer of variable length, and the position after it."""
    value = shift = 0
    while True:
        byte, at = header[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
