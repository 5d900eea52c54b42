"""Expressions as values: parsing, their implications for files, and their errors."""

from __future__ import annotations

import pickle

import pytest

from delta_ops import parse_expression
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.expression.nodes import Call, Column, columns_of
from delta_ops.protocol.expression.sql import qualify_columns
from delta_ops.protocol.predicate.text import predicate_text
from tests.protocol.expression_texts import TEXTS
from tests.protocol.test_predicate_properties import SCHEMA


def test_an_expression_is_a_value() -> None:
    for text in TEXTS:
        parsed = parse_expression(text)
        assert parsed == parse_expression(text)
        assert pickle.loads(pickle.dumps(parsed)) == parsed
        assert parsed.text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a single SQL expression"),
        ("i +", "is not a valid SQL expression"),
        ("i; DROP TABLE t", "expression"),
        ("'open", "cannot be read"),
        ("i -- comment", "has a comment"),
        ("0x1F", "hexadecimal"),
        ("(" * 3000 + "i" + ")" * 3000, "nested too deeply|cannot be read|no expression"),
    ],
)
def test_texts_that_are_no_expression_are_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as refused:
        parse_expression(text)
    assert "\n" not in str(refused.value)


def test_operators_bind_as_in_sql() -> None:
    one, two = Column(("i",)), Column(("n",))
    root = parse_expression("i + n * i").root
    assert root == Call("+", (one, Call("*", (two, one))))


def test_many_conditions_side_by_side_are_one() -> None:
    root = parse_expression(" AND ".join(["i > 0"] * 300)).root
    assert isinstance(root, Call)
    assert len(root.operands) == 300
    assert len(list(columns_of(root))) == 300


@pytest.mark.parametrize(
    ("text", "implied"),
    [
        ("i > 1 AND n + 1 > 2", "`i` > 1"),
        ("1 <= i", "`i` >= 1"),
        ("i > n", "TRUE"),
        ("i = 1 OR i = 2", "`i` IN (1, 2)"),
        ("i IN (1, 2) AND s = 'a'", "`i` IN (1, 2) AND `s` = 'a'"),
        ("i = 1 OR n + 1 = 2", "TRUE"),
        ("st.x = 1 AND flag", "`st`.`x` = 1 AND `flag` = TRUE"),
        ("NOT (i = 1)", "NOT (`i` = 1)"),
        ("i IS NULL", "`i` IS NULL"),
        ("i = 1.5", "TRUE"),
        ("nope = 1", "TRUE"),
        ("i BETWEEN 1 AND n", "`i` >= 1"),
    ],
)
def test_conditions_on_single_columns(text: str, implied: str) -> None:
    assert predicate_text(implied_predicate(parse_expression(text).root, SCHEMA)) == implied


@pytest.mark.parametrize(
    ("text", "qualified"),
    [
        ("p = 1 AND s.p = 2 OR P = 3", "`t`.p = 1 AND s.p = 2 OR `t`.P = 3"),
        ("`q x`>date'2020-01-01' -  p", "`t`.`q x`>date'2020-01-01' -  `t`.p"),
        ("p.f = 'p' AND lower(p) = 'it''s p'", "`t`.p.f = 'p' AND lower(`t`.p) = 'it''s p'"),
        ("CASE WHEN p IN (1, 2) THEN r END = 1", "CASE WHEN `t`.p IN (1, 2) THEN r END = 1"),
    ],
)
def test_an_alias_is_put_before_some_columns_and_the_rest_of_a_text_stays(
    text: str, qualified: str
) -> None:
    assert qualify_columns(text, "t", {"p", "q x"}) == qualified


def test_a_text_with_aliases_has_the_same_columns() -> None:
    for text in TEXTS:
        paths = [each.path for each in columns_of(parse_expression(text).root)]
        qualified = qualify_columns(text, "t", {first.lower() for first, *_ in paths})
        found = [each.path for each in columns_of(parse_expression(qualified).root)]
        assert found == [("t", *path) for path in paths], text
