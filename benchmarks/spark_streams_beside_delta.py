"""Streams by delta_ops.spark beside delta-spark: the same commits read, the same batches written.

    python benchmarks/spark_streams_beside_delta.py [--commits 1000] [--batches 200] [--rounds 3]
        [--only TEXT] [--folder DIR] [--json]

Sessions as in `spark_beside_delta`. The source table has a small file in each commit, and no
checkpoint after the hundredth commit from its end; both sides read this table, without a sink. The
written batches are Parquet files, one each, which Spark's own source reads. Each query runs
available-now with its own checkpoint, from its start to its end; the first round warms up and does
not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq

import delta_ops.arrow as da
from benchmarks.ratios import Ratio, record_ratio
from benchmarks.spark_beside_delta import run_case, side
from delta_ops import DeltaLog
from delta_ops.maintenance import create_checkpoint

CASES = (
    "read all commits, 1,000 files a batch",
    "read all commits, 10 files a batch",
    "read the first snapshot, 100 files a batch",
    "write the batches, append",
    "write the batches, append, partitioned",
)
_PROGRAM = Path(__file__).with_name("spark_streams_beside_delta_program.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="the cases that have this text in their names")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report = measure(
            Path(folder), arguments.commits, arguments.batches, arguments.rounds, arguments.only
        )
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(folder: Path, commits: int, batches: int, rounds: int, only: str) -> dict[str, Any]:
    make_inputs(folder, commits, batches)
    cases = [name for name in CASES if only in name]
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in cases}
    arguments = (str(folder),)
    with (
        side("delta_ops", _PROGRAM, *arguments) as ours,
        side("delta", _PROGRAM, *arguments) as peer,
    ):
        for number in range(rounds + 1):
            for name in cases:
                for index in (0, 1) if number % 2 else (1, 0):
                    took = run_case((ours, peer)[index], name)
                    if number:
                        seconds[name][index].append(took)
    medians = {
        name: [round(statistics.median(each), 2) for each in pair] for name, pair in seconds.items()
    }
    return {"commits": commits, "batches": batches, "rounds": rounds, "cases": medians}


def make_inputs(folder: Path, commits: int, batches: int) -> None:
    """The source table, and the files to write."""
    log = DeltaLog(folder / "source")
    for number in range(commits):
        da.write(log, _rows(number, 10), hooks=())
        if number == commits - 100:
            create_checkpoint(log)
    (folder / "files").mkdir()
    for number in range(batches):
        pq.write_table(_rows(number, 1000), folder / "files" / f"{number:05}.parquet")


def _rows(number: int, rows: int) -> pa.Table:
    ids = pa.array(range(number * rows, (number + 1) * rows), pa.int64())
    return pa.table({"id": ids, "p": pa.array([number % 4] * rows), "s": ["a text"] * rows})


def render_markdown(report: dict[str, Any]) -> str:
    lines = [
        f"{report['commits']:,} commits, {report['batches']} batches, median of "
        f"{report['rounds']} rounds after a warm-up round.",
        "",
        "| | delta_ops, s | delta-spark, s | ratio |",
        "|---|---|---|---|",
    ]
    for name, (ours, peer) in report["cases"].items():
        record_ratio(Ratio(f"spark_streams_beside_delta: {name}", ours, peer))
        lines.append(f"| {name} | {ours} | {peer} | {round(ours / peer, 2)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
