"""Rows that Spark keeps in memory for SQL: never older than the table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.ddl import NewColumn, add_columns, drop_table, rename_column
from delta_ops.maintenance import optimize
from delta_ops.tables import DeltaTable

pytestmark = pytest.mark.spark

VIEW = "CREATE TEMPORARY VIEW v USING delta OPTIONS (path '{}')"


@pytest.fixture
def delta(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose `delta` format is ours; nothing is cached."""
    ds.register(spark)
    yield spark.newSession()
    spark.catalog.clearCache()
    spark.sql("DROP TABLE IF EXISTS items")
    ds.unregister(spark)


@pytest.fixture
def table(delta: SparkSession, tmp_path: Path) -> Path:
    """The table `items`, with the ids 0 to 4 in one file."""
    root = tmp_path / "A table"
    da.write(root, pa.table({"id": range(5), "p": [0, 1, 0, 1, 0]}))
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{root}'")
    return root


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.collect())


def remove_files(table: Path) -> None:
    """Remove the data files, so that rows can come from memory only."""
    for add in DeltaLog(table).snapshot().add_files():
        (table / add.path).unlink()


def append(table: Path, number: int) -> None:
    da.write(table, pa.table({"id": [number], "p": [number % 2]}))


STATEMENTS = {
    "a name": ("items", ["CACHE TABLE items"]),
    "a name, when it is read": ("items", ["CACHE LAZY TABLE items"]),
    "a path": ("delta.`{}`", ["CACHE TABLE delta.`{}`"]),
    "a view of a path": ("v", [VIEW, "CACHE TABLE v"]),
    "a view of a query": (
        "v",
        ["CREATE TEMPORARY VIEW v AS SELECT id, p + 1 AS q FROM items", "CACHE TABLE v"],
    ),
    "a query": ("v", ["CACHE TABLE v AS SELECT id FROM items WHERE p >= 0"]),
    "a query with the table twice": (
        "v",
        ["CACHE TABLE v AS SELECT id FROM items WHERE id <= (SELECT max(id) FROM delta.`{}`)"],
    ),
    "a view of a cached table": (
        "v",
        ["CACHE TABLE items", "CACHE TABLE v AS SELECT id, count(*) FROM items GROUP BY id"],
    ),
}
IN_MAKE_TEST = ("a name", "a view of a query", "a query with the table twice")
WRITERS: dict[str, Callable[[SparkSession, Path], object]] = {
    "the Arrow engine": lambda _, table: append(table, 9),
    "the Spark engine": lambda spark, table: ds.write(spark.sql("SELECT 9L AS id, 1L AS p"), table),
    "SQL by the path": lambda spark, table: spark.sql(f"INSERT INTO delta.`{table}` VALUES (9, 1)"),
    "SQL by the name": lambda spark, _: spark.sql("INSERT INTO items VALUES (9, 1)"),
    "another program": lambda _, table: write_deltalake(
        table, pa.table({"id": [9], "p": [1]}), mode="append"
    ),
}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "cached",
    [
        pytest.param(each, marks=() if each in IN_MAKE_TEST else pytest.mark.full)
        for each in STATEMENTS
    ],
)
def test_cached_rows_come_from_memory_until_the_table_changes(
    delta: SparkSession, table: Path, cached: str
) -> None:
    name, statements = STATEMENTS[cached]
    for statement in statements:
        delta.sql(statement.format(table))
    query = f"SELECT id FROM {name} WHERE id <> 2".format(table)
    assert ids(delta.sql(query)) == [0, 1, 3, 4]
    remove_files(table)
    assert ids(delta.sql(query)) == [0, 1, 3, 4]
    da.write(table, pa.table({"id": [7], "p": [1]}), "overwrite")
    assert ids(delta.sql(query)) == [7]
    remove_files(table)
    assert ids(delta.sql(query)) == [7]


@pytest.mark.full
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("cached", STATEMENTS)
def test_a_commit_is_seen_whoever_makes_it(
    delta: SparkSession, table: Path, cached: str, writer: str
) -> None:
    name, statements = STATEMENTS[cached]
    for statement in statements:
        delta.sql(statement.format(table))
    read = f"SELECT id FROM {name}".format(table)
    assert ids(delta.sql(read)) == [0, 1, 2, 3, 4]
    WRITERS[writer](delta, table)
    assert ids(delta.sql(read)) == [0, 1, 2, 3, 4, 9]
    DeltaTable.forPath(delta, str(table)).delete("id < 3")
    optimize(table)
    assert ids(delta.sql(read)) == [3, 4, 9]


