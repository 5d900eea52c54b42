"""Writing checkpoints, beside deltalake on the same logs, each in its own process.

    python -m benchmarks.checkpoints [--files 1000000] [--large 5000000] [--rounds 5]

Classic: open a table of 100 commits and write its checkpoint, by `DeltaLog(path).snapshot()` and
`write_checkpoint`, and by `DeltaTable(path)` and `create_checkpoint()`. Times exclude imports; the
peak of memory includes them. Only we run the large table, once, for its memory. V2: a thousand new
files on a table that has a V2 checkpoint, against the classic checkpoint of the same version of the
same table, both ours; timed from the call that opens the table.
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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.open_table import adds, make_table
from benchmarks.ratios import Ratio, record_ratio
from delta_ops import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import create_checkpoint

COMMITS = 100
NEW_FILES = 1_000
OURS = """
    import sys, time
    from delta_ops import DeltaLog
    from delta_ops.log.checkpoint_write.write import write_checkpoint
    started = time.perf_counter()
    written = write_checkpoint(DeltaLog(sys.argv[1]).snapshot(), now_ms=0)
    num_files = written.num_add_files
"""
PEER = """
    import json, sys, time
    from deltalake import DeltaTable
    started = time.perf_counter()
    DeltaTable(sys.argv[1]).create_checkpoint()
    with open(sys.argv[1] + "/_delta_log/_last_checkpoint") as hint:
        num_files = json.load(hint)["numOfAddFiles"]
"""
CHILD = """
{work}
seconds = time.perf_counter() - started
import json
with open('/proc/self/status') as status:
    peak = next(line.split()[1] for line in status if line.startswith('VmHWM'))
print(json.dumps([seconds, int(peak) / 1024, num_files]))
"""


class Run(NamedTuple):
    """The time and memory of one process."""

    seconds: float
    peak_mb: float
    num_files: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=5_000_000, help="0: leave it out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    print("| | s | s of the other | times faster | MB | MB of the other | memory |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        table = Path(folder) / "table"
        make_table(table, commits=COMMITS, files=arguments.files // COMMITS)
        sides = {"ours": lambda: run(OURS, table), "peer": lambda: run(PEER, table)}
        name = f"open {arguments.files:,} adds and write the classic checkpoint; deltalake"
        report(name, *rounds(sides, arguments.rounds, lambda: forget_checkpoints(table)))
        v2, classic = make_v2(table, Path(folder), arguments.files)
        sides = {"ours": lambda: run(OURS, v2), "peer": lambda: run(OURS, classic)}
        name = f"V2 after {NEW_FILES:,} more; our classic one"
        last = COMMITS + 1
        report(
            name, *rounds(sides, arguments.rounds, lambda: forget_checkpoints(v2, classic, at=last))
        )
        if arguments.large:
            shutil.rmtree(table)
            make_table(table, commits=COMMITS, files=arguments.large // COMMITS)
            large = run(OURS, table)
            print(
                f"| {large.num_files:,} adds | {large.seconds:.1f} | | | {large.peak_mb:.0f} | | |"
            )


def make_v2(table: Path, folder: Path, files: int) -> tuple[Path, Path]:
    """The table with a V2 checkpoint and then a thousand files: a V2 copy and a classic copy.

    Both have the same V2 checkpoint, and differ in the property for the next checkpoint.
    """
    forget_checkpoints(table)
    log = DeltaLog(table)
    version = COMMITS
    snapshot = log.snapshot()
    protocol = replace(
        snapshot.protocol,
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("v2Checkpoint",),
        writer_features=("v2Checkpoint", "appendOnly", "invariants"),
    )
    changed = replace(snapshot.metadata, configuration={"delta.checkpointPolicy": "v2"})
    create_commit(log.storage, log.log_directory, version, [protocol, changed])
    create_checkpoint(log, clock=lambda: 0)
    copy = folder / "classic"
    shutil.copytree(table, copy)
    for root, metadata in ((table, changed), (copy, snapshot.metadata)):
        target = DeltaLog(root)
        new = adds(files // NEW_FILES + 1, NEW_FILES)
        create_commit(target.storage, target.log_directory, version + 1, [metadata, *new])
    return table, copy


def forget_checkpoints(*tables: Path, at: int = COMMITS - 1) -> None:
    """Delete the checkpoints of a version; the hint goes back by one version."""
    for table in tables:
        log = table / "_delta_log"
        for path in log.glob(f"{at:020d}.checkpoint*"):
            path.unlink()
        (log / "_last_checkpoint").unlink(missing_ok=True)


def rounds(
    sides: dict[str, Callable[[], Run]], number: int, prepare: Callable[[], None]
) -> tuple[Run, Run]:
    """The medians of both sides, run alternately."""
    found: dict[str, list[Run]] = {name: [] for name in sides}
    for i in range(number):
        for name in sides if i % 2 else reversed(sides):
            prepare()
            found[name].append(sides[name]())
    ours, peer = (Run(*map(statistics.median, zip(*found[name], strict=True))) for name in sides)
    assert ours.num_files == peer.num_files
    return ours, peer


def report(name: str, ours: Run, other: Run) -> None:
    record_ratio(Ratio(f"checkpoints: {name}", ours.seconds, other.seconds))
    times, memory = other.seconds / ours.seconds, ours.peak_mb / other.peak_mb
    print(
        f"| {name} | {ours.seconds:.2f} | {other.seconds:.2f} | {times:.1f} | "
        f"{ours.peak_mb:.0f} | {other.peak_mb:.0f} | {memory:.2f} |",
        flush=True,
    )


def run(work: str, table: Path) -> Run:
    program = CHILD.format(work=textwrap.dedent(work))
    done = subprocess.run(
        [sys.executable, "-c", program, str(table)], check=True, stdout=subprocess.PIPE, text=True
    )
    return Run(*json.loads(done.stdout))


if __name__ == "__main__":
    main()
