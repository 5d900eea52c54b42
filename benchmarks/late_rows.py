"""Late rows in a table with a sort key, beside rewriting partitions and beside a sort.

    python -m benchmarks.late_rows [--commits 100] [--rows 50000] [--rounds 5] [--folder DIR]

A table has a partition for each day, and each day has ten commits. A tenth of the rows of a commit
is late by up to three days. The same rows are written in several ways:

1. A sort key, and `optimize` after each commit, or after each tenth.
2. Each commit reads the partitions of its rows, sorts them with the new rows, and overwrites them.
3. Appends only.

Bytes are those of all data files that were written. Then one day is read in order: by an ordered
scan, or by reading the day and sorting it. Seconds are seconds of a core; readings alternate.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.maintenance import optimize
from delta_ops.maintenance.optimize.clustering import load_clustering

COMMITS_A_DAY, LATE_SHARE, LATE_DAYS = 10, 0.1, 3
SECONDS_A_DAY = 86_400
SORT_KEY = {"delta_ops.sortKey": "t"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--rows", type=int, default=50_000, help="of a commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    ways: dict[str, Callable[[Path, pa.Table, int], None]] = {
        "sort key, optimize after each commit": partial(append_and_merge, every=1),
        "sort key, optimize after each tenth": partial(append_and_merge, every=10),
        "partitions rewritten": rewrite_partitions,
        "appended": append,
    }
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        tables = {way: Path(folder, way.replace(" ", "-")) for way in ways}
        print(f"{arguments.commits} commits of {arguments.rows:,} rows, three columns.\n")
        print("| written | MB | s of a core | files at the end | depth |\n|---|---|---|---|---|")
        for way, write in ways.items():
            seconds = write_all(tables[way], write, arguments.commits, arguments.rows)
            snapshot = DeltaLog(tables[way]).snapshot()
            depth = load_clustering(snapshot).depth or ""
            megabytes = bytes_written(tables[way]) / 1e6
            print(
                f"| {way} | {megabytes:,.1f} | {seconds:.1f} | {snapshot.num_files} | {depth} |",
                flush=True,
            )
        day = arguments.commits // COMMITS_A_DAY - LATE_DAYS - 1
        print(f"\nDay {day} in the order of time:\n")
        print("| table | reading | s of a core |\n|---|---|---|")
        readings = [
            *((way, "ordered scan", scan) for way in list(ways)[:2]),
            *((way, "read and sort", read_and_sort) for way in list(ways)[2:]),
        ]
        found: dict[tuple[str, str], list[float]] = {}
        for _ in range(arguments.rounds):
            for way, reading, read in readings:
                begun = time.process_time()
                read(tables[way], day)
                found.setdefault((way, reading), []).append(time.process_time() - begun)
        for (way, reading), seconds_of_each in found.items():
            print(f"| {way} | {reading} | {statistics.median(seconds_of_each):.3f} |")


def write_all(
    table: Path, write: Callable[[Path, pa.Table, int], None], commits: int, num_rows: int
) -> float:
    """Write the rows of all commits; returns seconds of a core."""
    random, used = np.random.default_rng(1), 0.0
    for number in range(commits):
        rows = rows_of(random, number, num_rows)
        begun = time.process_time()
        write(table, rows, number)
        used += time.process_time() - begun
    return used


def rows_of(random: np.random.Generator, number: int, num_rows: int) -> pa.Table:
    span = SECONDS_A_DAY // COMMITS_A_DAY
    seconds = number * span + random.integers(0, span, num_rows)
    is_late = random.random(num_rows) < LATE_SHARE
    late = random.integers(0, LATE_DAYS * SECONDS_A_DAY, num_rows)
    seconds = np.maximum(np.where(is_late, seconds - late, seconds), 0)
    micros = seconds * 1_000_000 + random.integers(0, 1_000_000, num_rows)
    return pa.table(
        {
            "day": pa.array(seconds // SECONDS_A_DAY),
            "t": pa.array(micros).cast(pa.timestamp("us", "UTC")),
            "device": random.integers(0, 1000, num_rows),
            "value": random.random(num_rows),
        }
    )


def append_and_merge(table: Path, rows: pa.Table, number: int, *, every: int) -> None:
    da.write(table, rows, partition_by=["day"], configuration=SORT_KEY)
    if (number + 1) % every == 0:
        optimize(table)


def rewrite_partitions(table: Path, rows: pa.Table, number: int) -> None:
    days = pc.unique(rows["day"]).to_pylist()
    if number:
        rows = pa.concat_tables([da.to_table(table, predicate=col("day").isin(days)), rows])
    rows = rows.sort_by([("day", "ascending"), ("t", "ascending")])
    chosen = col("day").isin(days) if number else None
    da.write(table, rows, "overwrite", partition_by=["day"], replace_where=chosen)


def append(table: Path, rows: pa.Table, _number: int) -> None:
    da.write(table, rows, partition_by=["day"])


def bytes_written(table: Path) -> int:
    return sum(path.stat().st_size for path in table.rglob("day=*/*.parquet"))


def scan(table: Path, day: int) -> None:
    last = -1
    for batch in da.to_batches(table, predicate=col("day") == day, order_by=["t"]):
        times = batch["t"].cast(pa.int64()).to_numpy()
        assert last <= times[0]
        last = int(times[-1])


def read_and_sort(table: Path, day: int) -> None:
    da.to_table(table, predicate=col("day") == day).sort_by("t")


if __name__ == "__main__":
    main()
