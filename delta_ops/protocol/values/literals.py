"""Literals: convert a user's value to a column's type, for comparison.

The value keeps its meaning or is rejected, as in `conversion`. Texts are parsed like partition
values (PROTOCOL.md, "Partition Value Serialization"), so `"2026-01-31"` is a date for a date
column. For timestamps, texts and dates without a time zone mean UTC. A datetime without a time zone
is rejected, since Python reads it in the machine's zone. A `float` column is compared in double
precision, as in Spark: its literal is not rounded, and a Decimal is compared as the nearest double.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any

from delta_ops.error_texts import whole_text
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
"""Doubles distinguish all integers below this number."""


class SqlText(str):
    """A text in SQL; to compare it with a DECIMAL column, Spark casts both to DOUBLE."""

    __slots__ = ()


class QuotedText(SqlText):
    """A double-quoted text in SQL, which other engines read as a column name."""

    __slots__ = ()


class SqlDouble(float):
    """A DOUBLE or FLOAT in SQL; Spark casts a column of another number type to DOUBLE."""

    __slots__ = ()


def literal_of_type(value: Any, data_type: DataType, *, column: str | None) -> Any:
    """Convert a value to bool, int, float, Decimal, str, bytes, date or datetime.

    A `timestamp` is returned in UTC. The function accepts its own results.

    Args:
        column: The column that the value is compared with, for errors; None: an expression.

    Raises:
        InvalidRequestError: The value does not match the type, or the type cannot be compared; the
            message names column, type and value.
    """
    if _is_compared_roughly(value, data_type):
        raise InvalidRequestError(
            f"{_subject(column)} of type {data_type.name} cannot be compared with {value!r}: Spark "
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
    """Whether columns of the type can be compared with literals."""
    return (
        data_type in _CURES
        or data_type in INTEGER_RANGES
        or data_type in (FLOAT, DOUBLE)
        or isinstance(data_type, DecimalType)
    )


def _is_compared_roughly(value: Any, data_type: DataType) -> bool:
    """Whether Spark would compare as doubles, and so treat different column values as equal."""
    if isinstance(data_type, DecimalType):
        return isinstance(value, SqlText | SqlDouble) and data_type.precision > _DOUBLE_DIGITS
    return isinstance(value, SqlDouble) and data_type == LONG and abs(value) >= _DOUBLE_INTEGERS


def _subject(column: str | None) -> str:
    return "An expression" if column is None else f"Column {column}"


def _refusal(value: Any, data_type: DataType, column: str | None) -> InvalidRequestError:
    cure = _CURES.get(data_type, _NUMBER_CURE)
    return InvalidRequestError(
        f"{_subject(column)} of type {data_type.name} cannot be compared with "
        f"{whole_text(value)}. {cure}."
    )


def validate_text(text: str) -> None:
    """Reject a text with half of a surrogate pair, which no file can store.

    Raises:
        InvalidRequestError: The text contains one.
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
    """The double that Spark compares instead; None for numbers beyond the range of doubles."""
    number = float(value)
    return number if isfinite(number) == value.is_finite() else None
