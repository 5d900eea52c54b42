"""Values of every kind that a user can give, and whether a stored value is equal.

Equality uses exact numbers and nanoseconds, independent of the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from functools import cache
from math import isinf, isnan
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.values.conversion import value_of_type

TOKYO = timezone(timedelta(hours=9))
NOON = datetime(2026, 1, 31, 12)


class Text(str, Enum):  # noqa: UP042  # as users have it
    """Texts with another string form."""

    NEW = "new"
    ONE = "1"


class Number(IntEnum):
    """Whole numbers."""

    ONE = 1


PRIMITIVES: tuple[DataType, ...] = (
    BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DecimalType(5, 2), DecimalType(38, 0),
    DecimalType(38, 18), DecimalType(38, 38), STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ,
)  # fmt: skip
"""Every primitive type that both engines store."""

DEPTHS: Mapping[str, tuple[Callable[[DataType], DataType], Callable[[Any], Any]]] = {
    "a column": (lambda t: t, lambda v: v),
    "an element": (ArrayType, lambda v: [v]),
    "a value of a map": (lambda t: MapType(STRING, t), lambda v: {"k": v}),
    "a key": (lambda t: MapType(t, STRING), lambda v: [(v, "x")]),
    "a field": (lambda t: StructType((StructField("x", t),)), lambda v: {"x": v}),
    "a field deep down": (
        lambda t: ArrayType(MapType(STRING, StructType((StructField("x", ArrayType(t)),)))),
        lambda v: [None, {"k": {"x": [None, v]}}],
    ),
}
"""Nested types around a type, and nested values around a value."""

_NUMBERS = (
    0, -1, 1, 127, 128, 2**15, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63),
    10**37, 10**38, 10**5000, 2**24, 2**24 + 1, 0.0, -0.0, 0.1, 0.5, 1.5, 1e300, 1e-60, 5e-324,
    3.141592653589793, 1e30, float("nan"), float("inf"), float("-inf"), 2.0**63,
)  # fmt: skip
_DECIMALS = tuple(
    map(Decimal, ("0", "1", "0.1", "123.45", "0.005", "1E+20", "1E+30", "1E-38", "-0.00", "NaN"))
)
_TIMES = (
    NOON, NOON.replace(microsecond=1), datetime(1, 1, 1), datetime.max,
    NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=TOKYO), datetime(1, 1, 1, tzinfo=TOKYO),
    date(2026, 1, 31), date(1, 1, 1), date(9999, 12, 31),
)  # fmt: skip
_OF_NUMPY = (
    np.bool_(True), np.int8(-128), np.uint8(255), np.int64(5), np.uint64(2**64 - 1),
    np.float16(0.1), np.float32(0.1), np.float64(0.1), np.longdouble(1) / 3,
    np.float32("inf"), np.complex128(1),
    np.str_("new"), np.bytes_(b"x"), np.datetime64("2026-01-31"), np.datetime64("2026-01"),
    np.datetime64("2026-01-31T12:00:00.000001"), np.datetime64("2026-01-31T12:00:00.000000001"),
    np.datetime64("2026-01-31T12", "h"), np.datetime64("NaT"), np.timedelta64(1, "s"),
    np.datetime64(2**62, "s"), np.array(5), np.ma.masked,
)  # fmt: skip
_OF_PANDAS = (
    pd.Timestamp(NOON), pd.Timestamp(NOON, tz="Asia/Tokyo"), pd.Timestamp(1, unit="ns"),
    pd.Timestamp(1, unit="ns", tz="UTC"), pd.NaT, pd.NA, pd.Timedelta(1, "s"), pd.Period("2026-01"),
    pd.Interval(0, 1),
)  # fmt: skip
_OF_ARROW = (
    pa.scalar(True), pa.scalar(5, pa.uint8()), pa.scalar(0.1, pa.float32()), pa.scalar("new"),
    pa.scalar("new", pa.large_string()), pa.scalar(b"x", pa.binary(1)), pa.scalar(Decimal("1.50")),
    pa.scalar(Decimal("1E+60"), pa.decimal256(70, 0)), pa.scalar(NOON),
    pa.scalar(date(2026, 1, 31)),
    pa.scalar(NOON, pa.timestamp("s", "Asia/Tokyo")), pa.scalar(1, pa.timestamp("ns")),
    pa.scalar(date(2026, 1, 31), pa.date64()), pa.scalar(time(1)), pa.scalar(timedelta(1)),
    pa.scalar(2**62, pa.timestamp("s")), pa.scalar("new", pa.dictionary(pa.int8(), pa.string())),
)  # fmt: skip
_OTHERS = (
    True, False, "", "new", "1", "true", "2026-01-31", "\ud800", 'a"\\\n\x00\U0001f600', b"", b"x",
    b"\xff\x00", bytearray(b"x"), memoryview(b"x"), Text.NEW, Text.ONE, Number.ONE, UUID(int=1),
    time(1), timedelta(1), Fraction(1, 3), 1j, object, ..., frozenset({1}),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *_NUMBERS, *_DECIMALS, *_TIMES, *_OF_NUMPY, *_OF_PANDAS, *_OF_ARROW, *_OTHERS
)  # fmt: skip
"""Values of Python, NumPy, pandas and Arrow; most of them fit few types."""

Meaning = tuple[str, Any]


@cache
def kept(data_type: DataType) -> tuple[Any, ...]:
    """The values that a type keeps, as the user gives them."""
    return tuple(each for each in VALUES if is_kept(each, data_type))


def is_kept(value: Any, data_type: DataType) -> bool:
    """Whether a type keeps a user's value, by the rule for user values."""
    try:
        value_of_type(value, StructField("v", data_type), "t")
    except InvalidRequestError:
        return False
    return True


