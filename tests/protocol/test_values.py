"""A user's value becomes the same value of a Delta type, or is rejected."""

from __future__ import annotations

from collections import namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from math import inf, nan
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import Row

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
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.values.conversion import value_of_type

NOON = datetime(2026, 1, 31, 12)
TOKYO = timezone(timedelta(hours=9))
PAIR = StructType((StructField("a", LONG), StructField("b", STRING)))
STRICT = StructType((StructField("a", LONG, nullable=False),))
Point = namedtuple("Point", "a b")


class State(str, Enum):  # noqa: UP042
    """Texts in the style from before StrEnum."""

    NEW = "new"


class Loud(str):
    """A text with another string form."""

    def __str__(self) -> str:
        return self.upper()


class Number(IntEnum):
    """Whole numbers."""

    ONE = 1


def taken(value: Any, data_type: DataType, *, is_whole: bool = True) -> Any:
    return value_of_type(value, StructField("v", data_type), "t", is_whole=is_whole)


@pytest.mark.some_cases(37)
@pytest.mark.parametrize(
    ("value", "data_type", "stored"),
    [
        (None, LONG, None),
        (np.bool_(True), BOOLEAN, True),
        (np.int64(5), BYTE, 5),
        (5.0, LONG, 5),
        (Decimal("5.00"), LONG, 5),
        (Number.ONE, SHORT, 1),
        (np.uint64(2**63 - 1), LONG, 2**63 - 1),
        (0.1, FLOAT, float(np.float32(0.1))),
        (np.float32(0.1), DOUBLE, float(np.float32(0.1))),
        (np.float16(0.5), FLOAT, 0.5),
        (np.longdouble(0.5), DOUBLE, 0.5),
        (16777216, FLOAT, 16777216.0),
        (Decimal("0.1"), DOUBLE, 0.1),
        (-inf, FLOAT, -inf),
        (2**53, DOUBLE, 2.0**53),
        (1.5, DecimalType(10, 2), Decimal("1.50")),
        (np.float64(1.1), DecimalType(38, 5), Decimal("1.10000")),
        (State.NEW, STRING, "new"),
        (Loud("x"), STRING, "x"),
        (np.str_("x"), STRING, "x"),
        (bytearray(b"x"), BINARY, b"x"),
        (memoryview(b"x"), BINARY, b"x"),
        (np.bytes_(b"x"), BINARY, b"x"),
        (np.datetime64("2026-01-31"), DATE, date(2026, 1, 31)),
        (date(2026, 1, 31), TIMESTAMP_NTZ, datetime(2026, 1, 31)),
        (np.datetime64("2026-01-31T12:00:00.000000000"), TIMESTAMP_NTZ, NOON),
        (pd.Timestamp("2026-01-31T12:00"), TIMESTAMP_NTZ, NOON),
        (pd.Timestamp("2026-01-31T21:00", tz="Asia/Tokyo"), TIMESTAMP, NOON.replace(tzinfo=UTC)),
        (NOON.replace(tzinfo=TOKYO), TIMESTAMP, datetime(2026, 1, 31, 3, tzinfo=UTC)),
        (pa.scalar(5), LONG, 5),
        (pa.scalar("x"), STRING, "x"),
        (pa.scalar(None, pa.int64()), LONG, None),
        (pa.scalar(NOON, pa.timestamp("ns")), TIMESTAMP_NTZ, NOON),
        (pa.scalar([1, None]), ArrayType(LONG), [1, None]),
        (pa.scalar({"a": 1, "b": "x"}), PAIR, {"a": 1, "b": "x"}),
        (pa.scalar([(1, "x")], pa.map_(pa.int8(), pa.string())), MapType(LONG, STRING), [(1, "x")]),
        ([1.0, None], ArrayType(LONG), [1, None]),
        ((1.5, 2.5), ArrayType(DOUBLE), [1.5, 2.5]),
        ([0.1, None, -0.0], ArrayType(FLOAT), [float(np.float32(0.1)), None, -0.0]),
        (np.array([1.5, 2.5]), ArrayType(DOUBLE), [1.5, 2.5]),
        (np.array([[1], [2]]), ArrayType(ArrayType(LONG)), [[1], [2]]),
        (np.array(["2026-01-31"], "M8[ns]"), ArrayType(TIMESTAMP_NTZ), [datetime(2026, 1, 31)]),
        (pd.Series([1, 2]), ArrayType(LONG), [1, 2]),
        (pd.Series([pd.Timestamp(NOON)]), ArrayType(TIMESTAMP_NTZ), [NOON]),
        (pl.Series(["x"]), ArrayType(STRING), ["x"]),
        (pa.array([b"x"]), ArrayType(BINARY), [b"x"]),
        (range(2), ArrayType(INTEGER), [0, 1]),
        ({"a": 5, "b": "x"}, PAIR, {"a": 5, "b": "x"}),
        ({"B": "x", "A": None}, PAIR, {"a": None, "b": "x"}),
        (Point(5, "x"), PAIR, {"a": 5, "b": "x"}),
        (Row(b="x", a=5), PAIR, {"a": 5, "b": "x"}),
        ((5, "x"), PAIR, {"a": 5, "b": "x"}),
        ({1.0: State.NEW}, MapType(LONG, STRING), [(1, "new")]),
        ([("k", None)], MapType(STRING, LONG), [("k", None)]),
        ([{"k": [{"a": 1, "b": "x"}]}], ArrayType(MapType(STRING, ArrayType(PAIR))),
         [[("k", [{"a": 1, "b": "x"}])]]),
        ({"metadata": b"m", "value": b"v"}, VARIANT, {"metadata": b"m", "value": b"v"}),
    ],
)  # fmt: skip
def test_a_value_that_the_type_has_is_kept(value: Any, data_type: DataType, stored: Any) -> None:
    found = taken(value, data_type)
    assert repr(found) == repr(stored)


