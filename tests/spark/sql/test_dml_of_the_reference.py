"""Shapes of DELETE, UPDATE and MERGE that tests of the reference have, with rows of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog

pytestmark = [pytest.mark.spark, pytest.mark.full]

PAIRS = "SELECT * FROM VALUES (1, 10), (2, 20), (2, 21), (NULL, 30) AS v(k, n)"
NESTED = (
    "SELECT named_struct('b.1', 1, 'c', named_struct('d', 'x', 'e', array(1, 2))) AS a, 1 AS z "
    "UNION ALL SELECT named_struct('b.1', 2, 'c', named_struct('d', 'y', 'e', array(3))), 2"
)


@pytest.fixture(params=["", "PARTITIONED BY (k)"], ids=["one directory", "partitioned"])
def delta(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[SparkSession]:
    """A session with the tables `t` and `nested`, and the view `s`."""
    ds.register(spark)
    session = spark.newSession()
    session.sql(f"CREATE DATABASE shop LOCATION '{tmp_path}/shop'")
    session.sql("USE shop")
    session.sql(f"CREATE TABLE t USING delta {request.param} AS {PAIRS}")
    session.sql(f"CREATE TABLE nested USING delta AS {NESTED}")
    session.sql("CREATE TEMPORARY VIEW s AS SELECT * FROM VALUES (2, 5), (3, 6) AS v(k, n)")
    yield session
    spark.sql("DROP DATABASE IF EXISTS shop CASCADE")
    ds.unregister(spark)


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("DELETE FROM t WHERE k = NULL", "(1,10) (2,20) (2,21) (N,30)"),
        ("DELETE FROM t WHERE n <> 10", "(1,10)"),
        ("DELETE FROM t WHERE k <=> NULL", "(1,10) (2,20) (2,21)"),
        ("DELETE FROM t WHERE k IS NOT NULL AND n > 20", "(1,10) (2,20) (N,30)"),
        ("DELETE FROM t WHERE NOT (k = 2)", "(2,20) (2,21) (N,30)"),
        ("DELETE FROM t WHERE current_date() > DATE'2000-01-01'", ""),
        ("UPDATE t SET n = k + n, k = k + 1", "(2,11) (3,22) (3,23) (N,N)"),
        ("UPDATE t SET n = k + CAST(n AS DOUBLE) WHERE k >= 1", "(1,11) (2,22) (2,23) (N,30)"),
        ("UPDATE t SET k = NULL + 1D, n = k WHERE k = 2", "(1,10) (N,2) (N,2) (N,30)"),
        ("UPDATE t SET n = '7' WHERE k IS NULL", "(1,10) (2,20) (2,21) (N,7)"),
        ("UPDATE t SET `t`.`n` = -1 WHERE `t`.`k` = 1", "(1,-1) (2,20) (2,21) (N,30)"),
        ("UPDATE shop.t SET shop.t.n = -1 WHERE t.k = 1", "(1,-1) (2,20) (2,21) (N,30)"),
        (
            "UPDATE t SET spark_catalog.shop.t.n = -1, `shop`.`t`.`k` = 5 WHERE k = 1",
            "(2,20) (2,21) (5,-1) (N,30)",
        ),
        ("UPDATE shop.t SET shop.t.n = 7 WHERE shop.t.k = 1", "(1,7) (2,20) (2,21) (N,30)"),
        (
            "UPDATE shop.t SET n = shop.t.n + t.k WHERE spark_catalog.Shop.t.k IS NOT NULL",
            "(1,11) (2,22) (2,23) (N,30)",
        ),
        ("DELETE FROM t WHERE shop.t.k = 1 OR `shop`.`t`.`k` IS NULL", "(2,20) (2,21)"),
        (
            "MERGE INTO shop.t USING shop.nested ON shop.t.k = spark_catalog.shop.nested.z "
            "WHEN MATCHED AND shop.t.n > 10 THEN UPDATE SET shop.t.n = shop.nested.z + shop.t.n "
            "WHEN NOT MATCHED BY SOURCE AND shop.t.k IS NULL THEN UPDATE SET k = shop.t.n",
            "(1,10) (2,22) (2,23) (30,30)",
        ),
        (
            "MERGE INTO t USING nested ON shop.t.k = shop.nested.z + 1 WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (shop.t.k, n) VALUES (shop.nested.a.`b.1`, nested.z)",
            "(1,10) (2,2) (N,30)",
        ),
        ("DELETE FROM t WHERE 1 > NULL", "(1,10) (2,20) (2,21) (N,30)"),
        ("DELETE FROM t WHERE NOT NULL", "(1,10) (2,20) (2,21) (N,30)"),
        ("DELETE FROM t WHERE NULL IS NULL", ""),
        ("DELETE FROM t WHERE 'a' = 'a'", ""),
        ("DELETE FROM t WHERE k IN (1, NULL)", "(2,20) (2,21) (N,30)"),
        ("DELETE FROM t WHERE k NOT IN (1, NULL)", "(1,10) (2,20) (2,21) (N,30)"),
        ("DELETE FROM t WHERE n > 20 OR NULL", "(1,10) (2,20)"),
        ("UPDATE t SET n = 0 WHERE length('abc') = 3", "(1,0) (2,0) (2,0) (N,0)"),
        ("UPDATE t SET n = 0 WHERE k <=> NULL", "(1,10) (2,20) (2,21) (N,0)"),
        (
            "MERGE INTO t USING s ON t.k IN (s.k, NULL) WHEN MATCHED AND 'a' = 'a' THEN DELETE "
            "WHEN NOT MATCHED AND 1 > NULL THEN INSERT *",
            "(1,10) (N,30)",
        ),
        (
            "UPDATE t SET n = 0 WHERE CAST(k AS BIGINT) * CAST('1.0' AS DECIMAL(38, 18)) > 1",
            "(1,10) (2,0) (2,0) (N,30)",
        ),
        (
            "WITH c AS (SELECT k - 1 AS k, n FROM s WHERE k = 2) MERGE INTO t USING c AS u "
            "ON u.k = t.k WHEN MATCHED THEN UPDATE SET k = 20 + u.k, n = u.n + t.n",
            "(21,15) (2,20) (2,21) (N,30)",
        ),
        (
            "MERGE INTO t AS o USING (SELECT * FROM VALUES (1, 6, 'a') AS t1(j, n, x) UNION "
            "SELECT * FROM VALUES (0, 3, 'b') AS t2(j, n, x)) u ON u.j = o.k "
            "WHEN MATCHED THEN UPDATE SET o.k = 20 + j, n = 20 + u.n "
            "WHEN NOT MATCHED THEN INSERT (o.k, n) VALUES (j - 10, u.n + 10)",
            "(-10,13) (2,20) (2,21) (21,26) (N,30)",
        ),
        (
            "MERGE INTO t USING s ON t.k < 0 WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (k, n) VALUES (9, 9)",
            "(1,10) (2,20) (2,21) (9,9) (9,9) (N,30)",
        ),
        (
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND t.n = 20 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
            "WHEN NOT MATCHED BY SOURCE AND t.k IS NULL THEN UPDATE SET n = t.n + 1",
            "(1,10) (2,5) (3,6) (N,31)",
        ),
        (
            "MERGE INTO t USING (SELECT '1' AS k, 2.0D AS n) u ON t.k = u.k "
            "WHEN MATCHED THEN UPDATE SET n = u.n WHEN NOT MATCHED THEN INSERT *",
            "(1,2) (2,20) (2,21) (N,30)",
        ),
    ],
)
def test_a_statement_leaves_these_rows(delta: SparkSession, statement: str, rows: str) -> None:
    delta.sql(statement)
    found = [tuple("N" if x is None else str(x) for x in row) for row in delta.table("t").collect()]
    assert sorted(f"({k},{n})" for k, n in found) == sorted(rows.split())


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ("a.c.d = 'new', z = 7", "((1, ('new', [1, 2])), 7)"),
        ("nested.a.`b.1` = '-1'", "((-1, ('x', [1, 2])), 1)"),
        ("shop.nested.a.c.e = array('-1', '-2')", "((1, ('x', [-1, -2])), 1)"),
        (
            "a = named_struct('c', named_struct('e', array(9), 'd', 'y'), 'b.1', 8)",
            "((8, ('y', [9])), 1)",
        ),
        ("a.c = NULL", "((1, None), 1)"),
        ("a = NULL", "(None, 1)"),
    ],
)
def test_a_field_gets_a_value(delta: SparkSession, change: str, row: str) -> None:
    delta.sql(f"UPDATE nested SET {change} WHERE z = 1")
    rows = [plain(each) for each in delta.table("nested").where("z <> 2").collect()]
    assert list(map(str, rows)) == [row]
    assert delta.sql("SELECT a.`b.1` FROM nested WHERE z = 2").collect() == [(2,)]


def plain(value: object) -> object:
    """A row as tuples."""
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("UPDATE t SET n = 1, N = 2", AnalysisException),
        ("UPDATE t SET nothing = 1", AnalysisException),
        ("DELETE FROM t WHERE NULL", AnalysisException),
        ("DELETE FROM t WHERE 1", AnalysisException),
        ("DELETE FROM t WHERE \"k\" = 'k'", AnalysisException),
        ("DELETE FROM t WHERE other.t.k = 1", AnalysisException),
        ("DELETE FROM shop.t AS x WHERE shop.t.k = 1", AnalysisException),
        ("UPDATE nested SET a.c = 'x'", AnalysisException),
        ("UPDATE nested SET a.c.nothing = 'x'", AnalysisException),
        ("UPDATE nested SET a.c.d = 'x', a.c = NULL", AnalysisException),
        ("UPDATE nested SET a.c.e.element = 1", AnalysisException),
        (
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = 1, n = 2",
            AnalysisException,
        ),
        (
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, k) VALUES (1, 2)",
            AnalysisException,
        ),
        (
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (1) "
            "WHEN NOT MATCHED THEN INSERT (k) VALUES (2)",
            ParseException,
        ),
    ],
)
def test_a_wrong_statement_is_rejected(
    delta: SparkSession, tmp_path: Path, statement: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        delta.sql(statement)
    assert DeltaLog(tmp_path / "shop" / "t").snapshot().version == 0
    assert DeltaLog(tmp_path / "shop" / "nested").snapshot().version == 0


def test_tables_of_two_databases_may_have_the_same_name(
    delta: SparkSession, tmp_path: Path
) -> None:
    delta.sql(f"CREATE TABLE delta.`{tmp_path}/t2` USING delta AS SELECT 1 AS k, 7 AS n")
    delta.sql(f"CREATE DATABASE other LOCATION '{tmp_path}/other'")
    try:
        delta.sql(f"CREATE TABLE other.t USING delta LOCATION '{tmp_path}/t2'")
        delta.sql(
            "MERGE INTO shop.t USING other.t ON shop.t.k = other.t.k "
            "WHEN MATCHED THEN UPDATE SET shop.t.n = other.t.n"
        )
        with pytest.raises(AnalysisException):  # t may be both
            delta.sql("MERGE INTO shop.t USING other.t ON shop.t.k = t.k WHEN MATCHED THEN DELETE")
    finally:
        delta.sql("DROP DATABASE other CASCADE")
    assert delta.sql("SELECT n FROM t WHERE k = 1").collect() == [(7,)]


def test_a_path_may_be_the_name_of_a_table(delta: SparkSession, tmp_path: Path) -> None:
    path = f"delta.`{tmp_path}/shop/t`"
    delta.sql(f"UPDATE {path} SET {path}.n = 7 WHERE {path}.k = 1")
    delta.sql(f"DELETE FROM {path} WHERE `{tmp_path}/shop/t`.k > {path}.n / 100")
    assert sorted(map(str, delta.table("t").collect())) == ["Row(k=None, n=30)"]
    delta.sql(
        f"MERGE INTO nested USING {path} ON nested.z = {path}.n - 29 WHEN MATCHED THEN DELETE"
    )
    assert delta.sql("SELECT z FROM nested").collect() == [(2,)]
