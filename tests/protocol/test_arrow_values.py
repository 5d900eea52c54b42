"""Arrow values without pandas: the same arrays as pyarrow's own."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from delta_ops.protocol.arrow_values import array_of, numpy_of, repeat, scalar

MAY = datetime(2026, 5, 1, 12, 30, 15, 123_456)
TYPED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127]),
    (pa.int16(), [-(2**15), 2**15 - 1]),
    (pa.int32(), [-(2**31), 0]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.float64(), [-0.0, 1.5, float("inf"), float("-inf")]),
    (pa.float32(), [0.1, 1e300, -0.0]),
    (pa.float32(), [1, 1 << 24]),
    (pa.float64(), [1, 1 << 53, 0.5]),
    (pa.bool_(), [True, False, True, True, False, False, True, True, True]),
    (pa.string(), ["", "a", "zürich", "\0"]),
    (pa.binary(), [b"", b"\xff\0"]),
    (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    (pa.timestamp("us"), [MAY, datetime.min, datetime.max]),
    (pa.timestamp("us", "UTC"), [MAY.replace(tzinfo=UTC)]),
    (pa.timestamp("us", "UTC"), [MAY, MAY.replace(tzinfo=timezone(timedelta(hours=-5)))]),
    (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("1E+1"), Decimal(0), Decimal("0.01")]),
    (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38)]),
    (pa.list_(pa.int64()), [[1, None], []]),
    (pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}), [{"a": 1}, {"b": ["c"]}, {}]),
    (pa.struct([]), [{}]),
    (pa.map_(pa.string(), pa.int64()), [{"a": 1, "b": None}, {}]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)]]),
    (pa.list_(pa.struct({"a": pa.bool_()})), [[{"a": True}, None], []]),
    (pa.null(), []),
]


def assert_same(made: Any, expected: Any) -> None:
    if isinstance(made, pa.Array):
        made.validate(full=True)
    assert made.type == expected.type
    assert made.equals(expected) or str(made) == str(expected)  # NaN equals no NaN


@pytest.mark.parametrize(("data_type", "values"), TYPED, ids=str)
def test_values_of_a_type_are_the_array_that_pyarrow_makes(
    data_type: pa.DataType, values: list[Any]
) -> None:
    for some in (values, [*values, None], [None], [], [None, *values, None, *values]):
        assert_same(array_of(some, data_type), pa.array(some, data_type))
        assert_same(array_of(iter(some), data_type), pa.array(some, data_type))
    for each in (*values, None):
        assert_same(scalar(each, data_type), pa.scalar(each, data_type))


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, None],
        [True],
        ["a", None],
        [b"a"],
        [0.5, float("nan")],
        [1, 0.5],
        [None],
        [],
        [date(2026, 1, 1)],
        [MAY],
        [Decimal("1.5")],
        [[1], None],
        np.array([1, 2]),
        np.array([0.5, np.nan]),
        np.array([1, 2], np.uint32)[::-1],
        np.array([1, 2], np.int8),
        np.array([True, False, True]),
        np.array(["a", "b"]),
        np.array(["2026-01-01"], "datetime64[D]"),
        np.array([], np.int64),
    ],
    ids=repr,
)
def test_the_type_of_values_is_the_one_that_pyarrow_infers(values: Any) -> None:
    assert_same(array_of(values), pa.array(values))
    for each in values:
        if not isinstance(each, np.generic):
            assert_same(scalar(each), pa.scalar(each))


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.int8(), [200]),
        (pa.uint32(), [-1]),
        (pa.float32(), [(1 << 24) + 1]),
        (pa.float64(), [(1 << 53) + 1]),
        (pa.int32(), ["1"]),
        (pa.string(), [1]),
        (pa.string(), ["\ud800"]),
        (pa.date32(), ["2026-01-01"]),
        (pa.decimal128(3, 1), [Decimal("100.0")]),
        (pa.decimal128(3, 1), [Decimal("1.25")]),
        (pa.decimal128(3, 1), [Decimal("NaN")]),
        (pa.bool_(), [1]),
    ],
    ids=str,
)
def test_values_that_do_not_fit_raise_pyarrow_s_error(
    data_type: pa.DataType, values: list[Any]
) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - of several types
        pa.array(values, data_type)
    with pytest.raises(type(expected.value)) as raised:
        array_of(values, data_type)
    assert str(raised.value) == str(expected.value)


def test_numpy_values_convert_to_the_given_type() -> None:
    assert_same(array_of(np.array([1, 2]), pa.int32()), pa.array([1, 2], pa.int32()))
    with pytest.raises(pa.ArrowInvalid):
        array_of(np.array([1 << 40]), pa.int32())


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 3], pa.int32()),
        pa.array([1, None, 3]),
        pa.array([0.5, float("nan"), 1.5]),
        pa.array([True, False] * 20),
        pa.array([True, None, False]),
        pa.array([], pa.uint64()),
        pa.array([], pa.bool_()),
        pa.array(["a", "b"]),
        pa.array([date(2026, 1, 1), date(2026, 1, 2)]),
        pa.array([Decimal("1.5")]),
        pa.nulls(3),
    ],
    ids=lambda each: f"{each.type} {len(each)}",
)
def test_an_array_becomes_the_numpy_array_that_pyarrow_makes(values: pa.Array) -> None:
    slices = [values, values.slice(1), values.slice(0, 1), values.slice(2, 17), values.slice(0, 0)]
    chunked = [pa.chunked_array(some, values.type) for some in (slices, [values], [])]
    for each in (*slices, *chunked):
        made, expected = numpy_of(each), each.to_numpy(zero_copy_only=False)
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("text", ["x" * 2**20, b"x" * 2**20])
def test_a_string_is_not_repeated_beyond_the_size_of_an_array(text: str | bytes) -> None:
    with pytest.raises(pa.ArrowCapacityError, match="too large for one array"):
        repeat(scalar(text), 2**11)


@pytest.mark.parametrize("value", ["ab", None, b"", 7, 1.5])
def test_a_value_is_repeated(value: Any) -> None:
    assert repeat(scalar(value), 3).equals(pa.array([value] * 3))
