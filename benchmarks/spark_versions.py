"""The Spark engine beside plain Parquet on each supported version of Spark.

    python -m benchmarks.spark_versions [--rows 10000000] [--rounds 5] [--only CASE] [--folder DIR]

Each version runs in an environment of its own below `.peers`, in a process of its own. In each
round every case runs with delta_ops and with Spark's own Parquet reader and writer, in turn; the
first round warms up and does not count. Reads are short, so each round reads several times. The
merge updates one row in twenty and adds as many; its peer joins both sides and writes all rows, as
a job without Delta does.

The CPU time of Python and the JVM is the figure, because it depends less on other work of the
machine than the time of a clock. A figure is the lower quartile of the runs: the JVM compiles code
and frees memory in the slower runs. The report names each case whose ratio differs by more than
10 % from the ratio on the newest version. A run fails if delta_ops logs a warning, because each
slower way through Spark is logged.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from benchmarks.spark_read_write import Case, cached_rows, clear, session
from delta_ops.maintenance import restore
from tests.versions.environments import SPARK, spark_python
from tests.versions.spark_program import Warnings

PEER, OURS = "spark", "delta_ops"
CASES = {"write": 1, "write, 30 partitions": 1, "read": 4, "read of one column": 8, "merge": 3}
"""Each case, with the times that a round repeats it."""
ALLOWED = 0.10
"""Difference to the newest version's ratio that is not reported."""


class Spent(NamedTuple):
    """What one run took."""

    cpu_s: float
    clock_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=CASES, help="measure one case")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--this-version", action="store_true", help="measure this Python's Spark")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.this_version:
            names = [arguments.only] if arguments.only else list(CASES)
            print(json.dumps(measure(Path(folder), arguments.rows, arguments.rounds, names)))
        else:
            reports = [run(python, arguments, folder) for python in pythons()]
            print(render_markdown(reports, arguments.rows, arguments.rounds))


def pythons() -> list[Path]:
    """The Python of each version's environment; newest version first."""
    return [Path(sys.executable), *(spark_python(version) for version in reversed(SPARK))]


def run(python: Path, arguments: argparse.Namespace, folder: str) -> dict[str, Any]:
    command = [str(python), "-m", "benchmarks.spark_versions", "--this-version"]
    command += ["--rows", str(arguments.rows), "--rounds", str(arguments.rounds)]
    command += ["--only", arguments.only] if arguments.only else []
    done = subprocess.run(
        [*command, "--folder", folder],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(Path.cwd())},
    )
    figures = done.stdout.splitlines()[-1]
    print(figures, file=sys.stderr, flush=True)  # they stay if a later version fails
    found: dict[str, Any] = json.loads(figures)
    return found


def measure(folder: Path, rows: int, rounds: int, names: Sequence[str]) -> dict[str, object]:
    warnings = Warnings()
    logging.getLogger("delta_ops").addHandler(warnings)
    spark = session()
    cases = dict(zip(CASES, cases_of(spark, rows, folder), strict=True))
    cases = {name: cases[name] for name in names}
    spent: dict[str, dict[str, list[Spent]]] = {name: {OURS: [], PEER: []} for name in cases}
    for number in range(rounds + 1):
        for name, (ours, peer) in cases.items():
            pair = [(OURS, ours), (PEER, peer)]
            for turn in range(number, number + CASES[name]):
                for who, call in pair if turn % 2 else reversed(pair):
                    if name == "merge":
                        restore(folder / "kept", version=0)
                    took = spent_by(spark, call)
                    if number:
                        spent[name][who].append(took)
    version = spark.version
    spark.stop()
    assert not warnings.texts, warnings.texts
    found: dict[str, object] = {"version": version}
    for kind in Spent._fields:
        found[kind] = {
            name: summary(*([getattr(each, kind) for each in of[who]] for who in (OURS, PEER)))
            for name, of in spent.items()
        }
    return found


def summary(ours: list[float], peer: list[float]) -> dict[str, float]:
    took, took_peer = lower_quartile(ours), lower_quartile(peer)
    return {OURS: round(took, 2), PEER: round(took_peer, 2), "ratio": round(took / took_peer, 2)}


