"""Column text: a Spark Column as a SQL text."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as classic
from pyspark.sql.connect import functions as connect

from delta_ops.protocol.expression import parse_expression
from delta_ops.spark.expressions.column_text import sql_of
from delta_ops.spark.expressions.conditions import SparkCondition
from delta_ops.spark.installed_version import VERSION
from delta_ops.spark.versions import CONNECT, HAS_NODES

pytestmark = pytest.mark.spark
KINDS = [
    pytest.param(classic, id="classic"),
    pytest.param(
        connect,
        id="connect",
        marks=pytest.mark.skipif(VERSION < CONNECT, reason="this Spark has no Connect"),
    ),
]

Of = Callable[[Any], Column]
"""A Column, given the functions of a kind of session."""

COLUMNS: list[tuple[Of, str]] = [
    (lambda f: f.col("i") == 1, "(`i` = (1))"),
    (lambda f: f.col("t.i") != f.lit(-1), "(NOT (`t`.`i` = (-1)))"),
    (lambda f: f.col("s") == "it's a \\ 'b'", r"(`s` = 'it\'s a \\ \'b\'')"),
    (lambda f: (f.col("i") > 1) & ~(f.col("x") <= 1.5), "((`i` > (1)) and (NOT (`x` <= (1.5D))))"),
    (lambda f: f.col("i").between(0, 2**40), "((`i` >= (0)) and (`i` <= (1099511627776)))"),
    (lambda f: f.col("i").isin(1, 3) | f.col("b"), "((`i` IN ((1), (3))) or `b`)"),
    (lambda f: f.col("i").isNull(), "(`i` IS NULL)"),
    (lambda f: f.col("s").isNotNull(), "(`s` IS NOT NULL)"),
    (lambda f: f.col("i").eqNullSafe(f.col("n")), "(`i` <=> `n`)"),
    (lambda f: f.col("d") >= date(2026, 1, 31), "(`d` >= DATE '2026-01-31')"),
    (
        lambda f: f.col("at") < datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC),
        "(`at` < TIMESTAMP '2026-01-31 12:00:00.000005+00:00')",
    ),
    (lambda f: f.col("m") == Decimal("1.50"), "(`m` = (1.50))"),
    (
        lambda f: f.expr("i = 1 OR s = 'a'") & f.lit(True),
        "((i = 1 OR s = 'a') and true)" if HAS_NODES else "(((`i` = (1)) or (`s` = 'a')) and true)",
    ),
    (lambda f: f.col("`odd name`") == 1, "(`odd name` = (1))"),
]


@pytest.mark.some_cases(18)
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("functions", KINDS)
@pytest.mark.parametrize(("made", "expected"), COLUMNS, ids=[text for _, text in COLUMNS])
def test_a_column_has_a_text_that_we_understand(made: Of, expected: str, functions: Any) -> None:
    assert sql_of(made(functions)) == expected
    assert parse_expression(expected)


@pytest.mark.some_cases(5)
@pytest.mark.parametrize(("made", "text"), COLUMNS, ids=[text for _, text in COLUMNS])
def test_the_text_is_true_of_the_same_rows(made: Of, text: str, spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES "
        "(1, 2L, 'it''s a \\\\ ''b''', 1.0D, true, DATE'2026-01-31', "
        "TIMESTAMP'2026-01-31 12:00:00', 1.5BD, 1), "
        "(3, 3L, 'a', 2.0D, null, DATE'2026-01-30', TIMESTAMP'2026-02-01 00:00:00', 2BD, 2), "
        "(-1, null, null, double('nan'), false, null, null, null, null), "
        "(null, null, '', null, null, DATE'2026-02-01', null, 0BD, 1) "
        "AS t(i, n, s, x, b, d, at, m, `odd name`)"
    ).alias("t")
    reported = [
        rows.select(condition.alias("c")).collect()
        for condition in (made(classic), classic.expr(text))
    ]
    assert reported[0] == reported[1]
    assert {row.c for row in reported[0]} > {True} or "b" in text or "IN" in text


@pytest.mark.parametrize("functions", KINDS)
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda f: f.upper("s") == "A", id="a function"),
        pytest.param(lambda f: f.col("x").cast("int") == 1, id="a cast"),
        pytest.param(lambda f: f.col("i") + 1 == 2, id="a calculation"),
        pytest.param(lambda f: f.lit(math.nan) < f.col("x"), id="NaN"),
        pytest.param(lambda f: f.col("d") == date(1582, 10, 4), id="a date of another calendar"),
        pytest.param(lambda f: f.col("s") == f.lit(b"a"), id="bytes"),
        pytest.param(lambda f: f.col("s").startswith("a"), id="a part of a text"),
        pytest.param(lambda f: f.rand() > 0.5, id="chance"),
    ],
)
def test_other_columns_have_no_text(made: Of, functions: Any, spark: SparkSession) -> None:
    column = made(functions)
    assert sql_of(column) is None
    assert SparkCondition(column).expression_in(spark, []) is None


def test_a_column_of_a_frame_has_no_text(spark: SparkSession) -> None:
    rows = spark.range(1)
    assert sql_of(rows.id == 1) is None
