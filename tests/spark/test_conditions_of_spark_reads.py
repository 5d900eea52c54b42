"""A read by Spark takes a predicate, an expression, a text or a Column."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
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
from delta_ops.tables import DeltaTable

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", None], "s": ["x", "Y", "y", "z"]})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    da.write(tmp_path, ROWS, partition_by=["p"])
    return tmp_path


@pytest.mark.some_cases(2)
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


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone") or ""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def write_times(table: Path) -> None:
    times = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in (1, 9)]
    data = pa.table({"id": [1, 2], "at": pa.array(times, pa.timestamp("us", "UTC"))})
    da.write(table, data, configuration={"delta.enableChangeDataFeed": "true"})


def test_times_in_a_text_are_in_the_time_zone_of_the_session(
    new_york: SparkSession, tmp_path: Path
) -> None:
    write_times(tmp_path)
    text = "at >= '2024-01-01 00:00:00'"
    rows = ds.read(new_york, tmp_path)
    expected = [row.id for row in rows.filter(text).collect()]
    assert expected == [2]
    assert [row.id for row in ds.read(new_york, tmp_path, predicate=text).collect()] == expected


def test_a_text_with_times_of_another_zone_replaces_nothing_and_reads_no_changes(
    new_york: SparkSession, tmp_path: Path
) -> None:
    write_times(tmp_path)
    text = "at >= '2024-01-01 00:00:00'"
    with pytest.raises(InvalidRequestError, match="contains times"):
        ds.read_changes(new_york, tmp_path, 0, predicate=text)
    with pytest.raises(InvalidRequestError, match="contains times"):
        ds.write(ds.read(new_york, tmp_path), tmp_path, "overwrite", replace_where=text)
    assert DeltaLog(tmp_path).snapshot().version == 0


def test_a_text_is_read_by_the_settings_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2], "s": ["a\\b", "a\b"]}))
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        found = ds.read(spark, tmp_path, predicate=r"s = 'a\b'").collect()
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
    assert [row.id for row in found] == [1]


def test_a_text_sees_char_columns_padded(spark: SparkSession, tmp_path: Path) -> None:
    columns = DeltaTable.create(spark).location(str(tmp_path)).addColumn("c", "char(3)")
    columns.addColumn("id", "bigint").execute()
    da.write(tmp_path, pa.table({"c": ["a", "abc"], "id": [1, 2]}))
    for text in ("length(c) = 3", "upper(c) IN ('A  ', 'ABC')"):
        found = ds.read(spark, tmp_path, ["id"], text)
        assert sorted(row.id for row in found.collect()) == [1, 2]