def lower_quartile(figures: list[float]) -> float:
    return statistics.quantiles(figures, n=4, method="inclusive")[0]


def spent_by(spark: SparkSession, call: Callable[[], object]) -> Spent:
    before_s, started = cpu_s(spark), time.perf_counter()
    call()
    return Spent(cpu_s(spark) - before_s, time.perf_counter() - started)


def cpu_s(spark: SparkSession) -> float:
    """CPU time of this process and of the JVM, with the threads that compile and free memory."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    of_jvm = jvm.java.lang.ProcessHandle.current().info().totalCpuDuration().get()
    return float(of_jvm.toNanos()) / 1e9 + time.process_time()


def cases_of(spark: SparkSession, rows: int, folder: Path) -> list[Case]:
    source = cached_rows(spark, rows)
    changes = source.where(f"id >= {rows - rows // 20}").selectExpr("id", "x + 1 AS x", "s", "day")
    changes = changes.union(changes.selectExpr(f"id + {rows}", "x", "s", "day")).cache()
    changes.count()
    place, plain, result = folder / "table", folder / "plain", folder / "result"

    def write(by: list[str]) -> Case:
        return (
            lambda: ds.write(source, clear(place), partition_by=by),
            lambda: source.write.partitionBy(*by).parquet(str(clear(plain))),
        )

    kept, kept_plain = folder / "kept", folder / "kept plain"
    ds.write(source, kept)
    source.write.parquet(str(kept_plain))
    schema = source.schema

    def peer() -> DataFrame:
        return spark.read.schema(schema).parquet(str(kept_plain))

    def scan(frame: DataFrame) -> object:
        return frame.selectExpr("sum(id)", "sum(x)", "max(s)", "max(day)").collect()

    def merge() -> object:
        builder = ds.merge(kept, changes, "target.id = source.id")
        builder = builder.when_matched_update_all().when_not_matched_insert_all()
        return builder.execute()

    def merge_of_peer() -> None:
        both = peer().alias("t").join(changes.alias("u"), "id", "full")
        values = [f"coalesce(u.{name}, t.{name}) AS {name}" for name in ("x", "s", "day")]
        both.selectExpr("id", *values).write.parquet(str(clear(result)))

    return [
        write([]),
        write(["day"]),
        (lambda: scan(ds.read(spark, kept)), lambda: scan(peer())),
        (
            lambda: ds.read(spark, kept).selectExpr("sum(id)").collect(),
            lambda: peer().selectExpr("sum(id)").collect(),
        ),
        (merge, merge_of_peer),
    ]


def render_markdown(reports: list[dict[str, Any]], rows: int, rounds: int) -> str:
    what = {"cpu_s": "Seconds of CPU", "clock_s": "Seconds by the clock"}
    lines = [
        f"{rows:,} rows; delta_ops / Spark's own Parquet = ratio; lower quartiles of {rounds} "
        "rounds after one to warm up. No version logged that it takes a slower way."
    ]
    for kind, title in what.items():
        names = list(reports[0][kind])
        lines += ["", f"{title}:", "", f"| Spark | {' | '.join(names)} |"]
        lines += [f"|---|{'---|' * len(names)}"]
        for report in reports:
            cells = [
                f"{each[OURS]} / {each[PEER]} = {each['ratio']}"
                for each in (report[kind][name] for name in names)
            ]
            lines.append(f"| {report['version']} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *differences(reports)])


def differences(reports: list[dict[str, Any]]) -> Iterator[str]:
    """The cases of older versions whose ratio differs from the ratio on the newest version."""
    newest, *older = reports
    found = []
    for report in older:
        for name in newest["cpu_s"]:
            ratio, expected = (each["cpu_s"][name]["ratio"] for each in (report, newest))
            if abs(ratio / expected - 1) > ALLOWED:
                found.append(
                    f"- {name} on Spark {report['version']}: {ratio} instead of {expected}"
                )
    yield f"Ratios of CPU time that differ by more than {ALLOWED:.0%} from the newest Spark:"
    yield ""
    yield from found or ["- none"]


if __name__ == "__main__":
    main()
