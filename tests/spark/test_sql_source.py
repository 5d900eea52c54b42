"""Spark SQL: tables of the provider "delta", read by names and views."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.ddl import (
    NewColumn,
    add_columns,
    cluster_by,
    rename_column,
    set_comment,
    set_properties,
    set_table_comment,
)
from delta_ops.errors import InvalidRequestError, TableExistsError
from delta_ops.spark.installed_version import VERSION, Version
from delta_ops.tables import DeltaTable
from tests.spark.frames import files_under

pytestmark = pytest.mark.spark


@pytest.fixture
def delta(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with its own views; its `delta` format is ours."""
    ds.register(spark)
    yield spark.newSession()
    for name in ("items", "other"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    ds.unregister(spark)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows 0 to 9 without 4, in two partitions, with a vector and a renamed column."""
    root = tmp_path_factory.mktemp("made") / "t"
    rows = spark.sql("SELECT id, id % 2 AS p, named_struct('s', string(id)) AS t FROM range(10)")
    properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
    ds.write(rows.coalesce(1), root, partition_by=["p"], configuration=properties)
    ds.delete(spark, root, "id = 4")
    rename_column(root, "t", "T2")
    return root


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    """A copy of that table."""
    return shutil.copytree(made, tmp_path / "A table")


def found(rows: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in rows.collect())


def sql_beside_python(spark: SparkSession, text: str) -> DataFrame:
    """Run SQL as clients do that bypass `spark.sql` of Python, such as a Thrift server."""
    session: Any = spark
    return DataFrame(session._jsparkSession.sql(text), session)


@pytest.mark.full
def test_a_table_is_read_by_a_name(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CREATE TEMPORARY VIEW v USING delta OPTIONS (path '{table}')")
    query = delta.sql("SELECT id, T2.s FROM v WHERE id BETWEEN 3 AND 6 AND p < 2")
    assert found(query) == [(3, "3"), (5, "5"), (6, "6")]
    joined = delta.sql(
        "SELECT a.id, b.p FROM v a JOIN v b ON a.id = b.id + 1 WHERE a.id = (SELECT max(id) FROM v)"
    )
    assert found(joined) == [(9, 0)]
    assert delta.table("v").schema == ds.read(delta, table).schema
    ds.delete(delta, table, "id = 9")
    assert found(query.select("id").where("id > 5")) == [(6,)]
    assert delta.table("v").count() == 8


def test_files_are_left_out(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CREATE TEMPORARY VIEW v USING delta OPTIONS (path '{table}')")
    (removed,) = (
        add.path
        for add in DeltaLog(table).snapshot().add_files()
        if "1" in add.partition_values.values()
    )
    (table / removed).unlink()
    assert delta.sql("SELECT * FROM v WHERE p = 0").count() == 4
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|\.parquet does not exist"):
        delta.sql("SELECT * FROM v").collect()


def test_a_view_has_the_options_of_a_reader(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CREATE TEMPORARY VIEW old USING delta OPTIONS (path '{table}', versionAsOf '0')")
    assert delta.table("old").count() == 10
    with pytest.raises(Exception, match="no option version"):
        delta.sql(f"CREATE TEMPORARY VIEW v USING delta OPTIONS (path '{table}', version '0')")


def test_a_name_of_the_catalog_is_resolved_to_the_path(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    assert delta.table("items").count() == 9
    assert delta.read.option("versionAsOf", 0).table("items").count() == 10
    DeltaTable.forName(delta, "items").delete("items.id < 3")
    assert delta.table("items").count() == 6
    rows = delta.sql("SELECT 20L AS id, 0L AS p, named_struct('s', 'x') AS T2, 1 AS more")
    rows.write.format("delta").mode("append").option("mergeSchema", True).saveAsTable("items")
    assert found(delta.sql("SELECT id, more FROM items WHERE id > 8")) == [(9, None), (20, 1)]
    delta.sql("DROP TABLE items")
    assert DeltaLog(table).snapshot().num_files > 0


def test_save_as_table_makes_a_table_at_its_path(delta: SparkSession, tmp_path: Path) -> None:
    rows = delta.range(3)
    rows.write.format("delta").saveAsTable("items", path=str(tmp_path / "t"))
    assert delta.table("items").count() == DeltaTable.forName(delta, "items").toDF().count() == 3
    with pytest.raises(TableExistsError):
        rows.write.format("delta").saveAsTable("items")
    with pytest.raises(InvalidRequestError, match="leave the option out"):
        rows.write.format("delta").mode("append").saveAsTable("items", path=str(tmp_path / "u"))
    rows.write.format("delta").mode("append").saveAsTable("items")
    assert delta.table("items").count() == 6
    query = delta.readStream.table("items").writeStream
    query = query.format("delta").option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).toTable("items").awaitTermination()
    assert delta.table("items").count() == 12


def test_a_path_in_a_query_is_the_newest_version(delta: SparkSession, table: Path) -> None:
    query = f"SELECT id, T2.s FROM delta.`{table}` WHERE id BETWEEN 3 AND 6 AND p < 2"
    assert found(delta.sql(query)) == [(3, "3"), (5, "5"), (6, "6")]
    assert delta.table(f"delta.`{table}`").schema == ds.read(delta, table).schema
    ds.delete(delta, table, "id = 5")
    assert found(delta.sql(query)) == [(3, "3"), (6, "6")]
    rename_column(table, "T2", "t3")
    renamed = delta.sql(f"SELECT x.t3.s FROM delta.`{table}` x WHERE x.id = 3")
    assert found(renamed) == [("3",)]
    delta.sql(f"CREATE TEMPORARY VIEW v AS SELECT * FROM delta.`file:{table}`")
    ds.delete(delta, table, "id = 3")
    assert delta.sql("SELECT count(*) FROM v").head() == (7,)


@pytest.mark.full
def test_versions_of_a_path_in_one_query(delta: SparkSession, table: Path) -> None:
    *_, first = DeltaLog(table).history()
    moment = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC).strftime("%Y%m%d%H%M%S%f")
    counts = delta.sql(
        f"SELECT (SELECT count(*) FROM delta.`{table}`) AS newest, "
        f"(SELECT count(*) FROM delta.`{table}@v0`) AS first, "
        f"(SELECT count(*) FROM delta.`{table}@v1`) AS second, "
        f"(SELECT count(*) FROM delta.`{table}@{moment[:-3]}`) AS early"
    )
    assert found(counts) == [(9, 10, 9, 10)]
    with pytest.raises(AnalysisException, match="at the end of the path"):
        sql_beside_python(delta, f"SELECT * FROM delta.`{table}` VERSION AS OF 0")
    with pytest.raises(AnalysisException, match="at the end of the path"):
        sql_beside_python(delta, f"SELECT * FROM delta.`{table}` TIMESTAMP AS OF '2026-01-01'")


def test_a_database_of_that_name_keeps_its_tables(spark: SparkSession, tmp_path: Path) -> None:
    # With its catalog, because this session may know our catalog `delta` from an earlier test.
    spark.sql(f"CREATE DATABASE spark_catalog.delta LOCATION '{tmp_path}/d'")
    try:
        ds.register(spark)
        session = spark.newSession()
        session.sql(
            f"CREATE TABLE delta.plain USING parquet LOCATION '{tmp_path}/p' AS SELECT 1 AS a"
        )
        assert found(session.table("delta.plain")) == [(1,)]
        with pytest.raises(AnalysisException, match="not by paths"):
            session.sql(f"SELECT * FROM delta.`{tmp_path}/t`")
    finally:
        ds.unregister(spark)
        spark.conf.unset("spark.sql.catalog.delta")
        spark.sql("DROP DATABASE spark_catalog.delta CASCADE")


REFUSED = [
    "INSERT INTO delta.`{}` SELECT 1, 1, null",
    "INSERT OVERWRITE delta.`{}` SELECT 1, 1, null",
    "INSERT INTO items SELECT * FROM items",
    "INSERT OVERWRITE items SELECT 1, 1, null",
    "INSERT OVERWRITE DIRECTORY '{}' USING delta SELECT 1 AS a",
    "DELETE FROM delta.`{}`",
    "DELETE FROM items WHERE id = 1",
    "UPDATE items SET id = 1",
    "MERGE INTO items USING (SELECT 1 AS n) AS s ON id = n WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE items",
    "ALTER TABLE items ADD COLUMNS (z INT)",
    "ALTER TABLE items DROP COLUMN id",
    "ALTER TABLE items RENAME COLUMN id TO x",
    "ALTER TABLE items REPLACE COLUMNS (z INT)",
    "ALTER TABLE items ALTER COLUMN id TYPE STRING",
    "ALTER TABLE items ADD CONSTRAINT c CHECK (id > 0)",
    "ALTER TABLE items DEFAULT COLLATION UTF8_LCASE",
    "ALTER TABLE items ADD PARTITION (p = 'x')",
    "ALTER TABLE items SET SERDEPROPERTIES ('a' = 'b')",
    "ALTER TABLE items SET LOCATION '{}/none'",
    "ALTER TABLE items SET LOCATION 'none'",
    "ANALYZE TABLE items COMPUTE STATISTICS",
    "ANALYZE TABLE items COMPUTE STATISTICS FOR ALL COLUMNS",
    "ANALYZE TABLE items PARTITION (p) COMPUTE STATISTICS",
    "MSCK REPAIR TABLE items",
    "CREATE TABLE other LIKE items",
    "CREATE TABLE other USING delta LOCATION '{}' TBLPROPERTIES ('a' = 'b')",
    "CREATE TABLE other USING delta CLUSTER BY (id) LOCATION '{}'",
    "CREATE TABLE other USING delta LOCATION '{}' COMMENT 'c'",
    "CREATE TABLE other (id BIGINT) USING delta LOCATION '{}'",
    "CREATE TABLE other (p BIGINT, id BIGINT, T2 STRUCT<s: STRING>) USING delta LOCATION '{}'",
    "CREATE TABLE other (id BIGINT NOT NULL, p BIGINT, T2 STRUCT<s: STRING>) USING delta "
    "LOCATION '{}'",
    "CREATE TABLE other (id BIGINT COMMENT 'c', p BIGINT, T2 STRUCT<s: STRING>) USING delta "
    "LOCATION '{}'",
    "CREATE TABLE other (id BIGINT, p BIGINT, T2 STRUCT<s: STRING>) USING delta "
    "CLUSTERED BY (id) INTO 2 BUCKETS LOCATION '{}'",
    "CREATE TABLE other (a INT) USING delta",
    "CREATE TABLE other (a INT) USING delta LOCATION '{}'",
    "CREATE TEMPORARY VIEW v (id BIGINT) USING delta OPTIONS (path '{}')",
    "CREATE TABLE other USING delta AS SELECT 1 AS a",
    "CREATE TABLE other USING delta LOCATION '{}' AS SELECT 1 AS a",
    "CREATE TABLE delta.`{}/new` (a INT) USING delta",
    "CREATE TABLE IF NOT EXISTS delta.`{}/new` (a INT) USING delta",
    "CREATE OR REPLACE TABLE delta.`{}` (a INT) USING delta",
    "CREATE OR REPLACE TABLE delta.`{}` USING delta AS SELECT 1 AS a",
    "DROP TABLE delta.`{}`",
    "ALTER TABLE delta.`{}` ADD COLUMNS (z INT)",
    "ALTER TABLE delta.`{}` RENAME TO delta.`{}2`",
    "TRUNCATE TABLE delta.`{}`",
    "UPDATE delta.`{}` SET id = 1",
    "MERGE INTO delta.`{}` t USING items s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "SELECT * FROM delta.`{}@v99`",
    "SELECT * FROM delta.`{}/none`",
    "SELECT * FROM delta.none",
]


@pytest.mark.full
def test_unsupported_sql_is_refused_and_changes_nothing(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    before, carried_out = files_under(table), []
    for statement in REFUSED:
        with contextlib.suppress(PySparkException):
            sql_beside_python(delta, statement.format(table, table)).collect()
            carried_out.append(statement)
    assert carried_out == []
    assert files_under(table) == before
    assert not delta.catalog.tableExists("other")
    assert delta.table("items").count() == 9


def test_a_refusal_says_the_way(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    with pytest.raises(PySparkException, match=r"reads Delta tables; run .* write by df\.write"):
        sql_beside_python(delta, "INSERT INTO items SELECT * FROM items").collect()
    with pytest.raises(AnalysisException, match="existing Delta tables"):
        sql_beside_python(delta, "CREATE TABLE other (a INT) USING delta")


def since(version: Version, *values: object) -> ParameterSet:
    """A case with a statement that older versions of Spark do not have."""
    mark = pytest.mark.skipif(version > VERSION, reason="this Spark has no such statement")
    return pytest.param(*values, marks=mark)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("statements", "call"),
    [
        (["SET TBLPROPERTIES ('delta.appendOnly' = 'true')"], "set_properties({}, {{'name': 'v"),
        (["UNSET TBLPROPERTIES IF EXISTS ('a')"], "set_properties({}, {{'name': None}})"),
        since((4, 0), ["CLUSTER BY (id)", "CLUSTER BY NONE"], "cluster_by({}, ['column'])"),
        (
            ["ALTER COLUMN id COMMENT 'c'", "CHANGE COLUMN id id bigint COMMENT 'c'"],
            "set_comment({}, 'column', 'text')",
        ),
        (["ALTER COLUMN id SET DEFAULT 3"], "set_default({}, 'column', 'literal')"),
        (["ADD COLUMNS (z INT)"], "add_columns({}, [NewColumn("),
    ],
    ids=["properties", "no properties", "clustering", "comments", "defaults", "columns"],
)
def test_changes_of_the_catalog_entry_are_refused_with_the_right_call(
    delta: SparkSession, table: Path, statements: list[str], call: str
) -> None:
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    for statement in statements:
        with pytest.raises(AnalysisException) as refused:
            sql_beside_python(delta, f"ALTER TABLE items {statement}")
        reason = str(refused.value).replace(" or delta_ops", "; call delta_ops")
        assert f"call delta_ops.ddl.{call.format(repr(str(table)))}" in reason


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("statement", "way"),
    [
        ("COMMENT ON TABLE items IS 'c'", "call delta_ops.ddl.set_table_comment("),
        since((4, 2), "COMMENT ON COLUMN items.id IS 'c'", "call delta_ops.ddl.set_comment("),
        ("SHOW PARTITIONS items", "read spark.read.format('delta').load("),
        ("SHOW TBLPROPERTIES items", "read DeltaLog("),
        ("SHOW CREATE TABLE items", "read DeltaLog("),
        ("ANALYZE TABLE items COMPUTE STATISTICS", "delta_ops.maintenance.backfill_statistics("),
        ("ALTER TABLE items SET SERDEPROPERTIES ('a' = 'b')", "delta_ops.ddl.set_properties("),
        since((4, 0), "ALTER TABLE items DEFAULT COLLATION UTF8_LCASE", "leave the statement out"),
        ("ALTER TABLE items SET LOCATION '{}/none'", "is not a Delta table"),
        ("CREATE TABLE other (id INT) USING delta LOCATION '{}'", "leave the columns out"),
    ],
)
def test_information_missing_from_the_catalog_is_refused(
    delta: SparkSession, table: Path, statement: str, way: str
) -> None:
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    with pytest.raises(AnalysisException) as refused:
        sql_beside_python(delta, statement.format(table))
    assert way in str(refused.value)
    assert str(table) in str(refused.value)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "statement",
    [
        "SHOW TBLPROPERTIES delta.`{}`",
        "SHOW CREATE TABLE delta.`{}`",
        "ALTER TABLE delta.`{}` SET TBLPROPERTIES ('a' = 'b')",
        "COMMENT ON TABLE delta.`{}` IS 'c'",
    ],
)
def test_a_refusal_names_the_path_of_the_statement(
    delta: SparkSession, table: Path, statement: str
) -> None:
    with pytest.raises(AnalysisException, match=re.escape(f"({str(table)!r}")):
        sql_beside_python(delta, statement.format(table))


def test_a_description_comes_from_the_log(delta: SparkSession, table: Path) -> None:
    set_table_comment(table, "of all")
    set_comment(table, "p", "of p")
    set_properties(table, {"a": "b"})
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    by_name = [tuple(row) for row in delta.sql("DESCRIBE EXTENDED items").collect()]
    assert by_name[:6] == [
        ("id", "bigint", None),
        ("p", "bigint", "of p"),
        ("T2", "struct<s:string>", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("p", "bigint", "of p"),
    ]
    details = {row[0]: row[1] for row in by_name[7:]}
    assert details["Location"] == table.as_uri().replace("%20", " ").replace("///", "/")
    assert (details["Comment"], details["Partition Columns"]) == ("of all", "[`p`]")
    assert "a=b, delta.columnMapping" in details["Table Properties"]
    assert [tuple(row) for row in delta.sql("DESCRIBE items").collect()] == by_name[:6]
    by_path = [tuple(row) for row in delta.sql(f"DESCRIBE EXTENDED delta.`{table}`").collect()]
    assert by_path[:8] == by_name[:8]
    assert ("Comment", "of all", "") in by_path
    first = [tuple(row) for row in delta.sql(f"DESCRIBE delta.`{table}@v0`").collect()]
    assert first[2] == ("t", "struct<s:string>", None)


def test_a_description_names_clustering_columns_as_users_do(
    delta: SparkSession, tmp_path: Path
) -> None:
    named = {"delta.columnMapping.mode": "name"}
    ds.write(delta.sql("SELECT 1 AS a, 2 AS b"), tmp_path / "t", configuration=named)
    cluster_by(tmp_path / "t", ["b"])
    rename_column(tmp_path / "t", "b", "c")
    described = [tuple(row) for row in delta.sql(f"DESCRIBE delta.`{tmp_path}/t`").collect()]
    assert described[2:] == [
        ("# Clustering Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("c", "int", None),
    ]
    detail = DeltaTable.forPath(delta, str(tmp_path / "t")).detail().collect()[0]
    assert detail["clusteringColumns"] == ["c"]


def test_statements_about_other_tables_and_names_stay_sparks(
    delta: SparkSession, table: Path
) -> None:
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    delta.sql("ALTER TABLE items RENAME TO other")
    delta.sql(f"ALTER TABLE other SET LOCATION '{table}'")
    assert delta.table("other").count() == 9
    delta.sql("DROP TABLE other")
    delta.sql("CREATE TABLE other (a INT, b INT) USING parquet PARTITIONED BY (b)")
    delta.sql("ALTER TABLE other SET TBLPROPERTIES ('a' = 'b')")
    delta.sql("ALTER TABLE other ALTER COLUMN a COMMENT 'c'")
    delta.sql("COMMENT ON TABLE other IS 'c'")
    assert delta.sql("SHOW TBLPROPERTIES other ('a')").collect()[0].value == "b"
    assert delta.sql("SHOW PARTITIONS other").count() == 0


@pytest.mark.full
@pytest.mark.parametrize("provider", ["DELTA", "Delta", "dElTa"])
def test_the_provider_is_found_in_any_case(delta: SparkSession, table: Path, provider: str) -> None:
    delta.sql(f"CREATE TABLE items USING {provider} LOCATION '{table}'")
    delta.sql(f"CREATE TEMPORARY VIEW v USING {provider} OPTIONS (path '{table}')")
    assert delta.table("items").count() == delta.table("v").count() == 9
    with pytest.raises(AnalysisException, match=r"call delta_ops\.ddl\.set_properties"):
        sql_beside_python(delta, "ALTER TABLE items SET TBLPROPERTIES ('a' = 'b')")


def test_a_path_is_described_with_its_columns(delta: SparkSession, table: Path) -> None:
    described = delta.sql(f"DESCRIBE TABLE delta.`{table}`").collect()
    types = [(row.col_name, row.data_type) for row in described[:3]]
    assert types == [("id", "bigint"), ("p", "bigint"), ("T2", "struct<s:string>")]
    add_columns(table, [NewColumn(name="late", data_type="int")])
    assert delta.sql(f"DESCRIBE TABLE delta.`{table}`").collect()[3].col_name == "late"


def test_columns_that_changed_meanwhile_are_refused(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CREATE TEMPORARY VIEW v USING delta OPTIONS (path '{table}')")
    query = delta.sql("SELECT T2.s FROM v")
    rename_column(table, "T2", "t3")
    with pytest.raises(Exception, match="run the query again"):
        query.select("s").collect()


@pytest.mark.full
def test_a_new_query_has_the_columns_of_another_writer(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    assert delta.table("items").count() == 9
    add_columns(table, [NewColumn(name="late", data_type="int")])
    assert found(delta.sql("SELECT late FROM items WHERE id = 9")) == [(None,)]
    delta.sql("DROP TABLE items")


def test_nothing_is_read_after_the_format_is_restored(delta: SparkSession, table: Path) -> None:
    assert delta.sql(f"SELECT * FROM delta.`{table}`").count() == 9
    ds.unregister(delta)
    with pytest.raises(AnalysisException, match="is not registered"):
        delta.sql(f"SELECT * FROM delta.`{table}`")


@pytest.mark.full
def test_a_path_is_read_after_another_registration(delta: SparkSession, table: Path) -> None:
    for _ in range(2):
        ds.unregister(delta)
        ds.register(delta)
        assert delta.sql(f"SELECT * FROM delta.`{table}`").count() == 9
