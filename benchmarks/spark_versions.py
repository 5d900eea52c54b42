"""The Spark engine beside plain Parquet on each supported version of Spark.

    python -m benchmarks.spark_versions [--rows 10000000] [--rounds 3] [--folder DIR]

Each version runs in an environment of its own below `.peers`, in a process of its own. In each
round every case runs once with delta_ops and once with Spark's own Parquet reader and writer, in
turn; the first round warms up and does not count. The merge updates one row in twenty and adds as
many; its peer joins both sides and writes all rows, as a job without Delta does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from benchmarks.spark_read_write import Case, cached_rows, clear, session, summary, time_run
from delta_ops.maintenance import restore

PEER, OURS = "spark", "delta_ops"
CASES = ("write", "write, 30 partitions", "read", "read of one column", "merge")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--this-version", action="store_true", help="measure this Python's Spark")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.this_version:
            print(json.dumps(measure(Path(folder), arguments.rows, arguments.rounds)))
        else:
            reports = [run(python, arguments, folder) for python in pythons()]
            print(render_markdown(reports, arguments.rows, arguments.rounds))


def pythons() -> list[Path]:
    """The Python of each version's environment; newest version first."""
    from tests.versions.environments import SPARK, spark_python

    return [Path(sys.executable), *(spark_python(version) for version in reversed(SPARK))]


def run(python: Path, arguments: argparse.Namespace, folder: str) -> dict[str, object]:
    command = [str(python), "-m", "benchmarks.spark_versions", "--this-version"]
    command += ["--rows", str(arguments.rows), "--rounds", str(arguments.rounds)]
    done = subprocess.run(
        [*command, "--folder", folder],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(Path.cwd())},
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(folder: Path, rows: int, rounds: int) -> dict[str, object]:
    spark = session()
    cases = dict(zip(CASES, cases_of(spark, rows, folder), strict=True))
    seconds: dict[str, dict[str, list[float]]] = {n: {OURS: [], PEER: []} for n in cases}
    for number in range(rounds + 1):
        for name, (ours, peer) in cases.items():
            pair = [(OURS, ours), (PEER, peer)]
            for who, call in pair if number % 2 else reversed(pair):
                if name == "merge":
                    restore(folder / "kept", version=0)
                took = time_run(call)
                if number:
                    seconds[name][who].append(took)
    version = spark.version
    spark.stop()
    return {"version": version, "cases": {name: summary(each) for name, each in seconds.items()}}


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


def render_markdown(reports: list[dict[str, object]], rows: int, rounds: int) -> str:
    lines = [
        f"{rows:,} rows; seconds of delta_ops / of Spark's own Parquet, and their ratio; medians "
        f"of {rounds} rounds after one to warm up.",
        "",
        f"| Spark | {' | '.join(CASES)} |",
        f"|---|{'---|' * len(CASES)}",
    ]
    for report in reports:
        cases = report["cases"]
        assert isinstance(cases, dict)
        cells = [
            f"{cases[name]['delta_ops_s']} / {cases[name]['spark_s']} = {cases[name]['ratio']}"
            for name in CASES
        ]
        lines.append(f"| {report['version']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
