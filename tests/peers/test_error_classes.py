"""Mistakes in SQL: statements fail here and in delta-spark with the same error class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import delta_ops.spark as ds
from delta_ops.spark.versions import error_condition
from tests.peers.delta_spark import DeltaSpark, DeltaSparkError

pytestmark = [pytest.mark.spark, pytest.mark.full]

TABLES = (
    "CREATE DATABASE shop LOCATION '{}'",
    "CREATE TABLE shop.t (id INT NOT NULL, v INT, s STRING, st STRUCT<x: INT, y: INT>, "
    "c VARCHAR(3)) USING delta",
    "INSERT INTO shop.t VALUES (1, 10, 'a', named_struct('x', 1, 'y', 2), 'abc')",
    "ALTER TABLE shop.t ADD CONSTRAINT low CHECK (v < 100)",
    "CREATE TABLE shop.fixed (id INT) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "INSERT INTO shop.fixed VALUES (1)",
    "CREATE TABLE shop.parts (id INT, p STRING) USING delta PARTITIONED BY (p)",
    "INSERT INTO shop.parts VALUES (1, 'a')",
    "CREATE TABLE shop.clusters (id INT, p STRING) USING delta CLUSTER BY (p)",
    "CREATE TABLE shop.numbers (id BIGINT GENERATED ALWAYS AS IDENTITY, v INT) USING delta",
    "CREATE TABLE shop.s (id INT, v INT) USING delta",
    "INSERT INTO shop.s VALUES (1, 5), (2, 6)",
)
MERGE = "MERGE INTO shop.t USING shop.s ON t.id = s.id"
STATEMENTS = (
    "DELETE FROM shop.nothing",
    "UPDATE shop.nothing SET v = 1",
    "DELETE FROM shop.t WHERE nothing = 1",
    "DELETE FROM shop.t WHERE st.nothing = 1",
    "DELETE FROM shop.t WHERE v",
    "DELETE FROM shop.t WHERE sum(v) > 1",
    "DELETE FROM shop.t WHERE nothing(v)",
    "DELETE FROM shop.t WHERE rand() < 0",
    "UPDATE shop.t SET nothing = 1",
    "UPDATE shop.t SET st.nothing = 1",
    "UPDATE shop.t SET v = nothing",
    "UPDATE shop.t SET v = 1, V = 2",
    "UPDATE shop.t SET st = NULL, st.x = 1",
    "UPDATE shop.t SET v = sum(v)",
    "UPDATE shop.t SET v = 'abc'",
    "UPDATE shop.t SET v = 9999999999",
    "UPDATE shop.t SET v = 200",
    "UPDATE shop.t SET id = NULL",
    "UPDATE shop.t SET c = 'abcd'",
    "UPDATE shop.numbers SET id = 5",
    "UPDATE shop.fixed SET id = 5",
    "DELETE FROM shop.fixed WHERE id = 1",
    "INSERT OVERWRITE shop.fixed VALUES (1)",
    "INSERT INTO shop.t VALUES (1, 200, 'a', NULL, 'a')",
    "INSERT INTO shop.t VALUES (NULL, 20, 'a', NULL, 'a')",
    "INSERT INTO shop.t VALUES (1, 20, 'a', NULL, 'abcd')",
    "INSERT INTO shop.t VALUES ('abc', 20, 'a', NULL, 'a')",
    "INSERT INTO shop.t VALUES (9999999999, 20, 'a', NULL, 'a')",
    "INSERT INTO shop.t (id, nothing) VALUES (1, 2)",
    "INSERT INTO shop.t (id, id) VALUES (1, 2)",
    "INSERT INTO shop.t VALUES (1)",
    "INSERT INTO shop.t BY NAME SELECT 1 AS id, 2 AS nothing",
    "INSERT INTO shop.t VALUES (1, 2, 'a', NULL, 'a', 6)",
    "INSERT INTO shop.parts REPLACE WHERE p = 'a' SELECT 1, 'b'",
    "INSERT INTO shop.numbers (id, v) VALUES (1, 7)",
    f"{MERGE} WHEN MATCHED THEN UPDATE SET v = 200",
    f"{MERGE} WHEN MATCHED THEN UPDATE SET v = 1, v = 2",
    f"{MERGE} WHEN MATCHED THEN UPDATE SET nothing = 1",
    f"{MERGE} WHEN MATCHED THEN UPDATE SET v = s.nothing",
    f"{MERGE} WHEN MATCHED AND nothing = 1 THEN DELETE",
    f"{MERGE} WHEN MATCHED THEN UPDATE SET *",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT (id, id) VALUES (s.id, 1)",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT (id, nothing) VALUES (s.id, 1)",
    "MERGE INTO shop.t USING shop.s ON t.nothing = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO shop.t USING (SELECT explode(array(1, 1)) AS id) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = 1",
    "MERGE INTO shop.fixed USING shop.s ON fixed.id = s.id WHEN MATCHED THEN DELETE",
    "SELECT * FROM shop.t VERSION AS OF 99",
    "SELECT * FROM shop.t TIMESTAMP AS OF '2000-01-01'",
    "SELECT * FROM table_changes('shop.t', 0)",
    "RESTORE shop.t TO VERSION AS OF 99",
    "CREATE TABLE shop.t (id INT) USING delta",
    "CREATE TABLE shop.n (id INT, ID INT) USING delta",
    "CREATE TABLE shop.n (`a b` INT) USING delta",
    "CREATE TABLE shop.n (id INT) USING delta TBLPROPERTIES ('delta.nothing' = '1')",
    "ALTER TABLE shop.t SET TBLPROPERTIES ('delta.feature.nothing' = 'supported')",
    "ALTER TABLE shop.t SET TBLPROPERTIES ('delta.nothing' = '1')",
    "ALTER TABLE shop.t ADD COLUMN V INT",
    "ALTER TABLE shop.t DROP COLUMN s",
    "ALTER TABLE shop.t RENAME COLUMN s TO w",
    "ALTER TABLE shop.t ALTER COLUMN v TYPE STRING",
    "ALTER TABLE shop.t ALTER COLUMN c TYPE VARCHAR(2)",
    "ALTER TABLE shop.t ALTER COLUMN s TYPE VARCHAR(2)",
    "ALTER TABLE shop.t ADD CONSTRAINT low CHECK (v < 50)",
    "ALTER TABLE shop.t ADD CONSTRAINT high CHECK (v > 50)",
    "ALTER TABLE shop.t DROP CONSTRAINT nothing",
    "ALTER TABLE shop.parts CLUSTER BY (id)",
    "ALTER TABLE shop.t DROP FEATURE nothing",
    "OPTIMIZE shop.t WHERE v = 1",
    "OPTIMIZE shop.parts ZORDER BY (p)",
    "OPTIMIZE shop.clusters ZORDER BY (id)",
    "SHOW PARTITIONS shop.t",
)
_CLASS = re.compile(r"\[([A-Z_0-9]+(?:\.[A-Z_0-9]+)?)\]")
_UNKNOWN_CLASS = re.compile(r"Cannot find main error class '([A-Z_]+)'")
"""PySpark knows no texts of Delta's error classes, so it reports some classes in this form."""


