"""Coercion: the type in which values of several types meet, as Spark chooses it in ANSI mode.

Where Spark would round, or compare by other rules than ours, there is none.

Source: Spark's `AnsiTypeCoercion` and `DecimalPrecisionTypeCoercion`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delta_ops.protocol.schema import (
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    MAX_DECIMAL_PRECISION,
    SHORT,
    VOID,
    DataType,
    DecimalType,
)

INTEGERS: Sequence[DataType] = (BYTE, SHORT, INTEGER, LONG)
"""From narrow to wide."""
FLOATS: Sequence[DataType] = (FLOAT, DOUBLE)
DECIMAL_DIGITS: Mapping[DataType, int] = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}
"""Digits of the decimals that hold each integer type."""


def is_numeric(data_type: DataType) -> bool:
    """Whether one can calculate with values of the type."""
    return data_type in INTEGERS or data_type in FLOATS or isinstance(data_type, DecimalType)


def common_type(types: Sequence[DataType]) -> DataType | None:
    """The type in which values of all types can stand; None where there is none.

    Args:
        types: One at least.
    """
    common: DataType | None = VOID
    for each in types:
        if common is not None and each != VOID:
            common = each if common == VOID else _wider_type(common, each)
    return common


def result_type(operator: str, left: DataType, right: DataType) -> DataType | None:
    """The type of `left operator right`, of the operators + - and *; None where there is none.

    Args:
        operator: One of them.
        left: A number's, as is `right`.
        right: An integer beside a decimal has been made one.
    """
    if isinstance(left, DecimalType) and isinstance(right, DecimalType):
        return _decimal_result(operator, left, right)
    return common_type([left, right])


def _wider_type(one: DataType, other: DataType) -> DataType | None:
    if one == other:
        return one
    if not (is_numeric(one) and is_numeric(other)):
        return None
    if one in INTEGERS and other in INTEGERS:
        return INTEGERS[max(INTEGERS.index(one), INTEGERS.index(other))]
    if one in FLOATS or other in FLOATS:
        # A decimal would be rounded to a binary fraction, and Arrow does so otherwise than Java.
        is_decimal = isinstance(one, DecimalType) or isinstance(other, DecimalType)
        return None if is_decimal else DOUBLE
    left, right = decimal_of(one), decimal_of(other)
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return DecimalType(precision, scale) if precision <= MAX_DECIMAL_PRECISION else None


def decimal_of(data_type: DataType) -> DecimalType:
    """The decimals that hold every value of an exact numeric type."""
    if isinstance(data_type, DecimalType):
        return data_type
    return DecimalType(DECIMAL_DIGITS[data_type], 0)


def _decimal_result(operator: str, left: DecimalType, right: DecimalType) -> DecimalType | None:
    if operator == "*":
        precision, scale = left.precision + right.precision + 1, left.scale + right.scale
    else:
        scale = max(left.scale, right.scale)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        precision = whole + scale + 1
    # Above, Spark rounds the result.
    return DecimalType(precision, scale) if precision <= MAX_DECIMAL_PRECISION else None
