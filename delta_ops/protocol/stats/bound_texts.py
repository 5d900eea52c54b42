"""Bounds as JSON values for statistics, valid in every engine.

Source: PROTOCOL.md, "Per-file Statistics".

An unproved bound is left out, because readers skip files by bounds. Zeros get the sign that widens
the bound, and timestamps are rounded outwards to milliseconds. Values without a JSON form (NaN,
infinity, years beyond 9999) are not used as bounds. A text is truncated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple

from delta_ops.protocol.schema import DATE, TIMESTAMP, TIMESTAMP_NTZ, ColumnPath, DataType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS_PER_MS = 1_000
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ASCII_MAX, _UNICODE_MAX = "\x7f", "\U0010ffff"


class Bounds(NamedTuple):
    """Lowest and highest value and null count of a column in one file."""

    data_type: DataType
    low: Any
    """In footer units: days, microseconds, UTF-8; None is unknown."""
    high: Any
    null_count: int


def stats_from_bounds(
    num_records: int, bounds: Mapping[ColumnPath, Bounds], prefix_length: int
) -> str:
    """Make the statistics of a data file, as JSON, from the bounds of its columns."""
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    null_counts: dict[str, Any] = {}
    for path, (data_type, low, high, null_count) in bounds.items():
        insert_value(lower, path, lower_bound(low, data_type, _MICROS_PER_MS, prefix_length))
        insert_value(upper, path, upper_bound(high, data_type, _MICROS_PER_MS, prefix_length))
        insert_value(null_counts, path, null_count)
    return stats_text(
        {
            "numRecords": num_records,
            "minValues": lower,
            "maxValues": upper,
            "nullCount": null_counts,
        }
    )


def lower_bound(low: Any, data_type: DataType, units_per_ms: int, prefix_length: int) -> Any:
    """Convert a lower bound for statistics; None if it has no JSON form.

    Args:
        low: The bound in footer units: days, time units, UTF-8.
        units_per_ms: Time units per millisecond.
        prefix_length: Maximum number of characters of a text.
    """
    match low:
        case float():
            return (low or -0.0) if isfinite(low) else None
        case bytes():
            return _prefix(_decode(low), prefix_length)
        case int() if data_type == DATE:
            return _date_text(low)
        case int() if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
            return _timestamp_text(low // units_per_ms, data_type)
    return low


def upper_bound(high: Any, data_type: DataType, units_per_ms: int, prefix_length: int) -> Any:
    """Convert an upper bound for statistics; arguments as for `lower_bound`."""
    match high:
        case float():
            return (high or 0.0) if isfinite(high) else None
        case bytes():
            return _prefix_above(_decode(high), prefix_length)
        case int() if data_type == DATE:
            return _date_text(high)
        case int() if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
            # Readers may or may not add a millisecond, to undo the truncation of other writers.
            return _timestamp_text(-(-high // units_per_ms), data_type)
    return high


def _decode(value: bytes) -> str | None:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _prefix(text: str | None, length: int) -> str | None:
    return text[:length] if text is not None and (length > 0 or not text) else None


def _prefix_above(text: str | None, length: int) -> str | None:
    """A short text at or after this text in UTF-8 order; None if there is none."""
    if text is None or len(text) <= length:
        return text
    for end in range(length, 2 * length):
        following = text[end : end + 1]
        if not following:
            return text
        if following < _ASCII_MAX:
            return text[:end] + _ASCII_MAX
        if following < _UNICODE_MAX:
            return text[:end] + _UNICODE_MAX
    return None


def _date_text(days: int) -> str | None:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _timestamp_text(milliseconds: int, data_type: DataType) -> str | None:
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text}Z" if data_type == TIMESTAMP else text


def insert_value(target: dict[str, Any], path: ColumnPath, value: Any) -> None:
    """Insert a known value at its path in nested objects."""
    if value is None:
        return
    if len(path) > 1:
        for name in path[:-1]:
            target = target.setdefault(name, {})
    target[path[-1]] = value


def stats_text(value: Any) -> str:
    """Encode statistics as JSON, with every digit of decimals."""
    try:
        return _ENCODER.encode(value)
    except TypeError:
        return _json_with_decimals(value)


def _json_with_decimals(value: Any) -> str:
    """Encode JSON with every digit of decimals, which `json` cannot write."""
    match value:
        case dict():
            members = (
                f"{json.dumps(k, ensure_ascii=False)}:{_json_with_decimals(v)}"
                for k, v in value.items()
            )
            return f"{{{','.join(members)}}}"
        case Decimal():
            return format(value, "f")
    return json.dumps(value, ensure_ascii=False)
