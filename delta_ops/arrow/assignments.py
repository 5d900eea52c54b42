"""Assignments: new values of columns, from expressions or Python values.

A value must fit its column like written data: it keeps its meaning, or is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.casting import plan_fit
from delta_ops.arrow.dictionary_columns import is_encoded, replace_encoded
from delta_ops.arrow.expressions.evaluation import Rows, evaluate, evaluate_condition, field_of
from delta_ops.arrow.partitioning import (
    empty_values,
    fill_empty,
    validate_new_values,
)
from delta_ops.errors import InvalidRequestError
from delta_ops.planning.assigned_columns import is_sql_text
from delta_ops.planning.assigned_fields import assigned_field, python_value, whole_values
from delta_ops.planning.merge_columns import NO_KEYS, TARGET, unmatchable_message
from delta_ops.protocol.arrow_values import FALSE_SCALAR, array_of, numpy_of, scalar
from delta_ops.protocol.expression import Expression, parse_expression
from delta_ops.protocol.expression.nodes import Column, Literal, Node, Struct, columns_of
from delta_ops.protocol.expression.resolution import Find, resolve_expression, type_of
from delta_ops.protocol.expression.time_functions import bind_time
from delta_ops.protocol.schema import VOID, ColumnPath, StructField, StructType, find_field
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.transaction.mutability import validate_whole


class Assignments(NamedTuple):
    """The new values of some columns of a table."""

    nodes: Mapping[str, Node]
    """Expressions of the values, by column name as the table spells it."""
    evaluate: Callable[[Rows], list[pa.Array]]
    """Computes the values: an array for each name, in the table's types."""

    @property
    def names(self) -> Sequence[str]:
        """The columns that get values."""
        return tuple(self.nodes)

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that the expressions use."""
        return [each for node in self.nodes.values() for each in columns_of(node)]


def nodes_of(
    assigned: Mapping[ColumnPath, Any],
    schema: StructType,
    table: str,
    now_ms: int,
    alias: str | None = None,
    *,
    is_whole: bool = True,
) -> dict[str, Node]:
    """Return the expression for each column, by the column's name in the table.

    Args:
        assigned: Expressions, SQL strings or other Python values, by column or struct field.
        schema: The table's schema.
        table: For messages.
        now_ms: Time of the statement, in milliseconds since the Unix epoch.
        alias: The table's name in expressions.
        is_whole: Python values of structs must have all fields, because rows would lose missing
            fields.

    Raises:
        InvalidRequestError: A column does not exist, is given twice, or a value does not fit.
    """
    values = {
        path: bind_time(_node(value, assigned_field(path, schema), table, is_whole), now_ms)
        for path, value in assigned.items()
    }
    return whole_values(
        values,
        schema,
        lambda path: Column(path if alias is None else (alias, *path)),
        lambda fields: Struct(tuple(fields)),
        table,
    )


def plan_assignments(
    nodes: Mapping[str, Node],
    find: Find,
    schema: StructType,
    table: str,
    partition_columns: Sequence[str] = (),
    *,
    is_update: bool = False,
    unmatchable: Mapping[str, int] = NO_KEYS,
    meets: Node | None = None,
) -> Assignments:
    """Plan how to compute new values of columns.

    Args:
        nodes: Expressions by column name.
        find: Finds the columns that the expressions use.
        schema: The table's schema.
        table: For messages.
        partition_columns: Columns where an empty string becomes null and NaN is rejected.
        is_update: The values replace existing values of rows.
        unmatchable: Minimum length of the keys that a merge inserts, by column. A shorter key
            would match no source row.
        meets: The resolved condition of a merge. A new row is rejected if it no longer matches its
            source row after its empty partition strings became null.

    Raises:
        InvalidRequestError: An expression does not fit the columns, or its type does not fit its
            column.
    """
    resolved = {name: resolve_expression(node, find) for name, node in nodes.items()}
    if is_update:
        for name, node in resolved.items():
            validate_whole(type_of(node), find_field(schema, name), table)
    wanted = pa.schema([_arrow_field(find_field(schema, name)) for name in nodes])
    assigned = pa.schema([(name, _arrow_type(node)) for name, node in resolved.items()])
    fit = plan_fit(assigned, wanted, table)

    def make(rows: Rows) -> list[pa.Array]:
        values = [evaluate(node, rows) for node in resolved.values()]
        batch = pa.RecordBatch.from_arrays(values, schema=assigned)
        pieces = pa.Table.from_batches(fit(batch), wanted)
        columns = {name: pieces[name].combine_chunks() for name in wanted.names}
        validate_new_values(columns, partition_columns, table)
        unfilled = dict(columns)
        for name in columns.keys() & set(partition_columns):
            columns[name] = fill_empty(columns[name], find_field(schema, name))
        for name in columns.keys() & unmatchable.keys():
            if _has_shorter(unfilled[name], unmatchable[name]):
                raise InvalidRequestError(
                    f"{table}: {unmatchable_message(name, unmatchable[name])}"
                )
        emptied = [name for name in columns if columns[name] is not unfilled[name]]
        for name in emptied:
            if meets is not None and _loses_match(meets, rows, name, unfilled, columns, schema):
                raise InvalidRequestError(f"{table}: {unmatchable_message(name)}")
        return list(columns.values())

    return Assignments(resolved, make)


def _has_shorter(values: pa.Array, least: int) -> bool:
    """Return whether a string or bytes value is shorter than this length."""
    length = pc.utf8_length if pa.types.is_string(values.type) else pc.binary_length
    return bool(pc.any(pc.less(length(values), scalar(least)), min_count=0).as_py())


def _loses_match(
    meets: Node,
    rows: Rows,
    name: str,
    unfilled: Mapping[str, pa.Array],
    filled: Mapping[str, pa.Array],
    schema: StructType,
) -> bool:
    """Return whether a row loses its match when its empty partition value is stored as null.

    Args:
        rows: Rows of the source.
        name: The column with empty values.
        unfilled: New values as given.
        filled: New values as stored.
    """

    def find_met(values: Mapping[str, pa.Array]) -> pa.BooleanArray:
        def column(path: ColumnPath) -> pa.Array:
            if path[0] != TARGET:
                return rows.column(path)
            missing = pa.nulls(rows.num_rows, _arrow_field(find_field(schema, path[1])).type)
            return field_of(values.get(path[1], missing), path[2:])

        return pc.fill_null(evaluate_condition(meets, Rows(column, rows.num_rows)), FALSE_SCALAR)

    lost = pc.and_not(find_met(unfilled), find_met(filled))
    return bool(pc.any(pc.and_(lost, empty_values(unfilled[name])), min_count=0).as_py())


def replace_values(column: Any, mask: pa.BooleanArray, values: pa.Array) -> pa.Array:
    """Replace values of a column, in order, where the mask is true."""
    if is_encoded(column.type):
        return replace_encoded(column, mask, values)
    if len(values) == len(column):
        return values
    if pa.types.is_primitive(column.type):
        return pc.replace_with_mask(column, mask, values)
    # For strings, take needs a third of the time; nested values do not support replacement.
    places = np.arange(len(column))
    chosen = numpy_of(mask)
    places[chosen] = np.arange(len(column), len(column) + len(values))
    return pa.concat_arrays([column, values]).take(array_of(places))


def _arrow_type(node: Node) -> pa.DataType:
    data_type = type_of(node)
    return pa.null() if data_type == VOID else arrow_type_from_type(data_type)


def _arrow_field(field: StructField) -> pa.Field:
    return pa.field(field.name, arrow_type_from_type(field.data_type))


def _node(value: Any, field: StructField, table: str, is_whole: bool) -> Node:
    if isinstance(value, Expression):
        return value.root
    if is_sql_text(value):
        return parse_expression(value).root
    if value is None:
        return Literal(None, VOID)
    return Literal(python_value(value, field, table, is_whole=is_whole), field.data_type)
