"""A predicate over rows: as an Arrow expression.

Arrow compares floating-point numbers by IEEE 754, where NaN is neither greater nor less; Spark
orders NaN above all numbers. The expression is for rows in memory. As the filter of a Parquet
dataset it would lose rows: Arrow skips row groups by their statistics, which ignore NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.arrow_values import TRUE_SCALAR, array_of, scalar
from delta_ops.protocol.predicate.nodes import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    join_balanced,
)
from delta_ops.protocol.predicate.resolution import resolve, resolved_type
from delta_ops.protocol.schema import DOUBLE, FLOAT, ColumnPath, DataType, StructType
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type

_OPERATORS: Mapping[Operator, Callable[[Any, Any], Any]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


def to_arrow(predicate: Predicate, schema: StructType) -> pc.Expression:
    """Convert the predicate for rows in memory with the schema's columns and types.

    Raises:
        InvalidRequestError: As `resolve` does.
    """
    return _expression(resolve(predicate, schema))


def _expression(predicate: Predicate) -> Any:
    match predicate:
        case Comparison(column, operator, value):
            compared = _value(column, predicate.padded_to)
            return _comparison(compared, operator, value, resolved_type(predicate))
        case In(column, values):
            found = _membership(
                _value(column, predicate.padded_to), values, resolved_type(predicate)
            )
            return pc.if_else(_field(column).is_valid(), found, scalar(None, pa.bool_()))
        case IsNull(column):
            return _field(column).is_null()
        case And(operands):
            return join_balanced(and_, map(_expression, operands), _seal)
        case Or(operands):
            return join_balanced(or_, map(_expression, operands), _seal)
        case Not(operand):
            return ~_expression(operand)
        case Always(value):
            return pc.scalar(value)


def _seal(expression: Any) -> Any:
    return ~~expression  # Arrow flattens nested operands of one kind into a single chain


def _field(column: ColumnPath) -> Any:
    return pc.field(column[0]) if len(column) == 1 else pc.field(column)


def _value(column: ColumnPath, padded_to: int | None) -> Any:
    found = _field(column)
    return found if padded_to is None else pc.utf8_rpad(found, padded_to, " ")


def _comparison(column: Any, operator: Operator, value: Any, data_type: DataType) -> Any:
    compare = _OPERATORS[operator]
    if data_type not in (FLOAT, DOUBLE):
        return compare(column, scalar(value, arrow_type_from_type(data_type)))
    number = column.cast(pa.float64())
    nan = pc.is_nan(number)
    if isnan(value):
        # All other numbers are below NaN, as False is below True.
        return _nan_against_nan(operator, nan)
    compared = compare(number, scalar(value, pa.float64()))
    return compared | nan if operator in (">", ">=") else compared


def _nan_against_nan(operator: Operator, nan: Any) -> Any:
    match operator:
        case "==" | ">=":
            return nan
        case "!=" | "<":
            return ~nan
        case "<=":
            return nan | ~nan
        case ">":
            return nan & ~nan


def _membership(column: Any, values: tuple[Any, ...], data_type: DataType) -> Any:
    """Test membership of values that are not null; the caller handles null values."""
    listed = [value for value in values if value is not None]
    is_float = data_type in (FLOAT, DOUBLE)
    found = _is_in_floats(column, listed) if is_float else _is_in(column, listed, data_type)
    if None in values:
        found = pc.if_else(found, TRUE_SCALAR, scalar(None, pa.bool_()))
    return found


def _is_in(column: Any, listed: list[Any], data_type: DataType) -> Any:
    return column.isin(array_of(listed, arrow_type_from_type(data_type)))


def _is_in_floats(column: Any, listed: list[float]) -> Any:
    # Arrow looks values up by their bits; adding zero turns -0.0 into 0.0.
    number = pc.add(column.cast(pa.float64()), scalar(0.0))
    found = number.isin(array_of([v + 0.0 for v in listed if not isnan(v)], pa.float64()))
    return found | pc.is_nan(number) if any(map(isnan, listed)) else found
