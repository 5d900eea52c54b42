"""The source of a merge: its rows, taken once, and its keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.casting import plan_fit
from delta_ops.arrow.expressions import Rows, field_of
from delta_ops.arrow.row_checks import validate_values
from delta_ops.protocol.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.predicate import TRUE, Always, Or, Predicate, all_of
from delta_ops.protocol.predicate import Column as PredicateColumn
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.stats import ColumnPath

_FEW_VALUES = 64
"""Keys up to so many are listed one by one, more are covered by so many ranges."""


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of a source, in memory."""

    rows: pa.Table
    schema: StructType

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, path: ColumnPath, numbers: pa.Array | None = None) -> Any:
        """The values of a column, or a field, in the rows of these numbers; None: in all."""
        column = self.rows[path[0]]
        column = column if numbers is None else column.take(numbers)
        return field_of(join_chunks(column), path[1:])


def load_source(reader: pa.RecordBatchReader, schema: StructType, table: str) -> Source:
    """Take the rows of a reader, in types that a table has.

    Args:
        reader: Read to its end.
        schema: The types of its columns.
        table: For messages.

    Raises:
        InvalidRequestError: A value does not fit its type.
    """
    wanted = arrow_schema_from_schema(schema)
    fit = plan_fit(reader.schema, wanted, table)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            for fitted in fit(batch):
                validate_values(fitted, table)
                yield fitted

    return Source(pa.Table.from_batches(batches(), wanted).combine_chunks(), schema)


def rows_of_source(source: Source, numbers: pa.Array, side: str) -> Rows:
    """Rows of the source, for expressions whose columns begin with the side."""

    def column(path: ColumnPath) -> pa.Array:
        assert path[0] == side
        return source.take(path[1:], numbers)

    return Rows(column, len(numbers))


def normalize_key(values: Any) -> Any:
    """Keys of which equal ones have equal bits: NaN is one value, and so are both zeros."""
    if not pa.types.is_floating(values.type):
        return values
    nan = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))


def cover_keys(paths: Sequence[ColumnPath], keys: Sequence[pa.Array]) -> Predicate:
    """A predicate that is true of every row of the target whose keys are among these.

    Args:
        paths: Columns of the target, or fields.
        keys: Values of the source for each, in the target's types.
    """
    return all_of(each for each in map(_cover, paths, keys) if each is not TRUE)


def _cover(path: ColumnPath, keys: pa.Array) -> Predicate:
    values = pc.unique(keys).drop_null()
    if not len(values):
        return Always(False)
    if pa.types.is_floating(values.type):
        return TRUE
    column = PredicateColumn(path)
    try:
        if len(values) <= _FEW_VALUES:
            return column.isin(values.to_pylist())
        ordered = values.take(pc.sort_indices(values))
        ranges = [(_value(ordered[a]), _value(ordered[b])) for a, b in _ranges(ordered)]
    except (ValueError, OverflowError):  # times beyond what Python knows
        return TRUE
    return Or(tuple((column >= low) & (column <= high) for low, high in ranges))


def _value(scalar: pa.Scalar) -> Any:
    return scalar.as_py()


def _ranges(ordered: pa.Array) -> list[tuple[int, int]]:
    """Places of the first and last value of ranges, between which there are the largest gaps."""
    last = len(ordered) - 1
    first_value = ordered[0].as_py()
    if isinstance(first_value, int | date | datetime) and not isinstance(first_value, bool):
        width = pa.int32() if ordered.type.bit_width == 32 else pa.int64()
        numbers = ordered.cast(width if not pa.types.is_integer(ordered.type) else pa.int64())
        numbers = numbers.cast(pa.float64(), safe=False)
        gaps = pc.subtract(numbers.slice(1), numbers.slice(0, last))
        order = pc.sort_indices(gaps, sort_keys=[("", "descending")])
        cuts = sorted(order.slice(0, _FEW_VALUES - 1).to_pylist())
    else:
        step = len(ordered) / _FEW_VALUES
        cuts = [int(step * i) for i in range(1, _FEW_VALUES)]
    starts = [0, *(cut + 1 for cut in cuts)]
    return list(zip(starts, [*cuts, last], strict=True))


def join_chunks(column: pa.ChunkedArray) -> pa.Array:
    """All values in one array.

    Raises:
        pa.ArrowInvalid: They are more than one array holds.
    """
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
