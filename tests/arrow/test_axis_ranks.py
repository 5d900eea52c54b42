"""Ranks of values within a sample."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from math import inf, isnan, nan
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from delta_ops.arrow.rewrite.axis_ranks import axis_of_sample
from tests.support.examples import check_examples

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats() | st.sampled_from([nan, inf, -inf, 0.0, -0.0])),
    "decimal": (pa.decimal128(20, 2), st.integers(-(10**17), 10**17).map(lambda n: Decimal(n) / 4)),
    "date": (pa.date32(), st.dates(date(1, 1, 1))),
    "timestamp": (
        pa.timestamp("us"),
        st.timedeltas(timedelta(-9999), timedelta(9999)).map(lambda d: datetime(2000, 1, 1) + d),
    ),
    "boolean": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=4) | st.text(max_size=9).map("https://".__add__)),
    "bytes": (pa.binary(), st.binary(max_size=4)),
}


def order_key(value: Any) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    if isinstance(value, float) and isnan(value):
        return 2, 0
    return 1, value.encode() if isinstance(value, str) else value


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("kind", VALUES)
def test_ranks_never_contradict_the_order_of_values(kind: str) -> None:
    data_type, values = VALUES[kind]

    def check(of_sample: list[Any], of_column: list[Any]) -> None:
        check_ranks(pa.array(of_sample, data_type), pa.array(of_column, data_type))

    lists = st.lists(st.none() | values, max_size=20)
    check_examples(40, check, lists, lists)


def check_ranks(sample: pa.Array, column: pa.Array) -> None:
    ranks = axis_of_sample(sample, bits=3).rank(column).tolist()
    known = sorted(zip(map(order_key, column.to_pylist()), ranks, strict=True))
    assert [rank for _, rank in known] == sorted(ranks)
    assert all(0 <= rank < 8 and (rank == 0) is (key[0] == 0) for key, rank in known)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([1] * 900 + list(range(2, 102))), id="one value is most of them"),
        pytest.param(pa.array([2.0**n for n in range(1000)]), id="values grow without measure"),
        pytest.param(pa.array([f"customer {n:09}" for n in range(1000)]), id="texts begin alike"),
    ],
)
def test_ranks_are_spread_over_all_there_are(column: pa.Array) -> None:
    ranks = axis_of_sample(column, bits=8).rank(column)
    assert (ranks.min(), ranks.max() > 240) == (2, True)
    assert len(set(ranks.tolist())) >= 25
