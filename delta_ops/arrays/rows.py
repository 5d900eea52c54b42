"""Rows: the columns of an array table, and the value of a key as its row holds it. No I/O."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrays.keys import block_of, place_of, shape_of_block, validate_key
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
_MOST_LOOKUPS = 50
"""Look-ups in the columns of a block before its rows are decoded."""


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


@dataclass(slots=True, eq=False, kw_only=True)
class BlockRows:
    """The rows of a block; used by several threads.

    To make a dictionary of 10,000 rows takes longer than to read them, and many readers need a few
    chunks of each block. So the first look-ups compare the column of keys, and only then are all
    rows decoded. Each row is validated when it is decoded.

    Args:
        table: The table, for messages.
        version: The version of the table, for messages.
        node: The node of the block.
        block: The name of the block.
        batches: The rows, with the columns of `VALUE_COLUMNS`.
    """

    table: str
    version: int
    node: str
    block: str
    batches: Sequence[pa.RecordBatch]
    _rows: Mapping[str, Value] | None = None
    _num_lookups: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, key: str) -> Value | None:
        """The value of a key; None without it.

        Raises:
            ArrayKeyError: The key has an invalid row, or several rows.
        """
        with self._lock:
            self._num_lookups += 1
            if self._rows is not None or self._num_lookups > _MOST_LOOKUPS:
                return self._decode_all().get(key)
            return self._validate(values_of(_rows_with(self.batches, key))).get(key)

    def all(self) -> Mapping[str, Value]:
        """All rows by key.

        Raises:
            ArrayKeyError: A row is invalid, or a key has several rows.
        """
        with self._lock:
            return self._decode_all()

    def _decode_all(self) -> Mapping[str, Value]:
        if self._rows is None:
            self._rows = self._validate(values_of(self.batches))
            self.batches = ()
        return self._rows

    def _validate(self, values: Iterable[tuple[str, Value]]) -> dict[str, Value]:
        shape = shape_of_block(self.block)
        shapes = [] if shape is None else [shape]
        rows: dict[str, Value] = {}
        for key, value in values:
            validate_key(key, self.table)
            place = place_of(key)
            if place.node != self.node or block_of(place, shapes) != self.block:
                raise ArrayKeyError(
                    self.table,
                    key,
                    f"has a row in block {self.block} of node {self.node}, but belongs to block "
                    f"{block_of(place, shapes)} of node {place.node}; delete the row, and write "
                    "it there",
                )
            if key in rows:
                raise ArrayKeyError(
                    self.table, key, f"has two rows in version {self.version}; delete one row"
                )
            validate_value(key, value, self.table)
            rows[key] = value
        return rows


def _rows_with(batches: Iterable[pa.RecordBatch], key: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        places = pc.indices_nonzero(pc.equal(batch.column("key"), key))
        if len(places):
            yield batch.take(places)
