"""Health of a fleet, beside deltalake on the same tables, each in its own process.

    python -m benchmarks.health [--tables 1000] [--rounds 5] [--folder DIR]

Tables of 20 commits after the first, written by deltalake, with a checkpoint at version 10. Ours:
`find_tables(prefix)` and `fleet_health(tables)`, with every verdict. The peer's: `DeltaTable(path)`
and `get_add_actions()` of each, which does not read tombstones, the log's files or retentions.
Times exclude imports; peak memory is the process's, with its imports.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa

COMMITS = 20
OURS = """
    from delta_ops.maintenance import find_tables, fleet_health
"""
OURS_WORK = """
    rows = list(fleet_health(find_tables(sys.argv[1]).tables))
    num_files = sum(row.report.figures.num_files for row in rows)
"""
PEER = """
    from pathlib import Path
    from deltalake import DeltaTable
"""
PEER_WORK = """
    num_files = 0
    for path in Path(sys.argv[1]).iterdir():
        num_files += DeltaTable(path).get_add_actions().num_rows
"""
CHILD = """
import json, sys, time
{imports}
started, cpu = time.perf_counter(), time.process_time()
{work}
took, cpu = time.perf_counter() - started, time.process_time() - cpu
with open('/proc/self/status') as status:
    peak = next(line.split()[1] for line in status if line.startswith('VmHWM'))
print(json.dumps([took, cpu, int(peak) // 1024, num_files]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        make_fleet(Path(folder), arguments.tables)
        report(Path(folder), arguments.tables, arguments.rounds)


def make_fleet(folder: Path, tables: int) -> None:
    """Copies of one table, so that each read is the same."""
    from deltalake import DeltaTable, write_deltalake

    first = folder / "t0"
    data = pa.table({"id": [1, 2, 3], "day": ["2026-01-01"] * 3, "text": ["a", "b", "c"]})
    properties = {"delta.checkpointInterval": "1000"}
    write_deltalake(first, data, partition_by=["day"], configuration=properties)
    for version in range(1, COMMITS + 1):
        write_deltalake(first, data, mode="append")
        if version == COMMITS // 2:
            DeltaTable(first).create_checkpoint()
    for number in range(1, tables):
        shutil.copytree(first, folder / f"t{number}")


def report(folder: Path, tables: int, rounds: int) -> None:
    sides = {"ours": (OURS, OURS_WORK), "peer": (PEER, PEER_WORK)}
    found: dict[str, list[list[float]]] = {name: [] for name in sides}
    for i in range(rounds):
        for name in sides if i % 2 else reversed(sides):
            found[name].append(run(*sides[name], folder))
    ours, peer = (
        [statistics.median(values) for values in zip(*found[name], strict=True)] for name in sides
    )
    if ours[3] != peer[3]:
        raise SystemExit(f"{ours[3]:.0f} files against {peer[3]:.0f}: not the same tables")
    print(f"Health of {tables:,} tables of {COMMITS} commits and a checkpoint:\n")
    print("| | delta_ops | deltalake | ratio |\n|---|---|---|---|")
    for row, of_ours, of_peer in zip(
        ("seconds", "seconds of a core", "peak memory, MB"), ours, peer, strict=False
    ):
        print(f"| {row} | {of_ours:.2f} | {of_peer:.2f} | {of_ours / of_peer:.2f} |")


def run(imports: str, work: str, folder: Path) -> list[float]:
    """Seconds, seconds of a core, the peak memory in MB, and the live files."""
    child = CHILD.format(imports=textwrap.dedent(imports), work=textwrap.dedent(work))
    command = [sys.executable, "-c", child, str(folder)]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: Any = json.loads(shown.stdout)
    return [float(each) for each in answer]


if __name__ == "__main__":
    main()
