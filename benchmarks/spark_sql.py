"""What routing costs: `spark.sql` with delta_ops beside the Python call, and beside Spark alone.

    python benchmarks/spark_sql.py [--count 1000] [--routed-count 300] [--folder DIR] [--json]

Each case runs its two sides in turn, `count` times each after 20 that do not count. A routed
statement is compared with the call of the Python API that it runs, `routed-count` times. Another
statement is compared with PySpark's own `spark.sql`, which is called without the wrapper of
`register`. Beside the medians of the time, the report has the CPU time of the Python process, on
which other programs have less influence, and the mean CPU time with the JVM. The system counts the
CPU time of the JVM in steps of 10 ms, so its mean needs many runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.tables import DeltaTable

WARM_UP = 20
Side = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--routed-count", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report = measure(Path(folder), arguments.count, arguments.routed_count)
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(folder: Path, count: int, routed_count: int) -> dict[str, object]:
    plain_sql = SparkSession.sql
    warehouse = str(folder / "warehouse")
    spark = ds.get_session(configuration={"spark.sql.warehouse.dir": warehouse})
    ds.register(spark)
    da.write(folder / "t", pa.table({"id": [1, 2, 3]}))
    spark.sql("CREATE TABLE plain (a INT) USING parquet")
    cpu_of_jvm = jvm_clock(spark)
    try:
        routed, others = routed_statements(spark, folder / "t"), other_statements(spark, plain_sql)
        measured = {
            **{name: compare(*sides, routed_count, cpu_of_jvm) for name, sides in routed.items()},
            **{name: compare(*sides, count, cpu_of_jvm) for name, sides in others.items()},
        }
    finally:
        spark.sql("DROP TABLE plain")
        ds.unregister(spark)
    load = os.getloadavg()[2]
    return {"spark": spark.version, "load": load, "cases": measured}


def routed_statements(spark: SparkSession, path: Path) -> dict[str, tuple[Side, Side]]:
    name = f"delta.`{path}`"
    return {
        "`DESCRIBE HISTORY ... LIMIT 1`, beside `DeltaTable.history(1)`": (
            lambda: spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1"),
            lambda: DeltaTable.forPath(spark, str(path)).history(1),
        ),
        "`DELETE` of no row, beside `DeltaTable.delete`": (
            lambda: spark.sql(f"DELETE FROM {name} WHERE id = 77"),
            lambda: DeltaTable.forPath(spark, str(path)).delete("id = 77"),
        ),
    }


def other_statements(
    spark: SparkSession, plain_sql: Callable[..., object]
) -> dict[str, tuple[Side, Side]]:
    statements = {
        "`SELECT 1`": "SELECT 1",
        "`DESCRIBE TABLE` of a Parquet table": "DESCRIBE TABLE plain",
        "`COMMENT ON TABLE` of a Parquet table": "COMMENT ON TABLE plain IS 'c'",
    }
    return {name: sides_of(spark, plain_sql, text) for name, text in statements.items()}


def sides_of(spark: SparkSession, plain_sql: Callable[..., object], text: str) -> tuple[Side, Side]:
    return (lambda: spark.sql(text)), (lambda: plain_sql(spark, text))


def jvm_clock(spark: SparkSession) -> Callable[[], float]:
    """A function that returns the CPU time of the JVM, in milliseconds."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    status = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/stat")
    ms_of_tick = 1000 / os.sysconf("SC_CLK_TCK")

    def cpu_ms() -> float:
        fields = status.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * ms_of_tick  # of the user and of the system

    return cpu_ms


def compare(
    ours: Side, peer: Side, count: int, cpu_of_jvm: Callable[[], float]
) -> dict[str, float]:
    """Medians of both sides, and the CPU time that ours adds, in milliseconds."""
    in_jvm = [0.0, 0.0]
    times: tuple[list[float], list[float]] = ([], [])
    cpu: tuple[list[float], list[float]] = ([], [])
    for number in range(count + WARM_UP):
        for side in (0, 1) if number % 2 else (1, 0):
            start_jvm = cpu_of_jvm()
            start, start_cpu = time.perf_counter(), time.process_time()
            (ours, peer)[side]()
            if number >= WARM_UP:
                times[side].append((time.perf_counter() - start) * 1000)
                cpu[side].append((time.process_time() - start_cpu) * 1000)
                in_jvm[side] += cpu_of_jvm() - start_jvm
    first, second = map(statistics.median, times)
    first_cpu, second_cpu = map(statistics.median, cpu)
    return {
        "count": count,
        "delta_ops_ms": first,
        "peer_ms": second,
        "added_ms": first - second,
        "added_cpu_ms": first_cpu - second_cpu,
        "added_mean_cpu_ms": (sum(cpu[0]) - sum(cpu[1]) + in_jvm[0] - in_jvm[1]) / count,
    }


def render_markdown(report: dict[str, object]) -> str:
    cases = report["cases"]
    assert isinstance(cases, dict)
    lines = [
        f"Spark {report['spark']}, load average of 15 minutes {report['load']:.1f}.",
        "",
        "| statement | runs | `spark.sql`, ms | peer, ms | added, ms | added CPU of Python, ms | "
        "with the JVM, mean, ms |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {name} | {each['count']} | {each['delta_ops_ms']:.2f} | {each['peer_ms']:.2f} | "
            f"{each['added_ms']:.2f} | {each['added_cpu_ms']:.2f} | "
            f"{each['added_mean_cpu_ms']:.2f} |"
            for name, each in cases.items()
        ),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
