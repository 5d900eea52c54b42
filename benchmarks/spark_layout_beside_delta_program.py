"""One side of `spark_layout_beside_delta`: a session that runs and times each case.

    python spark_layout_beside_delta_program.py SIDE JARS FOLDER TABLE TARGET

SIDE is "delta_ops" or "delta". A line of input is the name of a case, a line of output the seconds
of its command, which lays out FOLDER/SIDE-table, a copy of TABLE. Runs on PySpark alone when the
side is "delta".
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.spark_beside_delta_program import session

COLUMNS = ("item", "customer")


def main(side: str, jars: str, folder: str, made: str, target: int) -> None:
    """Answer each line of the input, in order, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = session(side, jars)
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(target))
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(target * 3 // 4))
    table = f"{folder}/{side}-table"
    for line in sys.stdin:
        shutil.rmtree(table, ignore_errors=True)
        shutil.copytree(made, table, copy_function=os.link)
        started = time.monotonic()
        (_delta if side == "delta" else _delta_ops)(spark, table, line.strip(), target)
        took = time.monotonic() - started
        answers.write(f"{took}\n")
        answers.flush()


def _delta(spark: SparkSession, table: str, case: str, _target: int) -> None:
    order = f" ZORDER BY ({', '.join(COLUMNS)})" if case == "Z-order" else ""
    spark.sql(f"OPTIMIZE delta.`{table}`{order}").collect()


def _delta_ops(spark: SparkSession, table: str, case: str, target: int) -> None:
    import delta_ops.spark as ds
    from delta_ops.maintenance import optimize

    columns = COLUMNS if case == "Z-order" else None
    optimize(table, engine=ds.rewrite(spark), target_size=target, zorder_by=columns)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
