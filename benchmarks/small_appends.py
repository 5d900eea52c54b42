"""Small commits, beside deltalake on tables created in the same way, each in its own process.

    python -m benchmarks.small_appends [--appends 1000] [--files 1000000] [--rounds 5]

Appends: one row each, by `da.write(path, data)` and `write_deltalake(path, data, mode="append")`,
which open the table again each time; both sides write a checkpoint every tenth version. Appends
with a checkpoint are reported separately. A property: `begin`, `set_properties`, `commit`, and
`alter.set_table_properties`, on a table with this many files in one checkpoint; timed from the call
that opens the table, without imports.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from benchmarks.open_table import make_table
from benchmarks.ratios import Ratio, record_ratio

INTERVAL = 10
PROPERTIES = {"delta.checkpointInterval": str(INTERVAL)}
APPEND_OURS = """
    import delta_ops.arrow as da
    def create(path, data):
        da.write(path, data, configuration=PROPERTIES)
    def append(path, data):
        da.write(path, data)
"""
APPEND_PEER = """
    from deltalake import write_deltalake
    def create(path, data):
        write_deltalake(path, data, configuration=PROPERTIES)
    def append(path, data):
        write_deltalake(path, data, mode="append")
"""
APPEND = """
    data = pa.table({"id": [1], "text": ["a row"]})
    create(path, data)
    took = []
    for _ in range(number):
        started = time.perf_counter()
        append(path, data)
        took.append(time.perf_counter() - started)
"""
PROPERTY_OURS = """
    from delta_ops import DeltaLog, begin
    def change(path):
        txn = begin(DeltaLog(path))
        txn.set_properties({"owner": "somebody"})
        txn.commit(operation="SET TBLPROPERTIES")
"""
PROPERTY_PEER = """
    from deltalake import DeltaTable
    def change(path):
        changes = {"owner": "somebody"}
        DeltaTable(path).alter.set_table_properties(changes, raise_if_not_exists=False)
"""
PROPERTY = """
    started = time.perf_counter()
    change(path)
    took = [time.perf_counter() - started]
"""
CHILD = """
import json, sys, time
import pyarrow as pa
path, number, PROPERTIES = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
{imports}
{work}
with open('/proc/self/status') as status:
    peak = next(line.split()[1] for line in status if line.startswith('VmHWM'))
print(json.dumps([took, int(peak) // 1024]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--appends", type=int, default=1_000)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report_appends(Path(folder), arguments.appends, arguments.rounds)
        report_property(Path(folder), arguments.files, arguments.rounds)


def report_appends(folder: Path, number: int, rounds: int) -> None:
    sides = {"ours": APPEND_OURS, "peer": APPEND_PEER}
    found: dict[str, list[list[float]]] = {name: [] for name in sides}
    for i in range(rounds):
        for name in sides if i % 2 else reversed(sides):
            table = folder / f"{name}{i}"
            found[name].append(figures(run(sides[name], APPEND, table, number)))
    ours, peer = (
        [statistics.median(values) for values in zip(*found[name], strict=True)] for name in sides
    )
    rows = (
        "appends a second, without a checkpoint",
        "ms of one among the first hundred",
        "ms of one among the last hundred",
        "ms of one that writes a checkpoint",
        "peak memory, MB",
    )
    print(f"{number:,} appends of a row:\n\n| | delta_ops | deltalake | ratio |\n|---|---|---|---|")
    for row, of_ours, of_peer in zip(rows[1:], ours[1:], peer[1:], strict=True):
        record_ratio(Ratio(f"small_appends: {row}", of_ours, of_peer, ""))
    for row, of_ours, of_peer in zip(rows, ours, peer, strict=True):
        print(f"| {row} | {of_ours:.1f} | {of_peer:.1f} | {of_ours / of_peer:.2f} |")


def figures(run: tuple[list[float], int]) -> list[float]:
    """The figures of one run, as `report_appends` shows them."""
    took, peak_mb = run
    by_version = dict(enumerate(took, start=1))
    plain = {version: s for version, s in by_version.items() if version % INTERVAL}
    first = [s for version, s in plain.items() if version <= 100]
    last = [s for version, s in plain.items() if version > len(took) - 100]
    with_checkpoint = [s for version, s in by_version.items() if not version % INTERVAL]
    return [
        len(plain) / sum(plain.values()),
        *(1000 * statistics.median(each) for each in (first, last, with_checkpoint)),
        peak_mb,
    ]


def report_property(folder: Path, files: int, rounds: int) -> None:
    table = folder / "large"
    make_table(table, commits=10, files=files // 10, checkpoint=True)
    ours, peer = (
        [run(imports, PROPERTY, table, 0) for _ in range(rounds)]
        for imports in (PROPERTY_OURS, PROPERTY_PEER)
    )
    print(f"\nA property of a table of {files:,} files:\n")
    print("| | delta_ops | deltalake | ratio |\n|---|---|---|---|")
    for row, of in (("s", lambda r: r[0][0]), ("peak memory, MB", lambda r: r[1])):
        a, b = (statistics.median(map(of, each)) for each in (ours, peer))
        print(f"| {row} | {a:.3f} | {b:.3f} | {a / b:.3f} |")


def run(imports: str, work: str, table: Path, number: int) -> tuple[list[float], int]:
    """Seconds of each commit, and the peak memory in MB."""
    child = CHILD.format(imports=textwrap.dedent(imports), work=textwrap.dedent(work))
    command = [sys.executable, "-c", child, str(table), str(number), json.dumps(PROPERTIES)]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: Any = json.loads(shown.stdout)
    return answer[0], answer[1]


if __name__ == "__main__":
    main()
