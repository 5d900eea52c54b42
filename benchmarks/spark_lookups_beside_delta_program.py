"""One side of `spark_lookups_beside_delta`: a session that runs and times each requested case.

    python spark_lookups_beside_delta_program.py SIDE JARS FOLDER ROWS FILES UPSERTED

SIDE is "delta_ops" or "delta". A line of input is a case, a line of output the seconds of its call,
and the seconds of a core that Python and the JVM took. Runs on PySpark alone when the side is
"delta".
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.spark_beside_delta_program import session

_TICKS = os.sysconf("SC_CLK_TCK")


def main(side: str, jars: str, folder: str, rows: int, files: int, upserted: int) -> None:
    """Answer each line of the input, in order, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = session(side, jars)
    chance = random.Random(1)
    for line in sys.stdin:
        kind, name = line.strip().split(" ", 1)
        table = f"{folder}/{name}"
        if kind == "make":
            _make(spark, folder, name, files)
            call: Callable[[], object] = int
        elif kind == "look-up":
            call = _look_up(spark, side, table, chance.randrange(rows))
        else:
            copy = f"{folder}/{side}-copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(table, copy, copy_function=os.link)
            keys = chance.sample(range(rows), upserted)
            source = spark.createDataFrame(
                [(key, 1.0, "new") for key in keys], "key LONG, amount DOUBLE, note STRING"
            )
            call = _upsert(spark, side, copy, source)
        begun, cpu = time.monotonic(), _cpu_seconds(spark)
        call()
        took = time.monotonic() - begun, _cpu_seconds(spark) - cpu
        answers.write(f"{took[0]} {took[1]}\n")
        answers.flush()


def _make(spark: SparkSession, folder: str, name: str, files: int) -> None:
    """A table of delta-spark with the rows of the plain table."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    rows = spark.read.format("delta").load(f"{folder}/plain")
    if name == "bloom":
        conf.set("parquet.bloom.filter.enabled#key", "true")
        conf.set("parquet.bloom.filter.expected.ndv#key", "5000")
    rows.repartition(files).write.format("delta").save(f"{folder}/{name}")
    conf.unset("parquet.bloom.filter.enabled#key")
    if name == "zorder":
        spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(1 << 20))
        spark.sql(f"OPTIMIZE delta.`{folder}/{name}` ZORDER BY (key)")


def _look_up(spark: SparkSession, side: str, table: str, key: int) -> Callable[[], object]:
    if side == "delta":
        return lambda: spark.read.format("delta").load(table).filter(f"key = {key}").collect()
    import delta_ops.spark as ds

    return lambda: ds.read(spark, table, predicate=f"key = {key}").collect()


def _upsert(spark: SparkSession, side: str, table: str, source: DataFrame) -> Callable[[], object]:
    if side == "delta":
        source.createOrReplaceTempView("source")
        text = (
            f"MERGE INTO delta.`{table}` AS target USING source ON target.key = source.key "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        return lambda: spark.sql(text).collect()
    import delta_ops.spark as ds

    merge = ds.merge(table, source, "target.key = source.key")
    return merge.when_matched_update_all().when_not_matched_insert_all().execute


def _cpu_seconds(spark: SparkSession) -> float:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    pid = gateway.proc.pid
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7]))
