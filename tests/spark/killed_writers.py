"""Run by the test of killed writes to a store: one batch, written as one transaction.

    python -m tests.spark.killed_writers URI OPTIONS EVENT

The process and its JVM are killed at the named event, or with "a file is there" as soon as a data
file exists; with "" the write completes.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from pyspark.sql import SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog
from tests.spark.cluster_program import kill_driver, killer
from tests.support.servers.connectors import connectors_on_class_path

NUM_ROWS = 20_000
A_FILE = "a file is there"
DEATHS = ("WriteStarted", A_FILE, "DataFilesWritten", "DataFilesStaged", "Committed")


def main(uri: str, options: dict[str, Any], point: str) -> None:
    """Write the batch."""
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
    )
    with connectors_on_class_path():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    log = DeltaLog(uri, options)
    rows = spark.range(0, NUM_ROWS, 1, 40)
    if point == A_FILE:
        threading.Thread(target=die_beside_file, args=(spark, log), daemon=True).start()
    ds.write(rows, log, txn=("batches", 7), on_event=killer(spark, point))


def die_beside_file(spark: SparkSession, log: DeltaLog) -> None:
    """Wait for the first of many files."""
    while not any(file.path.endswith(".parquet") for file in log.storage.list_tree("")):
        time.sleep(0.02)
    kill_driver(spark)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
