"""Expressions over rows with critical values: by Arrow, and by Spark from the same texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.schema import spark_schema_from_schema
from tests.arrow.test_expression_values import ARROW_SCHEMA, few_rows, outcome
from tests.protocol.expression_texts import TEXTS
from tests.protocol.test_predicate_properties import SCHEMA

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def frame_of(spark: SparkSession, listed: Sequence[Row]) -> DataFrame:
    table = pa.Table.from_pylist(list(listed), schema=ARROW_SCHEMA)
    return spark.createDataFrame(table, schema=spark_schema_from_schema(SCHEMA))


def in_spark(spark: SparkSession, text: str, listed: Sequence[Row]) -> pa.ChunkedArray:
    return frame_of(spark, listed).select(sf.expr(text).alias("value")).toArrow()["value"]


def fails(spark: SparkSession, text: str, row: Row) -> bool:
    try:
        in_spark(spark, text, [row])
    except PySparkException:
        return True
    return False


def judged(text: str, listed: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows with a value, and the rows without a value."""
    fine, broken = [], []
    for row in listed:
        try:
            outcome(text, [row])
        except InvalidRequestError:
            broken.append(row)
        else:
            fine.append(row)
    return fine, broken


def shown(values: Sequence[Any]) -> list[str]:
    """Values as texts that show NaN and the sign of zero."""
    return [repr(math.nan if isinstance(v, float) and math.isnan(v) else v) for v in values]


@pytest.mark.full
def test_expressions_come_to_what_spark_makes_of_them(spark: SparkSession) -> None:
    listed = few_rows()
    judgements = {text: judged(text, listed) for text in TEXTS}
    whole = [text for text, (_, broken) in judgements.items() if not broken]
    computed = frame_of(spark, listed).select(
        *(sf.expr(t).alias(str(i)) for i, t in enumerate(whole))
    )
    by_spark = dict(zip(whole, computed.toArrow().columns, strict=True))
    for text, (fine, broken) in judgements.items():
        of_spark = by_spark[text] if text in by_spark else in_spark(spark, text, fine)
        ours = outcome(text, fine)
        if not pa.types.is_timestamp(ours.type):  # its zone is the session's
            assert (text, ours.type) == (text, of_spark.type)
        assert (text, shown(ours.to_pylist())) == (text, shown(of_spark.to_pylist()))
        if broken:
            assert (text, fails(spark, text, broken[0])) == (text, True)
