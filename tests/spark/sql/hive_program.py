"""Tables by name in a Hive metastore; a process of its own, because the catalog is chosen at start.

    python -m tests.spark.sql.hive_program FOLDER

The metastore and the warehouse are in the folder. Prints JSON with the outcome of each claim: an
empty text, or the error.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.tables import DeltaTable

KEPT = "kept"
"""The table that the first process leaves behind."""


def main(folder: Path) -> None:
    """Check each claim in one session."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config(
            "spark.hadoop.javax.jdo.option.ConnectionURL",
            f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
        )
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder}")
        .enableHiveSupport()
        .getOrCreate()
    )
    ds.register(spark)
    outcomes = {}
    if spark.catalog.tableExists(KEPT):
        claims = {"names outlive the application": find_kept_table}
    else:
        claims = dict(CLAIMS)
    for name, check in claims.items():
        try:
            check(spark, folder)
            outcomes[name] = ""
        except Exception:
            outcomes[name] = traceback.format_exc()
    ds.unregister(spark)
    spark.stop()
    print(json.dumps(outcomes))


def rows_of(rows: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in rows.collect())


def save_and_insert(spark: SparkSession, folder: Path) -> None:
    rows = spark.sql("SELECT 1L AS id, 'NL' AS Country, named_struct('A', 1) AS s")
    rows.write.format("delta").partitionBy("Country").saveAsTable("saved")
    rows.write.format("delta").mode("append").saveAsTable("saved")
    spark.sql("SELECT 2L, 'BE', named_struct('A', 2)").write.insertInto("saved")
    assert spark.table("saved").columns == ["id", "Country", "s"]
    assert spark.sql("SELECT s.A, Country FROM saved WHERE id = 2").collect() == [(2, "BE")]
    assert spark.table("saved").count() == 3
    assert DeltaLog(folder / "warehouse" / "saved").snapshot().partition_columns == ("Country",)
    rows.write.format("delta").mode("overwrite").saveAsTable("saved")
    assert DeltaTable.forName(spark, "saved").toDF().count() == 1


def write_to(spark: SparkSession, folder: Path) -> None:
    spark.range(3).writeTo("wt").using("delta").create()
    spark.range(3, 5).writeTo("wt").append()
    spark.range(1, 2).writeTo("wt").overwrite(sf.col("id") < 2)
    assert rows_of(spark.table("wt")) == [(1,), (2,), (3,), (4,)]
    spark.range(1).writeTo("wt").using("delta").createOrReplace()
    assert rows_of(spark.table("wt")) == [(0,)]


