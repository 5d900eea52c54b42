"""Guarantees from statistics of any writer."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
)
from delta_ops.protocol.stats.file_bounds import lower_bound, null_count, upper_bound
from delta_ops.protocol.stats.file_stats import FileStats
from delta_ops.protocol.values.partition_values import round_to_float
from tests.protocol.typed_values import VALUES

DEC = DecimalType(38, 2)
WIDE = Decimal("123456789012345678901234.56")


@pytest.mark.parametrize(
    ("data_type", "value", "low", "high"),
    [
        pytest.param(INTEGER, 5, 5, 5, id="integer"),
        pytest.param(LONG, Decimal("1E+3"), 1000, 1000, id="an integer with an exponent"),
        pytest.param(LONG, Decimal("1.5"), None, None, id="an integer with a fraction"),
        pytest.param(LONG, Decimal("1e999999999"), None, None, id="an absurd exponent"),
        pytest.param(DEC, Decimal("1e999999999"), None, None, id="an absurd decimal"),
        pytest.param(LONG, True, None, None, id="a boolean for an integer"),
        pytest.param(BOOLEAN, True, True, True, id="boolean"),
        pytest.param(DOUBLE, 1, 1.0, 1.0, id="a double without a fraction"),
        pytest.param(
            FLOAT, Decimal("1.1"), *[round_to_float(1.1)] * 2, id="a float in its own digits"
        ),
        pytest.param(
            DOUBLE, Decimal("1.1"), 1.1, round_to_float(1.1), id="a double that may be a float"
        ),
        pytest.param(
            DOUBLE, Decimal("-1.1"), round_to_float(-1.1), -1.1, id="a negative one of these"
        ),
        pytest.param(DOUBLE, Decimal("1e300"), 1e300, 1e300, id="a double that is no float"),
        pytest.param(DOUBLE, "NaN", None, None, id="NaN as text"),
        pytest.param(
            DecimalType(9, 2), Decimal("1.10"), Decimal("1.10"), Decimal("1.10"), id="decimal"
        ),
        pytest.param(DATE, "2020-02-29", date(2020, 2, 29), date(2020, 2, 29), id="date"),
        pytest.param(DATE, "2021-02-29", None, None, id="no date"),
        pytest.param(
            TIMESTAMP,
            "2000-01-01T09:00:00.000-08:00",
            datetime(2000, 1, 1, 17, tzinfo=UTC),
            datetime(2000, 1, 1, 17, 0, 0, 1000, UTC),
            id="a timestamp was cut to milliseconds",
        ),
        pytest.param(TIMESTAMP, "2000-01-01T09:00:00.000", None, None, id="a zone is missing"),
        pytest.param(TIMESTAMP, "2000-01-01 09:00:00", None, None, id="a zone is missing here too"),
        pytest.param(
            TIMESTAMP_NTZ,
            "9999-12-31T23:59:59.999",
            datetime(9999, 12, 31, 23, 59, 59, 999000),
            None,
            id="nothing is above the last millisecond",
        ),
        pytest.param(TIMESTAMP_NTZ, "2000-01-01T09:00:00.000Z", None, None, id="a zone too many"),
        pytest.param(STRING, "", "", "", id="the empty string"),
        pytest.param(STRING, "abc\ufffd", "abc\ufffd", "abc\U0010ffff", id="the old tie-breaker"),
        pytest.param(STRING, "ab?\ufffd", "ab?\ufffd", "ab\U0010ffff", id="half a pair before it"),
        pytest.param(STRING, "x" * 31, "x" * 31, "x" * 31, id="a string that nobody cuts"),
        pytest.param(STRING, "x" * 32, "x" * 32, "x" * 32 + "\U0010ffff", id="perhaps a cut one"),
        pytest.param(STRING, "\ud800", None, None, id="half a pair"),
        pytest.param(TIMESTAMP, "1850-01-01T01:01:01.000+00:53", None, None, id="a cut offset"),
        pytest.param(STRING, 5, None, None, id="a number for a string"),
        pytest.param(BINARY, "a", None, None, id="binary"),
        pytest.param(ArrayType(LONG), 5, None, None, id="an array"),
        pytest.param(LONG, {"x": 5}, None, None, id="an object for an integer"),
        pytest.param(LONG, None, None, None, id="null"),
    ],
)
def test_bounds(data_type: DataType, value: Any, low: Any, high: Any) -> None:
    stats = FileStats(min_values={"a": value}, max_values={"a": value})
    assert lower_bound(stats, ("a",), data_type) == low
    assert upper_bound(stats, ("a",), data_type) == high


@pytest.mark.parametrize(
    ("data_type", "low", "high"),
    [
        (LONG, 2, 1),
        (STRING, "b", "a"),
        (DOUBLE, 1, Decimal("0.5")),
        (DATE, "2026-01-02", "2026-01-01"),
    ],
)
def test_bounds_that_are_swapped_are_none(data_type: DataType, low: Any, high: Any) -> None:
    swapped = FileStats(min_values={"a": low}, max_values={"a": high})
    assert lower_bound(swapped, ("a",), data_type) is None
    assert upper_bound(swapped, ("a",), data_type) is None


@pytest.mark.parametrize("value", [WIDE, -WIDE], ids=["positive", "negative"])
def test_a_decimal_that_went_through_a_double_is_within_its_bounds(value: Decimal) -> None:
    rounded = Decimal(repr(float(value)))
    assert rounded != value
    stats = FileStats(min_values={"a": rounded}, max_values={"a": rounded})
    assert lower_bound(stats, ("a",), DEC) <= value <= upper_bound(stats, ("a",), DEC)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"s": {"x": 2}}, 2, id="a field"),
        pytest.param({"s": 2}, None, id="a number where an object belongs"),
        pytest.param({"s": {"x": True}}, None, id="a boolean"),
        pytest.param({"s": {"x": Decimal("1.0")}}, None, id="a fraction"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_null_count(values: Any, expected: int | None) -> None:
    assert null_count(FileStats(null_count=values), ("s", "x")) == expected


json_values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False)
    | st.text()
    | st.floats()
)


@given(json_values, st.sampled_from([*VALUES, ArrayType(LONG)]))
def test_any_value_in_the_log_is_a_bound_or_none(value: Any, data_type: DataType) -> None:
    stats = FileStats(min_values={"a": value}, max_values={"a": value})
    low, high = lower_bound(stats, ("a",), data_type), upper_bound(stats, ("a",), data_type)
    assert low is None or high is None or low <= high


@pytest.mark.parametrize("value", [WIDE, -WIDE, Decimal("9" * 38), Decimal("0." + "1" * 38)])
def test_bounds_do_not_depend_on_the_precision_of_the_callers_decimals(value: Decimal) -> None:
    data_type = DecimalType(38, max(0, -int(value.as_tuple().exponent)))
    stats = FileStats(num_records=1, min_values={"x": value}, max_values={"x": value})
    with localcontext(prec=3):
        low, high = lower_bound(stats, ("x",), data_type), upper_bound(stats, ("x",), data_type)
    assert low <= value <= high
