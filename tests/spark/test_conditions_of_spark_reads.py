"""A read by Spark takes a predicate, an expression, a text or a Column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col, parse_expression
from delta_ops.errors import InvalidRequestError

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", None], "s": ["x", "Y", "y", "z"]})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    da.write(tmp_path, ROWS, partition_by=["p"])
    return tmp_path


@pytest.mark.parametrize(
    "condition",
    [
        col("p") == "a",
        "p = 'a'",
        parse_expression("p = 'a'"),
        "p = 'a' AND lower(s) < 'z'",
        "p RLIKE '^a$'",
    ],
    ids=str,
)
def test_the_same_condition_reads_the_same_rows(
    spark: SparkSession, table: Path, condition: Any
) -> None:
    found = ds.read(spark, table, ["id"], condition)
    assert found.columns == ["id"]
    assert sorted(row.id for row in found.collect()) == [1, 2]


def test_a_column_selects_rows_too(spark: SparkSession, table: Path) -> None:
    found = ds.read(spark, table, predicate=sf.lower("s") == "y")
    assert sorted(row.id for row in found.collect()) == [2, 3]


def test_a_read_by_text_skips_files(spark: SparkSession, table: Path) -> None:
    for add in DeltaLog(table).snapshot().add_files(col("p") == "b"):
        (table / add.path).unlink()
    found = ds.read(spark, table, ["id"], "p = 'a' AND lower(s) = 'y'")
    assert [row.id for row in found.collect()] == [2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [("nope = 1", "nope"), ("\"p\" = 'a'", "double quotes"), ("id + 1", "not a condition")],
)
def test_a_text_is_refused_as_in_a_delete(
    spark: SparkSession, table: Path, text: str, problem: str
) -> None:
    for call in (ds.read, ds.delete):
        with pytest.raises(InvalidRequestError, match=problem):
            call(spark, table, predicate=text)
