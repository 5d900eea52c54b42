"""Sorting: the order of rows by columns, as Spark has it: nulls first, NaN last."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.arrow.dictionary_columns import is_encoded
from delta_ops.protocol.arrow_values import scalar

NULL, VALUE, NAN = 0, 1, 2
"""Ranks of values: nulls come before values, and NaN comes after them."""


def sort_rows(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Sort rows by columns, ascending; equal rows keep their order."""
    keys = _keys_of(rows, names)
    if not keys or len(rows) < 2:
        return rows
    by = pa.table(keys, [str(number) for number in range(len(keys))])
    order = pc.sort_indices(by, sort_keys=[(name, "ascending") for name in by.column_names])
    return rows.take(order)


def is_sorted(rows: pa.Table, names: Sequence[str]) -> bool:
    """Whether the rows have the order of `sort_rows`."""
    if len(rows) < 2:
        return True
    is_tie: pa.Array | None = None
    for values in _keys_of(rows, names):
        combined = values.combine_chunks()
        before, after = combined.slice(0, len(rows) - 1), combined.slice(1)
        is_above = pc.fill_null(pc.greater(before, after), scalar(False))
        if pc.any(is_above if is_tie is None else pc.and_(is_tie, is_above)).as_py():
            return False
        # Ranks come first, so null is compared with null.
        is_equal = pc.fill_null(pc.equal(before, after), scalar(True))
        is_tie = is_equal if is_tie is None else pc.and_(is_tie, is_equal)
    return True


def _keys_of(rows: pa.Table, names: Sequence[str]) -> list[pa.ChunkedArray]:
    """Columns to compare one after the other."""
    keys: list[pa.ChunkedArray] = []
    for name in names:
        values = _decode(rows[name])
        if values.null_count or pa.types.is_floating(values.type):
            keys.append(ranks_of(values))
        keys.append(values)
    return keys


def footer_order(schema: pa.Schema, names: Sequence[str]) -> list[pq.SortingColumn] | None:
    """The order of `sort_rows` as the footer of a file states it; None without columns.

    Args:
        schema: The columns of the file.
        names: Columns without NaN, by their names in the file.
    """
    if not names:
        return None
    order = [(name, "ascending") for name in names]
    return list(pq.SortingColumn.from_ordering(schema, order, null_placement="at_start"))


def ranks_of(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The rank of each value, as int8."""
    ranks = pc.if_else(pc.is_valid(values), _rank(VALUE), _rank(NULL))
    if pa.types.is_floating(values.type):
        is_nan = pc.fill_null(pc.is_nan(values), scalar(False))
        ranks = pc.if_else(is_nan, _rank(NAN), ranks)
    return ranks


def _rank(number: int) -> pa.Scalar:
    return scalar(number, pa.int8())


def _decode(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values without a dictionary."""
    return values.cast(values.type.value_type) if is_encoded(values.type) else values
