"""Appends by delta_ops.spark beside Spark's own Parquet writer, on the same rows in the same run.

    python benchmarks/spark_appends.py [--rows 20000000] [--rounds 5] [--folder DIR] [--json]

Peer: `df.write.mode("append").parquet`, with `partitionBy` for the partitioned case; the table and
the directory exist and are empty. In each round every case runs once, alternating with the peer;
the first round warms up and does not count. The last case has skewed partitions (nine rows of ten
in one) with `delta.autoOptimize.optimizeWrite`, beside a repartition by the partition's column.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import DataFrame

import delta_ops.spark as ds
from benchmarks.spark_read_write import DAYS, cached_rows, clear, session, time_run

TARGET = 16 * 1024 * 1024
OPTIMIZED = {"delta.autoOptimize.optimizeWrite": "true", "delta.targetFileSize": str(TARGET)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report = measure(Path(folder), arguments.rows, arguments.rounds)
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(folder: Path, rows: int, rounds: int) -> dict[str, object]:
    spark = session()
    source = cached_rows(spark, rows)
    skewed = source.selectExpr("id", "x", "s", "if(id % 10 = 0, id div 10 % 10, -1) AS p")
    cases = {
        "append, one directory": appends(source, folder / "flat", []),
        f"append, {DAYS} partitions": appends(source, folder / "by_day", ["day"]),
        "skewed partitions, optimised write": compare_optimized(skewed, folder / "skewed"),
    }
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in cases}
    for number in range(rounds + 1):
        for name, pair in cases.items():
            for side in (0, 1) if number % 2 else (1, 0):
                took = pair[side]()
                if number:
                    seconds[name][side].append(took)
    report = {
        "rows": rows,
        "rounds": rounds,
        "spark": spark.version,
        "cases": {name: summary(*each) for name, each in seconds.items()},
        "largest_files_mb": {
            "delta_ops": largest_files(folder / "skewed" / "ours"),
            "spark": largest_files(folder / "skewed" / "peer"),
        },
    }
    spark.stop()
    return report


Pair = tuple[Callable[[], float], Callable[[], float]]


def appends(rows: DataFrame, folder: Path, by: list[str]) -> Pair:
    def ours() -> float:
        ds.write(rows.limit(0), clear(folder / "ours"), partition_by=by)
        return time_run(lambda: ds.write(rows, folder / "ours"))

    def peer() -> float:
        clear(folder / "peer").mkdir(parents=True)
        writer = rows.write.mode("append").partitionBy(*by)
        return time_run(lambda: writer.parquet(str(folder / "peer")))

    return ours, peer


def compare_optimized(rows: DataFrame, folder: Path) -> Pair:
    def ours() -> float:
        table = clear(folder / "ours")
        ds.write(rows.limit(0), table, partition_by=["p"], configuration=OPTIMIZED)
        return time_run(lambda: ds.write(rows, table))

    def peer() -> float:
        writer = rows.repartition("p").write.mode("append").partitionBy("p")
        clear(folder / "peer")
        return time_run(lambda: writer.parquet(str(folder / "peer")))

    return ours, peer


def largest_files(folder: Path) -> list[float]:
    """Total megabytes of the four largest files."""
    sizes = sorted((path.stat().st_size for path in folder.rglob("*.parquet")), reverse=True)
    return [round(size / 2**20, 1) for size in sizes[:4]]


def summary(ours: list[float], peer: list[float]) -> dict[str, float]:
    medians = statistics.median(ours), statistics.median(peer)
    return {
        "delta_ops_s": round(medians[0], 2),
        "spark_s": round(medians[1], 2),
        "ratio": round(medians[0] / medians[1], 2),
    }


def render_markdown(report: dict[str, object]) -> str:
    cases, largest = report["cases"], report["largest_files_mb"]
    assert isinstance(cases, dict)
    assert isinstance(largest, dict)
    lines = [
        f"{report['rows']:,} rows, Spark {report['spark']}, median of {report['rounds']} after one "
        "to warm up.",
        "",
        "| | delta_ops, s | Spark's Parquet, s | ratio |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {case['delta_ops_s']} | {case['spark_s']} | {case['ratio']} |"
        for name, case in cases.items()
    ]
    lines += [
        "",
        f"Skewed partitions: the largest files, with a target of {TARGET >> 20} MB, are "
        f"{', '.join(map(str, largest['delta_ops']))} MB, and by a repartition "
        f"{', '.join(map(str, largest['spark']))} MB.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
