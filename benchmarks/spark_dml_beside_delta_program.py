"""One side of `spark_dml_beside_delta`: a session that runs and times each requested case.

    python spark_dml_beside_delta_program.py SIDE JARS FOLDER ROWS FILES

SIDE is "delta_ops" or "delta". A line of input is the name of a case, a line of output the seconds
of its command; each case starts with a new table. Runs on PySpark alone when the side is "delta".
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.spark_beside_delta_program import session

VECTORS = "delta.enableDeletionVectors"


def main(side: str, jars: str, folder: str, rows: int, files: int) -> None:
    """Answer each line of the input, in order, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = session(side, jars)
    base = spark.range(0, rows, 1, files).selectExpr(
        "id", "id % 1000 AS v", "rand(1) AS x", "concat('text ', id % 1000) AS s"
    )
    made: dict[bool, str] = {}
    for has_vectors in (False, True):
        made[has_vectors] = f"{folder}/{side}-{'vectors' if has_vectors else 'files'}"
        _write(side, base, made[has_vectors], has_vectors)
    commands = (_delta if side == "delta" else _delta_ops)(spark)
    table = f"{folder}/{side}-table"
    for line in sys.stdin:
        name = line.strip()
        has_vectors = "by vectors" in name
        shutil.rmtree(table, ignore_errors=True)
        shutil.copytree(made[has_vectors], table, copy_function=os.link)
        run = _case(spark, name.removesuffix(", by vectors"), rows, files, commands, table)
        started = time.monotonic()
        run()
        answers.write(f"{time.monotonic() - started}\n")
        answers.flush()


def _case(
    spark: SparkSession, name: str, rows: int, files: int, commands: Any, table: str
) -> Callable[[], object]:
    """The call of a case; its source is created first."""
    delete, merge = commands

    def source(first: int, step: int, number: int) -> DataFrame:
        frame = spark.range(0, number).selectExpr(
            f"{first} + id * {step} AS id", "id % 7 AS v", "0.5D AS x", "concat('new ', id) AS s"
        )
        kept = frame.cache()
        kept.count()
        return kept

    changed = rows // 100
    in_files = {
        "5% of the files": files // 20,
        "a tenth of the keys": files // 10,
        "half of the files": files // 2,
    }
    match name.partition(": "):
        case ("upsert", _, "all files"):
            rows_of = source(0, rows // changed, changed + changed // 10)
            return lambda: merge(table, rows_of, "upsert")
        case ("upsert", _, where):
            width = rows // files * in_files[where]
            rows_of = source(0, max(1, width // changed), min(changed, width))
            num_new = changed // 10
            new = source(-num_new if where == "a tenth of the keys" else rows, 1, num_new)
            both = rows_of.union(new)
            return lambda: merge(table, both, "upsert")
        case ("insert-only merge", _, _):
            old = source(0, rows // changed, changed)
            new = source(rows, 1, changed)
            both = old.union(new)
            return lambda: merge(table, both, "insert")
        case ("delete-only merge", _, _):
            gone = source(
                0, max(1, rows // files * in_files["5% of the files"] // changed), changed
            )
            return lambda: merge(table, gone, "delete")
    return lambda: delete(table, "pmod(id * 7919, 1000) = 7")


def _write(side: str, rows: DataFrame, table: str, has_vectors: bool) -> None:
    """Create the table for a case."""
    value = str(has_vectors).lower()
    if side == "delta":
        rows.write.format("delta").option(VECTORS, value).save(table)
    else:
        import delta_ops.spark as ds

        ds.write(rows, table, configuration={VECTORS: value})


def _delta(spark: SparkSession) -> tuple[Callable[..., object], Callable[..., object]]:
    clauses = {
        "delete": "WHEN MATCHED THEN DELETE",
        "insert": "WHEN NOT MATCHED THEN INSERT *",
        "upsert": "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    }

    def delete(table: str, condition: str) -> None:
        spark.sql(f"DELETE FROM delta.`{table}` WHERE {condition}")

    def merge(table: str, source: DataFrame, kind: str) -> None:
        source.createOrReplaceTempView("source")
        spark.sql(f"MERGE INTO delta.`{table}` t USING source s ON t.id = s.id {clauses[kind]}")

    return delete, merge


def _delta_ops(spark: SparkSession) -> tuple[Callable[..., object], Callable[..., object]]:
    import delta_ops.spark as ds

    def delete(table: str, condition: str) -> None:
        ds.delete(spark, table, condition)

    def merge(table: str, source: DataFrame, kind: str) -> None:
        builder = ds.merge(table, source, "target.id = source.id")
        if kind == "delete":
            builder = builder.when_matched_delete()
        if kind == "upsert":
            builder = builder.when_matched_update_all()
        if kind != "delete":
            builder = builder.when_not_matched_insert_all()
        builder.execute()

    return delete, merge


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
