"""Clean up a log of many old commits, beside deltalake on a copy, each in a new process.

    python -m benchmarks.log_cleanup [--commits 10000] [--rounds 5]

Each commit adds a file; the last has a checkpoint that the hint names, so that both sides delete
all the others. Ours is `clean_up_log(DeltaLog(path))`, the peer's
`DeltaTable(path).cleanup_metadata()`: timed from the call that opens the table, without imports.
Our time includes reading the boundary checkpoint before any deletion. For comparison, the report
has the time of the deletions alone, by `os.unlink` one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.ratios import Ratio, record_ratio

OLD_S = 60 * 86_400
OURS = """
from delta_ops import DeltaLog
from delta_ops.maintenance import clean_up_log
def clean_up():
    clean_up_log(DeltaLog(path))
"""
PEER = """
from deltalake import DeltaTable
def clean_up():
    DeltaTable(path).cleanup_metadata()
"""
UNLINK = """
import os
def clean_up():
    log = os.path.join(path, "_delta_log")
    for name in sorted(n for n in os.listdir(log) if n.endswith(".json"))[:-1]:
        os.unlink(os.path.join(log, name))
"""
CHILD = """
import json, resource, sys, time
path = sys.argv[1]
{side}
before = resource.getrusage(resource.RUSAGE_SELF)
started = time.perf_counter()
clean_up()
took = time.perf_counter() - started
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
with open('/proc/self/status') as status:
    peak = next(line.split()[1] for line in status if line.startswith('VmHWM'))
print(json.dumps([took, cpu, int(peak) / 1024]))
"""
SIDES = {"delta_ops": OURS, "deltalake": PEER, "unlink alone": UNLINK}


class Run(NamedTuple):
    """One clean-up."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    found: dict[str, list[Run]] = {name: [] for name in SIDES}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        made = Path(folder) / "made"
        make_table(made, arguments.commits)
        for number in range(arguments.rounds):
            for name in SIDES if number % 2 else reversed(SIDES):
                found[name].append(clean_up(name, made, Path(folder) / "copy"))
    print(render_markdown(arguments.commits, found))


def make_table(root: Path, commits: int) -> None:
    """Commits of small appends, from long ago."""
    from delta_ops import DeltaLog
    from delta_ops.log.commit_file import create_commit
    from delta_ops.maintenance import create_checkpoint
    from delta_ops.protocol.actions import AddFile, CommitInfo, Metadata, Protocol
    from delta_ops.protocol.json.codec import encode_commit

    schema = (
        '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    )
    log = DeltaLog(root)
    protocol = Protocol(min_reader_version=1, min_writer_version=2)
    metadata = Metadata(id="0" * 36, schema_string=schema, created_time=0)
    create_commit(log.storage, log.log_directory, 0, [protocol, metadata])
    for version in range(1, commits):
        path = f"part-{version:05d}.snappy.parquet"
        add = AddFile(path=path, size=1, partition_values={}, modification_time=0)
        info = CommitInfo(values={"timestamp": version, "operation": "WRITE"})
        place = root / "_delta_log" / f"{version:020d}.json"
        place.write_bytes(encode_commit([info, add]))
    create_checkpoint(log)
    then = time.time() - OLD_S
    for place in (root / "_delta_log").iterdir():
        os.utime(place, (then, then))


def clean_up(name: str, made: Path, table: Path) -> Run:
    """Clean up a copy; both sides must leave the same files."""
    shutil.copytree(made, table)
    command = [sys.executable, "-c", CHILD.format(side=SIDES[name]), str(table)]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    left = sorted(path.suffix for path in (table / "_delta_log").iterdir())
    assert left == ["", ".json", ".parquet"], left
    shutil.rmtree(table)
    return Run(*json.loads(shown.stdout))


def render_markdown(commits: int, found: dict[str, list[Run]]) -> str:
    median = {
        name: Run(*(statistics.median(values) for values in zip(*runs, strict=True)))
        for name, runs in found.items()
    }
    lines = [
        f"Clean-up of {commits:,} commits:",
        "",
        "| | seconds | CPU seconds | peak memory, MB |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {run.seconds:.3f} | {run.cpu_seconds:.3f} | {run.peak_mb:.0f} |"
        for name, run in median.items()
    ]
    ours, peer = median["delta_ops"], median["deltalake"]
    record_ratio(Ratio(f"log_cleanup: {commits:,} commits", ours.seconds, peer.seconds))
    lines += [
        "",
        f"delta_ops takes {ours.seconds / peer.seconds:.2f} of deltalake's time: it is "
        f"{peer.seconds / ours.seconds:.1f} times as fast, and takes "
        f"{ours.peak_mb / peer.peak_mb:.2f} of its memory.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
