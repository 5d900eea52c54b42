"""Variant primitives: encode Arrow columns of primitive types as variant values.

Source: the Parquet format's VariantShredding.md, "Shredded Value Types".

Each type maps to exactly one variant type. No type is widened, and a unit that variants lack is not
supported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from delta_ops.protocol.variant import (
    Primitive,
    binary_value,
    decimal_value,
    primitive_value,
    string_value,
)

Values = list[bytes | None]
"""Encoded values; None means missing."""


def plan_primitives(data_type: pa.DataType) -> Callable[[Any], Values] | None:
    """Return the encoder for columns of this type; None if variants lack the type.

    The encoder needs decoded dictionaries. It raises ValueError for a text that is not UTF-8 and
    for a decimal with too many digits.
    """
    plain = _type_of(data_type)
    return next((to_values for is_type, to_values in _PRIMITIVES if is_type(plain)), None)


def is_binary(data_type: pa.DataType) -> bool:
    """Return whether the values are bytes of any length, with or without a dictionary."""
    return _is_binary(_type_of(data_type))


def _plan_fixed_width(kind: Primitive, width: int) -> Callable[[Any], Values]:
    """Plan the encoding of values that have the same bytes in Arrow and in a variant."""
    layout = pa.binary(width)

    def encode(array: Any) -> Values:
        contents = array.view(layout).to_pylist()
        return [None if each is None else primitive_value(kind, each) for each in contents]

    return encode


def _booleans(array: Any) -> Values:
    values = {
        None: None,
        True: primitive_value(Primitive.TRUE),
        False: primitive_value(Primitive.FALSE),
    }
    return [values[each] for each in array.to_pylist()]


def _decimals(array: Any) -> Values:
    precision, scale = array.type.precision, array.type.scale
    numbers = array.cast(pa.decimal128(precision, scale)).view(pa.binary(16)).to_pylist()
    return [
        None
        if each is None
        else decimal_value(int.from_bytes(each, "little", signed=True), scale, precision)
        for each in numbers
    ]


def _strings(array: Any) -> Values:
    return [None if each is None else string_value(each) for each in array.to_pylist()]


def _binaries(array: Any) -> Values:
    return [None if each is None else binary_value(each) for each in array.to_pylist()]


def _uuids(array: Any) -> Values:
    return _plan_fixed_width(Primitive.UUID, 16)(array.storage)


def _is_string(t: pa.DataType) -> bool:
    return bool(pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t))


def _is_binary(t: pa.DataType) -> bool:
    return bool(pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t))


def _is_timestamp(unit: str, *, has_zone: bool) -> Callable[[pa.DataType], bool]:
    return lambda t: pt.is_timestamp(t) and t.unit == unit and (t.tz is not None) == has_zone


_PRIMITIVES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Values]], ...] = (
    (pt.is_boolean, _booleans),
    (pt.is_int8, _plan_fixed_width(Primitive.INT8, 1)),
    (pt.is_int16, _plan_fixed_width(Primitive.INT16, 2)),
    (pt.is_int32, _plan_fixed_width(Primitive.INT32, 4)),
    (pt.is_int64, _plan_fixed_width(Primitive.INT64, 8)),
    (pt.is_float32, _plan_fixed_width(Primitive.FLOAT, 4)),
    (pt.is_float64, _plan_fixed_width(Primitive.DOUBLE, 8)),
    (pt.is_date32, _plan_fixed_width(Primitive.DATE, 4)),
    (lambda t: pt.is_time64(t) and t.unit == "us", _plan_fixed_width(Primitive.TIME_NTZ, 8)),
    (_is_timestamp("us", has_zone=True), _plan_fixed_width(Primitive.TIMESTAMP, 8)),
    (_is_timestamp("us", has_zone=False), _plan_fixed_width(Primitive.TIMESTAMP_NTZ, 8)),
    (_is_timestamp("ns", has_zone=True), _plan_fixed_width(Primitive.TIMESTAMP_NANOS, 8)),
    (_is_timestamp("ns", has_zone=False), _plan_fixed_width(Primitive.TIMESTAMP_NTZ_NANOS, 8)),
    (lambda t: pt.is_decimal32(t) or pt.is_decimal64(t) or pt.is_decimal128(t), _decimals),
    (_is_string, _strings),
    (_is_binary, _binaries),
    (lambda t: isinstance(t, pa.UuidType), _uuids),
)


def _type_of(data_type: pa.DataType) -> pa.DataType:
    return data_type.value_type if pt.is_dictionary(data_type) else data_type
