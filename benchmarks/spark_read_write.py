"""delta_ops.spark beside Spark's own Parquet reader and writer, on the same rows in the same run.

    python benchmarks/spark_read_write.py [--rows 5000000] [--rounds 9] [--folder DIR] [--json]

Peers: `df.write.parquet` (with `partitionBy` for the partitioned case) and
`spark.read.schema(...).parquet` of the table's own files. In each round every mode runs once,
alternating with the peer; the first round warms up and does not count. The source is cached in
memory if it fits, so that reading it costs both sides equally little.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog, col

DAYS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report = measure(Path(folder), arguments.rows, arguments.rounds)
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(folder: Path, rows: int, rounds: int) -> dict[str, object]:
    started = time.perf_counter()
    spark = session()
    start_s = time.perf_counter() - started
    source = cached_rows(spark, rows)
    cases = {
        **write_cases(source, folder),
        **read_cases(spark, source, folder),
    }
    seconds: dict[str, dict[str, list[float]]] = {
        name: {"delta_ops": [], "spark": []} for name in cases
    }
    for number in range(rounds + 1):
        for name, (ours, peer) in cases.items():
            pair = [("delta_ops", ours), ("spark", peer)]
            for who, run in pair if number % 2 else reversed(pair):
                took = time_run(run)
                if number:
                    seconds[name][who].append(took)
    report = {
        "rows": rows,
        "rounds": rounds,
        "spark": spark.version,
        "session_start_s": round(start_s, 1),
        "jvm_peak_mb": peak_mb(jvm_pid(spark)),
        "python_peak_mb": peak_mb(os.getpid()),
        "cases": {name: summary(of_case) for name, of_case in seconds.items()},
    }
    spark.stop()
    return report


def session(**settings: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = ds.get_session(
        configuration={
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "6g",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            **settings,
        }
    )
    made.sparkContext.setLogLevel("OFF")
    return made


def cached_rows(spark: SparkSession, rows: int) -> DataFrame:
    """The rows to write, cached in memory."""
    made = spark.range(0, rows, 1, 4).selectExpr(
        "id",
        "rand(1) AS x",
        "concat('text ', id % 1000) AS s",
        f"date_add(date'2026-01-01', cast(id % {DAYS} AS int)) AS day",
    )
    made = made.cache()
    made.count()
    return made


Case = tuple[Callable[[], object], Callable[[], object]]


def write_cases(source: DataFrame, folder: Path) -> dict[str, Case]:
    def ours(by: list[str]) -> Callable[[], object]:
        return lambda: ds.write(source, clear(folder / "ours"), partition_by=by)

    def peer(by: list[str]) -> Callable[[], object]:
        return lambda: source.write.partitionBy(*by).parquet(str(clear(folder / "peer")))

    return {
        "write, one directory": (ours([]), peer([])),
        f"write, {DAYS} partitions": (ours(["day"]), peer(["day"])),
    }


def read_cases(spark: SparkSession, source: DataFrame, folder: Path) -> dict[str, Case]:
    flat, by_day = folder / "flat", folder / "by_day"
    ds.write(source, flat)
    ds.write(source, by_day, partition_by=["day"])
    (inner,) = by_day.glob("w-*")
    schema = DeltaLog(flat).snapshot().arrow_schema
    ddl = ", ".join(f"{f.name} {TYPES[str(f.type)]}" for f in schema)

    def peer(place: str) -> DataFrame:
        return spark.read.schema(ddl).parquet(place)

    def scan(frame: DataFrame) -> object:
        return frame.selectExpr("sum(id)", "sum(x)", "max(s)", "max(day)").collect()

    day = "day = date'2026-01-07'"
    paths = str(next(flat.glob("w-*")))
    return {
        "scan, one directory": (lambda: scan(ds.read(spark, flat)), lambda: scan(peer(paths))),
        "scan, 30 partitions": (
            lambda: scan(ds.read(spark, by_day)),
            lambda: scan(peer(str(inner))),
        ),
        "scan of one column": (
            lambda: ds.read(spark, flat).selectExpr("sum(id)").collect(),
            lambda: peer(paths).selectExpr("sum(id)").collect(),
        ),
        "scan of one partition": (
            lambda: scan(ds.read(spark, by_day, predicate=col("day") == "2026-01-07")),
            lambda: scan(peer(str(inner)).filter(day)),
        ),
    }


TYPES = {"int64": "bigint", "double": "double", "string": "string", "date32[day]": "date"}


def clear(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    return place


def time_run(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def summary(seconds: dict[str, list[float]]) -> dict[str, float | list[float]]:
    ours, peer = (statistics.median(seconds[who]) for who in ("delta_ops", "spark"))
    return {
        "delta_ops_s": round(ours, 3),
        "spark_s": round(peer, 3),
        "ratio": round(ours / peer, 2),
        "all_delta_ops_s": [round(s, 3) for s in seconds["delta_ops"]],
        "all_spark_s": [round(s, 3) for s in seconds["spark"]],
    }


def jvm_pid(spark: SparkSession) -> int:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def peak_mb(pid: int) -> int | None:
    """The peak resident memory of the process; None if the system does not report it."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    (line,) = (x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def render_markdown(report: dict[str, object]) -> str:
    cases = report["cases"]
    assert isinstance(cases, dict)
    lines = [
        f"{report['rows']:,} rows, Spark {report['spark']}, median of {report['rounds']} after one "
        f"to warm up. Session start {report['session_start_s']} s; peak memory: JVM "
        f"{report['jvm_peak_mb']} MB, Python {report['python_peak_mb']} MB.",
        "",
        "| | delta_ops, s | Spark's Parquet, s | ratio |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {case['delta_ops_s']} | {case['spark_s']} | {case['ratio']} |"
        for name, case in cases.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
