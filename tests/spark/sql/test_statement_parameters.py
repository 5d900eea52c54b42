"""Parameters of statements become literals, whatever their values are. No JVM."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import strategies as st

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.statements.lexer import Kind, tokens_of
from delta_ops.spark.statements.parameters import bind, literal_of
from tests.support.examples import check_examples, few_or_many


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (5, "5"),
        (-5, "(-5)"),
        (-(2**31), "CAST('-2147483648' AS INT)"),
        (-1.5, "(-1.5D)"),
        (-(2**63), "CAST('-9223372036854775808' AS BIGINT)"),
        (1.5, "1.5D"),
        (-0.0, "CAST('-0.0' AS DOUBLE)"),
        (float("inf"), "CAST('Infinity' AS DOUBLE)"),
        ("plain é", "'plain é'"),
        ("it's", "CAST(X'69742773' AS STRING)"),
        ("\\", "CAST(X'5c' AS STRING)"),
        ("${x}", "CAST(X'247b787d' AS STRING)"),
        (Decimal("1.20"), "CAST('1.20' AS DECIMAL(3,2))"),
        (b"a'", "X'6127'"),
        (date(2026, 1, 31), "DATE'2026-01-31'"),
        (
            datetime(2026, 1, 31, 12, 0, 0, 5, UTC),
            "CAST('2026-01-31 12:00:00.000005Z' AS TIMESTAMP)",
        ),
    ],
    ids=repr,
)
def test_a_value_becomes_a_literal(value: object, literal: str) -> None:
    assert literal_of(value) == literal


@pytest.mark.parametrize("value", [2**63, [1], {"a": 1}, object(), "\ud800", Decimal("NaN")])
def test_other_values_are_rejected(value: object) -> None:
    with pytest.raises(InvalidRequestError):
        literal_of(value)


@pytest.mark.parametrize(
    ("text", "args", "bound"),
    [
        ("a = :x AND b = :x", {"x": 1}, "a = 1 AND b = 1"),
        ("a = ? AND b = ?", [1, 2], "a = 1 AND b = 2"),
        ("a = ':x' AND `:x` = 1 -- :x", {"x": 2}, "a = ':x' AND `:x` = 1 -- :x"),
        ("a = '?' /* ? */ AND b = ?", [2], "a = '?' /* ? */ AND b = 2"),
        ("CAST(a AS STRUCT<x: INT, INT: x>)", {"INT": 1, "x": 2}, None),
        ("a = :y", {"x": 1}, None),
        ("a = :x - :x", {"x": -1}, "a = (-1) - (-1)"),
        ("v:x = :x AND a::x = `b`:x", {"x": 1}, "v:x = 1 AND a::x = `b`:x"),
    ],
)
def test_markers_are_bound_where_they_are_tokens(text: str, args: Any, bound: str | None) -> None:
    assert bind(text, args) == (bound or text, None)


@pytest.mark.parametrize("args", [[1], [1, 2, 3]])
def test_another_number_of_values_is_refused(args: list[int]) -> None:
    assert "2 question marks" in (bind("a = ? AND b = ?", args).refusal or "")


def test_a_value_that_cannot_be_bound_is_refused_later() -> None:
    bound = bind("a = :x", {"x": [1]})
    assert "type list" in (bound.refusal or "")


@few_or_many(200, 3000)
def test_a_string_stays_one_value(num_examples: int) -> None:
    def check(value: str) -> None:
        kinds = [each.kind for each in tokens_of(f"a = {literal_of(value)} AND b")]
        as_text = [Kind.WORD, Kind.SYMBOL, Kind.STRING, Kind.WORD, Kind.WORD]
        word, symbol, string = Kind.WORD, Kind.SYMBOL, Kind.STRING
        as_bytes = [word, symbol, word, symbol, word, string, word, word, symbol, word, word]
        assert kinds in (as_text, as_bytes)

    check_examples(num_examples, check, st.text())
