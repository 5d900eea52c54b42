"""Rows in the order of a key: an ordered scan beside reading and sorting the table.

    python -m benchmarks.ordered_scan [--commits 100] [--rows 100000] [--rounds 5] [--folder DIR]

Each commit has late rows: its keys overlap those of its three neighbours. One table has a sort key,
the other has none. Each reading is a process of its own, which gives its peak memory. The rows of
the ordered scan are checked to be in order.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import delta_ops.arrow as da

TABLES = {"sort key": {"delta_ops.sortKey": "t"}, "no sort key": {}}
READINGS = ("ordered scan", "read and sort", "read")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--rows", type=int, default=100_000, help="of a commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        print(json.dumps(read(Path(arguments.read[0]), arguments.read[1])))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        print(f"{arguments.commits} commits of {arguments.rows:,} rows, two columns.\n")
        print("| table | reading | s | s of a core | peak, MB |\n|---|---|---|---|---|")
        for name, configuration in TABLES.items():
            table = Path(folder, name.replace(" ", "-"))
            seconds = make_table(table, arguments.commits, arguments.rows, configuration)
            print(f"| {name} | written | | {seconds:.2f} | |", flush=True)
        for name in TABLES:
            table = Path(folder, name.replace(" ", "-"))
            found: dict[str, list[list[float]]] = {each: [] for each in READINGS}
            for _ in range(arguments.rounds):
                for each in READINGS:
                    found[each].append(run(table, each))
            for each, figures in found.items():
                wall, core, peak = map(statistics.median, zip(*figures, strict=True))
                print(f"| {name} | {each} | {wall:.2f} | {core:.2f} | {peak:,.0f} |", flush=True)


def make_table(table: Path, commits: int, rows: int, configuration: dict[str, str]) -> float:
    """Write the table; returns seconds of a core."""
    random = np.random.default_rng(1)
    begun = time.process_time()
    for number in range(commits):
        keys = number * 1000 + random.integers(0, 3000, rows)
        da.write(
            table, pa.table({"t": keys, "v": random.random(rows)}), configuration=configuration
        )
    return time.process_time() - begun


def run(table: Path, reading: str) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.ordered_scan", "--read", str(table), reading]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: list[float] = json.loads(done.stdout)
    return figures


def read(table: Path, reading: str) -> list[float]:
    """Read the table; returns seconds, seconds of a core, and the peak in MB."""
    begun, core = time.perf_counter(), time.process_time()
    if reading == "ordered scan":
        last = -1
        for batch in da.to_batches(table, order_by=["t"]):
            keys = batch["t"].to_numpy()
            assert last <= keys[0]
            assert bool(np.all(keys[1:] >= keys[:-1]))
            last = keys[-1]
    elif reading == "read and sort":
        da.to_table(table).sort_by("t")
    else:
        for _ in da.to_batches(table):
            pass
    used = [time.perf_counter() - begun, time.process_time() - core]
    return [*used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000]


if __name__ == "__main__":
    main()
