"""Opening tables of many files, beside deltalake on the same log, each in its own process.

    python benchmarks/open_table.py [--files 1000000] [--rounds 5] [--folder DIR] [--json]

The time is from the call that opens the table to the list of its live files with path, size and
partition values, without imports. Peers: `DeltaTable(path)` with `get_add_actions()`, and
`to_pyarrow_dataset()` with `get_fragments(filter)` for pruning. Peak memory is the process's, with
its imports.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.ratios import GOAL, Ratio, record_ratio
from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Action, AddFile, CommitInfo, Metadata, Protocol
from delta_ops.protocol.schema import schema_to_json
from delta_ops.protocol.schema.arrow_types import schema_from_arrow

DAYS = 100
SCHEMA = pa.schema(
    [("id", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("day", pa.date32())]
)
OURS = """
    from delta_ops import DeltaLog, col
    log = DeltaLog(sys.argv[1])
"""
PEER = """
    import datetime
    import pyarrow.dataset as ds
    from deltalake import DeltaTable
"""
LIST_OURS = "number = log.snapshot().files(('path', 'size', 'partition_values')).num_rows"
LIST_PEER = "number = DeltaTable(sys.argv[1]).get_add_actions().num_rows"
PRUNE_OURS = """
    wanted = (col('day') == '2026-01-07') & (col('id') >= 500_000_000)
    number = log.snapshot().files(('path', 'size', 'partition_values'), wanted).num_rows
"""
PRUNE_PEER = """
    wanted = (ds.field('day') == datetime.date(2026, 1, 7)) & (ds.field('id') >= 500_000_000)
    number = len(list(DeltaTable(sys.argv[1]).to_pyarrow_dataset().get_fragments(wanted)))
"""
CHILD = """
import json, sys, time
{imports}
started = time.perf_counter()
{work}
took = time.perf_counter() - started
with open('/proc/self/status') as status:
    peak = next(line.split()[1] for line in status if line.startswith('VmHWM'))
print(json.dumps([took, int(peak) // 1024, number]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    make: Callable[[Path], None]
    ours: str = LIST_OURS
    peer: str = LIST_PEER
    goal: float = GOAL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        chosen = [case for case in cases(arguments.files) if arguments.only in case.name]
        report = {case.name: measure(case, Path(folder), arguments.rounds) for case in chosen}
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def cases(files: int) -> list[Case]:
    small = max(files // 10_000, 1)
    return [
        Case(
            name=f"list {files:,} files of one checkpoint",
            make=lambda root: make_table(root, commits=10, files=files // 10, checkpoint=True),
            goal=3.0,
        ),
        Case(
            name=f"list {files:,} files of 100 commits",
            make=lambda root: make_table(root, commits=100, files=files // 100),
        ),
        Case(
            name=f"list {files // 10:,} files of 1,000 commits",
            make=lambda root: make_table(root, commits=1000, files=small),
        ),
        # A tenth of the files: even for these the peer takes minutes and a gigabyte.
        Case(
            name=f"prune {files // 10:,} files of one checkpoint",
            make=lambda root: make_table(root, commits=10, files=files // 100, checkpoint=True),
            ours=PRUNE_OURS,
            peer=PRUNE_PEER,
        ),
    ]


def make_table(root: Path, *, commits: int, files: int, checkpoint: bool = False) -> None:
    """A log without data: only statistics describe the rows of a file."""
    log = DeltaLog(root)
    for version in range(commits):
        create_commit(
            log.storage, log.log_directory, version, [*actions(version), *adds(version, files)]
        )
    if checkpoint:
        write_checkpoint(log.snapshot(), now_ms=0)


def actions(version: int) -> Iterator[Action]:
    yield CommitInfo(values={"timestamp": version, "operation": "WRITE"})
    if version == 0:
        yield Protocol(min_reader_version=1, min_writer_version=2)
        yield Metadata(
            id="00000000-0000-0000-0000-000000000000",
            schema_string=schema_to_json(schema_from_arrow(SCHEMA)),
            partition_columns=("day",),
            created_time=0,
        )


def adds(version: int, files: int) -> Iterator[AddFile]:
    for number in range(files):
        low = (version * files + number) * 1000
        day = f"2026-{1 + number % DAYS // 28:02d}-{1 + number % DAYS % 28:02d}"
        stats = {
            "numRecords": 1000,
            "minValues": {"id": low, "x": low / 7, "s": f"text {low % 97}"},
            "maxValues": {"id": low + 999, "x": low / 7 + 1, "s": f"text {low % 97}z"},
            "nullCount": {"id": 0, "x": 0, "s": 3},
        }
        yield AddFile(
            path=f"day={day}/part-{number:05d}-{version:08x}-c2f3-4b1a-9d35-{low:012x}-c000.snappy.parquet",
            size=123_456 + number,
            partition_values={"day": day},
            modification_time=1_767_000_000_000 + number,
            data_change=True,
            stats=json.dumps(stats, separators=(",", ":")),
        )


def measure(case: Case, folder: Path, rounds: int) -> dict[str, float]:
    root = folder / case.name.replace(" ", "_").replace(",", "")
    case.make(root)
    found: dict[str, list[tuple[float, float, int]]] = {"ours": [], "peer": []}
    for number in range(rounds):
        pair = [("ours", OURS, case.ours), ("peer", PEER, case.peer)]
        for who, imports, work in pair if number % 2 else reversed(pair):
            found[who].append(run(imports, work, root))
    (num_files,) = {count for of_one in found.values() for _, _, count in of_one}
    ours_s, peer_s = (statistics.median(s for s, _, _ in found[who]) for who in ("ours", "peer"))
    ours_mb, peer_mb = (statistics.median(m for _, m, _ in found[who]) for who in ("ours", "peer"))
    record_ratio(Ratio(f"open_table: {case.name}", ours_s, peer_s, goal=case.goal))
    return {
        "files": num_files,
        "delta_ops_s": round(ours_s, 2),
        "deltalake_s": round(peer_s, 2),
        "times_faster": round(peer_s / ours_s, 1),
        "delta_ops_mb": ours_mb,
        "deltalake_mb": peer_mb,
        "memory": round(ours_mb / peer_mb, 2),
    }


def run(imports: str, work: str, root: Path) -> tuple[float, float, int]:
    program = CHILD.format(imports=textwrap.dedent(imports), work=textwrap.dedent(work))
    done = subprocess.run(
        [sys.executable, "-c", program, str(root)], check=True, stdout=subprocess.PIPE, text=True
    )
    seconds, megabytes, num_files = json.loads(done.stdout)
    return seconds, megabytes, num_files


def render_markdown(report: dict[str, dict[str, float]]) -> str:
    lines = [
        "| | delta_ops, s | deltalake, s | times faster | delta_ops, MB | deltalake, MB | memory |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {of['delta_ops_s']} | {of['deltalake_s']} | {of['times_faster']} | "
        f"{of['delta_ops_mb']} | {of['deltalake_mb']} | {of['memory']} |"
        for name, of in report.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
