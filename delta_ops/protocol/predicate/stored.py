"""Stored values: what a predicate says of rows once they are in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delta_ops.protocol.predicate import Predicate, col, resolve
from delta_ops.protocol.predicate.resolution import columns
from delta_ops.protocol.schema import BINARY, STRING, DataType, StructType, find_field

_EMPTY: Mapping[DataType, str | bytes] = {STRING: "", BINARY: b""}


def stored_predicate(
    predicate: Predicate, schema: StructType, partition_columns: Sequence[str]
) -> Predicate:
    """True of rows for which the predicate is still true when they are read back.

    An empty partition value is stored as null.

    Raises:
        InvalidRequestError: The predicate does not fit the table.
    """
    for name in sorted(columns(resolve(predicate, schema)) & set(partition_columns)):
        empty = _EMPTY.get(find_field(schema, name).data_type)
        if empty is not None:
            predicate &= col(name).is_null() | (col(name) != empty)
    return predicate
