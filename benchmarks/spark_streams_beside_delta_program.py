"""One side of `spark_streams_beside_delta`: a session that runs each requested query.

    python spark_streams_beside_delta_program.py SIDE JARS FOLDER

SIDE is "delta_ops" or "delta". A line of input is the name of a case, a line of output the seconds
of its query. Runs on PySpark alone when the side is "delta".
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.spark_beside_delta_program import session


def main(side: str, jars: str, folder: str) -> None:
    """Answer each line of the input, in order, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = session(side, jars)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            run = _query(spark, side, line.strip(), folder, place)
            started = time.monotonic()
            run()
            answers.write(f"{time.monotonic() - started}\n")
            answers.flush()


def _query(
    spark: SparkSession, side: str, name: str, folder: str, place: str
) -> Callable[[], object]:
    """The query of a case, with a checkpoint and a target in an empty folder."""
    source, checkpoint, target = f"{folder}/source", f"{place}/checkpoint", f"{place}/target"
    what, _, rest = name.partition(", ")
    if what == "write the batches":
        by = ["p"] if "partitioned" in rest else None
        return lambda: _write(spark, side, f"{folder}/files", target, checkpoint, by)
    options: dict[str, Any] = {"max_files_per_trigger": int(rest.split()[0].replace(",", ""))}
    if what == "read all commits":
        options["starting_version"] = 0
    return lambda: _read(spark, side, source, checkpoint, options)


def _read(
    spark: SparkSession, side: str, source: str, checkpoint: str, options: dict[str, Any]
) -> None:
    if side == "delta":
        names = {
            "starting_version": "startingVersion",
            "max_files_per_trigger": "maxFilesPerTrigger",
        }
        reader = spark.readStream.format("delta")
        for name, value in options.items():
            reader = reader.option(names[name], value)
        rows = reader.load(source)
    else:
        import delta_ops.spark as ds

        rows = ds.read_stream(spark, source, **options)
    writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def _write(
    spark: SparkSession, side: str, files: str, target: str, checkpoint: str, by: list[str] | None
) -> None:
    reader = spark.readStream.schema("id long, p long, s string").option("maxFilesPerTrigger", 1)
    rows = reader.parquet(files)
    if side == "delta":
        writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint)
        if by:
            writer = writer.partitionBy(*by)
        writer.trigger(availableNow=True).start(target).awaitTermination()
    else:
        import delta_ops.spark as ds

        ds.write_stream(
            rows, target, checkpoint_location=checkpoint, partition_by=by, available_now=True
        ).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
