"""Predicates over random rows: by Arrow, as Spark columns, and as texts that Spark parses."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from delta_ops import parse_predicate
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import DOUBLE, LONG, STRING, TIMESTAMP
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.spark.expressions.columns import to_column
from delta_ops.spark.versions import arrow_of, frame_of_arrow
from tests.protocol.predicate_texts import sql_of
from tests.protocol.test_predicate_properties import (
    SCHEMA,
    TYPES,
    Row,
    evaluate,
    every_leaf,
    outcomes_in_arrow,
    predicates,
    row_with,
)
from tests.protocol.test_predicate_properties import rows as random_rows
from tests.protocol.typed_values import FEW

pytestmark = pytest.mark.spark

Outcomes = list[bool | None]
ONE_OF_EACH_TYPE = {data_type: path for path, data_type in reversed(list(TYPES.items()))}
IN_EACH_RUN = (LONG, DOUBLE, STRING, TIMESTAMP)


def outcomes_in_spark(
    spark: SparkSession, expressions: Sequence[Column], listed: Sequence[Row]
) -> list[Outcomes]:
    """The result of each expression for each row."""
    table = pa.Table.from_pylist(list(listed), schema=arrow_schema_from_schema(SCHEMA))
    frame = frame_of_arrow(spark, table)
    named = (each.alias(f"c{i}") for i, each in enumerate(expressions))
    computed = arrow_of(frame.select(*named))
    return [column.to_pylist() for column in computed.columns]


def check(
    spark: SparkSession, tested: Sequence[Predicate], listed: Sequence[Row], random: Random
) -> None:
    texts = [sql_of(predicate, TYPES, random) for predicate in tested]
    columns = [to_column(predicate, SCHEMA) for predicate in tested]
    found = outcomes_in_spark(spark, [*columns, *map(sf.expr, texts)], listed)
    by_column, by_text = found[: len(tested)], found[len(tested) :]
    for predicate, text, *of_spark in zip(tested, texts, by_column, by_text, strict=True):
        expected = [evaluate(predicate, row) for row in listed]
        of_arrow = outcomes_in_arrow(parse_predicate(text), listed)
        assert (text, [of_arrow, *of_spark]) == (text, [expected] * 3)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=".".join(path), marks=() if data_type in IN_EACH_RUN else pytest.mark.full
        )
        for data_type, path in ONE_OF_EACH_TYPE.items()
    ],
)
def test_simple_predicates_mean_the_same_everywhere(
    spark: SparkSession, path: tuple[str, ...]
) -> None:
    listed = [row_with(path, value) for value in (None, *FEW[TYPES[path]])]
    check(spark, every_leaf(path), listed, Random(1))


@pytest.mark.full
@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    st.lists(predicates(), min_size=50, max_size=50),
    st.lists(random_rows, min_size=5, max_size=20),
    st.randoms(use_true_random=False),
)
def test_random_predicates_mean_the_same_everywhere(
    spark: SparkSession, tested: list[Predicate], listed: list[Row], random: Random
) -> None:
    check(spark, tested, listed, random)


TEXTS = (
    "flag",
    "NOT flag",
    "flag IS TRUE",
    "flag IS NOT TRUE",
    "flag IS NOT FALSE AND i IS NOT NULL",
    "flag = 'true'",
    "i <=> 1",
    "NOT i <=> 1",
    "i <=> NULL",
    "i IS DISTINCT FROM 1",
    "i IS NOT DISTINCT FROM 1",
    "i = NULL",
    "NULL != i",
    "i NOT IN (1, NULL)",
    "i IN (NULL)",
    "i IN (1, 2.0)",
    "i BETWEEN 0 AND 1.0",
    "i NOT BETWEEN 0 AND 1",
    "i BETWEEN NULL AND 0",
    "NOT i BETWEEN 0 AND 1 OR i = 1 AND flag",
    "NOT i = 1 AND NOT flag",
    "i = '1'",
    "i = 1.0",
    "i > -1D",
    "i >= CAST('1' AS INT)",
    "i = CAST(1.0 AS BIGINT)",
    "i = -CAST(1 AS TINYINT)",
    "tiny = -128Y",
    "small = -32768S",
    "n = -9223372036854775808L",
    "n = -9223372036854775808",
    "n < 9007199254740991D",
    "n IN ('1', '9223372036854775807')",
    "f = 16777217",
    "f = 1.1",
    "f = 1.1F",
    "f > 1.1D",
    "f = '1.1'",
    "d = 1.1F",
    "d = 1.1",
    "d IN (1.1, 0)",
    "d >= double('NaN')",
    "d < float('NaN')",
    "d <=> 'NaN'",
    "d = -CAST('Infinity' AS DOUBLE)",
    "d = 5e-324",
    "d <= -0.0",
    "dec = 0.01",
    "dec = 0.010",
    "dec = 1e-2BD",
    "dec = 0.01D",
    "dec = '0.01'",
    "dec BETWEEN -0.01BD AND 1",
    "exact >= 99999999999.9998D",
    "exact = '0.1'",
    "exact < 0.1000D",
    "exact IN (0.1, 99999999999.9998)",
    "big = 12345678901234567890.123",
    "big > 12345678901234567890.123BD",
    "big > 0",
    "s = 'abc\\u00e9'",
    's > "ab\\x"',
    "s < r'ab\\x'",
    "s >= 'abc\\U0001F600'",
    "s < 'ab\\177\\0\\08\\%\\_'",
    "S <=> 'abc'",
    "`st`.`X` = 1",
    "ST.y <=> 'abc'",
    "st <=> NULL",
    "bin >= X'7f'",
    "bin = x''",
    "bin < X'F'",
    "day = '2026-01-31'",
    "day = DATE '2026-1-31'",
    "day < date('1970-01-01')",
    "day BETWEEN '1969-12-31' AND DATE '2026-02-01'",
    "day IN ('0001-01-01', '9999-12-31')",
    "ts > DATE '2026-01-31'",
    "ts = '2026-01-31 12:00:00.123456'",
    "ts = TIMESTAMP '2026-01-31T13:00:00.123456+01:00'",
    "ts <= timestamp('2026-01-31 12:00:00.123456')",
    "ts >= TIMESTAMP_LTZ '0001-01-01'",
    "ntz > DATE '2026-01-31'",
    "ntz = '2026-01-31 12:00:00.123456'",
    "ntz = TIMESTAMP_NTZ '2026-01-31 12:00:00.123456'",
    "TRUE OR flag",
    "(FALSE) AND flag",
)


def test_texts_mean_to_us_what_they_mean_to_spark(spark: SparkSession) -> None:
    values = {path: (None, *FEW[data_type]) for path, data_type in TYPES.items()}
    listed = [
        {**row, "st": None if number % 3 else {"x": row["x"], "y": row["y"]}}
        for number in range(12)
        for row in [{path[-1]: of[number % len(of)] for path, of in values.items()}]
    ]
    parsed = [parse_predicate(text) for text in TEXTS]
    ours = [to_column(predicate, SCHEMA) for predicate in parsed]
    found = outcomes_in_spark(spark, [*map(sf.expr, TEXTS), *ours], listed)
    for i, (text, predicate) in enumerate(zip(TEXTS, parsed, strict=True)):
        of_arrow = outcomes_in_arrow(predicate, listed)
        assert (text, of_arrow, found[len(TEXTS) + i]) == (text, found[i], found[i])
