"""Tables that are large in one way, beside deltalake, each step in its own process.

    python -m benchmarks.large_tables [--partitions 100000] [--commits 20000] [--columns 5000]
        [--removes 300000] [--rounds 1] [--growth-rounds 1] [--only commits] [--folder DIR] [--json]

Partitions: a file in each. Commits: of one file each, without a checkpoint. Columns: all have
statistics. Removes: a table with this many files in a checkpoint is overwritten by one row. Each
side runs the steps in order on its own table, created in the same way; the sides alternate, and
figures are medians. The time is from the call that opens the table to the answer, without imports.
Peak memory is the process's, with its imports. Growth compares our CPU seconds at a quarter and
half of the number, and at half and all of it: 2 is linear, 4 would be quadratic. One round of all
takes half an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.open_table import actions, adds
from benchmarks.ratios import Ratio, record_ratio
from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Action, AddFile, Metadata

FOLDERS = 300
OLD_S = 1_000_000_000
OURS = """
    from datetime import timedelta
    import pyarrow as pa
    import delta_ops.arrow as da
    from delta_ops.arrow import *
    from delta_ops import DeltaLog, col
    from delta_ops.maintenance import create_checkpoint, vacuum
"""
PEER = """
    import pyarrow as pa
    import pyarrow.dataset
    from deltalake import DeltaTable, write_deltalake
"""
CHILD = """
import json, os, sys, time
{imports}
path, n = sys.argv[1], int(sys.argv[2])
{prepare}
before, started = os.times(), time.perf_counter()
{work}
took, after = time.perf_counter() - started, os.times()
cpu = after.user - before.user + after.system - before.system
with open('/proc/self/status') as status:
    peak = next(line.split()[1] for line in status if line.startswith('VmHWM'))