@pytest.mark.full
def test_a_cached_frame_of_a_name_is_computed_again(delta: SparkSession, table: Path) -> None:
    delta.catalog.cacheTable("items")
    frame = delta.table("items").where("id > 2").cache()
    pinned = ds.read(delta, table).cache()
    assert ids(frame) == [3, 4]
    assert pinned.count() == 5
    append(table, 9)
    assert ids(frame.select("id")) == [3, 4, 9]
    assert ids(delta.table("items").where("id > 2")) == [3, 4, 9]
    assert pinned.count() == 5
    assert delta.catalog.isCached("items")


@pytest.mark.full
def test_a_table_stays_cached_until_its_name_is_uncached(delta: SparkSession, table: Path) -> None:
    delta.sql("CACHE TABLE items")
    append(table, 9)
    assert delta.table("items").count() == 6
    assert delta.catalog.isCached("items")
    delta.sql("UNCACHE TABLE items")
    assert not delta.catalog.isCached("items")
    remove_files(table)
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        delta.table("items").collect()


@pytest.mark.full
def test_new_columns_of_a_cached_table_are_read(delta: SparkSession, table: Path) -> None:
    delta.sql("CACHE TABLE items")
    assert delta.table("items").count() == 5
    add_columns(table, [NewColumn(name="late", data_type="int")])
    assert delta.sql("SELECT late FROM items WHERE id = 3").head() == (None,)
    assert delta.sql("SELECT * FROM items").columns == ["id", "p", "late"]


@pytest.mark.full
def test_columns_of_a_cached_view_that_are_gone_are_refused(
    delta: SparkSession, table: Path
) -> None:
    DeltaTable.forPath(delta, str(table)).upgradeTableProtocol(2, 5)
    delta.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.columnMapping.mode'='name')")
    delta.sql(VIEW.format(table))
    delta.sql("CACHE TABLE v")
    rename_column(table, "p", "q")
    with pytest.raises(Exception, match="run the query again"):
        delta.sql("SELECT p FROM v").collect()


@pytest.mark.full
def test_a_table_made_anew_is_another_table(delta: SparkSession, table: Path) -> None:
    delta.sql(VIEW.format(table))
    delta.sql("CACHE TABLE v")
    delta.sql("CACHE TABLE items")
    drop_table(table, table.name)
    da.write(table, pa.table({"id": [7], "p": [1]}))
    assert ids(delta.table("v")) == ids(delta.table("items")) == [7]


@pytest.mark.full
def test_a_version_stays_cached(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CACHE TABLE delta.`{table}@v0`")
    query = f"SELECT id FROM delta.`{table}@v0`"
    append(table, 9)
    remove_files(table)
    assert ids(delta.sql(query)) == [0, 1, 2, 3, 4]


@pytest.mark.full
def test_changes_are_read_up_to_the_newest_version(delta: SparkSession, tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    da.write(tmp_path / "t", pa.table({"id": [1]}), configuration=feed)
    delta.sql(
        f"CREATE TEMPORARY VIEW v USING delta OPTIONS (path '{tmp_path}/t', "
        "readChangeFeed 'true', startingVersion '0')"
    )
    delta.sql("CACHE TABLE v")
    da.write(tmp_path / "t", pa.table({"id": [2]}))
    assert ids(delta.table("v")) == [1, 2]


@pytest.mark.full
def test_a_time_means_the_zone_of_each_session(delta: SparkSession, table: Path) -> None:
    append(table, 9)
    append(table, 10)
    now = datetime.now(UTC)
    for version, hours in ((0, 6), (1, 2)):
        seconds = (now - timedelta(hours=hours)).timestamp()
        os.utime(table / "_delta_log" / f"{version:020}.json", (seconds, seconds))
    moment = now - timedelta(hours=4)
    place = f"delta.`{table}@{moment:%Y%m%d%H%M%S000}`"
    counts = []
    for zone in ("+01:00", "-03:00"):
        session = delta.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        session.sql(f"CACHE TABLE {place}")
        counts.append(session.table(place).count())
    assert counts == [5, 6]


def test_rows_of_other_formats_stay_sparks(delta: SparkSession, tmp_path: Path) -> None:
    delta.range(3).write.parquet(str(tmp_path / "p"))
    delta.read.parquet(str(tmp_path / "p")).createOrReplaceTempView("v")
    delta.sql("CACHE TABLE v")
    assert delta.sql("SELECT count(*) FROM v WHERE id > 0").head() == (2,)
