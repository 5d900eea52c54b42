"""Compaction and Z-order, beside deltalake on copies of one table, each in its own process.

    python -m benchmarks.layout [--rows 10000000] [--files 1000] [--target-mb 8] [--rounds 1]
        [--folder DIR] [--json]

The peer's calls are `DeltaTable(path).optimize.compact(target_size=...)` and
`.optimize.z_order([...], target_size=...)`. The time is from opening the table to the end, without
imports. Peak memory is the process's, with its imports. Afterwards 100 filters, half for a point of
both columns and half for a range of one column, are applied to the statistics of each table: the
report has the number of files that they keep, and its share of all files.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import delta_ops.arrow as da
from benchmarks.ratios import Ratio, record_ratio
from delta_ops import DeltaLog, begin, col
from delta_ops.protocol.predicate import Predicate

COLUMNS = ("item", "customer")
VALUES = 1_000_000
CHILD = """
import json, sys, time
path, columns, target = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])
{imports}
started = time.perf_counter()
{work}
took = time.perf_counter() - started
with open("/proc/self/status") as status:
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
print(json.dumps([took, int(peak) // 1024]))
"""
OURS = "from delta_ops.maintenance import optimize"
PEER = "from deltalake import DeltaTable"
WORK = {
    "compaction": (
        (OURS, "optimize(path, target_size=target)"),
        (PEER, "DeltaTable(path).optimize.compact(target_size=target)"),
    ),
    "Z-order": (
        (OURS, "optimize(path, target_size=target, zorder_by=columns)"),
        (PEER, "DeltaTable(path).optimize.z_order(columns, target_size=target)"),
    ),
    "Hilbert": (
        (OURS, "optimize(path, target_size=target, zorder_by=columns, curve='hilbert')"),
        (PEER, "DeltaTable(path).optimize.z_order(columns, target_size=target)"),
    ),
}


class Run(NamedTuple):
    """One run, and its resulting table."""

    seconds: float
    peak_mb: float
    files: float
    megabytes: float
    files_read: float
    """Total of 100 filters."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--target-mb", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=list(WORK))
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    report: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        table = Path(folder) / "t"
        make_table(table, arguments.rows, arguments.files)
        for name, sides in WORK.items():
            if arguments.only in (None, name):
                target = arguments.target_mb << 20
                report[name] = [measure(table, side, target, arguments.rounds) for side in sides]
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def make_table(root: Path, num_rows: int, num_files: int) -> None:
    """A table of small files in one commit; each file has values from the whole range."""
    numbers = np.random.default_rng(1)
    count = num_rows // num_files
    txn = None
    for _ in range(num_files):
        rows = pa.table(
            {
                "item": numbers.integers(0, VALUES, count),
                "customer": numbers.integers(0, VALUES, count),
                "amount": numbers.random(count).round(4),
                "country": np.array(["NL", "BE", "DE", "FR"])[numbers.integers(0, 4, count)],
                "note": np.char.add("note ", numbers.integers(0, 10**9, count).astype(str)),
            }
        )
        if txn is None:
            da.write(root, rows)
            txn = begin(DeltaLog(root))
        else:
            txn.stage(da.stage_write(DeltaLog(root), rows))
    assert txn
    txn.commit(operation="WRITE")


def measure(table: Path, side: tuple[str, str], target: int, rounds: int) -> Run:
    """The median of runs on copies of the table."""
    runs = [run(table, side, target) for _ in range(rounds)]
    return Run(*map(statistics.median, zip(*runs, strict=True)))


def run(table: Path, side: tuple[str, str], target: int) -> Run:
    imports, work = side
    copy = table.with_name("copy")
    shutil.copytree(table, copy)
    done = subprocess.run(
        [
            *(sys.executable, "-c", CHILD.format(imports=imports, work=work)),
            *(str(copy), ",".join(COLUMNS), str(target)),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    seconds, peak = json.loads(done.stdout)
    snapshot = DeltaLog(copy).snapshot()
    read = sum(len(snapshot.add_files(each)) for each in filters())
    megabytes = snapshot.size_bytes / (1 << 20)
    shutil.rmtree(copy)
    return Run(seconds, peak, snapshot.num_files, megabytes, read)


def filters() -> list[Predicate]:
    """Filters, the same in each run."""
    numbers = random.Random(7)
    found: list[Predicate] = []
    for _ in range(50):
        item, customer = numbers.randrange(VALUES), numbers.randrange(VALUES)
        found.append((col("item") == item) & (col("customer") == customer))
        name, low = numbers.choice(COLUMNS), numbers.randrange(VALUES)
        found.append((col(name) >= low) & (col(name) < low + VALUES // 100))
    return found


def render_markdown(report: dict[str, list[Run]]) -> str:
    lines = []
    for name, (ours, peer) in report.items():
        record_ratio(Ratio(f"layout: {name}", ours.seconds, peer.seconds))
        lines += [f"{name}:", "", "| | delta_ops | deltalake | ratio |", "|---|---|---|---|"]
        rows = [*zip(("seconds", "peak memory, MB", "files", "MB", "files read by 100 filters"),
                     ours, peer, strict=True)]  # fmt: skip
        rows.append(
            ("share of files read", ours.files_read / ours.files, peer.files_read / peer.files)
        )
        lines += [f"| {what} | {a:,.2f} | {b:,.2f} | {a / b:.2f} |" for what, a, b in rows]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
