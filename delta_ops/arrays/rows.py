"""Rows: the columns of an array table, and the value of a key as its row holds it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from delta_ops.errors import ArrayKeyError, InvalidRequestError

COLUMNS = pa.schema(
    [
        ("node", pa.string()),
        ("block", pa.string()),
        ("key", pa.string()),
        ("data", pa.binary()),
        ("location", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("sha256", pa.string()),
        ("etag", pa.string()),
    ]
)
PARTITION_COLUMNS = ("node", "block")
VALUE_COLUMNS = tuple(COLUMNS.names[2:])
"""The columns of a row besides its partition."""
INLINE_BYTES = 64 * 1024
"""Longest chunk that a row may hold itself; metadata documents have no limit."""


class Value(NamedTuple):
    """The value of a key: its bytes, or the place of its bytes."""

    data: bytes | None = None
    """The bytes; None if they are at `location`."""
    location: str | None = None
    """A path relative to the table, or the URI of a file outside of the table."""
    offset: int | None = None
    """First byte within the file."""
    length: int | None = None
    """Number of bytes; None if `data` has them."""
    sha256: str | None = None
    """Hexadecimal hash of the bytes; None for a file outside of the table."""
    etag: str | None = None
    """Of a file outside of the table, when the row was written."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.data) if self.data is not None else self.length or 0


def rows_of(node: str, block: str, values: Iterable[tuple[str, Value]]) -> pa.Table:
    """Rows of one block.

    Args:
        node: The node of the block.
        block: The name of the block.
        values: Key and value of each row.
    """
    pairs = list(values)
    columns = list(zip(*((key, *value) for key, value in pairs), strict=True)) or [
        () for _ in VALUE_COLUMNS
    ]
    arrays = [pa.array([node] * len(pairs), pa.string()), pa.array([block] * len(pairs))]
    arrays += [
        pa.array(column, COLUMNS.field(name).type)
        for name, column in zip(VALUE_COLUMNS, columns, strict=True)
    ]
    return pa.Table.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, COLUMNS, strict=True)],
        schema=COLUMNS,
    )


def values_of(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, Value]]:
    """Key and value of each row, in order.

    Args:
        rows: Batches with the columns of `VALUE_COLUMNS`.
    """
    for batch in rows:
        columns = [batch.column(name).to_pylist() for name in VALUE_COLUMNS]
        for key, *fields in zip(*columns, strict=True):
            yield key, Value(*fields)


def validate_value(key: str, value: Value, table: str) -> None:
    """Reject a row that names no bytes; other engines write rows, too.

    Raises:
        ArrayKeyError: The row has neither data nor a range of a file.
    """
    if value.data is not None:
        return
    if not value.location or (value.offset or 0) < 0 or value.length is None or value.length < 0:
        raise ArrayKeyError(
            table,
            key,
            "has a row with neither data nor a location, an offset and a length; delete the row "
            "or write the key again",
        )


def validate_columns(schema: pa.Schema, partition_columns: Iterable[str], table: str) -> None:
    """Reject a table that is not an array table.

    Raises:
        InvalidRequestError: A column is missing, or has another type or partitioning.
    """
    found = {each.name: _plain_type(each.type) for each in schema}
    wanted = {each.name: each.type for each in COLUMNS}
    if found == wanted and tuple(partition_columns) == PARTITION_COLUMNS:
        return
    columns = ", ".join(f"{each.name} {each.type}" for each in COLUMNS)
    raise InvalidRequestError(
        f"{table} is not an array table: an array table has the columns {columns}, and is "
        "partitioned by node and block; create one with create_array_table"
    )


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type without the difference between small and large offsets."""
    if pa.types.is_large_string(data_type):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(data_type) else data_type
