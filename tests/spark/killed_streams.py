"""Run by the test of killed queries: a streaming query from one table to another.

    python -m tests.spark.killed_streams FOLDER EVENT COUNT

The process and its JVM are killed at the named event in batch COUNT, counted from 1; with "" the
query runs to completion.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import delta_ops.spark as ds
from delta_ops.events import Event
from tests.spark.cluster_program import killer


def main(folder: Path, point: str, count: int) -> None:
    """Run the query."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    kill, seen = killer(spark, point), 0

    def on_event(event: Event) -> None:
        nonlocal seen
        seen += type(event).__name__ == point
        if seen == count:
            kill(event)

    stream = ds.read_stream(spark, folder / "source", max_files_per_trigger=1)
    ds.write_stream(
        stream,
        folder / "target",
        checkpoint_location=str(folder / "checkpoint"),
        available_now=True,
        on_event=on_event,
    ).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
