"""Row changes beside a process that compacts the same table all the time.

    python -m benchmarks.changes_beside_compaction [--engine spark] [--changes 20] [--limit 60]

A second process appends two small files and compacts the table, again and again, with a pause
after each compaction. All rows fit into one file, so each compaction replaces the file that a
change reads: the worst case. A change that takes longer than the pause is overtaken, and is
repeated on the compacted file (decision 013). A change counts as failed if it raises an error, or
takes longer than `--limit` seconds, where a call of a user goes on for ten minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import DeltaOpsError

ROWS = 10_000
PAUSES = (None, 10.0, 2.0, 0.0)
"""Seconds between two compactions; None for no compaction."""
COMPACTOR = """
import sys, time
from contextlib import suppress
import pyarrow as pa
import delta_ops.arrow as da
from delta_ops.errors import CommitConflictError
from delta_ops.maintenance import optimize
table, pause = sys.argv[1], float(sys.argv[2])
print("ready", flush=True)
while True:
    for _ in range(2):
        da.write(table, pa.table({"id": [-1], "v": [0]}))
    with suppress(CommitConflictError):  # a change was first
        optimize(table)
    time.sleep(pause)
"""
Change = Callable[[Path, int, Any], object]


class TooSlowError(Exception):
    """A change took longer than the limit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=("arrow", "spark"), help="both if not given")
    parser.add_argument("--changes", type=int, default=20, help="of each engine and pause")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a change")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    report = [
        measure(name, change, vectors, pause, arguments)
        for name, change in changes(arguments.engine).items()
        for vectors in ("false", "true")
        for pause in PAUSES
    ]
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def changes(engine: str | None) -> dict[str, Change]:
    """The changes of an engine, or of both."""
    of_arrow = {"update by Arrow": update_by_arrow} if engine != "spark" else {}
    return {**of_arrow, **(changes_by_spark(ds.get_session()) if engine != "arrow" else {})}


def update_by_arrow(table: Path, number: int, on_event: Any) -> object:
    return da.update(table, {"v": "1"}, f"id = {number}", on_event=on_event)


def changes_by_spark(spark: SparkSession) -> dict[str, Change]:
    def update(table: Path, number: int, on_event: Any) -> object:
        return ds.update(spark, table, {"v": "1"}, f"id = {number}", on_event=on_event)

    def merge(table: Path, number: int, on_event: Any) -> object:
        source = spark.createDataFrame([(number, 1), (ROWS + number, 1)], "id bigint, v bigint")
        merge = ds.merge(table, source, "target.id = source.id", on_event=on_event)
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return {"update by Spark": update, "merge by Spark": merge}


def measure(
    name: str, change: Change, vectors: str, pause: float | None, arguments: argparse.Namespace
) -> dict[str, object]:
    seconds, attempts, failed = [], 0, 0
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        table = Path(folder) / "t"
        rows = pa.table({"id": range(ROWS), "v": [0] * ROWS})
        da.write(table, rows, configuration={"delta.enableDeletionVectors": vectors})
        change(table, 0, Attempts(float("inf")))  # what an engine does only once does not count
        compactor = None if pause is None else start_compactor(table, pause)
        try:
            for number in range(1, arguments.changes + 1):
                attempt = Attempts(arguments.limit)
                try:
                    change(table, number, attempt)
                except (DeltaOpsError, TooSlowError):
                    failed += 1
                else:
                    seconds.append(attempt.seconds)
                    attempts += attempt.count
        finally:
            if compactor:
                compactor.kill()
                compactor.wait()
        made = da.to_table(table, predicate="v = 1", columns=["id"])["id"].to_pylist()
        assert len([each for each in made if 0 < each < ROWS]) == len(seconds)
        compactions = sum(each.operation == "OPTIMIZE" for each in DeltaLog(table).history())
    made_count = max(len(seconds), 1)
    return {
        "change": name,
        "vectors": vectors == "true",
        "pause_s": pause,
        "made": len(seconds),
        "failed": failed,
        "attempts": attempts / made_count,
        "median_s": statistics.median(seconds) if seconds else None,
        "worst_s": max(seconds, default=None),
        "compactions": compactions,
    }


class Attempts:
    """Counts the attempts of a change, and ends it after a time."""

    def __init__(self, limit: float) -> None:
        self._limit, self._start, self.count = limit, time.perf_counter(), 0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start

    def __call__(self, event: object) -> None:
        if type(event).__name__ == "DataFilesStaged":
            self.count += 1
            if self.seconds > self._limit:
                raise TooSlowError


def start_compactor(table: Path, pause: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", COMPACTOR, str(table), str(pause)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    process.stdout.readline()
    return process


def render_markdown(report: list[dict[str, Any]]) -> str:
    lines = [
        "| change | deletion vectors | seconds between compactions | made | failed | attempts "
        "of a change | median, s | worst, s | compactions |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for of in report:
        pause = "no compaction" if of["pause_s"] is None else f"{of['pause_s']:g}"
        times = [
            f"{of[key]:.2f}" if of[key] is not None else "-" for key in ("median_s", "worst_s")
        ]
        lines.append(
            f"| {of['change']} | {'yes' if of['vectors'] else 'no'} | {pause} | {of['made']} | "
            f"{of['failed']} | {of['attempts']:.1f} | {' | '.join(times)} | {of['compactions']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
