"""Literals of Spark SQL: convert sqlglot's nodes to the values that Spark gives them.

A cast of a literal is a literal too, if it changes the type but not the value: sqlglot parses `DATE
'2026-01-31'`, `1L` and `double('NaN')` as casts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from math import isinf
from typing import Any

from sqlglot import exp

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGER_RANGES,
    LONG,
    MAX_DECIMAL_PRECISION,
    SHORT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)
from delta_ops.protocol.values.literals import QuotedText, SqlDouble, SqlText
from delta_ops.protocol.values.partition_values import decimal_of_type, parse, round_to_float

SUPPORTED = (
    "a predicate consists of comparisons of a column with a literal, IN, BETWEEN, IS NULL, AND, "
    "OR and NOT"
)
"""The end of an error message."""

_TYPES: Mapping[exp.DType, DataType] = {
    exp.DType.TINYINT: BYTE,
    exp.DType.SMALLINT: SHORT,
    exp.DType.INT: INTEGER,
    exp.DType.BIGINT: LONG,
    exp.DType.FLOAT: FLOAT,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}
"""By sqlglot's names; Spark's TIMESTAMP is an instant."""
_INTEGER, _DECIMAL = re.compile(r"[0-9]+"), re.compile(r"[0-9]*\.[0-9]*")
_SHOWN_LENGTH = 80


def literal(node: exp.Expr) -> Any:
    """The value of a literal or a cast literal; None is null.

    Raises:
        InvalidRequestError: The node is no literal, or is not supported.
    """
    match unwrap(node):
        case exp.Null():
            return None
        case exp.Boolean(this=value):
            return bool(value)
        case exp.Literal(is_string=True) | exp.RawString() as found:
            text = found.this
            return text if isinstance(text, QuotedText) else SqlText(text)
        case exp.Literal() as found:
            return _number(found)
        case exp.HexString(this=str(digits)):
            return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))
        case exp.Cast() as cast:
            return _cast(literal(cast.this), cast)
        case exp.Neg() as negated:
            return _negative_number(negated)
        case exp.Concat():
            raise refusal(node, "is not a single literal")
    raise refusal(node, "is not a literal")


def unwrap(node: exp.Expr) -> exp.Expr:
    """Remove the parentheses around a node."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def refusal(node: exp.Expr, why: str = "is not supported") -> InvalidRequestError:
    """The error for an unsupported part of a predicate."""
    return InvalidRequestError(
        f"In the predicate, {sql_of(node)} {why}; {SUPPORTED}.{hint_of_quotes(node)}"
    )


def hint_of_quotes(node: exp.Expr) -> str:
    """A hint about double-quoted texts in the node, with a leading space; empty without any."""
    for each in node.find_all(exp.Literal):
        if isinstance(each.this, QuotedText):
            name = each.this.replace("`", "``")
            return f' "{each.this}" is a string in Spark SQL; write a column as `{name}`.'
    return ""


def sql_of(node: exp.Expr) -> str:
    """A part of the text, for an error."""
    return excerpt(node.sql(dialect="spark"))


def excerpt(text: str) -> str:
    """The beginning of a text, for an error."""
    return repr(text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}...")


def _number(node: exp.Literal) -> Any:
    """The number with Spark's type: DOUBLE with an exponent, DECIMAL with only a point."""
    text = node.name
    is_exact = _INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text)
    if is_exact and len(text.replace(".", "").lstrip("0")) <= MAX_DECIMAL_PRECISION:
        return int(text) if _INTEGER.fullmatch(text) else Decimal(text)
    try:
        number = SqlDouble(text)
    except ValueError:
        number = SqlDouble("inf")
    if is_exact or isinf(number):
        raise refusal(node, "is not a number that Spark supports")
    return number


def _negative_number(node: exp.Neg) -> Any:
    operand = unwrap(node.this)
    if isinstance(operand, exp.Cast):
        value = literal(operand.this)
        if _is_number(value):  # the sign belongs to the digits: -128Y
            return _cast(_negate(value), operand)
    value = literal(operand)
    if not _is_number(value):
        raise refusal(node, "is not a literal")
    return _negate(value)


def _negate(value: Any) -> Any:
    if isinstance(value, Decimal):
        return value.copy_negate()  # -value rounds to the precision of the caller's context
    return SqlDouble(-value) if isinstance(value, float) else -value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cast(value: Any, node: exp.Cast) -> Any:
    """Cast a literal whose value stays the same; `DATE '...'` and `1L` are casts too."""
    if value is None:
        return None
    try:
        converted = _convert(value, type_of(node))
    except (InvalidRequestError, ArithmeticError, ValueError):
        converted = None
    if converted is None:
        raise refusal(node, f"is not an exact value of type {node.to.sql(dialect='spark')}")
    return converted


def type_of(node: exp.Cast) -> DataType | None:
    """The type of a cast; None if it is unsupported for literals."""
    if node.to.this == exp.DType.DECIMAL:
        precision, scale = ([int(each.name) for each in node.to.expressions] + [10, 0])[:2]
        return DecimalType(precision, scale) if precision <= MAX_DECIMAL_PRECISION else None
    return _TYPES.get(node.to.this)


def _convert(value: Any, data_type: DataType | None) -> Any:
    """Convert a value; None if the type is not supported or does not have the value."""
    is_text = isinstance(value, SqlText)
    if data_type is None or not (is_text or _is_number(value)):
        return None
    if is_text:
        value = parse(value, data_type)
    if value is None or isinstance(value, date):
        return value
    if data_type in (FLOAT, DOUBLE):
        return SqlDouble(value if data_type == DOUBLE else round_to_float(value))
    if isinstance(data_type, DecimalType):
        return None if isinstance(value, float) else decimal_of_type(Decimal(value), data_type)
    low, high = INTEGER_RANGES.get(data_type, (0, -1))
    return int(value) if low <= value <= high and value == int(value) else None
