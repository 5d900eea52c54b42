"""`_metadata.row_id` and `_metadata.row_commit_version` in queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog

pytestmark = [pytest.mark.spark, pytest.mark.full]

IDS = "_metadata.row_id AS i, _metadata.row_commit_version AS v"


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session with the table `t`, which tracks rows, and the table `plain`, which does not.

    The rows of `t` have the ids 0 to 3. Version 2 changes the row 1 and deletes the row 2.
    """
    ds.register(spark)
    session = spark.newSession()
    session.sql(f"CREATE DATABASE shop LOCATION '{tmp_path}/shop'")
    session.sql("USE shop")
    session.sql(
        "CREATE TABLE t (k INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )
    session.sql(
        "INSERT INTO t SELECT /*+ COALESCE(1) */ * FROM VALUES (0, 'a'), (1, 'a'), "
        "(2, 'a'), (3, 'a')"
    )
    session.sql(
        "MERGE INTO t USING (SELECT 1 AS k UNION ALL SELECT 2) s ON t.k = s.k "
        "WHEN MATCHED AND t.k = 1 THEN UPDATE SET k = 10 WHEN MATCHED THEN DELETE"
    )
    session.sql("CREATE TABLE plain USING delta AS SELECT 0 AS k")
    yield session
    spark.sql("DROP DATABASE IF EXISTS shop CASCADE")
    ds.unregister(spark)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (f"SELECT k, {IDS} FROM t", [(0, 0, 1), (3, 3, 1), (10, 1, 2)]),
        (f"SELECT *, {IDS} FROM t", [(0, "a", 0, 1), (3, "a", 3, 1), (10, "a", 1, 2)]),
        (f"SELECT k, {IDS} FROM shop.t VERSION AS OF 1 WHERE p = 'a' AND k > 2", [(3, 3, 1)]),
        (f"SELECT k, {IDS} FROM t WHERE k = :k", [(10, 1, 2)]),
        ("SELECT k FROM t WHERE _metadata.row_id = 3", [(3,)]),
        ("SELECT max(_metadata.row_id) AS i FROM t GROUP BY p", [(3,)]),
        ("SELECT a.k, a._metadata.row_id FROM t a JOIN t b ON a.k = b.k WHERE a.k = 10", [(10, 1)]),
        ("SELECT t.k FROM plain JOIN t ON t._metadata.row_id = plain.k", [(0,)]),
        ("SELECT k FROM plain WHERE k IN (SELECT _metadata.row_id FROM t)", [(0,)]),
        ("SELECT i FROM (SELECT _metadata.row_id AS i, * FROM t) WHERE p = 'a' AND i > 1", [(3,)]),
        (f"WITH w AS (SELECT k, {IDS} FROM t) SELECT * FROM w WHERE i = 1", [(10, 1, 2)]),
        (
            f"WITH w AS (SELECT k, {IDS} FROM t), x (k, i) AS (SELECT k, i FROM w) "
            "SELECT x.k, w.v FROM x JOIN w ON x.i = w.i WHERE x.k > 3",
            [(10, 2)],
        ),
        (
            "SELECT k FROM plain WHERE k IN (WITH w AS (SELECT * FROM t WHERE k < 9) "
            "SELECT i FROM (WITH v AS (SELECT _metadata.row_id AS i FROM t) SELECT * FROM v))",
            [(0,)],
        ),
        (
            "SELECT 9 AS k, _metadata.row_id FROM t WHERE k = 3 "
            "UNION ALL SELECT k, NULL FROM plain",
            [(0, None), (9, 3)],
        ),
    ],
)
def test_a_query_names_the_ids_of_rows(
    delta: SparkSession, query: str, rows: list[tuple[object, ...]]
) -> None:
    found = delta.sql(query, args={"k": 10}) if ":k" in query else delta.sql(query)
    assert sorted(map(tuple, found.collect()), key=str) == sorted(rows, key=str)


def test_a_path_has_ids_too(delta: SparkSession, tmp_path: Path) -> None:
    query = f"SELECT _metadata.row_id FROM delta.`{tmp_path}/shop/t` WHERE k = 3"
    assert delta.sql(query).collect() == [(3,)]


def test_rows_with_their_ids_become_a_table(delta: SparkSession, tmp_path: Path) -> None:
    delta.sql(f"CREATE TABLE u USING delta AS SELECT k, {IDS} FROM t")
    delta.sql(f"INSERT INTO u SELECT k, {IDS} FROM t WHERE k = 3")
    assert delta.table("u").columns == ["k", "i", "v"]
    assert delta.table("u").where("i = 3").count() == 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT _metadata.row_id FROM plain",
        "WITH t AS (SELECT 1 AS k) SELECT _metadata.row_id FROM t",
        "SELECT _metadata.row_id FROM nothing",
        "SELECT 1 WHERE 1 IN (WITH t AS (SELECT 1 AS k) SELECT _metadata.row_id FROM t)",
    ],
)
def test_other_tables_have_no_ids(delta: SparkSession, query: str) -> None:
    with pytest.raises(AnalysisException):
        delta.sql(query).collect()


@pytest.mark.parametrize("kind", ["TEMPORARY VIEW", "VIEW"])
def test_a_view_with_ids_is_rejected_with_the_alternative(delta: SparkSession, kind: str) -> None:
    with pytest.raises(AnalysisException, match="write the query instead of the view"):
        delta.sql(f"CREATE {kind} ids AS SELECT k, _metadata.row_id FROM t")
    with pytest.raises(AnalysisException) as error:
        delta.sql(f"CREATE {kind} ids AS SELECT nothing FROM t")
    assert "row_id" not in str(error.value)


def test_a_column_of_the_same_name_stays(delta: SparkSession, tmp_path: Path) -> None:
    delta.sql("CREATE TABLE w USING delta AS SELECT named_struct('row_id', 7) AS _metadata")
    assert delta.sql("SELECT _metadata.row_id FROM w").collect() == [(7,)]
    assert DeltaLog(tmp_path / "shop" / "w").exists()