print(json.dumps([took, cpu, int(peak) // 1024, answer]), flush=True)
os._exit(0)  # the peer's threads now and then abort an exiting process
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of both sides with the same answer."""

    name: str
    ours: str
    peer: str
    prepare: str = ""
    """Set-up for both sides, before the clock starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A table and its steps."""

    make: Callable[[Path, int], None]
    steps: Sequence[Step]


class Run(NamedTuple):
    """One step of one side."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    answer: int


LIST = Step(
    name="open it and list its files",
    ours="answer = DeltaLog(path).snapshot().files(('path', 'size', 'partition_values')).num_rows",
    peer="answer = DeltaTable(path).get_add_actions().num_rows",
)
CHECKPOINT = Step(
    name="write a checkpoint",
    ours="create_checkpoint(DeltaLog(path)); answer = 0",
    peer="DeltaTable(path).create_checkpoint(); answer = 0",
)
PARTITIONS = (
    Step(
        name="write it",
        prepare="data = pa.table({'p': range(n), 'x': range(n)})",
        ours="answer = da.write(path, data, partition_by=['p']).version",
        peer="write_deltalake(path, data, partition_by=['p']); answer = 0",
    ),
    # The peer makes no file durable; with the same setting the work itself is comparable.
    Step(
        name="write it, files left to the system",
        prepare="from delta_ops.storage.local.storage import LocalStorage\n"
        "LocalStorage.persist = lambda *_: None\n"
        "data = pa.table({'p': range(n), 'x': range(n)})",
        ours="answer = da.write(f'{path}-copy', data, partition_by=['p']).version",
        peer="write_deltalake(f'{path}-copy', data, partition_by=['p']); answer = 0",
    ),
    LIST,
    Step(
        name="list the files of a partition",
        ours="answer = DeltaLog(path).snapshot().files(['path'], col('p') == 7).num_rows",
        peer="answer = len(DeltaTable(path).file_uris([('p', '=', '7')]))",
    ),
    Step(
        name="read a partition",
        ours="answer = da.to_table(DeltaLog(path), predicate=col('p') == 7).num_rows",
        peer="answer = DeltaTable(path).to_pyarrow_table(partitions=[('p', '=', '7')]).num_rows",
    ),
    Step(
        name="append to a partition",
        prepare="data = pa.table({'p': [7], 'x': [1]})",
        ours="answer = da.write(path, data).version",
        peer="write_deltalake(path, data, mode='append'); answer = 1",
    ),
    Step(
        name="vacuum, dry run",
        ours="answer = len(vacuum(DeltaLog(path), dry_run=True).plan.files)",
        peer="answer = len(DeltaTable(path).vacuum(full=True, dry_run=True))",
    ),
    Step(
        name="read all rows",
        ours="answer = da.to_table(DeltaLog(path)).num_rows",
        peer="answer = DeltaTable(path).to_pyarrow_table().num_rows",
    ),
    CHECKPOINT,
)
COMMITS = (
    LIST,
    Step(
        name="its last ten versions",
        ours="answer = len(list(DeltaLog(path).history(10)))",
        peer="answer = len(DeltaTable(path).history(10))",
    ),
    Step(
        name="all its history",
        ours="answer = len(list(DeltaLog(path).history()))",
        peer="answer = len(DeltaTable(path).history())",
    ),
    Step(
        name="append a row",
        prepare="import datetime; data = pa.table({'id': [1], 'x': [1.0], 's': ['a'], "
        "'day': [datetime.date(2026, 1, 1)]})",
        ours="answer = da.write(path, data).version",
        peer="write_deltalake(path, data, mode='append'); answer = n",
    ),
    CHECKPOINT,
)
# Its `to_pyarrow_table` takes minutes for thousands of columns.
BY_QUERY = (
    "from deltalake import QueryBuilder; answer = QueryBuilder().register('t', DeltaTable(path))"
    ".execute('select {} from t').read_all().num_rows"
)
COLUMNS = (
    Step(
        name="write it",
        prepare="data = pa.table({f'c{i}': pa.array(range(i, i + 100)) for i in range(n)}); "
        "properties = {'delta.dataSkippingNumIndexedCols': '-1'}",
        ours="answer = da.write(path, data, configuration=properties).version",
        peer="write_deltalake(path, data, configuration=properties); answer = 0",
    ),
    LIST,
    Step(
        name="list the files by a column",
        ours="answer = DeltaLog(path).snapshot().files(['path'], col('c7') == 7).num_rows",
        peer="answer = len(list(DeltaTable(path).to_pyarrow_dataset().get_fragments("
        "pyarrow.dataset.field('c7') == 7)))",
    ),
    Step(
        name="append to it",
        prepare="data = pa.table({f'c{i}': pa.array(range(i, i + 100)) for i in range(n)})",
        ours="answer = da.write(path, data).version",
        peer="write_deltalake(path, data, mode='append'); answer = 1",
    ),
    Step(
        name="read one column",
        ours="answer = da.to_table(DeltaLog(path), ['c7']).num_rows",
        peer=BY_QUERY.format("c7"),
    ),
    Step(
        name="read all columns",
        ours="answer = da.to_table(DeltaLog(path)).num_rows",
        peer=BY_QUERY.format("*"),
    ),
    CHECKPOINT,
)
ONE_ROW = (
    "import datetime; data = pa.table({'id': [1], 'x': [1.0], 's': ['a'], "
    "'day': [datetime.date(2026, 1, 1)]})"
)
REMOVES = (
    Step(
        name="overwrite it",
        prepare=ONE_ROW,
        ours="answer = da.write(path, data, 'overwrite').version",
        peer="write_deltalake(path, data, mode='overwrite'); answer = 1",
    ),
    LIST,
    Step(
        name="append a row",
        prepare=ONE_ROW,
        ours="answer = da.write(path, data).version",
        peer="write_deltalake(path, data, mode='append'); answer = 2",
    ),
    CHECKPOINT,
    replace(LIST, name="open it and list its files from that"),
    Step(
        name="vacuum, dry run",
        ours="answer = len(vacuum(DeltaLog(path), dry_run=True, retention=timedelta(0), "
        "enforce_retention=False).plan.files)",
        peer="answer = len(DeltaTable(path).vacuum(0, dry_run=True, "
        "enforce_retention_duration=False, full=True))",
    ),
    Step(
        name="vacuum",
        ours="answer = vacuum(DeltaLog(path), retention=timedelta(0), "
        "enforce_retention=False).deleted_files",
        peer="answer = len(DeltaTable(path).vacuum(0, dry_run=False, "
        "enforce_retention_duration=False, full=True))",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=5_000)
    parser.add_argument("--removes", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--growth-rounds", type=int, default=1, help="0: leave it out")
    parser.add_argument("--only", default="", help="tables whose name holds this text")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    tables = {
        f"{arguments.partitions:,} partitions": (PARTITIONS_TABLE, arguments.partitions),
        f"{arguments.commits:,} commits": (COMMITS_TABLE, arguments.commits),
        f"{arguments.columns:,} columns": (COLUMNS_TABLE, arguments.columns),
        f"{arguments.removes:,} removes": (REMOVES_TABLE, arguments.removes),
    }
    report = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name, (scenario, number) in tables.items():
            if arguments.only in name:
                report[name] = measure(
                    scenario, number, Path(folder), arguments.rounds, arguments.growth_rounds
                )
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def nothing(root: Path, number: int) -> None:
    """The first step makes the table."""


def make_commits(root: Path, number: int) -> None:
    log = DeltaLog(root)
    for version in range(number):
        create_commit(
            log.storage,
            log.log_directory,
            version,
            [*actions_without_checkpoints(version), *adds(version, 1)],
        )


def actions_without_checkpoints(version: int) -> Iterator[Action]:
    for action in actions(version):
        if isinstance(action, Metadata):
            yield replace(action, configuration={"delta.checkpointInterval": "1000000000"})
        else:
            yield action


def make_files(root: Path, number: int) -> None:
    """Empty files, in one commit, for a checkpoint."""
    log = DeltaLog(root)
    days = [f"2026-{1 + i // 28:02d}-{1 + i % 28:02d}" for i in range(FOLDERS)]
    files = [
        (day, f"day={day}/part-{i // FOLDERS:05d}-c2f3-4b1a-9d35-{i:012x}-c000.snappy.parquet")
        for i, day in ((i, days[i % FOLDERS]) for i in range(number))
    ]
    named = [
        AddFile(path=path, size=0, partition_values={"day": day}, modification_time=0)
        for day, path in files
    ]
    create_commit(log.storage, log.log_directory, 0, [*actions_without_checkpoints(0), *named])
    write_checkpoint(log.snapshot(), now_ms=0)
    for _, path in files:
        place = root / path
        place.parent.mkdir(exist_ok=True)
        place.touch()
        os.utime(place, (OLD_S, OLD_S))


PARTITIONS_TABLE = Scenario(make=nothing, steps=PARTITIONS)
COMMITS_TABLE = Scenario(make=make_commits, steps=COMMITS)
COLUMNS_TABLE = Scenario(make=nothing, steps=COLUMNS)
REMOVES_TABLE = Scenario(make=make_files, steps=REMOVES)
SIDES = {"ours": OURS, "peer": PEER}


def measure(
    scenario: Scenario, number: int, folder: Path, rounds: int, growth_rounds: int
) -> dict[str, dict[str, object]]:
    found: dict[str, list[list[Run]]] = {"ours": [], "peer": []}
    for i in range(rounds):
        for who in SIDES if i % 2 else reversed(SIDES):
            found[who].append(run_steps(scenario, who, number, folder))
    halves = [
        [run_steps(scenario, "ours", number // part, folder) for _ in range(growth_rounds)]
        for part in (4, 2)
    ]
    report: dict[str, dict[str, object]] = {}
    for at, step in enumerate(scenario.steps):
        ours, peer = (_median([runs[at] for runs in found[who]]) for who in ("ours", "peer"))
        assert {runs[at].answer for side in found.values() for runs in side} == {ours.answer}, step
        cpu = [_median([runs[at] for runs in each]).cpu_seconds for each in halves if each]
        cpu.append(ours.cpu_seconds)
        record_ratio(Ratio(f"large_tables: {step.name}", ours.seconds, peer.seconds))
        report[step.name] = {
            "delta_ops_s": round(ours.seconds, 2),
            "deltalake_s": round(peer.seconds, 2),
            "times_faster": round(peer.seconds / ours.seconds, 2),
            "cpu_seconds": [round(ours.cpu_seconds, 2), round(peer.cpu_seconds, 2)],
            "delta_ops_mb": ours.peak_mb,
            "deltalake_mb": peer.peak_mb,
            "memory": round(ours.peak_mb / peer.peak_mb, 2),
            "growth": [round(b / a, 1) if a else None for a, b in pairwise(cpu)],
        }
    return report


def run_steps(scenario: Scenario, who: str, number: int, folder: Path) -> list[Run]:
    """Take a new table through all steps of one side, and keep it.

    Deletion here would slow down the next run: ext4 skips recently freed inodes, and then creates a
    file in two to five times the time.
    """
    root = Path(tempfile.mkdtemp(dir=folder))
    scenario.make(root, number)
    os.sync()
    runs = []
    for step in scenario.steps:
        runs.append(run(step, who, root, number))
        print(f"{number} {who} {step.name}: {runs[-1]}", file=sys.stderr, flush=True)
    return runs


def run(step: Step, who: str, root: Path, number: int) -> Run:
    program = CHILD.format(
        imports=textwrap.dedent(SIDES[who]),
        prepare=step.prepare,
        work=step.ours if who == "ours" else step.peer,
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(root), str(number)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Run(*json.loads(done.stdout))


def _median(runs: Sequence[Run]) -> Run:
    return Run(*(statistics.median(values) for values in zip(*runs, strict=True)))


def render_markdown(report: dict[str, dict[str, dict[str, object]]]) -> str:
    lines = [
        "| | delta_ops, s | deltalake, s | times faster | CPU seconds of each "
        "| delta_ops, MB | deltalake, MB | memory | growth |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for table, steps in report.items():
        lines += [
            f"| {table}: {name} | " + " | ".join(map(_cell, of.values())) + " |"
            for name, of in steps.items()
        ]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    main()
