"""Frames: converts pandas and polars frames to Arrow tables, and back; opens polars lazy frames.

A named level of a pandas index is stored as a column. An unnamed index is stored only if the table
already has a column for it, as tables of dagster-deltalake-pandas do, or if `delta/keep_index` is
True: pyarrow calls the column `__index_level_0__`. Until `settle_index` knows the table, the index
stays with the rows, marked in the metadata of their schema.

A lazy frame reads a table while polars collects it. Our reader produces the batches, so deletion
vectors, column mapping and added columns are applied. Memory holds a few batches. A query reads
only the columns and the first rows that it needs. The filters of polars apply to each batch;
`delta/predicate` also skips files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from delta_ops.arrow.python_objects import (
    UNCONVERTIBLE,
    conversion_error,
    validate_frame,
    validate_objects_are_kept,
)
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema.column_names import quote

_MARK = b"delta_ops.index"
"""Key in the metadata of a schema; the value describes an unnamed index."""
_COUNTS, _IS_LEFT_OUT, _IS_COLUMNS = b"counts the rows", b"is left out", b"is the last columns"
_KEEP = "delta/keep_index"
_CURE = (
    'give the index a name by rename_axis("...") to store it as a column, or drop it by '
    "reset_index(drop=True)"
)


def table_of_pandas(frame: Any) -> pa.Table:
    """Convert a pandas frame with its index; NaN becomes null."""
    validate_frame(frame)
    names = list(frame.index.names)
    named = [name for name in names if name is not None]
    if named and (len(named) < len(names) or not frame.columns.intersection(named).empty):
        raise InvalidRequestError(
            f"the index of a pandas frame has the levels {names}, which cannot be columns beside "
            f"{list(frame.columns)}; give each level a name of its own, or drop the index by "
            "reset_index(drop=True)"
        )
    if named:
        frame = frame.reset_index()
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except UNCONVERTIBLE as error:
        raise conversion_error(frame, error) from error
    validate_objects_are_kept(frame, table.schema)
    return table if named else _add_index(table, frame.index)


def settle_index(
    rows: Any, columns: Collection[str], warn: Callable[[str], None], *, keep: bool = False
) -> Any:
    """Store a marked index as columns if the table has these columns; otherwise drop it.

    Args:
        rows: Rows from a type handler.
        columns: Names of the table's columns, in lower case.
        warn: Called if an index with information is dropped.
        keep: Whether an index with information is also stored if the table lacks the columns.

    Raises:
        InvalidRequestError: The index has several levels, and the table has no columns for them; or
            the index must be stored, and Arrow cannot store it.
    """
    metadata = dict((isinstance(rows, pa.Table) and rows.schema.metadata) or {})
    mark = metadata.pop(_MARK, None)
    if mark is None:
        return rows
    rows = rows.replace_schema_metadata(metadata)
    kind, _, depth = mark.rpartition(b" ")
    names = _level_names(int(depth))
    has_columns = set(names).issubset(columns)
    if kind == _COUNTS:
        return rows.append_column(names[0], pa.arange(0, len(rows))) if has_columns else rows
    if kind == _IS_COLUMNS and (has_columns or keep):
        return rows
    if kind == _IS_COLUMNS and len(names) > 1:
        raise InvalidRequestError(
            "the index of a pandas frame has several levels and none has a name; name them, or "
            "drop the index by reset_index(drop=True)"
        )
    if (has_columns or keep) and names[0] not in rows.column_names:
        reason = (
            f"the table has the column {names[0]} for it" if has_columns else f"{_KEEP} is True"
        )
        raise InvalidRequestError(
            f"the index of a pandas frame cannot be converted to Arrow, and {reason}; {_CURE}"
        )
    warn(f"the index of a pandas frame has no name and is not stored; {_CURE}")
    return rows.drop_columns(names) if kind == _IS_COLUMNS else rows


def pandas_of_table(table: pa.Table) -> Any:
    """Convert to a pandas frame; whole numbers with nulls get a nullable type, not floats."""
    frame = table.to_pandas(integer_object_nulls=True)
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_integer(field.type) and column.null_count:
            frame[field.name] = frame[field.name].astype(str(field.type).replace("int", "Int"))
    return frame


def table_of_polars(frame: Any) -> pa.Table:
    """Convert a polars frame."""
    validate_frame(frame)
    try:
        return frame.to_arrow()
    except UNCONVERTIBLE as error:
        raise conversion_error(frame, error) from error


def _add_index(table: pa.Table, index: Any) -> pa.Table:
    """Add an unnamed index to the table, marked for `settle_index`."""
    import pandas as pd

    names = _level_names(index.nlevels)
    kind = _IS_COLUMNS
    if index.nlevels == 1 and (index.empty or index.equals(pd.RangeIndex(len(index)))):
        kind = _COUNTS
        if names[0] in table.column_names:
            return table
    elif names[0] in table.column_names:
        kind = _IS_LEFT_OUT
    else:
        try:
            for level, name in enumerate(names):
                table = table.append_column(name, pa.array(index.get_level_values(level)))
        except (pa.ArrowException, ValueError, TypeError):
            kind = _IS_LEFT_OUT
    metadata = {**(table.schema.metadata or {}), _MARK: b"%s %d" % (kind, len(names))}
    return table.replace_schema_metadata(metadata)


def _level_names(depth: int) -> list[str]:
    """The column names that pyarrow gives to unnamed levels."""
    return [f"__index_level_{level}__" for level in range(depth)]


def scan_table(
    snapshot: Snapshot, columns: Sequence[str] | None, predicate: Predicate | None
) -> Any:
    """Open a lazy frame of a version's rows.

    Raises:
        InvalidRequestError: A column does not exist, or the predicate does not fit the table.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    from delta_ops.arrow.read.scan import schema_of_reading, to_batches

    schema = schema_of_reading(snapshot, columns, predicate)
    columns_by_name = dict(zip(schema.names, columns or map(quote, schema.names), strict=True))

    def read(
        names: list[str] | None, condition: Any, num_rows: int | None, _batch_size: int | None
    ) -> Iterator[Any]:
        # A frame without columns has no rows, so read a column to count them.
        wanted = schema.names if names is None else names or schema.names[:1]
        batches = to_batches(snapshot, [columns_by_name[name] for name in wanted], predicate)
        for batch in _first_rows(batches, num_rows):
            frame = pl.from_arrow(batch)
            yield frame if condition is None else frame.filter(condition)

    empty = pl.from_arrow(schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return register_io_source(read, schema=empty.schema)


def _first_rows(
    batches: Iterator[pa.RecordBatch], num_rows: int | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if num_rows is None:
            yield batch
            continue
        yield batch.slice(0, num_rows)
        num_rows -= min(num_rows, len(batch))
        if num_rows == 0:
            return
