"""delta_ops.spark on tables with deletion vectors, beside the same tables without.

    python -m benchmarks.spark_vectors [--rows 1000000] [--rounds 7] [--folder DIR]

Eight files. The peer is the version before the vectors, read by the same function. In each round
every case runs once, alternating with its peer; the first round warms up and does not count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from benchmarks.read_rows import delete_rows, rows_of
from benchmarks.spark_read_write import session, time_run
from delta_ops import DeltaLog
from delta_ops.log import Snapshot

FILES = 8
ALL = ("sum(id)", "sum(x)", "max(s)", "sum(k)")
ONE = ("sum(k)",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="of a file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        every, one = (Path(folder) / name for name in ("every", "one"))
        for root in (every, one):
            for number in range(FILES):
                da.write(root, rows_of(number, arguments.rows))
        delete_rows(every, arguments.rows, one_of=100)
        delete_rows(one, arguments.rows, one_of=100, max_files=1)
        spark = session()
        cases = {
            "four columns, 1 % deleted in every file": (every, ALL),
            "four columns, 1 % deleted in one file": (one, ALL),
            "one column, 1 % deleted in every file": (every, ONE),
            "one column, 1 % deleted in one file": (one, ONE),
        }
        print(f"{FILES} files of {arguments.rows:,} rows, Spark {spark.version}:\n")
        print("| | with vectors, s | without, s | ratio |\n|---|---|---|---|")
        for name, (root, columns) in cases.items():
            ours, peer = measure(spark, root, columns, arguments.rounds)
            print(f"| {name} | {ours:.2f} | {peer:.2f} | {ours / peer:.2f} |", flush=True)
        spark.stop()


def measure(
    spark: SparkSession, root: Path, columns: tuple[str, ...], rounds: int
) -> tuple[float, float]:
    """Median seconds for the version with vectors, and for the version before."""
    latest = DeltaLog(root).snapshot()
    before = DeltaLog(root).snapshot(latest.version - 1)

    def scan(version: Snapshot) -> Callable[[], object]:
        return lambda: ds.read(spark, version).selectExpr(*columns).collect()

    seconds: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(rounds + 1):
        pair = [("with", scan(latest)), ("without", scan(before))]
        for name, run in pair if number % 2 else reversed(pair):
            took = time_run(run)
            if number:
                seconds[name].append(took)
    return statistics.median(seconds["with"]), statistics.median(seconds["without"])


if __name__ == "__main__":
    main()
