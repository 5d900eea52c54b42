"""Tables by name in Spark's catalog: created, written, changed and dropped without a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.ddl import NewColumn, add_columns, rename_column
from delta_ops.errors import DeltaOpsError, InvalidRequestError, TableExistsError
from delta_ops.tables import DeltaTable
from delta_ops.tables.table_builder import IdentityGenerator

pytestmark = pytest.mark.spark
FULL = pytest.mark.full


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session with a database of its own, whose tables are below `tmp_path / "shop"`."""
    ds.register(spark)
    session = spark.newSession()
    session.sql(f"CREATE DATABASE shop LOCATION '{tmp_path}/shop'")
    session.sql("USE shop")
    yield session
    spark.sql("DROP DATABASE IF EXISTS shop CASCADE")
    ds.unregister(spark)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the catalog puts the table `t`."""
    return tmp_path / "shop" / "t"


def found(rows: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in rows.collect())


def test_a_managed_table_lives_and_ends_with_its_name(delta: SparkSession, place: Path) -> None:
    delta.sql("CREATE TABLE t (id BIGINT NOT NULL, p STRING) USING delta PARTITIONED BY (p)")
    delta.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    delta.sql("UPDATE shop.t SET id = 3 WHERE id = 1")
    delta.sql("ALTER TABLE t ADD COLUMN late INT")
    assert found(delta.table("t")) == [(2, "b", None), (3, "a", None)]
    assert DeltaLog(place).snapshot().partition_columns == ("p",)
    assert delta.catalog.getTable("t").tableType == "MANAGED"
    assert [each.name for each in delta.catalog.listColumns("t")] == ["id", "p", "late"]
    with pytest.raises(AnalysisException, match="already a table"):
        delta.sql("CREATE TABLE t (id INT) USING delta")
    delta.sql("CREATE TABLE IF NOT EXISTS t (id INT) USING delta")
    assert delta.table("t").count() == 2
    delta.sql("DROP TABLE t")
    assert not place.exists()
    delta.sql("CREATE TABLE t (other INT) USING delta")
    assert found(delta.table("t")) == []


@FULL
def test_a_table_of_a_query_is_replaced_in_one_commit(delta: SparkSession, place: Path) -> None:
    delta.sql("CREATE TABLE t USING delta AS SELECT id FROM range(3)")
    delta.sql(
        "CREATE OR REPLACE TABLE t USING delta PARTITIONED BY (p) COMMENT 'c' "
        "TBLPROPERTIES ('a' = 'b') AS SELECT id + 10 AS n, 'x' AS p FROM t"
    )
    assert found(delta.table("t")) == [(10, "x"), (11, "x"), (12, "x")]
    snapshot = DeltaLog(place).snapshot()
    assert (snapshot.version, snapshot.partition_columns) == (1, ("p",))
    assert (snapshot.metadata.description, snapshot.metadata.configuration) == ("c", {"a": "b"})
    history = delta.sql("DESCRIBE HISTORY t").select("operation").collect()
    assert [row[0] for row in history] == [
        "CREATE OR REPLACE TABLE AS SELECT",
        "CREATE TABLE AS SELECT",
    ]
    assert delta.sql("SELECT * FROM t VERSION AS OF 0").count() == 3
    delta.sql("REPLACE TABLE t USING delta AS SELECT 'y' AS only")
    assert found(delta.table("t")) == [("y",)]
    with pytest.raises(AnalysisException, match="Create the table first"):
        delta.sql("REPLACE TABLE nothing USING delta AS SELECT 1 AS a")
    with pytest.raises(PySparkException):
        delta.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT 1 / 0 AS a, no_such FROM t")
    assert found(delta.table("t")) == [("y",)]


def test_writers_create_and_write_tables_by_name(delta: SparkSession, place: Path) -> None:
    rows = delta.sql("SELECT 1L AS id, 'a' AS p")
    rows.write.format("delta").saveAsTable("t")
    with pytest.raises(TableExistsError):
        rows.write.format("delta").saveAsTable("t")
    rows.write.mode("append").saveAsTable("t")
    delta.sql("SELECT 2L AS p, 'b' AS id").write.insertInto("t")  # by position
    assert found(delta.table("t")) == [(1, "a"), (1, "a"), (2, "b")]
    rows.write.insertInto("t", overwrite=True)
    assert found(delta.table("t")) == [(1, "a")]
    assert DeltaTable.forName(delta, "shop.t").toDF().count() == 1
    assert DeltaLog(place).snapshot().version == 3


@FULL
def test_the_second_writer_of_spark_knows_names(delta: SparkSession, place: Path) -> None:
    rows = delta.sql("SELECT 1L AS id, 'a' AS p")
    writer = rows.writeTo("t").using("delta").partitionedBy(sf.col("p"))
    writer.tableProperty("k", "v").create()
    snapshot = DeltaLog(place).snapshot()
    assert snapshot.partition_columns == ("p",)
    assert snapshot.metadata.configuration == {"k": "v"}
    rows.writeTo("t").append()
    delta.sql("SELECT 'b' AS p, 2L AS id").writeTo("t").append()  # by name
    delta.sql("SELECT 3L AS id, 'b' AS p").writeTo("t").overwrite(sf.col("p") == "b")
    assert found(delta.table("t")) == [(1, "a"), (1, "a"), (3, "b")]
    delta.sql("SELECT 4L AS id, 'a' AS p").writeTo("t").overwritePartitions()
    assert found(delta.table("t")) == [(3, "b"), (4, "a")]
    rows.select("id").writeTo("t").using("delta").createOrReplace()
    assert found(delta.table("t")) == [(1,)]
    rows.writeTo("t").using("delta").replace()
    assert found(delta.table("t")) == [(1, "a")]
    path = f"delta.`{place}2`"
    rows.writeTo(path).using("delta").create()
    rows.writeTo(path).append()
    assert da.count_rows(f"{place}2") == 2


@FULL
@pytest.mark.filterwarnings("ignore:Deprecated in 4.0.0")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rows: rows.writeTo("t").using("delta").create(), "already a table"),
        (lambda rows: rows.writeTo("u").using("delta").replace(), "Create the table first"),
        (lambda rows: rows.writeTo("t").createOrReplace(), 'add using."delta"'),
        (
            lambda rows: rows.writeTo("u").using("delta").partitionedBy(sf.years("id")).create(),
            "takes columns only",
        ),
        (
            lambda rows: rows.writeTo("u").using("delta").option("mergeSchema", True).create(),
            "does not take the option mergeSchema",
        ),
        (lambda rows: rows.writeTo("t").overwrite(sf.rand() > 1), "compares columns with values"),
        (lambda rows: rows.write.mode("overwrite").saveAsTable("t"), 'add format."delta"'),
        (lambda rows: rows.write.partitionBy("id").insertInto("t"), "leave partitionBy out"),
        (lambda rows: rows.write.format("delta").insertInto("u"), "no Delta table of this name"),
        (lambda rows: rows.select("id", "id").write.insertInto("t"), "2 columns"),
        (lambda rows: rows.write.format("delta").saveAsTable("plain"), "another kind of table"),
    ],
)
def test_a_refused_write_changes_nothing(
    delta: SparkSession, place: Path, call: Callable[[DataFrame], object], message: str
) -> None:
    delta.sql("CREATE TABLE plain (a INT) USING parquet")
    rows = delta.range(1)
    rows.write.format("delta").saveAsTable("t")
    with pytest.raises((DeltaOpsError, PySparkException), match=message):
        call(rows)
    assert DeltaLog(place).snapshot().version == 0
    assert found(delta.table("t")) == [(0,)]
    assert not delta.catalog.tableExists("u")


@FULL
def test_a_name_is_given_to_an_existing_table_if_the_statement_agrees(
    delta: SparkSession, tmp_path: Path
) -> None:
    rows = delta.sql("SELECT 1L AS id, 'a' AS p")
    ds.write(
        rows,
        tmp_path / "x",
        partition_by=["p"],
        configuration={"a": "b", "delta.appendOnly": "true"},
    )
    place = f"USING delta LOCATION '{tmp_path}/x'"
    for clauses in (
        f"(id INT, p STRING) {place}",
        f"{place} PARTITIONED BY (id)",
        f"{place} CLUSTER BY (id)",
        f"{place} TBLPROPERTIES ('a' = 'c')",
        f"{place} TBLPROPERTIES ('A' = 'b')",
        f"{place} COMMENT 'c'",
        f"{place} AS SELECT 1 AS a",
    ):
        with pytest.raises(PySparkException):
            delta.sql(f"CREATE TABLE named {clauses}")
        assert not delta.catalog.tableExists("named")
    delta.sql(
        f"CREATE TABLE named (id BIGINT, p STRING) {place} PARTITIONED BY (p) "
        "TBLPROPERTIES ('a' = 'b', 'DELTA.APPENDONLY' = 'true')"
    )
    assert found(delta.table("named")) == [(1, "a")]
    assert delta.catalog.getTable("named").tableType == "EXTERNAL"
    delta.sql("DROP TABLE named")
    assert DeltaLog(tmp_path / "x").snapshot().version == 0


@FULL
def test_the_statement_of_a_managed_table_has_no_location(delta: SparkSession) -> None:
    delta.sql("CREATE TABLE t (a INT) USING delta")
    (statement,) = delta.sql("SHOW CREATE TABLE t").first() or ("",)
    assert "LOCATION" not in statement
    delta.sql("DROP TABLE t")
    delta.sql(statement)
    assert delta.catalog.getTable("t").tableType == "MANAGED"


@FULL
def test_a_stream_creates_no_table_with_a_constraint_on_an_unknown_column(
    delta: SparkSession, place: Path, tmp_path: Path
) -> None:
    rows = delta.readStream.format("rate").load()
    writer = rows.writeStream.option("delta.constraints.positive", "price > 0")
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).format("delta")
    with pytest.raises(InvalidRequestError, match="names the column price, which does not exist"):
        writer.toTable("t")
    assert not delta.catalog.tableExists("t")
    assert not place.exists()


@FULL
def test_a_new_name_never_takes_over_files(delta: SparkSession, place: Path) -> None:
    place.mkdir(parents=True)
    (place / "precious.csv").write_text("a,b")
    for statement in (
        "CREATE TABLE t (a INT) USING delta",
        "CREATE OR REPLACE TABLE t USING delta AS SELECT 1 AS a",
        f"CREATE TABLE u (a INT) USING delta LOCATION '{place}'",
    ):
        with pytest.raises(AnalysisException, match="is not empty"):
            delta.sql(statement)
    with pytest.raises(InvalidRequestError, match="is not empty"):
        delta.range(1).write.format("delta").saveAsTable("t")
    assert [each.name for each in place.iterdir()] == ["precious.csv"]
    (place / "precious.csv").unlink()
    da.write(place, pa.table({"a": [1]}))
    with pytest.raises(AnalysisException, match="already a Delta table at"):
        delta.sql("CREATE TABLE t (a BIGINT) USING delta")
    delta.range(1).write.format("delta").mode("overwrite").saveAsTable("t")
    assert (found(delta.table("t")), da.count_rows(place, version=0)) == ([(0,)], 1)


@FULL
def test_columns_of_the_log_are_read_whatever_the_entry_says(
    delta: SparkSession, place: Path
) -> None:
    delta.sql(
        "CREATE TABLE t (id BIGINT, name STRING) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    delta.sql("INSERT INTO t VALUES (1, 'a')")
    rename_column(place, "name", "label")  # by another writer
    add_columns(place, [NewColumn(name="late", data_type="int")])
    other = delta.newSession()
    assert other.sql("SELECT label, late FROM shop.t").collect() == [("a", None)]
    assert [row[0] for row in other.sql("SHOW COLUMNS IN shop.t").collect()] == [
        "id",
        "label",
        "late",
    ]
    delta.sql("ALTER TABLE t DROP COLUMN late")
    delta.sql("ALTER TABLE t RENAME COLUMN label TO name")
    assert delta.sql("SELECT id, name FROM t").collect() == [(1, "a")]
    assert [each.name for each in delta.catalog.listColumns("t")] == ["id", "name"]
    delta.sql("ALTER TABLE t RENAME TO renamed")
    delta.sql("DELETE FROM renamed WHERE id = 1")
    assert delta.table("renamed").count() == 0


@FULL
def test_a_table_like_another_has_its_definition_and_no_rows(
    delta: SparkSession, place: Path
) -> None:
    delta.sql(
        "CREATE TABLE u (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 5), "
        "p STRING COMMENT 'c', n INT DEFAULT 7) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.feature.allowColumnDefaults' = 'supported', 'delta.columnMapping.mode' = 'name')"
    )
    delta.sql("INSERT INTO u (p) VALUES ('x'), ('y')")
    delta.sql("CREATE TABLE t LIKE u TBLPROPERTIES ('a' = 'b')")
    delta.sql("CREATE TABLE IF NOT EXISTS t LIKE u")
    assert delta.table("t").count() == 0
    snapshot = DeltaLog(place).snapshot()
    assert snapshot.partition_columns == ("p",)
    assert snapshot.metadata.configuration["a"] == "b"
    delta.sql("INSERT INTO t (p) VALUES ('z')")
    assert found(delta.table("t")) == [(5, "z", 7)]
    with pytest.raises(AnalysisException, match="leave USING out"):
        delta.sql("CREATE TABLE plain LIKE u USING parquet")
    assert not delta.catalog.tableExists("plain")


@FULL
def test_builders_create_tables_by_name(delta: SparkSession, place: Path) -> None:
    builder = DeltaTable.create(delta).tableName("t").addColumn("id", "long")
    builder.addColumn("n", "long", generatedAlwaysAs=IdentityGenerator()).execute()
    delta.sql("INSERT INTO t (id) VALUES (4)")
    assert found(delta.table("t")) == [(4, 1)]
    with pytest.raises(AnalysisException, match="already a table"):
        DeltaTable.create(delta).tableName("shop.t").addColumn("id", "long").execute()
    DeltaTable.createIfNotExists(delta).tableName("t").addColumn("x", "int").execute()
    DeltaTable.replace(delta).tableName("t").addColumn("x", "int").execute()
    assert delta.table("t").columns == ["x"]
    DeltaTable.create(delta).tableName("e").location(f"{place}-e").addColumn("x", "int").execute()
    assert DeltaLog(f"{place}-e").exists()
    with pytest.raises(AnalysisException, match="one location"):
        DeltaTable.createOrReplace(delta).tableName("e").location("/elsewhere").execute()


@FULL
def test_a_stream_creates_its_table(delta: SparkSession, tmp_path: Path) -> None:
    delta.range(4).write.format("delta").saveAsTable("source")
    stream = delta.readStream.table("source").writeStream.format("delta")
    stream = stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query: Any = stream.toTable("t")
    query.awaitTermination()
    assert found(delta.table("t")) == [(0,), (1,), (2,), (3,)]


@FULL
def test_one_of_two_sessions_creates_a_name(delta: SparkSession) -> None:
    delta.sql("CREATE TABLE t (a INT) USING delta")
    with pytest.raises(AnalysisException, match="already a table"):
        delta.newSession().sql("CREATE TABLE shop.t (a INT) USING delta")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        delta.sql("CREATE TABLE no_such.t (a INT) USING delta")


@FULL
@pytest.mark.parametrize(
    "name", ["a b", "it's", "x;y", "--", "/*", "é", "`", "a`; DROP TABLE t; --"]
)
def test_a_name_never_changes_the_statement(delta: SparkSession, tmp_path: Path, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    mapping = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    delta.sql(f"CREATE TABLE t (a INT) USING delta {mapping}")
    with pytest.raises(AnalysisException, match="INVALID_SCHEMA_OR_RELATION_NAME"):
        delta.sql(f"CREATE TABLE {quoted} (a INT) USING delta")  # as for other tables of Spark
    assert sorted(each.name for each in (tmp_path / "shop").iterdir()) == ["t"]
    delta.sql(
        f"ALTER TABLE t ADD COLUMN {quoted} INT COMMENT '{quoted[1:-1]}'".replace("it's", "x")
    )
    assert len(delta.table("t").columns) == 2


def test_a_stream_that_is_refused_creates_no_table(delta: SparkSession, place: Path) -> None:
    writer = delta.readStream.format("rate").load().writeStream.format("delta")
    with pytest.raises(InvalidRequestError, match="needs a checkpoint location"):
        writer.toTable("t")
    assert not delta.catalog.tableExists("t")
    assert not place.exists()