@pytest.fixture
def ours(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    ds.register(spark)
    for text in TABLES:
        spark.sql(text.format(tmp_path / "ours"))
    yield spark
    spark.sql("DROP DATABASE shop CASCADE")
    ds.unregister(spark)


@pytest.fixture
def theirs(delta_spark: DeltaSpark, tmp_path: Path) -> Iterator[DeltaSpark]:
    for text in TABLES:
        delta_spark.sql(text.format(tmp_path / "theirs"))
    yield delta_spark
    delta_spark.sql("DROP DATABASE shop CASCADE")


def class_of_ours(spark: SparkSession, text: str) -> str | None:
    try:
        spark.sql(text).collect()
    except PySparkException as error:
        return error_condition(error)
    return "no error"


def class_of_theirs(delta_spark: DeltaSpark, text: str) -> str | None:
    try:
        delta_spark.sql(text)
    except DeltaSparkError as error:
        found = _UNKNOWN_CLASS.search(str(error)) or _CLASS.search(str(error))
        return found[1] if found else None
    return "no error"


def test_a_mistake_has_the_error_class_of_delta_spark(
    ours: SparkSession, theirs: DeltaSpark
) -> None:
    differ = []
    for text in STATEMENTS:
        found, wanted = class_of_ours(ours, text), class_of_theirs(theirs, text)
        if found != wanted:
            differ.append(f"{text}: {found} here, {wanted} in delta-spark")
    assert not differ, "\n".join(differ)
