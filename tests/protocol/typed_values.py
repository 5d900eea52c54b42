"""Strategies: values of every type, with the critical values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGER_RANGES,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)
from delta_ops.protocol.values.partition_values import round_to_float

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
"""Any text that UTF-8 can hold."""
_DATETIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30, 23, 59, 59, 999999))

VALUES: Mapping[DataType, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    **{t: st.integers(*INTEGER_RANGES[t]) for t in (BYTE, SHORT, INTEGER, LONG)},
    FLOAT: st.floats(width=32),
    DOUBLE: st.floats(),
    DecimalType(10, 2): st.decimals(-(10**8) + 1, 10**8 - 1, places=2),
    DecimalType(38, 18): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda digits: Decimal(f"{digits}E-18")
    ),
    DecimalType(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    STRING: TEXT,
    BINARY: TEXT.map(str.encode),
    DATE: st.dates(),
    TIMESTAMP: _DATETIMES.map(lambda moment: moment.replace(tzinfo=UTC)),
    TIMESTAMP_NTZ: _DATETIMES,
}

DAY = date(2026, 1, 31)
NOON = datetime(2026, 1, 31, 12, 0, 0, 123456)
FEW: Mapping[DataType, tuple[Any, ...]] = {
    BOOLEAN: (False, True),
    BYTE: (-128, -1, 0, 127),
    SHORT: (-32768, -1, 0, 32767),
    INTEGER: (-(2**31), -1, 0, 1, 2, 2**31 - 1),
    LONG: (-(2**63), 0, 1, 2, 2**63 - 1),
    FLOAT: tuple(map(round_to_float, (-1.1, -0.0, 0.0, 1.1, 3e38, math.inf, -math.inf, math.nan))),
    DOUBLE: (-1.5, -0.0, 0.0, 1.1, 5e-324, 1.7e308, math.inf, -math.inf, math.nan),
    DecimalType(6, 2): tuple(map(Decimal, ("-9999.99", "-0.01", "0.00", "0.01", "9999.99"))),
    DecimalType(15, 4): tuple(
        map(Decimal, ("-99999999999.9999", "0.0000", "0.1000", "99999999999.9998"))
    ),
    DecimalType(38, 3): tuple(
        map(Decimal, ("12345678901234567890.123", "12345678901234567890.124", "-1.000", "0.001"))
    ),
    STRING: ("", "a", "abc", "abcd", "abc\x7f", "abc\ufffd", "abc😀", "ab😀c", "abé", "ab?c", "b"),
    BINARY: (b"", b"a", b"\x00", b"\x7f", b"\x80", b"\xff"),
    DATE: (date(1, 1, 1), date(1969, 12, 31), DAY, date(9999, 12, 31)),
    TIMESTAMP: tuple(
        moment.replace(tzinfo=UTC)
        for moment in (
            datetime(1, 1, 1),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            NOON,
            NOON.replace(microsecond=123457),
            datetime(9999, 12, 31, 23, 59, 59, 999999),
        )
    ),
    TIMESTAMP_NTZ: (datetime(1, 1, 1), NOON, datetime(9999, 12, 31, 23, 59, 59, 999999)),
}
"""A few values of each type, so that rows and literals often meet."""


def is_same(a: Any, b: Any) -> bool:
    """Equal, with NaN equal to itself."""
    return bool(a == b) or (_is_nan(a) and _is_nan(b))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
