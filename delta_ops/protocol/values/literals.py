"""Literals: a user's value as a value of a column's type.

The value keeps its meaning or is refused, as `values` says. Text is read as
partition values are (PROTOCOL.md, "Partition Value Serialization"), so `"2026-01-31"` is a date
where the column is one. For timestamps, text and dates without a time zone mean UTC; a datetime
without one is refused, since to Python it means the machine's.
A `float` column is compared as Spark does, in double precision: its literal is not rounded, and a
Decimal is compared as the nearest double.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)
from delta_ops.protocol.values.conversion import primitive_value
from delta_ops.protocol.values.partition_values import parse
from delta_ops.protocol.values.plain_values import plain_value

_CURES: Mapping[DataType, str] = {
    BOOLEAN: "Compare it with True or False",
    STRING: "Compare it with a str",
    BINARY: "Compare it with bytes",
    DATE: 'Compare it with a datetime.date or with text such as "2026-01-31"',
    TIMESTAMP: (
        "Compare it with a datetime that has a time zone (tzinfo=datetime.timezone.utc), a date, "
        'or text such as "2026-01-31T12:00:00Z"'
    ),
    TIMESTAMP_NTZ: (
        "Compare it with a datetime without a time zone, a date, or text such as "
        '"2026-01-31 12:00:00"'
    ),
}
_NUMBER_CURE = "Compare it with a number that the type can hold exactly"
_DOUBLE_DIGITS = 15
"""Digits of a decimal that survive a double."""
_DOUBLE_INTEGERS = 2**53
"""Integers below are told apart by doubles."""


class SqlText(str):
    """A text of SQL; Spark makes a DOUBLE of it, and of the column, where that is a decimal."""

    __slots__ = ()


class QuotedText(SqlText):
    """A text of SQL in double quotes, in which other engines read the name of a column."""

    __slots__ = ()


class SqlDouble(float):
    """A DOUBLE or FLOAT of SQL; Spark makes a DOUBLE of a column that is another number."""

    __slots__ = ()


def literal_of_type(value: Any, data_type: DataType, *, column: str) -> Any:
    """The value as bool, int, float, Decimal, str, bytes, date or datetime, as the type asks.

    A `timestamp` comes back in UTC. What comes back may be given again.

    Raises:
        InvalidRequestError: The value is none of the type, or the type cannot be compared; the
            message names column, type and value.
    """
    if _is_compared_roughly(value, data_type):
        raise InvalidRequestError(
            f"Column {column} of type {data_type.name} cannot be compared with {value!r}: Spark "
            "would round both to double precision. Write an exact number, such as 1.5 or 15."
        )
    try:
        converted = _convert(plain_value(value), data_type)
    except (InvalidRequestError, ArithmeticError, ValueError) as error:
        raise _refusal(value, data_type, column) from error
    if converted is None:
        raise _refusal(value, data_type, column)
    return converted


def is_comparable(data_type: DataType) -> bool:
    """True if columns of the type can be compared with literals."""
    return (
        data_type in _CURES
        or data_type in INTEGER_RANGES
        or data_type in (FLOAT, DOUBLE)
        or isinstance(data_type, DecimalType)
    )


def _is_compared_roughly(value: Any, data_type: DataType) -> bool:
    """True if Spark compares in a precision in which values of the column are one that are not."""
    if isinstance(data_type, DecimalType):
        return isinstance(value, SqlText | SqlDouble) and data_type.precision > _DOUBLE_DIGITS
    return isinstance(value, SqlDouble) and data_type == LONG and abs(value) >= _DOUBLE_INTEGERS


def _refusal(value: Any, data_type: DataType, column: str) -> InvalidRequestError:
    cure = _CURES.get(data_type, _NUMBER_CURE)
    return InvalidRequestError(
        f"Column {column} of type {data_type.name} cannot be compared with {value!r}. {cure}."
    )


def validate_text(text: str) -> None:
    """Refuse half of a surrogate pair, which no file can hold.

    Raises:
        InvalidRequestError: The text has one.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"{text!r} has half of a surrogate pair, which no file can hold; leave it out"
        ) from error


def _convert(value: Any, data_type: DataType) -> Any:
    if data_type == FLOAT:
        data_type = DOUBLE
    if isinstance(value, str) and data_type != STRING:
        return parse(value, data_type) if data_type != BINARY else None
    if isinstance(value, Decimal) and data_type == DOUBLE:
        return _nearest_double(value)
    return primitive_value(value, data_type)


def _nearest_double(value: Decimal) -> float | None:
    """The double that Spark compares instead; None for numbers beyond all doubles."""
    number = float(value)
    return number if isfinite(number) == value.is_finite() else None
