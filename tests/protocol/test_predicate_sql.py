"""Predicates from text: supported and rejected texts; `tests/spark` compares with Spark."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delta_ops import col, parse_predicate
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import (
    Always,
    Comparison,
    In,
    Predicate,
    resolve,
)
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    StructField,
    StructType,
)
from tests.protocol.predicate_texts import sql_of
from tests.protocol.test_predicate_properties import SCHEMA, TYPES, every_leaf, predicates

A = col("a")


def equal(value: object) -> Predicate:
    return value == A


NULL = In(("a",), (None,))
UTC_NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.some_cases(32)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", A == 1),
        ("a == 1", A == 1),
        ("a != 1", A != 1),
        ("a <> 1", A != 1),
        ("a < 1", A < 1),
        ("a <= 1", A <= 1),
        ("a > 1", A > 1),
        ("a >= 1", A >= 1),
        ("1 < a", A > 1),
        ("1 >= a", A <= 1),
        ("(a) = (1)", A == 1),
        ("a <=> 1", ~A.is_null() & (A == 1)),
        ("1 <=> a", ~A.is_null() & (A == 1)),
        ("a <=> NULL", A.is_null()),
        ("a IS DISTINCT FROM NULL", ~A.is_null()),
        ("a IS NULL", A.is_null()),
        ("a IS NOT NULL", A.is_not_null()),
        ("a = NULL", NULL),
        ("NULL < a", NULL),
        ("a IN (1, NULL)", A.isin([1, None])),
        ("a NOT IN (1, NULL)", ~A.isin([1, None])),
        ("a BETWEEN 1 AND 2", (A >= 1) & (A <= 2)),
        ("a NOT BETWEEN 1 AND 2", ~((A >= 1) & (A <= 2))),
        ("a BETWEEN NULL AND 2", NULL & (A <= 2)),
        ("a", A == True),  # noqa: E712
        ("NOT a", ~(A == True)),  # noqa: E712
        ("a IS TRUE", ~A.is_null() & (A == True)),  # noqa: E712
        ("a = 1 OR a = 2 AND a = 3", (A == 1) | ((A == 2) & (A == 3))),
        ("(a = 1 OR a = 2) AND NOT a = 3", ((A == 1) | (A == 2)) & ~(A == 3)),
        ("TRUE", Always(True)),
        ("a.b.c.d.e.f = 1", col("a", "b", "c", "d", "e", "f") == 1),
        ("`a.b`.`c``d` = 1", col("a.b", "c`d") == 1),
        ("`date` = 1 AND date = 1", (col("date") == 1) & (col("date") == 1)),
        ("a = -1", equal(-1)),
        ("a = - (1)", equal(-1)),
        ("a = +1", equal(1)),
        ("a = 1.50", equal(Decimal("1.50"))),
        ("a = -.5", equal(Decimal("-0.5"))),
        ("a = 1.5BD", equal(Decimal("1.5"))),
        ("a = 1e3", equal(1000.0)),
        ("a = 1.5D", equal(1.5)),
        ("a = 0.1F", equal(0.10000000149011612)),
        ("a = -128Y", equal(-128)),
        ("a = -9223372036854775808L", equal(-(2**63))),
        ("a = 1S", equal(1)),
        ("a = CAST(1.0 AS INT)", equal(1)),
        ("a = CAST('1.5' AS DECIMAL(3,2))", equal(Decimal("1.50"))),
        ("a = CAST(NULL AS INT)", NULL),
        ("a = -CAST('Infinity' AS DOUBLE)", equal(-math.inf)),
        ("a = 'x'", equal("x")),
        ('a = "it\'s"', equal("it's")),
        ("a = 'it''s'", equal("it's")),
        ('a = "x""y"', equal('x"y')),
        ("a = '''it'''''", equal("'it''")),
        (r"a = 'it\'s\n\\'", equal("it's\n\\")),
        (r"a = r'\n'", equal(r"\n")),
        (r"a = '\u00e9\U0001F600\101\%\_\q'", equal("é😀A\\%\\_q")),
        ("a = X'00fF'", equal(b"\x00\xff")),
        ("a = X'1'", equal(b"\x01")),
        ("a = DATE '2026-1-31'", equal(date(2026, 1, 31))),
        ("a = date('2026-01-31')", equal(date(2026, 1, 31))),
        ("a = TIMESTAMP '2026-01-31 12:00:00'", equal(UTC_NOON)),
        ("a = TIMESTAMP '2026-01-31T13:00:00+01:00'", equal(UTC_NOON)),
        ("a = TIMESTAMP_NTZ '2026-01-31 12:00:00'", equal(UTC_NOON.replace(tzinfo=None))),
    ],
)
def test_meaning_of_a_text(text: str, expected: Predicate) -> None:
    assert parse_predicate(text) == expected


def test_nan_is_a_literal() -> None:
    for text in ("a = CAST('NaN' AS DOUBLE)", "a = double('NaN')", "a = float('NaN')"):
        parsed = parse_predicate(text)
        assert isinstance(parsed, Comparison)
        assert math.isnan(parsed.value)


@pytest.mark.some_cases(34)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a single SQL condition"),
        ("a = 1; b = 2", "a single SQL condition"),
        ("a = 1 -- b", "has a comment"),
        ("/* a */ a = 1", "has a comment"),
        ("a = 1 b", "not a valid SQL condition at line 1, near 'b'"),
        ("a =", "not a valid SQL condition"),
        ("a = 'x", "a quote is not closed"),
        ("a LIKE 'x%'", "\"a LIKE 'x%'\" is not supported"),
        ("a RLIKE 'x'", "RLIKE"),
        ("a IN (SELECT 1)", "SELECT 1"),
        ("a IN ()", "a IN ()"),
        ("a BETWEEN SYMMETRIC 2 AND 1", "is not supported"),
        ("CASE WHEN a THEN b END", "CASE WHEN"),
        ("EXISTS(SELECT 1)", "EXISTS"),
        ("NULL", "'NULL' is not supported"),
        ("a = b", "'b' is not a literal"),
        ("f(a) = 1", "compares no column with a literal"),
        ("a + 1 = 2", "'a + 1 = 2' compares no column"),
        ("a = 1 + 1", "'1 + 1' is not a literal"),
        ("a = current_date()", "CURRENT_DATE"),
        ("a = INTERVAL '1' DAY", "INTERVAL"),
        ("a[0] = 1", "a[0]"),
        ("a.* = 1", "'a.*' is not a column"),
        ("f(a) IN (1)", "'F(a)' is not a column"),
        ("(a, b) = (1, 2)", "(a, b)"),
        ("1 = 1", "compares no column"),
        ("a < 1 < 2", "compares no column"),
        ("a = 1 IS NULL", "compares no column"),
        ("a = :p", "':p' is not a literal"),
        ("a = ?", "'?' is not a literal"),
        ("a = 'x' 'y'", "is not a single literal"),
        ("a = -'x'", "is not a literal"),
        ("a = 0x1F", "hexadecimal"),
        ("a = 1e400", "not a number that Spark supports"),
        ("a = 1e", "not a number that Spark supports"),
        (f"a = {'9' * 39}", "not a number that Spark supports"),
        (f"a = 0.{'9' * 39}", "not a number that Spark supports"),
        (f"a = {'9' * 9999}", "not a number that Spark supports"),
        ("a = 128Y", "not an exact value of type TINYINT"),
        ("a = CAST(1.5 AS INT)", "not an exact value of type INT"),
        ("a = CAST(1.5 AS DECIMAL)", "not an exact value of type DECIMAL"),
        ("a = CAST(1 AS DECIMAL(39, 0))", "not an exact value"),
        ("a = CAST(1.5D AS DECIMAL(2, 1))", "not an exact value"),
        ("a = CAST(1 AS STRING)", "not an exact value of type STRING"),
        ("a = 1e39F", "not an exact value of type FLOAT"),
        ("a = DATE '2026-02-30'", "not an exact value of type DATE"),
        ("a = DATE 'today'", "not an exact value of type DATE"),
        ("a = DATE ''", "not an exact value of type DATE"),
        ("a = TIMESTAMP '2026-01-31 00:00:00.1234567'", "not an exact value of type TIMESTAMP"),
        ("a = TIMESTAMP_NTZ '2026-01-31 00:00:00Z'", "not an exact value of type TIMESTAMP_NTZ"),
        ("a IN (1, '2')", "several types"),
        ("a IN (1, 2D)", "several types"),
        ("a IN (DATE '2026-01-31', '2026-01-31')", "several types"),
        ("a IN (TIMESTAMP '2026-01-31', TIMESTAMP_NTZ '2026-01-31')", "several types"),
    ],
)
def test_unsupported_syntax_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_predicate(text)
    assert message in str(refused.value)


COLUMNS = StructType(
    tuple(
        StructField(data_type.name.partition("(")[0] + suffix, data_type)
        for data_type, suffix in (
            (INTEGER, ""),
            (LONG, ""),
            (DOUBLE, ""),
            (DecimalType(15, 2), ""),
            (DecimalType(16, 2), "_16"),
            (STRING, ""),
            (BOOLEAN, ""),
            (BINARY, ""),
            (DATE, ""),
            (TIMESTAMP, ""),
            (TIMESTAMP_NTZ, ""),
        )
    )
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("INTEGER = '5'", 5),
        ("integer = 5.0", 5),
        ("integer = 5D", 5),
        ("long = 9007199254740991D", 2**53 - 1),
        ("long = '9007199254740993'", 2**53 + 1),
        ("double = 0.1", 0.1),
        ("double = '0.1'", 0.1),
        ("double = 1", 1.0),
        ("decimal = 0.10000", Decimal("0.10")),
        ("decimal = 0.1D", Decimal("0.10")),
        ("decimal = '0.1'", Decimal("0.10")),
        ("decimal_16 = 0.1", Decimal("0.10")),
        ("boolean = 'true'", True),
        ("`date` = '2026-01-31'", date(2026, 1, 31)),
        ("`timestamp` = '2026-01-31 12:00:00'", UTC_NOON),
        ("`timestamp` = DATE '2026-01-31'", UTC_NOON.replace(hour=0)),
        ("timestamp_ntz = '2026-01-31 12:00:00'", UTC_NOON.replace(tzinfo=None)),
    ],
)
def test_a_literal_becomes_a_value_of_its_column(text: str, value: object) -> None:
    found = resolve(parse_predicate(text), COLUMNS)
    assert isinstance(found, Comparison)
    assert (type(found.value), found.value) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("integer = 3000000000", "exactly", id="an integer beyond the column's range"),
        pytest.param("integer = 1.5", "exactly", id="a fraction for an integer"),
        pytest.param("integer = 'x'", "'x'", id="no number"),
        pytest.param("long = 9007199254740992D", "double precision", id="a double for a long"),
        pytest.param("decimal_16 = 0.1D", "double precision", id="a double for long decimals"),
        pytest.param("decimal_16 = '0.1'", "double precision", id="a text for long decimals"),
        pytest.param("decimal = 0.001", "exactly", id="more places than the column has"),
        pytest.param("string = 1", "str", id="a number for a string"),
        pytest.param("string = X'61'", "str", id="bytes for a string"),
        pytest.param("string = DATE '2026-01-31'", "str", id="a date for a string"),
        pytest.param("string", "True", id="a string is no condition"),
        pytest.param("boolean = 1", "True or False", id="a number for a boolean"),
        pytest.param("binary = 'a'", "bytes", id="a text for bytes"),
        pytest.param("`timestamp` = TIMESTAMP_NTZ '2026-01-31'", "has a time zone", id="no zone"),
        pytest.param("timestamp_ntz = TIMESTAMP '2026-01-31'", "without a time zone", id="a zone"),
        pytest.param("none = 1", "no column none", id="no such column"),
    ],
)
def test_where_spark_would_compare_otherwise_the_literal_is_refused(
    text: str, message: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        resolve(parse_predicate(text), COLUMNS)
    assert message in str(refused.value)


def resolved(predicate: Predicate) -> str:
    """The resolved predicate; SQL has a negative zero only for DOUBLE."""
    return re.sub(r"-0\.0\b(?!\d)", "0.0", repr(resolve(predicate, SCHEMA)))


@pytest.mark.some_cases(5)
@pytest.mark.parametrize("path", TYPES, ids=".".join)
def test_every_simple_predicate_survives_being_written_and_read(path: tuple[str, ...]) -> None:
    random = Random(0)
    for predicate in every_leaf(path):
        for _ in range(3):
            text = sql_of(predicate, TYPES, random)
            assert (text, resolved(parse_predicate(text))) == (text, resolved(predicate))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, st.randoms(use_true_random=False))
def test_every_text_can_be_written_as_a_literal(value: str, random: Random) -> None:
    predicate = Comparison(("s",), "==", value)
    assert resolved(parse_predicate(sql_of(predicate, TYPES, random))) == resolved(predicate)


@settings(max_examples=200, deadline=None)
@given(predicates(), st.randoms(use_true_random=False))
def test_a_predicate_survives_being_written_and_read(predicate: Predicate, random: Random) -> None:
    text = sql_of(predicate, TYPES, random)
    assert resolved(parse_predicate(text)) == resolved(predicate)


WORDS = (
    "a b a.b `x` = == <=> != <> < <= > >= ( ) , ; . - + * / % : :: ? ! ~ | & ^ [ ] { } $ @ # \\ ' "
    '" and or not in between is null true false like case when then else end cast as double date '
    "timestamp interval select from where exists if map any all distinct symmetric 1 1.5 1e3 1L 2D "
    "3BD 0x1 X'1f' 'x' r'y' 'NaN' -- /* */ && || -> => := \n \0 é 😀 "
    "union with table lateral over filter escape collate at time zone"
)
PIECES = st.sampled_from(WORDS.split(" "))


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=12).map(" ".join) | TEXTS)
@example("{ { 3BD")
def test_any_text_is_a_predicate_or_refused(text: str) -> None:
    # Any other error fails.
    with suppress(InvalidRequestError):
        parse_predicate(text)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 10_000 + "a = 1" + ")" * 10_000, id="parentheses"),
        pytest.param("NOT " * 10_000 + "a", id="not"),
        pytest.param("a = " + "- " * 10_000 + "1", id="minus"),
        pytest.param("f(" * 10_000, id="functions"),
        pytest.param("CASE " * 10_000, id="case"),
        pytest.param("a" + ".b" * 10_000 + "[0] = 1", id="fields"),
        pytest.param("a + " * 10_000 + "1 = 1", id="sums"),
    ],
)
def test_depth_without_end_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_predicate(text)


@pytest.mark.full
def test_a_long_text_is_no_deep_one() -> None:
    text = " OR ".join(f"a = {number}" for number in range(3000))
    parsed = parse_predicate(text)
    assert parsed == parse_predicate(f"({text})")
    listed = ", ".join(map(str, range(30_000)))
    assert parse_predicate(f"a IN ({listed})") == A.isin(range(30_000))
