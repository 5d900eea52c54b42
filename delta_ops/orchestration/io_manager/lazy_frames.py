"""Lazy frames: a polars LazyFrame that reads a table while polars collects it.

Our reader produces the batches, so deletion vectors, column mapping and added columns are applied.
Memory holds a few batches. A query reads only the columns and the first rows that it needs. The
filters of polars apply to each batch; `delta/predicate` also skips files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from delta_ops.arrow.read.scan import schema_of_reading, to_batches
from delta_ops.log import Snapshot
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema.column_names import quote


def scan_table(
    snapshot: Snapshot, columns: Sequence[str] | None, predicate: Predicate | None
) -> Any:
    """Open a lazy frame of a version's rows.

    Raises:
        InvalidRequestError: A column does not exist, or the predicate does not fit the table.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

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
