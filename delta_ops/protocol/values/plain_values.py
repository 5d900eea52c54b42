"""Plain values: convert values of NumPy, pandas, polars and Arrow to Python values.

A member of an Enum of texts or numbers becomes its text or number.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from math import isnan
from typing import Any

import pyarrow as pa

_PLAIN = frozenset({bool, int, float, Decimal, str, bytes, date, datetime, type(None)})
_MAX_BYTES = 8
"""Maximum size of numbers that Python supports too."""
_OTHER = "no type has such values"
_NO_TIME = "it is not a time; give None for null"


class UnfitValueError(ValueError):
    """A value does not fit a type; the text gives the reason, if it is not obvious."""


def plain_value(value: Any) -> Any:
    """Convert a scalar of NumPy, pandas or Arrow, or an Enum member, to a Python value.

    Other values are returned unchanged.

    Raises:
        UnfitValueError: Python has no such value, such as a time with nanoseconds.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, pa.Scalar):
        try:
            return plain_value(value.as_py())
        except (ValueError, OverflowError) as error:
            raise UnfitValueError(str(error)) from error
    match value:
        case str():
            is_own = type(value).__str__ is not str.__str__
            return str.__str__(value) if is_own else value
        case datetime():
            return _plain_time(value)
        case date():
            return date(value.year, value.month, value.day)
        case Enum() if isinstance(value, int):
            return int(value)
        case Enum() if isinstance(value, float):
            return float(value)
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is None or getattr(value, "ndim", None) != 0 or not hasattr(value, "item"):
        return value
    return _plain_scalar(value, kind)


def _plain_time(value: datetime) -> datetime:
    if not isinstance(value.year, int):  # pandas.NaT is a datetime without a year
        raise UnfitValueError(_NO_TIME)
    if getattr(value, "nanosecond", 0):
        raise UnfitValueError("a time has whole microseconds")
    if type(value) is datetime:
        return value
    return datetime(
        value.year, value.month, value.day, value.hour, value.minute, value.second,
        value.microsecond, value.tzinfo, fold=value.fold,
    )  # fmt: skip


def _plain_scalar(value: Any, kind: str) -> Any:
    """Convert a NumPy scalar by the kind of its type."""
    if type(value).__hash__ is None:
        return value  # an array without dimensions, such as numpy.ma.masked, is no scalar
    if kind not in "biufSUM":
        raise UnfitValueError(_OTHER)  # item() would turn a duration into a whole number
    if kind != "M":
        number = value.item()
        return number if type(number) in _PLAIN else _long_double(number)
    if str(value) == "NaT":
        raise UnfitValueError(_NO_TIME)
    found = value.item()
    if not isinstance(found, date):  # a number, if Python lacks the unit
        micros = value.astype("datetime64[us]")
        found = micros.item() if micros.astype(value.dtype) == value else None
    if not isinstance(found, date):
        raise UnfitValueError("a time has whole microseconds, in the years 1 to 9999")
    return found


def _long_double(number: Any) -> float:
    """Convert a long double to a double."""
    if float(number) != number and not isnan(number):
        raise UnfitValueError("it has more digits than a double")
    return float(number)


def elements_of(value: Any) -> Sequence[Any]:
    """The elements of a list of Python, NumPy, pandas, polars or Arrow."""
    if isinstance(value, list | tuple):
        return value
    to_list = getattr(value, "to_pylist", None) or getattr(value, "to_list", None)
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    try:
        if to_list is not None:
            return list(to_list())
        if kind is not None and getattr(value, "ndim", None):
            is_plain = (
                kind in "biuf" and value.itemsize <= _MAX_BYTES and not hasattr(value, "mask")
            )
            return list(value.tolist() if is_plain else value)
    except (ValueError, OverflowError) as error:
        raise UnfitValueError(str(error)) from error
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return value
    raise UnfitValueError("give a list")
