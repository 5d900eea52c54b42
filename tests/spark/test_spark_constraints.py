"""CHECK constraints and column invariants, checked in Spark's write pass."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.schema import StructType, schema_to_json
from tests.spark.frames import files_under, rows_of

pytestmark = pytest.mark.spark


def rule(expression: str) -> dict[str, str]:
    return {"delta.constraints.c": expression}


ROWS = "SELECT * FROM VALUES (1L, 'a'), (2L, 'b') AS t(id, p)"


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("expression", "broken"),
    [
        ("id > 0", "(0L, 'a'), (null, 'b'), (3L, 'c')"),
        ("length(p) = 1 AND id % 7 <> 0", "(7L, 'a'), (1L, 'bb'), (3L, 'c')"),
        ("p RLIKE '^[a-z]$' OR id IS NULL", "(1L, 'A'), (2L, ''), (null, 'C')"),
        ("`id` <= unix_seconds(current_timestamp())", "(99999999999L, 'a'), (null, 'b')"),
        ("CASE WHEN id > 0 THEN p IS NOT NULL END", "(1L, null), (0L, 'b')"),
    ],
)
def test_rows_that_violate_a_constraint_are_refused(
    tmp_path: Path, spark: SparkSession, expression: str, broken: str
) -> None:
    kept = spark.sql(ROWS)
    ds.write(kept, tmp_path, configuration=rule(expression))
    assert DeltaLog(tmp_path).snapshot().protocol.min_writer_version == 3
    before = files_under(tmp_path)
    with pytest.raises(InvalidRequestError) as refused:
        ds.write(spark.sql(f"SELECT * FROM VALUES {broken} AS t(id, p)"), tmp_path)
    assert f"CHECK constraint c ({expression}) is not true" in str(refused.value)
    assert "(rows: 2)" in str(refused.value)
    assert files_under(tmp_path) == before
    ds.write(kept, tmp_path)
    assert ds.read(spark, tmp_path).count() == 4


@pytest.mark.full
@pytest.mark.parametrize(
    ("plain", "data", "expression"),
    [
        ("'a' AS x", "collate('{}', 'UTF8_LCASE') AS x", "x = 'a'"),
        ("array('a') AS x", "array(collate('{}', 'UNICODE_CI')) AS x", "x[0] = 'a'"),
    ],
    ids=["a column", "elements"],
)
def test_a_constraint_is_not_judged_by_the_collation_of_the_data(
    tmp_path: Path, spark: SparkSession, plain: str, data: str, expression: str
) -> None:
    ds.write(spark.sql("SELECT " + plain), tmp_path, configuration=rule(expression))
    kept = spark.sql("SELECT " + data.format("a"))
    with pytest.raises(InvalidRequestError, match="is not true"):
        ds.write(spark.sql("SELECT " + data.format("A")), tmp_path)
    ds.write(kept, tmp_path)
    ds.write(kept, tmp_path, merge_schema=True)
    assert ds.read(spark, tmp_path).count() == 3


def test_a_table_is_not_made_without_the_collations_of_the_data(
    tmp_path: Path, spark: SparkSession
) -> None:
    for column in ("collate('a', 'UTF8_LCASE')", "array(collate('a', 'UTF8_LCASE'))"):
        with pytest.raises(
            InvalidRequestError, match=r"Column x is .*collate UTF8_LCASE.* cast it"
        ):
            ds.write(spark.sql(f"SELECT {column} AS x"), tmp_path / "new")
        ds.write(spark.sql("SELECT 1 AS id"), tmp_path / "old")
        with pytest.raises(InvalidRequestError, match="does not write collations"):
            ds.write(
                spark.sql(f"SELECT 2 AS id, {column} AS x"), tmp_path / "old", merge_schema=True
            )
    assert not (tmp_path / "new").exists()


def test_a_constraint_may_look_at_fields_and_partitions(
    tmp_path: Path, spark: SparkSession
) -> None:
    data = spark.sql("SELECT named_struct('x', 1) AS s, 'a' AS p, array(1, 2) AS l")
    ds.write(data, tmp_path, partition_by=["p"], configuration=rule("s.x < size(l) AND p <> 'b'"))
    for broken in (data.selectExpr("s", "l", "'b' AS p"), data.selectExpr("s", "l", "'' AS p")):
        with pytest.raises(InvalidRequestError, match=r"is not true.*rows: 1"):
            ds.write(broken, tmp_path)
    assert rows_of(ds.read(spark, tmp_path)) == rows_of(data)


@pytest.mark.some_cases(5)
@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("rand() < 2", "it is not deterministic"),
        ("uuid() IS NOT NULL", "it is not deterministic"),
        ("z > 1", "Spark does not understand it"),
        ("`delta_ops check 0` IS NULL", "Spark does not understand it"),
        ("id >", "Spark does not understand it"),
        ("id", "it is not a condition"),
        ("*", "it is not a condition"),
        ("max(id) > 0", "it depends on more than one row"),
        ("row_number() OVER (ORDER BY id) > 0", "it depends on more than one row"),
        ("id IN (SELECT 1)", "it depends on something other than the row"),
        ("EXISTS (SELECT 1)", "it depends on something other than the row"),
        ("id > of_the_session", "it depends on something other than the row"),
        ("of_python(id)", "it depends on something other than the row"),
        ("of_sql(id)", "calls a function of this session"),
    ],
)
def test_a_constraint_speaks_of_a_rows_columns_alone(
    tmp_path: Path, spark: SparkSession, expression: str, message: str
) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE of_the_session = 0")
    spark.udf.register("of_python", lambda value: value > 0, "boolean")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION of_sql(x BIGINT) RETURNS BOOLEAN RETURN x > 0")
    with pytest.raises(InvalidRequestError) as refused:
        ds.write(spark.sql(ROWS), tmp_path, configuration=rule(expression))
    assert str(refused.value).startswith(f"{tmp_path}: CHECK constraint c ({expression}) cannot be")
    assert message in str(refused.value)
    assert not files_under(tmp_path)


def test_rows_that_survive_are_checked_too(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(spark.range(1, 4).coalesce(1), tmp_path, configuration=rule("abs(id) > 0"))
    ds.write(spark.range(20, 21), tmp_path, "overwrite", replace_where=col("id") >= 2)
    assert [row["id"] for row in rows_of(ds.read(spark, tmp_path))] == [1, 20]


def test_a_constraint_of_a_column_that_is_gone_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    ds.write(spark.sql(ROWS), tmp_path, configuration=rule("id > 0"))
    with pytest.raises(
        InvalidRequestError, match="no column id, which is used by CHECK constraint c"
    ):
        ds.write(spark.sql("SELECT 1 AS n"), tmp_path, "overwrite", overwrite_schema=True)
    assert ds.read(spark, tmp_path).columns == ["id", "p"]


def test_an_invariant_is_a_constraint_of_a_column(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(spark.range(4, 5), tmp_path)
    log = DeltaLog(tmp_path)
    snapshot = log.snapshot()
    recorded = {"delta.invariants": json.dumps({"expression": {"expression": "abs(id) > 3"}})}
    schema = StructType(tuple(replace(f, metadata=recorded) for f in snapshot.schema.fields))
    changed = replace(snapshot.metadata, schema_string=schema_to_json(schema))
    create_commit(log.storage, log.log_directory, 1, [changed])
    ds.write(spark.range(5, 6), tmp_path)
    with pytest.raises(InvalidRequestError, match=r"column id \(abs\(id\) > 3\) is not.*rows: 2"):
        ds.write(spark.range(2, 6), tmp_path)
    assert ds.read(spark, tmp_path).count() == 2
