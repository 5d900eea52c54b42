"""JSON values: converts the values of a table to JSON types.

These values become text: "NaN", "Infinity" and "-Infinity", decimals, dates and times as ISO 8601,
and binary values as hexadecimal digits. A map becomes a list of pairs, because its keys may be of
any type. Invalid bytes in text that is not UTF-8 are shown as `\\xff`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa

from delta_ops.protocol.values.wide_timestamps import date_text, time_text, timestamp_text

_US_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


class WideTime(str):
    """A time beyond the years of Python's datetime, as ISO 8601."""

    __slots__ = ()


def rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows as dicts by column name."""
    columns = map(_values, batch.columns)
    for values in zip(*columns, strict=True) if batch.num_columns else [()] * len(batch):
        yield dict(zip(batch.schema.names, values, strict=True))


def plain_value(value: Any) -> Any:
    """Convert a value to JSON types."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _word(value)
        case Mapping():
            return {str(name): plain_value(item) for name, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case datetime():
            return time_text(value)
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
    return str(value)


def _word(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _values(array: pa.Array) -> list[Any]:
    try:
        values: list[Any] = array.to_pylist()
    except (OverflowError, ValueError):  # a value does not fit Python's types
        return [_value(scalar) for scalar in array]
    return values


def _value(scalar: Any) -> Any:
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _value(scalar[number]) for number, field in enumerate(kind)}
    if pa.types.is_map(kind):
        return [(_value(pair[0]), _value(pair[1])) for pair in scalar.values]
    if isinstance(scalar, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [_value(item) for item in scalar.values]
    if pa.types.is_date32(kind):
        return date_text(scalar.value)
    if pa.types.is_timestamp(kind) and kind.unit in _US_PER_UNIT:
        us = scalar.value * _US_PER_UNIT[kind.unit]
        return WideTime(timestamp_text(us, is_utc=kind.tz is not None))
    if isinstance(scalar, pa.StringScalar | pa.LargeStringScalar):
        return scalar.as_buffer().to_pybytes().decode(errors="backslashreplace")
    return scalar.as_py()
