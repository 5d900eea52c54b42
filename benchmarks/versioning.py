"""Sessions, tags, branches and publications, beside the same work without them.

    python -m benchmarks.versioning [--files 1000000] [--vacuum-files 200000] [--rows 6400000]
        [--rounds 3] [--folder DIR] [--only refs] [--iceberg-python PYTHON]

A session: 64 steps write the rows of ten columns, one step after the other, and one commit has
them; beside one write of the same rows, which makes one file; beside a transaction that makes the
same 64 files, one after the other, and commits them; and beside 64 calls of `pq.write_table`. Then
the same with a partition for each step, so that one write makes the same 64 files. Refs:
a tag and a branch on a table with a checkpoint of a million files; the calls and the bytes are
those beyond opening the snapshot. Branch: the time of `create_branch` on a table of 100,000 files
with a checksum, beside `create_branch` of pyiceberg, with a SQLite catalog on the same disk, on a
table of one file. Publication: a branch has 10 files, whose publication is timed; beside a commit
of 10 files to main. Vacuum: a dry run on a table half of whose files are orphans; with a tag of
each of 100 versions, and without. All on disk, each figure is a median, the sides take turns, and
the first round is not counted.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import delta_ops.arrow as da
from benchmarks.open_table import actions, adds
from benchmarks.vacuum import make_files, paths
from delta_ops import DeltaLog, begin
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.checksum_write.write import create_checksum
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import vacuum
from delta_ops.protocol.actions import AddFile
from delta_ops.storage import open_storage
from delta_ops.transaction import Staged
from delta_ops.versioning import (
    begin_session,
    create_branch,
    create_tag,
    open_branch,
    publish,
)
from tests.support.counting_storage import CountingStorage

NUM_COLUMNS, NUM_STEPS, NUM_TAGS, NUM_PUBLISHED = 10, 64, 100, 10
Took = tuple[float, float]
"""Seconds, and seconds of a core."""
SECTIONS = ("session", "refs", "branch", "publish", "vacuum")
NUM_BRANCHES, NUM_BRANCHED = 20, 100_000
ICEBERG = Path(__file__).with_name("iceberg_branch_program.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--vacuum-files", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=6_400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", choices=SECTIONS)
    parser.add_argument("--iceberg-python", help="a Python with pyiceberg[sql-sqlite,pyarrow]")
    arguments = parser.parse_args()
    wanted = SECTIONS if arguments.only is None else (arguments.only,)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if "session" in wanted:
            report_session(Path(folder) / "s", arguments.rows, arguments.rounds)
        if {"refs", "publish"} & {*wanted}:
            make_table(Path(folder) / "t", arguments.files)
        if "refs" in wanted:
            report_refs(Path(folder) / "t", arguments.files)
        if "branch" in wanted:
            report_branch(Path(folder), arguments.iceberg_python)
        if "publish" in wanted:
            report_publish(Path(folder) / "t", arguments.files, arguments.rounds)
        if "vacuum" in wanted:
            report_vacuum(Path(folder) / "v", arguments.vacuum_files, arguments.rounds)


def measure(work: Callable[[], object]) -> Took:
    started, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - cpu


def compare_first(sides: dict[str, Callable[[], Took]], rounds: int) -> None:
    """Print the medians of several sides, and the ratio of the first side to each other."""
    found: dict[str, list[Took]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name in sides if number % 2 else reversed(sides):
            took = sides[name]()
            if number:
                found[name].append(took)
    medians = {
        name: [statistics.median(each[place] for each in times) for place in (0, 1)]
        for name, times in found.items()
    }
    first, *_ = medians.values()
    print("| | seconds | seconds of a core | ratio of seconds | of seconds of a core |")
    print("|---|---|---|---|---|")
    for name, median in medians.items():
        ratios = [f"{one / other:.2f}" for one, other in zip(first, median, strict=True)]
        print(f"| {name} | {median[0]:.3f} | {median[1]:.3f} | {' | '.join(ratios)} |")
    print()


def compare(sides: dict[str, Callable[[int], Took]], rounds: int) -> None:
    """Print the medians of two sides, and their ratios."""
    found: dict[str, list[Took]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name in sides if number % 2 else reversed(sides):
            took = sides[name](number)
            if number:
                found[name].append(took)
    names = list(sides)
    print(f"| | {' | '.join(names)} | ratio |\n|---|---|---|---|")
    for place, unit in enumerate(("seconds", "seconds of a core")):
        one, two = (statistics.median(each[place] for each in found[name]) for name in names)
        print(f"| {unit} | {one:.3f} | {two:.3f} | {one / two:.2f} |")
    print()


def report_session(root: Path, num_rows: int, rounds: int) -> None:
    numbers = np.random.default_rng(0).random((NUM_COLUMNS, num_rows))
    rows = pa.table({f"c{place}": column for place, column in enumerate(numbers)})
    size = num_rows // NUM_STEPS
    parts = [rows.slice(number * size, size) for number in range(NUM_STEPS)]
    (root / "plain").mkdir(parents=True)

    def write_plain_files() -> None:
        for number, part in enumerate(parts):
            pq.write_table(part, root / "plain" / f"{number}.parquet")

    print(f"\n## {NUM_STEPS} steps of a session, {num_rows:,} rows and {NUM_COLUMNS} columns\n")
    sides = session_sides(root, parts, "one write, which makes 1 file")
    sides[f"pq.write_table, {NUM_STEPS} files"] = lambda: measure(write_plain_files)
    compare_first(sides, rounds)
    print(f"The same, and each step writes a partition of {size:,} rows:\n")
    days = [
        part.append_column("day", pa.repeat(pa.scalar(number), size))
        for number, part in enumerate(parts)
    ]
    name = f"one write, which makes {NUM_STEPS} files"
    compare_first(session_sides(root / "partitioned", days, name, partition_by=["day"]), rounds)


def session_sides(
    root: Path, parts: list[pa.Table], name: str, *, partition_by: Sequence[str] = ()
) -> dict[str, Callable[[], Took]]:
    """A session that writes each part in a step; one write of all; one commit of a file each.

    Args:
        name: Of the one write.
    """
    rows = pa.concat_tables(parts)
    for table in ("session", "write", "commit"):
        da.write(root / table, rows.slice(0, 1), partition_by=partition_by)

    def write_steps() -> None:
        session = begin_session(root / "session")
        for number, part in enumerate(parts):
            da.write(session.fork(f"part {number}"), part)
        session.commit()

    def commit_files() -> None:
        transaction = begin(root / "commit")
        for part in parts:
            transaction.stage(da.stage_write(transaction, part))
        transaction.commit(operation="WRITE")

    return {
        f"a session of {NUM_STEPS} steps": lambda: measure(write_steps),
        name: lambda: measure(lambda: da.write(root / "write", rows)),
        f"one commit of {NUM_STEPS} files": lambda: measure(commit_files),
    }


def make_table(root: Path, num_files: int) -> None:
    """A table with this many files, in a checkpoint."""
    log = DeltaLog(root)
    create_commit(log.storage, log.log_directory, 0, [*actions(0), *adds(0, num_files)])
    write_checkpoint(log.snapshot(), now_ms=0)


def report_refs(root: Path, num_files: int) -> None:
    print(f"\n## Calls for a ref, table of {num_files:,} files\n")
    print("| | calls | more than opening the snapshot | more bytes stored |\n|---|---|---|---|")
    opening = calls_of(root, lambda log: log.snapshot())
    print(f"| opening the snapshot | {text_of(opening)} | | |")
    works: dict[str, Callable[[DeltaLog], object]] = {
        "the first tag": lambda log: create_tag(log, "first"),
        "another tag": lambda log: create_tag(log, "second"),
        "a branch": lambda log: create_branch(log, "audit"),
    }
    for name, work in works.items():
        before = stored_bytes(root)
        calls = calls_of(root, work)
        more = sum(calls.values()) - sum(opening.values())
        print(f"| {name} | {text_of(calls)} | {more} | {stored_bytes(root) - before:,} |")
    print()


def report_branch(folder: Path, iceberg_python: str | None) -> None:
    root = folder / "b"
    make_table(root, NUM_BRANCHED)
    log = DeltaLog(root)
    first = [*actions(0), *adds(0, NUM_BRANCHED)]
    create_checksum(log.storage, log.log_directory, 0, None, first, recount=True)
    took = [
        measure(partial(create_branch, DeltaLog(root), f"b{number}"))
        for number in range(NUM_BRANCHES + 1)
    ]
    print(f"\n## Create a branch, {NUM_BRANCHED:,} files\n\n| | milliseconds | of a core |")
    print("|---|---|---|")
    ours = [statistics.median(each[place] for each in took[1:]) for place in (0, 1)]
    print(f"| create_branch | {ours[0] * 1000:.1f} | {ours[1] * 1000:.1f} |")
    if iceberg_python is not None:
        command = [iceberg_python, str(ICEBERG), str(folder / "i"), str(NUM_BRANCHES)]
        theirs = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        wall, core = map(float, theirs.split())
        print(f"| pyiceberg, table of 1 file | {wall * 1000:.1f} | {core * 1000:.1f} |")
    print()


def calls_of(root: Path, work: Callable[[DeltaLog], object]) -> Counter[str]:
    calls: Counter[str] = Counter()

    def count(_number: int, method: str, _path: str, moment: str) -> None:
        calls.update([method] if moment == "before" else [])

    work(DeltaLog(root, storage=CountingStorage(open_storage(root), count)))
    return calls


def text_of(calls: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(calls.items()))


def stored_bytes(root: Path) -> int:
    own = root / "_delta_ops"
    return sum(path.stat().st_size for path in own.rglob("*") if path.is_file())


def report_publish(root: Path, num_files: int, rounds: int) -> None:
    def stage(log: DeltaLog, name: str) -> Staged:
        files = []
        for number in range(NUM_PUBLISHED):
            path = f"day=2026-01-01/{name}-{number}.parquet"
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).touch()
            files.append(
                AddFile(
                    path=path,
                    size=0,
                    partition_values={"day": "2026-01-01"},
                    modification_time=int(time.time() * 1000),
                    data_change=True,
                    stats='{"numRecords":1000}',
                )
            )
        definition = log.snapshot().definition
        return Staged(
            adds=tuple(files),
            schema=definition.schema,
            partition_columns=definition.partition_columns,
            num_rows=1000 * NUM_PUBLISHED,
        )

    def commit(log: DeltaLog, staged: Staged) -> None:
        transaction = begin(log)
        transaction.stage(staged)
        transaction.commit(operation="WRITE")

    def publish_files(number: int) -> Took:
        create_branch(root, f"b{number}")
        branch = open_branch(root, f"b{number}")
        commit(branch, stage(branch, f"branch-{number}"))
        return measure(lambda: publish(root, f"b{number}"))

    def append_files(number: int) -> Took:
        staged = stage(DeltaLog(root), f"main-{number}")
        return measure(lambda: commit(DeltaLog(root), staged))

    print(f"\n## {NUM_PUBLISHED} files into {num_files:,}\n")
    compare({"publication": publish_files, "append": append_files}, rounds)


def report_vacuum(root: Path, num_files: int, rounds: int) -> None:
    live, orphans = paths(num_files, 200)
    for name in ("tags", "none"):
        log = DeltaLog(root / name)
        for version in range(NUM_TAGS):
            files = [
                AddFile(path=path, size=0, partition_values={"day": "1"}, modification_time=0)
                for path in live[version::NUM_TAGS]
            ]
            create_commit(log.storage, log.log_directory, version, [*actions(version), *files])
        write_checkpoint(log.snapshot(), now_ms=0)
        make_files(root / name, [*live, *orphans])
    for version in range(NUM_TAGS):
        create_tag(root / "tags", f"t{version}", version)

    def plan(name: str) -> Took:
        def run() -> None:
            found = vacuum(DeltaLog(root / name), dry_run=True)
            assert len(found.plan.files) == len(orphans)

        return measure(run)

    print(f"\n## Vacuum of {num_files:,} files\n")
    sides = {f"{NUM_TAGS} tags": lambda _n: plan("tags"), "no tags": lambda _n: plan("none")}
    compare(sides, rounds)


if __name__ == "__main__":
    main()
