"""The text of a predicate is read again as the same predicate."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delta_ops import col
from delta_ops.protocol.predicate import Predicate, parse_predicate
from delta_ops.protocol.predicate.nodes import Always, Comparison, In, IsNull, Not
from delta_ops.protocol.predicate.text import predicate_text

LITERALS: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.decimals("-1e18", "1e18", places=4),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=st.just(UTC)),
    st.datetimes(),
)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
COLUMNS = st.lists(NAMES, min_size=1, max_size=2).map(tuple)
LEAVES: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Comparison, COLUMNS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), LITERALS),
    st.builds(In, COLUMNS, LITERALS.map(lambda value: (value, None, value))),
    st.builds(IsNull, COLUMNS),
    st.builds(Always, st.booleans()),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda a, b: a & b, inner, inner) | st.builds(lambda a, b: a | b, inner, inner),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(PREDICATES)
@example(IsNull(("IF",)))
@example(IsNull(("null", "select")))
def test_the_text_of_a_predicate_is_that_predicate(predicate: Predicate) -> None:
    assert parse_predicate(predicate_text(predicate)) == predicate


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (col("day") == "2026-01-31", "`day` = '2026-01-31'"),
        ((col("a") > 1) & ((col("b") == 2) | (col("c") != 3)), "`a` > 1 AND (`b` = 2 OR `c` != 3)"),
        (~(col("s", "a b") == b"\x1f"), "NOT (`s`.`a b` = X'1F')"),
        (Comparison(("x",), "<", Decimal("1.50")), "`x` < 1.50BD"),
        (Comparison(("x",), ">=", float("-inf")), "`x` >= double('-Infinity')"),
        (In(("x",), (date(2026, 1, 31), None)), "`x` IN (DATE '2026-01-31', NULL)"),
        (
            Comparison(("x",), "==", datetime(2026, 1, 31, tzinfo=timezone(timedelta(hours=2)))),
            "`x` = TIMESTAMP '2026-01-31 00:00:00+02:00'",
        ),
    ],
)
def test_the_text_is_what_one_would_write(predicate: Predicate, text: str) -> None:
    assert predicate_text(predicate) == text


@pytest.mark.parametrize("text", ["-" + "9" * 38, "-" + "9" * 28 + ".0123456789", "-1." + "2" * 37])
@pytest.mark.parametrize("written", ["w = {}", "w = CAST({} AS DECIMAL(38, 37))", "w IN ({})"])
def test_a_negative_number_keeps_all_its_digits(text: str, written: str) -> None:
    if "CAST" in written and not text.startswith("-1."):
        written = written.replace("37)", f"{len(text.partition('.')[2])})")
    match parse_predicate(written.format(text)):
        case Comparison(value=value) | In(values=(value,)):
            assert Decimal(value) == Decimal(text)
        case other:
            pytest.fail(repr(other))
