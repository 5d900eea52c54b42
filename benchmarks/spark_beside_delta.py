"""delta_ops.spark beside delta-spark: appends and scans of the same rows, in turn.

    python benchmarks/spark_beside_delta.py [--rows 20000000] [--rounds 5] [--files 100000]
        [--folder DIR] [--json]

Each side is a process with its own session, delta-spark's with the newest PySpark that it supports;
both have two cores and 4 GB. delta-spark keeps its snapshot of a table between reads, and delta_ops
opens the table again for each read, except in the last case. In each round every case runs once on
both sides, one after the other; the first round warms up and does not count. The table of many
files is written by delta_ops.arrow, a file in each partition, and read by both, in three cases: "as
predicate" passes the filter to `delta_ops.spark.read` as its predicate, "of the DataFrame" calls
`.filter` on the result of a read without a predicate, and "of a kept snapshot" does the same with a
snapshot that it refreshes each time; delta-spark's side calls `.filter` on its DataFrame in all
three.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

import delta_ops.arrow as da
from benchmarks.ratios import Ratio, record_ratio
from benchmarks.spark_beside_delta_program import DAYS
from delta_ops import DeltaLog
from delta_ops.maintenance import create_checkpoint
from tests.peers.environment import ensure_delta_spark

MAKE = ("make, one directory", "make, partitions")
MANY = (
    "first row of a partition, as predicate",
    "first row of a partition, of the DataFrame",
    "first row of a partition, of a kept snapshot",
)
CASES = (
    "append, one directory",
    f"append, {DAYS} partitions",
    "full scan",
    "one column",
    "one partition",
    "point filter",
)
_PROGRAM = Path(__file__).with_name("spark_beside_delta_program.py")
_OF_OURS = ("PYTHON", "PYSPARK", "SPARK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=100_000, help="0 leaves their cases out")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report = measure(Path(folder), arguments.rows, arguments.rounds, arguments.files)
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(folder: Path, rows: int, rounds: int, files: int) -> dict[str, Any]:
    cases = [*CASES, *(MANY if files else [])]
    if files:
        many = DeltaLog(folder / "many")
        numbers = pa.array(range(files), pa.int64())
        da.write(many, pa.table({"p": numbers, "x": numbers}), partition_by=["p"])
        create_checkpoint(many)
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in cases}
    arguments = (str(folder), str(rows))
    with (
        side("delta_ops", _PROGRAM, *arguments) as ours,
        side("delta", _PROGRAM, *arguments) as peer,
    ):
        for number in range(rounds + 1):
            for name in MAKE:
                for each in (ours, peer):
                    run_case(each, name)
            for name in cases:
                for index in (0, 1) if number % 2 else (1, 0):
                    took = run_case((ours, peer)[index], name)
                    if number:
                        seconds[name][index].append(took)
    return {
        "rows": rows,
        "rounds": rounds,
        "files": files,
        "cases": {
            name: [round(statistics.median(each), 2) for each in pair]
            for name, pair in seconds.items()
        },
    }


@contextlib.contextmanager
def side(name: str, program: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs cases."""
    environment, jars, python = dict(os.environ), "", Path(sys.executable)
    if name == "delta":
        peer = ensure_delta_spark()
        jars, python = ",".join(map(str, peer.jars)), peer.python
        environment = {k: v for k, v in environment.items() if not k.startswith(_OF_OURS)}
    environment["PYSPARK_PYTHON"] = str(python)
    command = [str(python), str(program), name, jars, *arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait(60)


def run_case(process: subprocess.Popen[str], case: str) -> float:
    """The seconds of a case."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{case}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def render_markdown(report: dict[str, Any]) -> str:
    lines = [
        f"{report['rows']:,} rows, {report['files']:,} files in the last cases, median of "
        f"{report['rounds']} rounds after a warm-up round.",
        "",
        "| | delta_ops, s | delta-spark, s | ratio |",
        "|---|---|---|---|",
    ]
    for name, (ours, peer) in report["cases"].items():
        record_ratio(Ratio(f"spark_beside_delta: {name}", ours, peer))
        lines.append(f"| {name} | {ours} | {peer} | {round(ours / peer, 2)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
