"""Arrow data: the caller's rows as a reader that is consumed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from delta_ops.arrow.python_objects import (
    UNCONVERTIBLE,
    conversion_error,
    validate_frame,
    validate_objects_are_kept,
)
from delta_ops.errors import InvalidRequestError
from delta_ops.lazy import lazy
from delta_ops.protocol.schema.arrow_types import validate_depth

_BATCH_ROWS = 1 << 20
"""A batch of a caller can have any number of rows. Strings of the table, such as the default of a
column, would be too large for one array if they were repeated for all of them."""


class ArrowData:
    """The caller's rows; consumed on the first use of the reader."""

    def __init__(self, data: Any) -> None:
        self.data = data

    @lazy
    def reader(self) -> pa.RecordBatchReader:
        """Return the reader of the rows.

        Raises:
            InvalidRequestError: As for `reader_of`, or a column is nested too deeply.
        """
        reader = reader_of(self.data)
        validate_depth(reader.schema)
        return reader

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the reader in batches of at most a million rows."""
        for batch in self.reader:
            yield batch.slice(0, _BATCH_ROWS)
            for start in range(_BATCH_ROWS, len(batch), _BATCH_ROWS):
                yield batch.slice(start, _BATCH_ROWS)


_taken = WeakSet[pa.RecordBatchReader]()
"""Readers that operations have already consumed."""


def reader_of(data: Any) -> pa.RecordBatchReader:
    """Return a reader for any Arrow data.

    Raises:
        InvalidRequestError: The data are not Arrow data, or are a consumed reader. A consumed
            reader yields no rows: a retry would delete the old rows and write none.
    """
    if isinstance(data, pa.RecordBatchReader):
        if data in _taken:
            raise InvalidRequestError(
                "another operation has already used this RecordBatchReader, which can be read "
                "only once; give a new reader, or a Table. Nothing was written"
            )
        _taken.add(data)
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.Table):
        return data.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        validate_frame(data)
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except UNCONVERTIBLE as error:
            raise conversion_error(data, error) from error
        validate_objects_are_kept(data, reader.schema)
        return reader
    raise InvalidRequestError(
        f"data of type {type(data).__name__} is not Arrow data; give a pyarrow Table, RecordBatch "
        "or RecordBatchReader, or an object with __arrow_c_stream__"
    )
