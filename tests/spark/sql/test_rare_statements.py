"""Statements that few programs write: in the log, or refused with the reference's error class."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.spark.versions import error_condition

pytestmark = [pytest.mark.spark, pytest.mark.full]

TOO_LATE = "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"
TOO_EARLY = "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session with the table `t` in a database of its own."""
    ds.register(spark)
    session = spark.newSession()
    session.sql(f"CREATE DATABASE shop LOCATION '{tmp_path}/shop'")
    session.sql("USE shop")
    session.sql("CREATE TABLE t (id INT, s STRUCT<a: INT, b: INT>, p STRING) USING delta")
    session.sql("INSERT INTO t VALUES (1, named_struct('a', 1, 'b', 2), 'x')")
    yield session
    spark.sql("DROP DATABASE IF EXISTS shop CASCADE")
    ds.unregister(spark)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the table `t` is."""
    return tmp_path / "shop" / "t"


def found(rows: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in rows.collect())


def test_insert_writes_numbers_and_times_as_the_reference_does(delta: SparkSession) -> None:
    delta.sql(
        "CREATE TABLE w (a STRING, b STRING, c TIMESTAMP_NTZ, p STRING) USING delta "
        "PARTITIONED BY (p)"
    )
    delta.sql("INSERT INTO w VALUES (1, 2.50, DATE'2026-11-30', true)")
    delta.sql("INSERT INTO w BY NAME SELECT 1.5D AS b, DATE'2026-11-30' AS a, 7L AS p")
    delta.sql("SELECT 3, 4, DATE'2026-12-01', 5").write.insertInto("w")
    assert found(delta.table("w")) == [
        ("1", "2.50", datetime(2026, 11, 30), "true"),
        ("2026-11-30", "1.5", None, "7"),
        ("3", "4", datetime(2026, 12, 1), "5"),
    ]
    for wrong in ("'x'", "array(1)"):
        with pytest.raises(AnalysisException):
            delta.sql(f"INSERT INTO t VALUES ({wrong}, NULL, 'p')")
    with pytest.raises(AnalysisException):
        delta.sql("INSERT INTO w VALUES (array(1), 'b', NULL, 'p')")
    assert delta.table("w").count() == 3


def test_several_columns_change_in_one_commit(delta: SparkSession, place: Path) -> None:
    delta.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    delta.sql("ALTER TABLE t ALTER COLUMN id TYPE BIGINT, p COMMENT 'c', s.b FIRST")
    snapshot = DeltaLog(place).snapshot()
    assert snapshot.version == 3
    assert (
        delta.table("t").schema.simpleString() == "struct<id:bigint,s:struct<b:int,a:int>,p:string>"
    )
    assert snapshot.schema.fields[2].metadata["comment"] == "c"
    assert delta.sql("DESCRIBE HISTORY t LIMIT 1").collect()[0]["operation"] == "CHANGE COLUMNS"
    delta.sql("ALTER TABLE t CHANGE COLUMN p p STRING COMMENT 'd' FIRST")
    assert delta.table("t").columns == ["p", "id", "s"]
    assert DeltaLog(place).snapshot().version == 4
    with pytest.raises(AnalysisException, match="no column"):
        delta.sql("ALTER TABLE t ALTER COLUMN p COMMENT 'e', nothing COMMENT 'f'")
    delta.sql("ALTER TABLE t CHANGE COLUMN p P STRING AFTER p")
    assert delta.table("t").columns == ["p", "id", "s"]
    assert DeltaLog(place).snapshot().version == 4


def test_column_mapping_is_dropped_with_its_names(delta: SparkSession, place: Path) -> None:
    delta.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', n = 1.5)")
    delta.sql("ALTER TABLE t RENAME COLUMN s.a TO p")
    delta.sql("ALTER TABLE t RENAME COLUMN p TO q")
    delta.sql("ALTER TABLE t ADD COLUMN p INT")
    before, version = found(delta.table("t")), DeltaLog(place).snapshot().version
    delta.sql("ALTER TABLE t DROP FEATURE columnMapping")
    snapshot = DeltaLog(place).snapshot()
    assert dict(snapshot.metadata.configuration) == {"n": "1.5"}
    assert not snapshot.definition.has("columnMapping")
    assert found(delta.table("t")) == before
    assert found(delta.sql(f"SELECT * FROM t VERSION AS OF {version}")) == before
    assert delta.sql("SELECT s.p FROM t WHERE q = 'x'").count() == len(before)


def test_missing_columns_are_ignored_on_request(delta: SparkSession, place: Path) -> None:
    delta.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    delta.sql("ALTER TABLE t DROP COLUMN IF EXISTS nothing, S.A, s.nothing")
    assert delta.table("t").schema.simpleString() == "struct<id:int,s:struct<b:int>,p:string>"
    version = DeltaLog(place).snapshot().version
    delta.sql("ALTER TABLE t DROP COLUMNS IF EXISTS (nothing)")
    with pytest.raises(AnalysisException, match="no column"):
        delta.sql("ALTER TABLE t DROP COLUMNS (nothing, p)")
    assert DeltaLog(place).snapshot().version == version


def test_a_second_clone_does_nothing_on_request(delta: SparkSession) -> None:
    assert delta.sql("CREATE TABLE IF NOT EXISTS c SHALLOW CLONE t").count() == 1
    assert delta.sql("CREATE TABLE IF NOT EXISTS c SHALLOW CLONE t").collect() == []


@pytest.mark.parametrize(
    ("definition", "condition"),
    [
        ("a INT, b DOUBLE GENERATED ALWAYS AS (rand())", "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"),
        (
            "a INT, b INT GENERATED ALWAYS AS ((SELECT 1))",
            "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
        ),
        (
            "a INT, b INT GENERATED ALWAYS AS (c + 1)",
            "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
        ),
        (
            "a INT, b BIGINT GENERATED ALWAYS AS (a + 1)",
            "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH",
        ),
        (
            "a INT, b BIGINT GENERATED ALWAYS AS IDENTITY",
            "DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED",
        ),
    ],
)
def test_a_generated_column_needs_values_of_its_row_and_type(
    delta: SparkSession, definition: str, condition: str
) -> None:
    with pytest.raises(AnalysisException) as error:
        delta.sql(f"CREATE TABLE u ({definition}) USING delta PARTITIONED BY (b)")
    assert condition in str(error.value)
    assert not delta.catalog.tableExists("u")


@pytest.mark.parametrize("source", ["shop.t", "delta.`{place}`"])
def test_rows_change_through_a_view_of_the_whole_table(
    delta: SparkSession, place: Path, source: str
) -> None:
    delta.sql(f"CREATE TEMPORARY VIEW t AS SELECT * FROM {source.format(place=place)}")
    delta.sql("CREATE TABLE u USING delta AS SELECT 0 AS other")
    delta.sql("CREATE TEMPORARY VIEW u AS SELECT * FROM t")
    assert found(delta.sql("UPDATE u SET p = 'view' WHERE u.id = 1")) == [(1,)]
    assert found(delta.sql("DELETE FROM t WHERE t.p = 'view'")) == [(1,)]
    delta.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO u USING (SELECT 77 AS id, 'n' AS late) s ON u.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert found(delta.table("shop.t").select("id", "p", "late")) == [(77, None, "n")]
    assert delta.table("shop.u").columns == ["other"]
    with pytest.raises(AnalysisException, match="u is a view with other rows or columns"):
        delta.sql("DELETE FROM u")  # a view keeps the columns of its beginning
    delta.sql("CREATE TEMPORARY VIEW before AS SELECT * FROM shop.t VERSION AS OF 1")
    with pytest.raises(AnalysisException, match="@v1"):
        delta.sql("DELETE FROM before")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM shop.t WHERE id > 0",
        "SELECT id, s, concat(p, '') AS p FROM shop.t",
        "SELECT s, id, p FROM shop.t",
        "SELECT id AS p, s, p AS id FROM shop.t",
        "SELECT * FROM shop.t LIMIT 1",
        "SELECT id, s, p FROM shop.t JOIN (SELECT 1 AS one)",
    ],
)
def test_rows_do_not_change_through_another_view(
    delta: SparkSession, place: Path, query: str
) -> None:
    version = DeltaLog(place).snapshot().version
    delta.sql(f"CREATE TEMPORARY VIEW v AS {query}")
    for statement in ("DELETE FROM v", "UPDATE v SET p = 'x'"):
        with pytest.raises(AnalysisException, match="v is a view with other rows or columns"):
            delta.sql(statement)
    assert DeltaLog(place).snapshot().version == version


def test_rows_change_through_a_view_of_a_table_with_char(delta: SparkSession) -> None:
    delta.sql("CREATE TABLE c (id INT, p CHAR(3)) USING delta PARTITIONED BY (p)")
    delta.sql("INSERT INTO c VALUES (1, 'x'), (2, 'y')")
    delta.sql("CREATE TEMPORARY VIEW v AS SELECT * FROM c")
    assert found(delta.sql("DELETE FROM v WHERE p = 'x'")) == [(1,)]
    assert found(delta.table("v")) == [(2, "y  ")]


def test_a_column_may_be_generated_from_a_varchar(delta: SparkSession) -> None:
    delta.sql("CREATE TABLE u (c VARCHAR(3), n INT GENERATED ALWAYS AS (length(c))) USING delta")
    delta.sql("INSERT INTO u (c) VALUES ('x')")
    assert found(delta.table("u")) == [("x", 1)]


def test_columns_are_stated_anew(delta: SparkSession, place: Path) -> None:
    delta.sql(
        "ALTER TABLE t REPLACE COLUMNS "
        "(p STRING COMMENT 'c', s STRUCT<b: INT, n: STRING, a: INT>, late DATE, ID INT)"
    )
    assert delta.table("t").schema.simpleString() == (
        "struct<p:string,s:struct<b:int,n:string,a:int>,late:date,id:int>"
    )
    assert found(delta.table("t")) == [("x", (2, None, 1), None, 1)]
    assert next(DeltaLog(place).history(1)).operation == "REPLACE COLUMNS"


def test_inserts_add_columns_on_request(delta: SparkSession) -> None:
    insert = "INSERT INTO t SELECT 2, NULL, 'y', 5 AS m"
    with pytest.raises(AnalysisException, match="has 4 columns"):
        delta.sql(insert)
    with pytest.raises(AnalysisException):
        delta.sql("INSERT INTO t BY NAME SELECT 3 AS id, 6 AS n")
    delta.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    delta.sql(insert)
    delta.sql("INSERT INTO t BY NAME SELECT 3 AS id, 6 AS n")
    delta.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    delta.sql("INSERT WITH SCHEMA EVOLUTION INTO t SELECT 4, NULL, 'z', 7, 8, 'o' AS o")
    assert found(delta.sql("SELECT id, m, n, o FROM t WHERE id > 1")) == [
        (2, 5, None, None),
        (3, None, 6, None),
        (4, 7, 8, "o"),
    ]


def test_partition_columns_may_have_types(delta: SparkSession, tmp_path: Path) -> None:
    delta.sql("CREATE TABLE u (a INT) USING delta PARTITIONED BY (b STRING COMMENT 'c', d INT)")
    delta.sql("INSERT INTO u VALUES (1, 'x', 2)")
    snapshot = DeltaLog(tmp_path / "shop" / "u").snapshot()
    assert snapshot.partition_columns == ("b", "d")
    assert found(delta.table("u")) == [(1, "x", 2)]
    with pytest.raises(AnalysisException, match="types may not be specified"):
        delta.sql("CREATE TABLE v USING delta PARTITIONED BY (b STRING) AS SELECT 1 AS a")


def test_a_name_may_be_a_value(delta: SparkSession, place: Path) -> None:
    delta.sql("INSERT INTO IDENTIFIER('shop.t') (id) VALUES (2)")
    delta.sql("UPDATE IDENTIFIER(:name) SET p = :name WHERE id = 2", args={"name": "t"})
    assert delta.sql("SELECT id, p FROM t WHERE id = 2").collect() == [(2, "t")]
    for name in ("t; DROP TABLE t", "t -- ", "t WHERE id = 1", "t t"):
        with pytest.raises(AnalysisException):
            delta.sql("DELETE FROM IDENTIFIER(:name)", args={"name": name})
    assert delta.table("t").count() == 2


def test_queries_read_versions_by_any_clause(delta: SparkSession, place: Path) -> None:
    delta.sql("DELETE FROM t")
    written = {each.version: each.timestamp_ms for each in DeltaLog(place).history()}[1]
    time = datetime.fromtimestamp(written / 1000, UTC)
    for clause in (
        "t VERSION AS OF :version",
        "t@v1",
        f"t TIMESTAMP AS OF timestamp_millis({written})",
        f"t TIMESTAMP AS OF CAST('{time.isoformat()}' AS TIMESTAMP)",
        f"t TIMESTAMP AS OF timestamp_millis({written}) - INTERVAL 1 HOUR + INTERVAL '1' HOUR",
        "shop.t@v1 AS other",
    ):
        query = f"SELECT count(*) FROM {clause}"
        assert delta.sql(query, args={"version": 1}).collect() == [(1,)], clause
    query = "WITH q AS (SELECT * FROM t VERSION AS OF 1) SELECT t.id FROM q JOIN t@v1 ON true"
    assert delta.sql(query).collect() == [(1,)]
    delta.sql("CREATE TEMPORARY VIEW old AS SELECT * FROM t@v1")
    assert delta.table("old").count() == 1
    with pytest.raises(AnalysisException, match="is NULL"):
        delta.sql("SELECT * FROM t TIMESTAMP AS OF CAST(NULL AS TIMESTAMP)")


def test_a_clone_begins_at_a_computed_time(delta: SparkSession, place: Path) -> None:
    delta.sql("DELETE FROM t")
    written = {each.version: each.timestamp_ms for each in DeltaLog(place).history()}[1]
    time = f"timestamp_millis({written}) - INTERVAL 1 HOUR + INTERVAL '1' HOUR"
    delta.sql(f"CREATE TABLE cloned SHALLOW CLONE t TIMESTAMP AS OF {time} LOCATION 'cloned'")
    assert delta.table("cloned").count() == 1
    for refused in ("(SELECT current_timestamp())", "id"):
        with pytest.raises(AnalysisException):
            delta.sql(f"CREATE TABLE other SHALLOW CLONE t TIMESTAMP AS OF {refused}")


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("SELECT * FROM t VERSION AS OF 9", "DELTA_VERSION_NOT_FOUND"),
        ("SELECT * FROM t@v9", "DELTA_VERSION_NOT_FOUND"),
        (
            "SELECT * FROM t TIMESTAMP AS OF '2000-01-01'",
            TOO_EARLY,
        ),
        ("SELECT * FROM t TIMESTAMP AS OF '9000-01-01'", TOO_LATE),
        ("SELECT * FROM table_changes('t', 9)", "DELTA_VERSION_NOT_FOUND"),
        ("CREATE TABLE u SHALLOW CLONE t VERSION AS OF 9", "DELTA_VERSION_NOT_FOUND"),
        ("RESTORE t TO VERSION AS OF 9", "DELTA_CANNOT_RESTORE_TABLE_VERSION"),
        ("RESTORE t TO TIMESTAMP AS OF '9000-01-01'", "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER"),
        ("RESTORE t TO TIMESTAMP AS OF '2000-01-01'", TOO_EARLY),
    ],
)
def test_a_version_that_does_not_exist_has_the_error_class_of_the_reference(
    delta: SparkSession, place: Path, statement: str, condition: str
) -> None:
    with pytest.raises(AnalysisException, match=rf"^\[{condition}\] ") as error:
        delta.sql(statement)
    assert error_condition(error.value) == condition
    assert DeltaLog(place).snapshot().version == 1


def test_an_inventory_limits_a_vacuum(delta: SparkSession, place: Path) -> None:
    (place / "part-old.parquet").write_bytes(b"x")
    (place / "part-other.parquet").write_bytes(b"x")
    delta.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    listed = (
        f"SELECT '{place}/part-old.parquet' AS path, 1L AS length, false AS isDir, "
        "0L AS modificationTime"
    )
    delta.sql(f"VACUUM t USING INVENTORY ({listed}) RETAIN 0 HOURS")
    assert not (place / "part-old.parquet").exists()
    assert (place / "part-other.parquet").exists()


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("ALTER TABLE t ADD PARTITION (p = 'y')", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        ("ALTER TABLE t DROP PARTITION (p = 'x')", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        ("ALTER TABLE t RECOVER PARTITIONS", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        ("ALTER TABLE t SET SERDEPROPERTIES ('a' = 'b')", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        ("MSCK REPAIR TABLE t", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        ("LOAD DATA INPATH '/x' INTO TABLE t", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        ("DESCRIBE t PARTITION (p = 'x')", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        ("TRUNCATE TABLE t PARTITION (p = 'x')", "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED"),
        (
            "ALTER TABLE t REPLACE COLUMNS (id INT)",
            "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
        ),
    ],
)
def test_a_statement_that_delta_tables_lack_is_refused(
    delta: SparkSession, place: Path, statement: str, condition: str
) -> None:
    with pytest.raises(AnalysisException, match="shop/t") as error:
        delta.sql(statement)
    assert error_condition(error.value) == condition
    assert DeltaLog(place).snapshot().version == 1