def leaves_of(array: Any, *, of_keys: bool = False) -> Iterator[Any]:
    """The innermost values of a nested array, without nulls; of maps the keys or the values."""
    if pa.types.is_map(array.type):
        yield from leaves_of(array.keys if of_keys else array.items)
    elif pa.types.is_list(array.type):
        yield from leaves_of(array.flatten())
    elif pa.types.is_struct(array.type):
        yield from leaves_of(array.field(0))
    else:
        yield from array.drop_null()


def is_found(value: Any, stored: Any, data_type: DataType) -> bool:
    """Whether a row with a value equals a row with a value that a predicate supports."""
    if data_type in (FLOAT, DOUBLE):  # compared in double precision
        number = float(value.as_py() if isinstance(value, pa.Scalar) else value)
        return number == stored or (isnan(number) and isnan(stored))
    if data_type == DATE and not is_kept(value, data_type):  # compared as its midnight
        midnight = datetime.combine(stored, time()).replace(tzinfo=UTC)
        return bool(meaning(midnight)[1] == meaning(value)[1])
    return bool(stored == value_of_type(value, StructField("v", data_type), "t"))


def can_partition(value: Any) -> bool:
    """Whether a partition path can hold a stored value: not NaN, not empty, and valid text."""
    match value:
        case float():
            return not isnan(value)
        case bytes():
            return bool(value) and value.isascii()
        case str():
            return bool(value)
    return True


def means_same(argument: Any, stored: Any) -> bool:
    """Whether a stored value equals the given value, exactly or by a float's digits.

    Args:
        given: One of `VALUES`.
        stored: As Arrow reads it.
    """
    one, other = meaning(argument), meaning(stored)
    if one == other:
        return True
    if one[0] == "date" and other[0] in ("local", "instant"):
        return bool((one[1] - date(1970, 1, 1).toordinal()) * 86_400 * 10**9 == other[1])
    if one[0] == other[0] == "number":
        return _is_short(argument, stored) or not _digits(argument).isdisjoint(_digits(stored))
    return False


def _is_short(argument: Any, stored: Any) -> bool:
    """Whether a float of 16 or 32 bits equals the stored number rounded to that width."""
    if isinstance(argument, pa.Scalar) and argument.type in (pa.float16(), pa.float32()):
        argument = (np.float16 if argument.type == pa.float16() else np.float32)(argument.as_py())
    is_short = isinstance(argument, np.float16 | np.float32)
    return is_short and bool(type(argument)(float(stored.as_py())) == argument)


def meaning(value: Any) -> Meaning:
    """A value's kind and content, independent of its class."""
    if isinstance(value, pa.Scalar):
        return _meaning_of_scalar(value)
    match value:
        case bool() | np.bool_():
            return "flag", bool(value)
        case str():
            return "text", "".join(value)
        case bytes() | bytearray() | memoryview():
            return "bytes", bytes(value)
        case int() | np.integer():
            return "number", Fraction(int(value))
        case float() | np.floating() if isnan(value) or isinf(value):
            return "number", str(float(value))
        case float() | np.floating():
            return "number", Fraction(*value.as_integer_ratio())
        case Decimal():
            return "number", Fraction(value) if value.is_finite() else str(float(value))
        case pd.Timestamp() if value is not pd.NaT:
            return ("instant" if value.tz else "local"), _meaning_of_datetime64(value.asm8)[1]
        case datetime() if value is not pd.NaT:
            return _meaning_of_time(value)
        case date() if value is not pd.NaT:
            return "date", value.toordinal()
        case np.datetime64() if not np.isnat(value):
            return _meaning_of_datetime64(value)
    return "other", repr(value)


def _meaning_of_time(value: datetime) -> Meaning:
    since_epoch = value.replace(tzinfo=None) - datetime(1970, 1, 1)
    micros = (since_epoch - (value.utcoffset() or timedelta())) // timedelta(microseconds=1)
    return ("instant" if value.tzinfo else "local"), micros * 1000


def _meaning_of_datetime64(value: np.datetime64) -> Meaning:
    unit = np.datetime_data(value.dtype)[0]
    number = int(value.astype("int64"))
    per_unit = {"h": 3600 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
    if unit in per_unit:
        return "local", number * per_unit[unit]
    return "date", date(1970, 1, 1).toordinal() + int(value.astype("M8[D]").astype("int64"))


def _meaning_of_scalar(value: Any) -> Meaning:
    kind = value.type
    if pa.types.is_dictionary(kind):
        return meaning(value.as_py())
    if pa.types.is_timestamp(kind):
        per_unit = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[kind.unit]
        return ("instant" if kind.tz else "local"), value.value * per_unit
    return meaning(value.as_py())


def _digits(value: Any) -> set[Fraction]:
    """The number, and for a float also the number of its shortest digits."""
    if isinstance(value, pa.Scalar):
        return _digits(np.float32(value.as_py()) if value.type == pa.float32() else value.as_py())
    if isinstance(value, float | np.floating) and not isnan(value) and not isinf(value):
        return {Fraction(*value.as_integer_ratio()), Fraction(str(value))}
    found = meaning(value)[1]
    return {found} if isinstance(found, Fraction) else set()
