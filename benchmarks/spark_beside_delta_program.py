"""One side of `spark_beside_delta`: a session that runs and times each requested case.

    python spark_beside_delta_program.py SIDE JARS FOLDER ROWS

SIDE is "delta_ops" or "delta". A line of input is the name of a case, a line of output its seconds.
Runs on PySpark alone when the side is "delta".
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

DAYS = 30


def main(side: str, jars: str, folder: str, rows: int) -> None:
    """Answer each line of the input, in order, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = session(side, jars)
    source = spark.range(0, rows, 1, 4).selectExpr(
        "id",
        "rand(1) AS x",
        "concat('text ', id % 1000) AS s",
        f"date_add(date'2026-01-01', cast(id % {DAYS} AS int)) AS day",
    )
    source = source.cache()
    source.count()
    cases = cases_of(spark, side, source, folder, rows)
    for line in sys.stdin:
        started = time.monotonic()
        cases[line.strip()]()
        answers.write(f"{time.monotonic() - started}\n")
        answers.flush()


def session(side: str, jars: str) -> SparkSession:
    """A session with the same cores and memory for both sides."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
    )
    if side == "delta":
        extension = "io.delta.sql.DeltaSparkSessionExtension"
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        builder = (
            builder.config("spark.jars", jars)
            .config("spark.sql.extensions", extension)
            .config("spark.sql.catalog.spark_catalog", catalog)
            .config("spark.databricks.delta.snapshotPartitions", "2")
        )
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def cases_of(
    spark: SparkSession, side: str, source: DataFrame, folder: str, rows: int
) -> dict[str, Callable[[], object]]:
    """The calls of each case; both sides read the tables that this side wrote."""
    write, read, read_where, read_kept = (_delta if side == "delta" else _delta_ops)(spark)
    flat, by_day, many = f"{folder}/{side}-flat", f"{folder}/{side}-by_day", f"{folder}/many"
    total = "sum(id), sum(x), max(s), max(day)"
    return {
        "make, one directory": lambda: write(source.limit(0), flat, [], "overwrite"),
        "make, partitions": lambda: write(source.limit(0), by_day, ["day"], "overwrite"),
        "append, one directory": lambda: write(source, flat, [], "append"),
        f"append, {DAYS} partitions": lambda: write(source, by_day, ["day"], "append"),
        "full scan": lambda: read(flat).selectExpr(*total.split(", ")).collect(),
        "one column": lambda: read(flat).selectExpr("sum(id)").collect(),
        "one partition": lambda: (
            read(by_day).filter("day = date'2026-01-07'").selectExpr("sum(id)", "max(s)").collect()
        ),
        "point filter": lambda: read(flat).filter(f"id = {rows // 3}").collect(),
        "first row of a partition, as predicate": lambda: read_where(many, "p", 1234).first(),
        "first row of a partition, of the DataFrame": lambda: read(many).filter("p = 1234").first(),
        "first row of a partition, of a kept snapshot": lambda: (
            read_kept(many).filter("p = 1234").first()
        ),
    }


Write = Callable[[DataFrame, str, list[str], str], object]
Read = Callable[[str], DataFrame]
ReadWhere = Callable[[str, str, int], DataFrame]


def _delta(spark: SparkSession) -> tuple[Write, Read, ReadWhere, Read]:
    def write(rows: DataFrame, table: str, by: list[str], mode: str) -> None:
        rows.write.format("delta").mode(mode).partitionBy(*by).save(table)

    def read_where(table: str, column: str, value: int) -> DataFrame:
        return spark.read.format("delta").load(table).filter(f"{column} = {value}")

    read = spark.read.format("delta").load
    return write, read, read_where, read


def _delta_ops(spark: SparkSession) -> tuple[Write, Read, ReadWhere, Read]:
    import delta_ops.spark as ds
    from delta_ops import DeltaLog, Snapshot, col

    kept: dict[str, Snapshot] = {}

    def write(rows: DataFrame, table: str, by: list[str], mode: str) -> None:
        ds.write(rows, table, "overwrite" if mode == "overwrite" else "append", by or None)

    def read_where(table: str, column: str, value: int) -> DataFrame:
        return ds.read(spark, table, predicate=col(column) == value)

    def read_kept(table: str) -> DataFrame:
        kept[table] = kept[table].refresh() if table in kept else DeltaLog(table).snapshot()
        return ds.read(spark, kept[table])

    return write, lambda table: ds.read(spark, table), read_where, read_kept


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
