"""Random statements: those of other tables stay Spark's, and DML by SQL equals the Python API."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.tables import DeltaTable
from tests.support.tables import rows
from tests.support.tiers import SEED

pytestmark = [pytest.mark.spark, pytest.mark.full]

NUM_STATEMENTS, NUM_CHANGES = 120, 40
SEEN_IN_PLANS = re.compile(r"#\d+L?|@[0-9a-f]+|CTERelation(?:Def|Ref) \d+")


def drawn(name: str) -> random.Random:
    return random.Random(f"{name} {os.environ[SEED]}")


TABLES = ("p", "j", "v", "p AS x", "other.p", "nothing")
CONDITIONS = (
    "a > 1",
    "b = 'x;y'",
    "b LIKE '%--%'",
    "a IN (SELECT a FROM j)",
    "`a` IS NULL",
    "true",
)
OPENINGS = ("", "  \n", "-- DELETE FROM t\n", "/* MERGE /* x */ */ ", "/**/")
TEMPLATES = (
    "SELECT * FROM {table} WHERE {condition}",
    "SELECT /*+ BROADCAST(j) */ count(*) FROM p JOIN {table} ON true WHERE {condition}",
    "WITH q AS (SELECT * FROM p WHERE {condition}) SELECT q.a FROM q, v WHERE q.a = v.a",
    "WITH q AS (SELECT 'INSERT' AS b) SELECT * FROM q",
    "SELECT a, row_number() OVER (ORDER BY a) FROM (SELECT * FROM {table}) WHERE {condition}",
    "FROM p SELECT a WHERE {condition}",
    "VALUES ({number}, 'a;b')",
    "INSERT INTO {table} VALUES ({number}, 'x', 'k')",
    "INSERT INTO p BY NAME SELECT 'k' AS c, {number} AS a, 'it''s' AS b",
    "INSERT INTO p PARTITION (c = 'z') SELECT {number}, 'w'",
    "INSERT INTO j (b, a) VALUES ('y', {number})",
    "INSERT OVERWRITE {table} SELECT {number}, 'o', 'k'",
    "INSERT OVERWRITE p PARTITION (c) SELECT * FROM (VALUES ({number}, 'r', 'z'))",
    "WITH q AS (SELECT {number} AS a, 'cte' AS b, 'k' AS c) INSERT INTO p SELECT * FROM q",
    "FROM p INSERT INTO j SELECT a, b",
    "DELETE FROM {table} WHERE {condition}",
    "UPDATE {table} SET a = {number} WHERE {condition}",
    "MERGE INTO {table} USING j ON p.a = j.a WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {table}",
    "ALTER TABLE {table} SET TBLPROPERTIES ('k{number}' = 'v')",
    "ALTER TABLE p UNSET TBLPROPERTIES IF EXISTS ('k{number}')",
    "ALTER TABLE j ADD COLUMNS (n{number} INT COMMENT 'c')",
    "ALTER TABLE p ALTER COLUMN a COMMENT 'number {number}'",
    "ALTER TABLE p DROP PARTITION (c = 'z')",
    "ALTER TABLE j RENAME TO k",
    "ALTER TABLE k RENAME TO j",
    "COMMENT ON TABLE p IS 'number {number}'",
    "CREATE TABLE IF NOT EXISTS made{number} USING parquet AS SELECT * FROM p WHERE {condition}",
    "CREATE TABLE IF NOT EXISTS like{number} LIKE p",
    "CREATE OR REPLACE TABLE p (a INT) USING parquet",
    "CREATE OR REPLACE TEMPORARY VIEW w AS SELECT * FROM p WHERE {condition}",
    "DROP TABLE IF EXISTS made{number}",
    "SHOW TBLPROPERTIES p",
    "SHOW COLUMNS IN {table}",
    "SHOW PARTITIONS p",
    "SHOW TABLES",
    "SHOW CREATE TABLE p",
    "DESCRIBE TABLE {table}",
    "DESCRIBE QUERY SELECT * FROM p",
    "EXPLAIN SELECT * FROM j",
    "ANALYZE TABLE p COMPUTE STATISTICS",
    "REFRESH TABLE p",
    "SET k = {number}",
    "SELECT '",
    "DELETE FROM",
    "INSERT p VALUES (1)",
)


def statements(choose: random.Random) -> Iterator[str]:
    for _ in range(NUM_STATEMENTS):
        text = choose.choice(TEMPLATES).format(
            table=choose.choice(TABLES),
            condition=choose.choice(CONDITIONS),
            number=choose.randrange(4),
        )
        yield choose.choice(OPENINGS) + text + choose.choice(("", ";", " -- end"))


def outcome(session: SparkSession, text: str) -> tuple[object, ...]:
    """The plan, the columns and the rows of a statement, or its error."""
    try:
        result = session.sql(text)
        plan: Any = result._jdf.queryExecution().analyzed().toString()
        found = sorted(SEEN_IN_PLANS.sub("", repr(row)) for row in result.collect())
        return SEEN_IN_PLANS.sub("", str(plan)), result.schema.simpleString(), found
    except PySparkException as error:
        lines = str(error).strip().splitlines()
        return type(error), SEEN_IN_PLANS.sub("", lines[0])
    except Py4JJavaError as error:  # an error of Spark that PySpark has no class for
        java: Any = error.java_exception
        return type(error), java.getClass().getName()


def outcomes(spark: SparkSession, place: Path, texts: list[str]) -> list[tuple[object, ...]]:
    session = spark.newSession()
    session.sql(f"CREATE DATABASE plain LOCATION '{place}'")
    try:
        session.sql("USE plain")
        session.sql("CREATE TABLE p (a INT, b STRING, c STRING) USING parquet PARTITIONED BY (c)")
        session.sql("CREATE TABLE j (a INT, b STRING) USING json")
        session.sql("CREATE TEMPORARY VIEW v AS SELECT 1 AS a, 'x;y' AS b")
        return [outcome(session, text) for text in texts]
    finally:
        session.sql("DROP DATABASE plain CASCADE")
        shutil.rmtree(place, ignore_errors=True)


def test_statements_on_other_tables_have_the_same_outcome_after_register(
    spark: SparkSession, tmp_path: Path
) -> None:
    texts = list(statements(drawn("other tables")))
    ds.unregister(spark)
    plain = outcomes(spark, tmp_path / "d", texts)
    ds.register(spark)
    try:
        registered = outcomes(spark, tmp_path / "d", texts)
    finally:
        ds.unregister(spark)
    for text, before, after in zip(texts, plain, registered, strict=True):
        assert before == after, text


def changes(choose: random.Random, path: Path) -> tuple[str, Any]:
    """A random change as SQL, and as a function of the Python API."""
    name = f"delta.`{path}`"
    low, value = choose.randrange(20), choose.randrange(100)
    condition = choose.choice(
        (f"id < {low}", f"v = {value} OR id = {low}", "p IS NULL", "id % 3 = 1")
    )
    source = f"SELECT id, CAST(id + {value} AS INT) AS v, 'm' AS p FROM range({low}, {low + 5})"

    def merge(session: SparkSession, twin: Path) -> None:
        merge = DeltaTable.forPath(session, str(twin)).alias("t")
        builder = merge.merge(session.sql(source).alias("s"), "t.id = s.id")
        builder = builder.whenMatchedUpdate(
            f"t.{condition}" if "OR" not in condition else None, {"v": "s.v"}
        )
        builder.whenNotMatchedInsertAll().execute()

    only = f"AND t.{condition} " if "OR" not in condition else ""
    return choose.choice(
        (
            (f"DELETE FROM {name} WHERE {condition}", lambda s, p: ds.delete(s, p, condition)),
            (
                f"UPDATE {name} SET v = v + {value}, p = concat(p, '\\'') WHERE {condition}",
                lambda s, p: ds.update(
                    s, p, {"v": f"v + {value}", "p": "concat(p, '\\'')"}, condition
                ),
            ),
            (f"INSERT INTO {name} {source}", lambda s, p: ds.write(s.sql(source), p)),
            (
                f"INSERT INTO {name} (v, id) VALUES ({value}, {low})",
                lambda s, p: ds.write(s.sql(f"SELECT {low}L AS id, {value} AS v"), p),
            ),
            (
                f"INSERT INTO {name} REPLACE WHERE id >= {low} "
                f"SELECT * FROM ({source}) WHERE id >= {low}",
                lambda s, p: ds.write(
                    s.sql(source), p, mode="overwrite", replace_where=f"id >= {low}"
                ),
            ),
            (
                f"MERGE INTO {name} t USING ({source}) s ON t.id = s.id "
                f"WHEN MATCHED {only}THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
                merge,
            ),
        )
    )


def test_random_changes_by_sql_equal_the_python_api(spark: SparkSession, tmp_path: Path) -> None:
    choose = drawn("changes")
    ours, twin = tmp_path / "sql", tmp_path / "python"
    first = pa.table(
        {
            "id": pa.array(range(12), pa.int64()),
            "v": pa.array(range(12), pa.int32()),
            "p": ["a", None, "b"] * 4,
        }
    )
    for path in (ours, twin):
        da.write(path, first)
    ds.register(spark)
    try:
        for _ in range(NUM_CHANGES):
            statement, call = changes(choose, ours)
            repeats = "MERGE" in statement and has_repeated_ids(twin)
            if repeats:
                continue  # a merge needs one row for each id
            spark.sql(statement)
            call(spark, twin)
            assert rows(da.to_table(ours)) == rows(da.to_table(twin)), statement
            assert operations(ours) == operations(twin), statement
    finally:
        ds.unregister(spark)


def has_repeated_ids(path: Path) -> bool:
    ids = da.to_table(path, columns=["id"])["id"].to_pylist()
    return len(set(ids)) < len(ids)


def operations(path: Path) -> list[tuple[int, str | None]]:
    return [(each.version, each.operation) for each in DeltaLog(path).history()]
