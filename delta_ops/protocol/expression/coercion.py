"""Coercion: the common type of values, as Spark chooses it in ANSI mode.

There is no common type if Spark would round, or compare by other rules than ours.

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
    """Whether the type supports arithmetic."""
    return data_type in INTEGERS or data_type in FLOATS or isinstance(data_type, DecimalType)


def common_type(types: Sequence[DataType]) -> DataType | None:
    """The type that can hold the values of all types; None if there is none.

    Args:
        types: At least one type.
    """
    common: DataType | None = VOID
    for each in types:
        if common is not None and each != VOID:
            common = each if common == VOID else _wider_type(common, each)
    return common


def result_type(operator: str, left: DataType, right: DataType) -> DataType | None:
    """The type of `left operator right`; None if there is none.

    Args:
        operator: `+`, `-` or `*`.
        left: A numeric type.
        right: A numeric type. An integer next to a decimal has been converted to a decimal.
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
        # A decimal would be rounded to a binary fraction, and Arrow rounds differently than Java.
        is_decimal = isinstance(one, DecimalType) or isinstance(other, DecimalType)
        return None if is_decimal else DOUBLE
    left, right = decimal_of(one), decimal_of(other)
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return DecimalType(precision, scale) if precision <= MAX_DECIMAL_PRECISION else None


def decimal_of(data_type: DataType) -> DecimalType:
    """The decimal type that holds every value of an exact numeric type."""
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
    # Beyond the maximum precision, Spark rounds the result.
    return DecimalType(precision, scale) if precision <= MAX_DECIMAL_PRECISION else None
