"""Bounds of a file's columns, by type: the values that its statistics prove.

Source: PROTOCOL.md, "Per-file Statistics".

Other engines may have written the statistics, so each bound is read as loosely as the loosest known
writer means it:

- Timestamps are truncated to milliseconds.
- Decimals may have passed through a binary fraction.
- Older versions of the reference truncate an upper bound and append U+FFFD, which is not the
  greatest character.
- A long string may be truncated without any mark.
- A maximum of a floating-point column may hide NaN.
- A DOUBLE column may have been FLOAT. Its bounds, in the digits of a float, then differ from the
  values that its rows have as doubles.

An unreadable bound counts as missing; nothing here raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import isnan
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ColumnPath,
    DataType,
    DecimalType,
)
from delta_ops.protocol.stats.file_stats import FileStats
from delta_ops.protocol.values.partition_values import parse, round_to_float

_MILLISECOND = timedelta(milliseconds=1)
_EXACT_DIGITS = 15
"""A decimal with up to this many digits survives a double."""
_ROUNDING = Decimal("1e-15")
_DOWN, _UP = (Context(prec=38, rounding=each) for each in (ROUND_FLOOR, ROUND_CEILING))
_MAX_EXPONENT = 400
"""Limit for exponents; no Delta number exceeds it, and `1e999999999` would fill the memory."""
_REPLACEMENT, _ASCII_MAX, _UNICODE_MAX = "\ufffd", "\x7f", "\U0010ffff"
TRUNCATED_BYTES = 32
"""A string of at least this size may be truncated to 32 bytes, characters or UTF-16 units."""
OFFSETS_IN_MINUTES = datetime(1972, 1, 8, tzinfo=UTC)
"""Before this time, zone offsets had seconds; Spark writes the offset without its seconds."""


def lower_bound(stats: FileStats, path: ColumnPath, data_type: DataType) -> Any:
    """A value at or below every non-null value; None if unknown."""
    value, _ = _typed_bounds(stats, path, data_type)
    if isinstance(value, Decimal) and _may_be_rounded(data_type):
        return _DOWN.subtract(value, _UP.multiply(value.copy_abs(), _ROUNDING))
    if data_type == DOUBLE and value is not None:
        return min(value, _float_value(value))
    return value


def upper_bound(stats: FileStats, path: ColumnPath, data_type: DataType) -> Any:
    """A value at or above every value except null and NaN; None if unknown."""
    _, value = _typed_bounds(stats, path, data_type)
    if value is None:
        return None
    if isinstance(value, Decimal) and _may_be_rounded(data_type):
        return _UP.add(value, _UP.multiply(value.copy_abs(), _ROUNDING))
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return _add_millisecond(value)
    if data_type == DOUBLE:
        return max(value, _float_value(value))
    return _undo_truncation(value) if data_type == STRING else value


def null_count(stats: FileStats, path: ColumnPath) -> int | None:
    """Number of null rows; exact only if it is zero or the number of records."""
    count = _look_up(stats.null_count, path)
    return count if type(count) is int else None


def is_exact(value: Any, data_type: DataType) -> bool:
    """Whether a bound of this type equals the value that the writer saw, without rounding."""
    if data_type == STRING:
        text = str(value)
        may_be_truncated = len(text.encode()) >= TRUNCATED_BYTES
        return not may_be_truncated and not text.endswith((_REPLACEMENT, _UNICODE_MAX, _ASCII_MAX))
    if isinstance(data_type, DecimalType):
        return not _may_be_rounded(data_type)
    return data_type in INTEGER_RANGES or data_type == DATE


def _look_up(values: Mapping[str, Any], path: ColumnPath) -> Any:
    found: Any = values
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _typed_bounds(stats: FileStats, path: ColumnPath, data_type: DataType) -> tuple[Any, Any]:
    """Bounds as written; None for both if the lower bound is above the upper bound."""
    low = typed_value(_look_up(stats.min_values, path), data_type)
    high = typed_value(_look_up(stats.max_values, path), data_type)
    return (None, None) if low is not None and high is not None and low > high else (low, high)


def _may_be_rounded(data_type: DataType) -> bool:
    return isinstance(data_type, DecimalType) and data_type.precision > _EXACT_DIGITS


def typed_value(value: Any, data_type: DataType) -> Any:
    """Convert a bound from JSON to the type; None if it does not match."""
    try:
        match value:
            case bool():
                return value if data_type == BOOLEAN else None
            case int() | Decimal():
                return _typed_number(value, data_type)
            case str():
                return _typed_text(value, data_type)
    except (InvalidRequestError, ArithmeticError, ValueError):
        pass
    return None


def _typed_number(value: int | Decimal, data_type: DataType) -> Any:
    if not Decimal(value).is_finite() or abs(Decimal(value).adjusted()) > _MAX_EXPONENT:
        return None
    if isinstance(data_type, DecimalType):
        return Decimal(value)
    if data_type in INTEGER_RANGES:
        return int(value) if value == int(value) else None
    if data_type == FLOAT:
        return round_to_float(float(value))
    return float(value) if data_type == DOUBLE else None


def _typed_text(text: str, data_type: DataType) -> Any:
    if data_type == STRING:
        text.encode()  # fails for half a surrogate pair, which no file can hold
        return text
    if data_type in (FLOAT, DOUBLE):
        number = parse(text, data_type)
        return None if number is None or isnan(number) else number
    if data_type == DATE:
        return date.fromisoformat(text)
    if data_type not in (TIMESTAMP, TIMESTAMP_NTZ):
        return None
    moment = datetime.fromisoformat(text)
    if (moment.tzinfo is None) is (data_type == TIMESTAMP):
        return None
    if moment.tzinfo is None:
        return moment
    return None if moment.utcoffset() and moment < OFFSETS_IN_MINUTES else moment.astimezone(UTC)


def _float_value(value: float) -> float:
    """The bound of a DOUBLE column if it was written when the column was FLOAT."""
    try:
        return round_to_float(value)
    except OverflowError:
        return value


def _add_millisecond(value: Any) -> Any:
    try:
        return value + _MILLISECOND
    except OverflowError:
        return None


def _undo_truncation(text: str) -> str:
    """An upper bound for every string that a writer may have truncated to this text.

    Some writers append U+FFFD to a truncated bound, but the characters beyond U+FFFF sort above it.
    They may also split such a character in two; its first half is then a `?`.
    """
    if not text.endswith(_REPLACEMENT):
        return text + _UNICODE_MAX if len(text.encode()) >= TRUNCATED_BYTES else text
    return text[:-1].removesuffix("?") + _UNICODE_MAX