@pytest.mark.some_cases(35)
@pytest.mark.parametrize(
    ("value", "data_type", "message"),
    [
        (True, LONG, "column v of type long cannot hold True of type bool: give a whole number"),
        (1, BOOLEAN, "True or False"),
        (1.5, LONG, "cannot hold 1.5 of type float"),
        (128, BYTE, "from -128 to 127"),
        (nan, LONG, "cannot hold nan"),
        (inf, LONG, "cannot hold inf"),
        (1e300, FLOAT, "cannot hold 1e[+]300"),
        (1e-60, FLOAT, "cannot hold 1e-60"),
        (16777217, FLOAT, "numpy.float32"),
        (3.141592653589793, FLOAT, "numpy.float32"),
        (2**53 + 1, DOUBLE, r"float\(value\)"),
        (10**400, DOUBLE, "cannot hold"),
        (Decimal("1e400"), DOUBLE, "cannot hold"),
        (Decimal("0.30000000000000000001"), DOUBLE, "cannot hold"),
        (np.longdouble(1) / 3, DOUBLE, "more digits than a double"),
        (1.005, DecimalType(10, 2), "8 digits before the point and 2 after it"),
        (Decimal("NaN"), DecimalType(10, 2), "cannot hold"),
        (b"x", STRING, "give a str"),
        (5, STRING, "give a str"),
        (UUID(int=1), STRING, "of type UUID: give a str"),
        ("\ud800", STRING, "give a str"),
        ("x", BINARY, "give bytes"),
        (NOON, DATE, "give a datetime.date"),
        ("2026-01-31", DATE, "give a datetime.date"),
        (NOON, TIMESTAMP, "with a time zone"),
        (NOON.replace(tzinfo=UTC), TIMESTAMP_NTZ, "without a time zone"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), TIMESTAMP, "cannot hold"),
        (pd.Timestamp("2026-01-31T12:00:00.000000001"), TIMESTAMP_NTZ, "whole microseconds"),
        (np.datetime64("2026-01-31T12:00:00.000000001"), TIMESTAMP_NTZ, "whole microseconds"),
        (np.datetime64(2**62, "s"), TIMESTAMP_NTZ, "whole microseconds"),
        (pa.scalar(1, pa.timestamp("ns")), TIMESTAMP_NTZ, "whole microseconds|non-zero nanosec"),
        (timedelta(1), TIMESTAMP_NTZ, "cannot hold"),
        (pd.NaT, TIMESTAMP_NTZ, "None for null"),
        (np.datetime64("NaT"), TIMESTAMP_NTZ, "None for null"),
        (pd.NA, LONG, "cannot hold"),
        (np.ma.masked, DOUBLE, "cannot hold"),
        (np.array(5), LONG, "cannot hold"),
        ([1.0, 2.5], ArrayType(LONG), r"column v.element of type long cannot hold 2.5 of type"),
        (["x", b"x"], ArrayType(STRING), "v.element of type string"),
        ([0.1, 1e300], ArrayType(FLOAT), "v.element of type float"),
        ([1, 300], ArrayType(BYTE), "v.element of type byte"),
        (np.ma.array([1, 2], mask=[False, True]), ArrayType(LONG), "v.element"),
        (pd.Series([1, None]), ArrayType(LONG), "cannot hold nan"),
        ([None], ArrayType(LONG, contains_null=False), "must not be null"),
        ([pa.scalar(None, pa.int64())], ArrayType(LONG, contains_null=False), "must not be null"),
        ("ab", ArrayType(STRING), "give a list"),
        ({1, 2}, ArrayType(LONG), "give a list"),
        ({1.5: "x"}, MapType(LONG, STRING), "v.key of type long cannot hold 1.5"),
        ({"k": 1.5}, MapType(STRING, LONG), "v.value of type long"),
        ({None: 1}, MapType(STRING, LONG), "v.key .* must not be null"),
        ([("k", 1), ("k", 2)], MapType(STRING, LONG), "a key occurs twice"),
        (["k"], MapType(STRING, LONG), "give a dict"),
        ({"k": None}, MapType(STRING, LONG, value_contains_null=False), "must not be null"),
        ({"a": 5}, PAIR, "lacks the field 'b'"),
        ({"a": 5, "c": "x"}, PAIR, "no field 'c'; the fields are a, b"),
        ({"a": 5, "A": 6, "b": "x"}, PAIR, "'a' occurs twice"),
        ({"a": 5, "b": b"x"}, PAIR, "column v.b of type string cannot hold b'x' of type bytes"),
        ({"a": 5, "b": "x", 1: 2}, PAIR, "no field 1"),
        ((5,), PAIR, "give a dict"),
        ([5, "x"], PAIR, "give a dict"),
        ({"a": None}, STRICT, "v.a of type long .* must not be null"),
        ([[{"a": 1.5, "b": "x"}]], ArrayType(ArrayType(PAIR)), "column v.element.element.a of"),
        (5, VARIANT, "give a dict"),
        (np.ones((2, 2)), ArrayType(ArrayType(BOOLEAN)), "v.element.element of type boolean"),
    ],
)  # fmt: skip
def test_a_value_that_would_be_changed_is_refused(
    value: Any, data_type: DataType, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message) as refused:
        taken(value, data_type)
    assert str(refused.value).startswith("t: column v")
    assert "\n" not in str(refused.value)


def test_a_new_row_may_leave_out_fields_that_may_be_null() -> None:
    assert taken({"b": "x"}, PAIR, is_whole=False) == {"a": None, "b": "x"}
    with pytest.raises(InvalidRequestError, match="must not be null"):
        taken({}, STRICT, is_whole=False)
