"""Expressions: predicates and literals as Spark columns, independent of session settings.

Date and time literals are built from numbers. Texts or Python objects would be converted with the
session's time zone or the Julian calendar.

Parquet readers skip row groups by statistics that may not include NaN, while Spark orders NaN above
all numbers. Each comparison of a floating-point column therefore also covers NaN explicitly, in a
form that Spark does not push to the Parquet reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from math import isnan
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.protocol.predicate import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    resolve,
)
from delta_ops.protocol.predicate.nodes import join_balanced
from delta_ops.protocol.predicate.resolution import resolved_type
from delta_ops.protocol.schema import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructType,
)
from delta_ops.protocol.schema.char_types import CharLengths

_OPERATORS: Mapping[Operator, Callable[[Any, Any], Any]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def to_column(predicate: Predicate, schema: StructType) -> Column:
    """Convert a predicate to a Spark column over the schema's columns. Null stays null.

    Raises:
        InvalidRequestError: The predicate does not fit the schema.
    """
    return _expression(resolve(predicate, schema))


def matches(predicate: Predicate, schema: StructType) -> Column:
    """Whether the predicate is true; false if it is null."""
    return sf.coalesce(to_column(predicate, schema), sf.lit(False))


def pad_text(text: Column, width: int | None) -> Column:
    """Pad a string with spaces to this width. None, or a longer string: no padding."""
    if width is None:
        return text
    return sf.when(sf.length(text) < width, sf.rpad(text, width, " ")).otherwise(text)


def pad(values: Column, data_type: DataType, lengths: CharLengths | None) -> Column:
    """Pad CHAR strings at every depth.

    Args:
        lengths: Result of `char_lengths`.
    """
    if lengths is None:
        return values
    if isinstance(lengths, int):
        return pad_text(values, lengths)
    match data_type:
        case StructType(fields=fields):
            members = (
                pad(values.getField(each.name), each.data_type, lengths.get(each.name)).alias(
                    each.name
                )
                for each in fields
            )
            return sf.when(values.isNotNull(), sf.struct(*members))
        case MapType(key_type=key_type, value_type=value_type):
            keys, items = lengths.get("key"), lengths.get("value")
            if keys is not None:
                values = sf.transform_keys(values, lambda key, _: pad(key, key_type, keys))
            if items is not None:
                values = sf.transform_values(values, lambda _, item: pad(item, value_type, items))
            return values
        case ArrayType(element_type=element_type):
            inner = lengths["element"]
            return sf.transform(values, lambda each: pad(each, element_type, inner))
    return values


def named_column(name: str) -> Column:
    """The column with exactly this name, which may contain dots."""
    return sf.col(quote(name))


def select_columns(rows: DataFrame, names: Iterable[tuple[str, str]]) -> DataFrame:
    """Select and rename columns, given as pairs of old and new name.

    All names go to Spark as text in one call, because a call for each column takes one to two
    milliseconds. Names with `${` cannot be passed as text: Spark would replace session variables in
    it.
    """
    pairs = list(names)
    if any("${" in name for pair in pairs for name in pair):
        return rows.select(*(named_column(a).alias(b) for a, b in pairs))
    return rows.selectExpr(*(quote(a) if a == b else f"{quote(a)} AS {quote(b)}" for a, b in pairs))


def quote(name: str) -> str:
    """The name as a quoted identifier of Spark SQL."""
    return f"`{name.replace('`', '``')}`"


def physical_text(value: Any) -> str | None:
    """Text of Spark's stored form of a partition value; `parse_physical_text` parses it.

    Dates are days and times microseconds since the epoch. Bytes are hexadecimal.
    """
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case bytes():
            return value.hex()
        case datetime():
            return str(_micros(value))
        case date():
            return str((value - _EPOCH.date()).days)
        case float() if isnan(value):
            return "NaN"
        case float():
            return repr(value).replace("inf", "Infinity")
    return str(value)


def parse_physical_text(text: Column, data_type: DataType) -> Column:
    """Parse a string from `physical_text`."""
    match data_type:
        case t if t == BINARY:
            return sf.unhex(text)
        case t if t == DATE:
            return sf.date_from_unix_date(text.cast("int"))
        case t if t == TIMESTAMP:
            return sf.timestamp_micros(text.cast("bigint"))
        case t if t == TIMESTAMP_NTZ:
            return ntz_from_micros(text.cast("bigint"))
    return text.cast(data_type.name)


def ntz_from_micros(micros: Column) -> Column:
    """Convert microseconds since 1970 to `timestamp_ntz`, without any time zone."""
    epoch = sf.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")
    return epoch + sf.expr("INTERVAL '0.000001' SECOND") * micros


def _micros(value: datetime) -> int:
    naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
    return (naive - _EPOCH) // _MICROSECOND


def _literal(value: Any, data_type: DataType) -> Column:
    if value is None:
        return sf.lit(None).cast(data_type.name)
    if data_type in (FLOAT, DOUBLE):
        return sf.lit(float(value))  # Spark compares a `float` column in double
    return parse_physical_text(sf.lit(physical_text(value)), data_type)


def _expression(predicate: Predicate) -> Column:
    match predicate:
        case Comparison(column, operator, value):
            compared = pad_text(_field(column), predicate.padded_to)
            return _comparison(compared, operator, value, resolved_type(predicate))
        case In(column, values):
            compared = pad_text(_field(column), predicate.padded_to)
            return _membership(compared, values, resolved_type(predicate))
        case IsNull(column):
            return _field(column).isNull()
        case And(operands):
            return join_balanced(and_, map(_expression, operands))
        case Or(operands):
            return join_balanced(or_, map(_expression, operands))
        case Not(operand):
            return ~_expression(operand)
        case Always(value):
            return sf.lit(value)


def _field(column: ColumnPath) -> Column:
    return reduce(lambda parent, name: parent.getField(name), column[1:], named_column(column[0]))


def _comparison(column: Column, operator: Operator, value: Any, data_type: DataType) -> Column:
    compare = _OPERATORS[operator]
    if data_type not in (FLOAT, DOUBLE):
        compared: Column = compare(column, _literal(value, data_type))
        return compared
    is_nan = sf.isnan(column)
    if isnan(value):
        return sf.when(column.isNotNull(), _nan_against_nan(operator, is_nan))
    number: Column = compare(column, _literal(value, data_type))
    return number | is_nan if operator in ("!=", ">", ">=") else number & ~is_nan


def _nan_against_nan(operator: Operator, is_nan: Column) -> Column:
    match operator:
        case "==" | ">=":
            return is_nan
        case "!=" | "<":
            return ~is_nan
        case "<=":
            return sf.lit(True)
        case ">":
            return sf.lit(False)


def _membership(column: Column, values: tuple[Any, ...], data_type: DataType) -> Column:
    if data_type not in (FLOAT, DOUBLE):
        return column.isin([_literal(value, data_type) for value in values])
    # Spark's IN compares longer lists by bits, so -0.0 would differ from 0.0.
    null = sf.lit(None).cast("boolean")
    return join_balanced(
        or_, (null if v is None else _comparison(column, "==", v, data_type) for v in values)
    )
