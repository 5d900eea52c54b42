"""Names of columns in double quotes, which are texts to Spark, and conditions without a column."""

from __future__ import annotations

import pytest

from delta_ops import parse_expression, parse_predicate
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.expression.quotes import validate_looks_at_rows, validate_quotes
from delta_ops.protocol.expression.resolution import finder_of, resolve_expression
from delta_ops.protocol.predicate import In, resolve
from delta_ops.protocol.predicate.sql import texts_in_double_quotes
from delta_ops.protocol.schema import DATE, INTEGER, STRING, StructField, StructType

SCHEMA = StructType(
    (
        StructField("state", STRING),
        StructField("Name", STRING),
        StructField("a.b", STRING),
        StructField("day", DATE),
        StructField("s", StructType((StructField("f", INTEGER),))),
    )
)
NAMES = [
    pytest.param('state = "Name"', "`Name`", id="a name"),
    pytest.param('state = "NAME"', "'NAME'", id="in another case"),
    pytest.param("state IN ('x', \"name\")", "`name`", id="in a list"),
    pytest.param('state = "s.f"', "`s`.`f`", id="the path of a field"),
    pytest.param('state = "a.b"', "`a.b`", id="a name with a dot"),
    pytest.param('day = "state"', "`state`", id="where a date is wanted"),
    pytest.param('"state" <=> state', "`state`", id="on the left"),
]


@pytest.mark.parametrize(("text", "cure"), NAMES)
def test_a_predicate_with_a_name_in_double_quotes_is_refused(text: str, cure: str) -> None:
    with pytest.raises(InvalidRequestError, match="in double quotes is a string") as refused:
        resolve(parse_predicate(text), SCHEMA)
    assert cure in str(refused.value)


@pytest.mark.parametrize(("text", "cure"), NAMES)
def test_an_expression_with_a_name_in_double_quotes_is_refused(text: str, cure: str) -> None:
    for data in (text, f"coalesce({text}, true)"):
        with pytest.raises(InvalidRequestError, match="in double quotes is a string") as refused:
            resolve_expression(parse_expression(data).root, finder_of(SCHEMA))
        assert cure in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["\"state\" != 'old'", "\"state\" IN ('old')", 'state."x" = 1', 'CAST("day" AS DATE) = day'],
)
def test_an_unsupported_predicate_explains_how_to_write_a_column(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="write a column as `"):
        parse_predicate(text)


def test_other_texts_in_double_quotes_are_texts() -> None:
    predicate = resolve(parse_predicate('state IN ("old", \'new\', "it\'s")'), SCHEMA)
    assert predicate == In(("state",), ("old", "new", "it's"))


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("state = 'state'", []),
        ("`\"state\"` = 'x'", []),
        ("state = 'say \"Name\"'", []),
        (r'state RLIKE r"state"', []),
        ('"a" LIKE "b" OR f(x -> x = "c")', ["a", "b", "c"]),
        ('state = "say ""state"""', ['say "state"']),
        (r'state = "a\"b"', ['a"b']),
        ('state = "not closed', []),
    ],
)
def test_texts_in_double_quotes(sql: str, texts: list[str]) -> None:
    assert texts_in_double_quotes(sql) == texts


def test_sql_that_our_parser_does_not_know_is_looked_at_too() -> None:
    with pytest.raises(InvalidRequestError, match="write `Name` for the column"):
        validate_quotes('transform(array(state), x -> x LIKE "Name")', finder_of(SCHEMA))


@pytest.mark.parametrize(
    "text",
    [
        "\"sttate\" = 'old'",
        "'state' = 'old'",
        "'x' IN ('y', 'z')",
        "null",
        "null = 1",
        "'1' = 1",
        "DATE '2026-01-01' < DATE '2026-01-02'",
        'length("sttate") > 1',
    ],
)
def test_a_condition_of_constants_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="uses no column"):
        validate_looks_at_rows(parse_expression(text))


@pytest.mark.parametrize(
    "text",
    [
        *("true", "FALSE", "1 = 1", "1 = 0", "NOT (1.5 > 2D)"),
        *("current_date() > DATE '2026-01-01'", "state = 'x' AND 'a' = 'a'", "x IS NULL"),
    ],
)
def test_a_condition_that_means_what_it_says_is_taken(text: str) -> None:
    validate_looks_at_rows(parse_expression(text))