def create_and_change(spark: SparkSession, folder: Path) -> None:
    spark.sql(
        "CREATE TABLE made (id BIGINT COMMENT 'key', n INT) USING delta TBLPROPERTIES ('a' = 'b')"
    )
    spark.sql("INSERT INTO made VALUES (1, 2), (3, 4)")
    spark.sql("UPDATE made SET n = n + 1 WHERE id = 1")
    spark.sql(
        "MERGE INTO made USING (SELECT 5L AS id) s ON made.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    spark.sql("ALTER TABLE made ADD COLUMN late STRING")
    assert rows_of(spark.sql("SELECT * FROM made WHERE id < 5")) == [(1, 3, None), (3, 4, None)]
    assert spark.sql("SHOW TBLPROPERTIES made ('a')").collect()[0]["value"] == "b"
    assert [each.name for each in spark.catalog.listColumns("made")] == ["id", "n", "late"]
    assert spark.sql("DESCRIBE HISTORY made").count() == 5


def rename_and_drop(spark: SparkSession, folder: Path) -> None:
    warehouse = folder / "warehouse"
    spark.sql("CREATE TABLE before USING delta AS SELECT 1 AS a")
    spark.sql("ALTER TABLE before RENAME TO after")
    assert not spark.catalog.tableExists("before")
    spark.sql("INSERT INTO after VALUES (2)")
    assert rows_of(spark.table("after")) == [(1,), (2,)]
    assert DeltaLog(warehouse / "after").exists()
    assert not (warehouse / "before").exists()
    spark.sql("DROP TABLE after")
    assert not (warehouse / "after").exists()
    spark.range(2).write.format("delta").save(str(folder / "outside"))
    spark.sql(f"CREATE TABLE outside USING delta LOCATION '{folder}/outside'")
    assert spark.table("outside").count() == 2
    spark.sql("DROP TABLE outside")
    assert DeltaLog(folder / "outside").exists()


def use_databases(spark: SparkSession, folder: Path) -> None:
    spark.sql(f"CREATE DATABASE shop LOCATION '{folder}/a shop'")
    spark.range(4).write.format("delta").saveAsTable("shop.t")
    assert DeltaLog(folder / "a shop" / "t").exists()
    spark.sql("DELETE FROM spark_catalog.shop.t WHERE id = 0")
    spark.sql("CREATE TABLE shop.u USING delta LOCATION 'below' AS SELECT 1 AS a")
    assert DeltaLog(folder / "a shop" / "below").exists()
    assert spark.sql("SELECT count(*) FROM shop.t JOIN shop.u ON id = a").collect() == [(1,)]
    spark.sql("DROP DATABASE shop CASCADE")
    assert not (folder / "a shop" / "t").exists()


def use_two_sessions(spark: SparkSession, folder: Path) -> None:
    other = spark.newSession()
    spark.sql("CREATE TABLE both USING delta AS SELECT 1 AS a")
    assert rows_of(other.table("both")) == [(1,)]
    spark.sql("INSERT INTO both VALUES (2)")
    spark.sql("ALTER TABLE both ADD COLUMN b INT")
    assert rows_of(other.table("both")) == [(1, None), (2, None)]
    other.sql("INSERT INTO both VALUES (3, 4)")
    assert spark.table("both").count() == 3
    with pytest.raises(AnalysisException, match="already"):
        other.sql("CREATE TABLE both (a INT) USING delta")
    other.sql("DROP TABLE both")
    assert not spark.catalog.tableExists("both")


def stay_apart_from_hive_tables(spark: SparkSession, folder: Path) -> None:
    spark.sql("CREATE TABLE of_hive (a INT) STORED AS PARQUET")
    spark.sql("INSERT INTO of_hive VALUES (1)")
    spark.sql("ALTER TABLE of_hive SET TBLPROPERTIES ('x' = 'y')")
    assert rows_of(spark.table("of_hive")) == [(1,)]
    with pytest.raises(AnalysisException):
        spark.sql("OPTIMIZE of_hive")
    spark.sql("CREATE TABLE copied USING delta AS SELECT * FROM of_hive")
    assert rows_of(spark.table("copied")) == [(1,)]


def stream_by_name(spark: SparkSession, folder: Path) -> None:
    spark.range(3).write.format("delta").saveAsTable("source")
    query = (
        spark.readStream.table("source")
        .writeStream.format("delta")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .toTable("sink")
    )
    query.awaitTermination()
    assert rows_of(spark.table("sink")) == [(0,), (1,), (2,)]


def leave_a_table(spark: SparkSession, folder: Path) -> None:
    spark.range(7).write.format("delta").saveAsTable(KEPT)


def find_kept_table(spark: SparkSession, folder: Path) -> None:
    assert spark.table(KEPT).count() == 7
    spark.sql(f"DELETE FROM {KEPT} WHERE id > 2")
    assert DeltaTable.forName(spark, KEPT).toDF().count() == 3


CLAIMS: dict[str, Callable[[SparkSession, Path], None]] = {
    "saveAsTable and insertInto": save_and_insert,
    "writeTo": write_to,
    "statements": create_and_change,
    "renames and drops": rename_and_drop,
    "databases with locations": use_databases,
    "two sessions": use_two_sessions,
    "tables of Hive": stay_apart_from_hive_tables,
    "streams": stream_by_name,
    "a table for the next application": leave_a_table,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
