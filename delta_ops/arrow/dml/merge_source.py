"""The source of a merge: its rows, read once, and helpers for its keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.acero import evaluate
from delta_ops.arrow.arrow_data import ArrowData
from delta_ops.arrow.casting import plan_fit, validate_alike
from delta_ops.arrow.expressions.evaluation import Rows, field_of
from delta_ops.arrow.nesting import is_list
from delta_ops.arrow.row_checks import validate_values
from delta_ops.errors import InvalidRequestError
from delta_ops.planning.merge_columns import SOURCE
from delta_ops.protocol.arrow_values import scalar
from delta_ops.protocol.expression.nodes import Column, Node
from delta_ops.protocol.predicate import to_arrow
from delta_ops.protocol.schema import (
    NO_COLUMNS,
    VOID,
    ColumnPath,
    DataType,
    PrimitiveType,
    StructField,
    StructType,
    walk,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema, schema_from_arrow
from delta_ops.transaction.source_rules import SourceRule, validate_broken

_FEW_ROWS, _FEW_BYTES = 1 << 20, 1 << 20
_EVERY_UINT64 = pa.decimal128(20, 0)
_TAKEN_ROWS, _TAKEN_BYTES = 1 << 17, 128 << 20
"""Limits of the source rows that are taken at once."""


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of a source, in memory."""

    rows: pa.Table
    schema: StructType

    def __len__(self) -> int:
        return len(self.rows)

    def has_few_texts(self, node: Node) -> bool:
        """Return whether a value is a string column of the source with few distinct strings."""
        match node:
            case Column(path=(side, name)) if side == SOURCE:
                column = self.rows[name]
                return len(column) <= _FEW_ROWS and pc.unique(column).nbytes <= _FEW_BYTES
        return False

    def take(self, path: ColumnPath, numbers: pa.Array | None = None) -> Any:
        """Return a column or field for these row numbers; None means all rows."""
        column = self.rows[path[0]]
        column = column if numbers is None else column.take(numbers)
        return field_of(join_chunks(column), path[1:])


def rows_at_once(num_rows: int, num_bytes: int) -> int:
    """Return how many rows of a source to take at once: strings of one array are limited to 2 GB.

    Args:
        num_rows: Number of rows of the source.
        num_bytes: Size of these rows.
    """
    return max(1, min(_TAKEN_ROWS, _TAKEN_BYTES * max(num_rows, 1) // max(num_bytes, 1)))


class SourceRows:
    """The caller's source rows; kept in memory for a merge that runs again."""

    def __init__(self, data: Any) -> None:
        self._data = ArrowData(data)
        self._loaded: pa.Table | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of all source columns, as given."""
        return self._data.reader.schema

    def load(self, wanted: StructType, table: str) -> Source:
        """Load the rows with these columns into memory.

        Raises:
            InvalidRequestError: A value does not fit its type.
        """
        data = self._data.reader if self._loaded is None else self._loaded.to_reader()
        source = load_source(data, wanted, table)
        self._loaded = source.rows
        return source


def source_columns(source: pa.Schema, known: pa.Schema) -> tuple[StructType, dict[str, str]]:
    """Return the columns of a source, and the types that Delta lacks.

    Args:
        source: The columns, after `fill_types`.
        known: The columns of the table.

    Returns:
        The columns, and by name the Arrow types of columns that have no Delta type.
    """
    names = {each.name.lower(): each.type for each in known}
    fields: list[StructField] = []
    unusable: dict[str, str] = {}
    for each in source:
        wide = _widen_type(each.type, names.get(each.name.lower()))
        data_type = VOID if pt.is_null(wide) else _delta_type(wide)
        if data_type is None:
            unusable[each.name] = str(each.type)
        fields.append(StructField(each.name, data_type or PrimitiveType(str(each.type))))
    return StructType(tuple(fields)), unusable


def has_delta_type(data_type: pa.DataType) -> bool:
    """Return whether a table can have columns of an Arrow type."""
    return _delta_type(data_type) is not None


def _delta_type(data_type: pa.DataType) -> DataType | None:
    try:
        (field,) = schema_from_arrow(pa.schema([("only", data_type)])).fields
    except InvalidRequestError:
        return None
    has_no_fields = any(each == NO_COLUMNS for _, each in walk(StructType((field,))))
    return None if has_no_fields else field.data_type


def _widen_type(source: pa.DataType, known: pa.DataType | None) -> pa.DataType:
    """Return a Delta-compatible Arrow type for values of a type that Delta lacks."""
    if pt.is_dictionary(source) or pt.is_run_end_encoded(source):
        return _widen_type(source.value_type, known)
    if pt.is_uint64(source):
        return _EVERY_UINT64
    if pt.is_float16(source):
        return pa.float32()
    if pt.is_decimal(source) and _delta_type(source) is None:
        is_known = known is not None and pt.is_decimal(known)
        return known if is_known else pa.decimal128(38, min(max(source.scale, 0), 38))
    if pt.is_struct(source):
        is_known = known is not None and pt.is_struct(known)
        inner = {each.name.lower(): each.type for each in known or ()} if is_known else {}
        return pa.struct(
            each.with_type(_widen_type(each.type, inner.get(each.name.lower()))) for each in source
        )
    if is_list(source):
        element = source.value_field
        inner_type = known.value_type if known is not None and is_list(known) else None
        return pa.list_(element.with_type(_widen_type(element.type, inner_type)))
    if pt.is_map(source):
        item_type = known.item_type if known is not None and pt.is_map(known) else None
        item = source.item_field.with_type(_widen_type(source.item_type, item_type))
        return pa.map_(source.key_field, item)
    return source


def load_source(reader: pa.RecordBatchReader, schema: StructType, table: str) -> Source:
    """Load the rows of a reader, in types that a table supports.

    Args:
        reader: Read to its end.
        schema: The columns to load; others are ignored.
        table: For messages.

    Raises:
        InvalidRequestError: A value does not fit its type.
    """
    wanted = arrow_schema_from_schema(schema)
    names, given = wanted.names, reader.schema
    fit = plan_fit(pa.schema([given.field(name) for name in names]), wanted, table)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            if batch.schema != given:
                validate_alike(batch.schema, given, table)
            for fitted in fit(batch.select(names)):
                validate_values(fitted, table)
                yield fitted

    return Source(pa.Table.from_batches(batches(), wanted).combine_chunks(), schema)


def validate_source(source: Source, rules: Sequence[SourceRule], table: str) -> None:
    """Reject a source with rows that break a rule.

    Raises:
        InvalidRequestError: Rows break a rule; the message has the rule and the number of rows.
    """
    conditions = (to_arrow(each.predicate_on(source.schema), source.schema) for each in rules)
    kept = (
        sum(evaluate(condition, batch).true_count for batch in source.rows.to_batches())
        for condition in conditions
    )
    validate_broken(rules, [len(source) - num_kept for num_kept in kept], table)


def rows_of_source(source: Source, numbers: pa.Array, side: str) -> Rows:
    """Return source rows for expressions whose column paths start with this side."""

    def column(path: ColumnPath) -> pa.Array:
        assert path[0] == side
        return source.take(path[1:], numbers)

    return Rows(column, len(numbers))


def normalize_key(values: Any) -> Any:
    """Give equal keys equal bits: one NaN, and one zero."""
    if not pa.types.is_floating(values.type):
        return values
    nan = scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, scalar(0.0, values.type)))


def join_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Join all values into one array.

    Raises:
        pa.ArrowInvalid: The values are larger than one array can hold.
    """
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
