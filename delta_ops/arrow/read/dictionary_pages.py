"""Dictionary pages: texts that stand once in a data file, and how large they are once decoded.

Source: the Parquet format, "Data Pages" (`PageHeader`, `DictionaryPageHeader`), in Thrift's compact
protocol.

A text that stands once in a dictionary takes some bits for each row in the file, and its whole
length for each row in memory. Footers tell only the former. To read the numbers of such texts, and
make texts of them at the end, takes half the time, and less where few of the rows are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

_TEXTS = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_HEADER_BYTES = 64
"""Bytes of a page's header: more than a dictionary's takes up to the number of values."""
_INTEGER, _STRUCT = 5, 12
_PAGE_BYTES, _OF_DICTIONARY = 2, 7
_NUM_VALUES = 1
_MANY_ROWS = 1 << 14
"""With fewer rows in a row group it takes as long to make texts of numbers as to read them."""
_WITHOUT_REPEATS = ("parquet-cpp-arrow version", "parquet-mr version", "parquet-rs version")
"""Writers whose dictionaries have no value twice: of another one, Arrow gives wrong numbers."""
_NUMBER_BYTES = 3
"""A text by itself takes four bytes and its length, one of a dictionary up to two and a share."""


def repeated_texts(
    metadata: pq.FileMetaData, leaves: Sequence[int], row_groups: Sequence[int]
) -> list[int]:
    """The leaves, of some, whose texts stand in dictionaries in all of these row groups.

    Of a leaf with nulls some may stand by themselves; it is only read more slowly then.

    Args:
        leaves: Looked at by `validate_chunks` before.
    """
    if metadata.num_rows < _MANY_ROWS or not metadata.created_by.startswith(_WITHOUT_REPEATS):
        return []
    groups = [metadata.row_group(i) for i in row_groups]
    if any(group.num_rows < _MANY_ROWS for group in groups):
        return []
    schema = metadata.schema
    texts = [i for i in leaves if _is_text(schema.column(i))]
    return [i for i in texts if all(_repeats(group.column(i)) for group in groups)]


def _is_text(column: pq.ColumnSchema) -> bool:
    """Whether it is a column of the table itself, of texts or bytes."""
    return (
        column.physical_type == "BYTE_ARRAY"
        and column.path == column.name
        and column.logical_type.type in ("STRING", "NONE")
    )


def _repeats(chunk: pq.ColumnChunkMetaData) -> bool:
    most: int = chunk.num_values * _NUMBER_BYTES
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)


def decoded_bytes(source: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> int:
    """Bytes that a column of a row group takes in memory, about.

    Args:
        source: Holds the file.
        chunk: The column in its footer.
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
    """Bytes and number of the values in a dictionary page; None if the header is none of one."""
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
    """A signed integer of variable length, and where it ends."""
    value = shift = 0
    while True:
        byte, at = header[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
