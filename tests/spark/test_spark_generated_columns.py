"""Generated columns, computed and checked in Spark's write pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    StructField,
    StructType,
    schema_to_json,
)
from delta_ops.spark.expressions.analysis import why_unusable
from tests.spark.frames import files_under
from tests.support.tables import rows

pytestmark = pytest.mark.spark

EXPRESSIONS = {
    "day": (DATE, "CAST(ts AS DATE)"),
    "key": (STRING, "upper(concat(name, '-', the_id))"),
    "twice": (LONG, "the_id * 2"),
}
ROWS = (
    "SELECT * FROM VALUES (1L, TIMESTAMP '2026-01-31 23:00:00Z', 'a'), (2L, null, null) "
    "AS t(the_id, ts, name)"
)


@pytest.fixture(params=[(), ("day",)], ids=["whole", "partitioned"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    source_data = (
        StructField("the_id", LONG),
        StructField("ts", TIMESTAMP),
        StructField("name", STRING),
    )
    made = (
        StructField(name, kind, metadata={"delta.generationExpression": text})
        for name, (kind, text) in EXPRESSIONS.items()
    )
    txn = begin(DeltaLog(tmp_path / "t"))
    txn.create_table(StructType((*source_data, *made)), partition_by=request.param)
    txn.commit(operation="CREATE TABLE")
    return tmp_path / "t"


def data(spark: SparkSession, extra: str = "") -> DataFrame:
    return spark.sql(ROWS.replace("SELECT *", f"SELECT *{extra}"))


def test_both_engines_make_the_same_values(table: Path, spark: SparkSession) -> None:
    by_spark = data(spark)
    ds.write(by_spark, table)
    of_spark = rows(da.to_table(table))
    arrow = by_spark.toArrow()
    da.write(table, arrow, "overwrite")
    assert rows(da.to_table(table)) == of_spark
    assert sorted(row["twice"] for row in of_spark) == [2, 4]


@pytest.mark.full
def test_arguments_are_checked(table: Path, spark: SparkSession) -> None:
    ds.write(data(spark, ", the_id * 2 AS TWICE"), table)
    before = files_under(table)
    with pytest.raises(InvalidRequestError, match=r"twice .* differs from the value"):
        ds.write(data(spark, ", 2L AS twice"), table)
    with pytest.raises(InvalidRequestError, match=r"twice .* differs from the value"):
        ds.write(data(spark, ", CAST(null AS BIGINT) AS twice"), table)
    assert files_under(table) == before


@pytest.mark.full
def test_an_update_analyzes_each_expression_once(
    table: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds.write(data(spark), table)
    analyzed = []

    def note(text: str, empty: DataFrame, *, must_be_true: bool = False) -> str:
        analyzed.append(text)
        return why_unusable(text, empty, must_be_true=must_be_true)

    monkeypatch.setattr("delta_ops.spark.row_checks.why_unusable", note)
    ds.update(spark, table, {"the_id": "the_id + 1"})
    assert len(analyzed) == len(set(analyzed)) == len(EXPRESSIONS)


def test_an_expression_that_spark_cannot_parse_is_refused_before_rows_are_updated(
    tmp_path: Path, spark: SparkSession
) -> None:
    made = StructField("made", LONG, metadata={"delta.generationExpression": "the_id + + * 1"})
    txn = begin(DeltaLog(tmp_path))
    txn.create_table(StructType((StructField("the_id", LONG),)))
    txn.commit(operation="CREATE TABLE")
    da.write(tmp_path, pa.table({"the_id": [1]}))
    txn = begin(DeltaLog(tmp_path))
    schema = StructType((StructField("the_id", LONG), made))
    txn.set_metadata(
        replace(txn.metadata, schema_string=schema_to_json(schema)), ["generatedColumns"]
    )
    txn.commit(operation="CHANGE")
    problem = "generated column made .* Spark does not understand it"
    with pytest.raises(InvalidRequestError, match=problem):
        ds.update(spark, tmp_path, {"the_id": "the_id + 1"})
    source = spark.sql("SELECT 1L AS the_id")
    merge = ds.merge(tmp_path, source, "target.the_id = source.the_id")
    with pytest.raises(InvalidRequestError, match=problem):
        merge.when_matched_update({"the_id": "target.the_id"}).execute()
    assert da.to_table(tmp_path)["the_id"].to_pylist() == [1]


def test_rows_that_an_overwrite_leaves_keep_their_values(table: Path, spark: SparkSession) -> None:
    ds.write(data(spark), table)
    new = spark.sql("SELECT 2L AS the_id, 'n' AS name")
    ds.write(new, table, "overwrite", replace_where=col("twice") == 4)
    found = rows(da.to_table(table).select(["the_id", "key", "twice"]))
    assert found == rows(pa.table({"the_id": [1, 2], "key": ["A-1", "N-2"], "twice": [2, 4]}))


@pytest.mark.parametrize("text", ["rand()", "(SELECT max(id) FROM range(3))", "nope + 1L"])
def test_conditions_that_use_more_than_the_row_are_refused(
    tmp_path: Path, spark: SparkSession, text: str
) -> None:
    field = StructField("g", LONG, metadata={"delta.generationExpression": f"xxhash64({text})"})
    txn = begin(DeltaLog(tmp_path))
    txn.create_table(StructType((StructField("id", LONG), field)))
    txn.commit(operation="CREATE TABLE")
    before = files_under(tmp_path)
    with pytest.raises(InvalidRequestError, match=r"generated column g .*cannot be checked"):
        ds.write(spark.range(3), tmp_path)
    assert files_under(tmp_path) == before


def test_spark_evaluates_what_arrow_does_not(tmp_path: Path, spark: SparkSession) -> None:
    field = StructField("g", LONG, metadata={"delta.generationExpression": "xxhash64(id)"})
    txn = begin(DeltaLog(tmp_path))
    txn.create_table(StructType((StructField("id", LONG), field)))
    txn.commit(operation="CREATE TABLE")
    ds.write(spark.range(3), tmp_path)
    expected = spark.range(3).selectExpr("id", "xxhash64(id) AS g").toArrow()
    assert rows(da.to_table(tmp_path)) == rows(expected)


@pytest.mark.parametrize(("source", "value"), [(LONG, "5000000000L"), (STRING, "'x'")])
def test_a_generated_value_that_does_not_fit_is_an_error_without_ansi_mode(
    tmp_path: Path, spark: SparkSession, source: DataType, value: str
) -> None:
    g = StructField("g", INTEGER, metadata={"delta.generationExpression": "v"})
    txn = begin(DeltaLog(tmp_path / "t"))
    txn.create_table(StructType((StructField("v", source), g)))
    txn.commit(operation="CREATE TABLE")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        ds.write(spark.sql("SELECT null AS v"), tmp_path / "t")
        with pytest.raises(Exception, match="generated value of column g does not fit int"):
            ds.write(spark.sql(f"SELECT {value} AS v"), tmp_path / "t")
        with pytest.raises(Exception, match="generated value of column g does not fit int"):
            ds.update(spark, tmp_path / "t", {"v": value})
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert rows(da.to_table(tmp_path / "t")) == [{"v": None, "g": None}]
