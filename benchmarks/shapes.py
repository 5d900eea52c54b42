"""What a file, a column and a value cost, beside deltalake, each run in its own process.

    python -m benchmarks.shapes [--scale 1.0] [--rounds 3] [--only TEXT] [--folder DIR]

All settings are the defaults of both. Each shape has many files, many columns or long values, so
one of these costs decides. The time is from the call to its return, without imports; the rows to
write are in memory before. CPU is the time of all threads, which is more exact while other programs
run. Peak memory is the process's with its imports. The ratios are ours to the peer's: below 1 is
less.

delta_ops syncs each file and its directories before the commit names the file, and deltalake does
not. The plain loop shows what this costs by itself: it writes the same files through pyarrow, with
and without syncing them.

"pyarrow alone" is what the Parquet library takes: `pyarrow.parquet` reads the files or writes the
rows by its defaults and zstd, in plain loops, without a table, statistics or checks of values.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.ratios import GOAL, MEMORY_GOAL, Ratio, record_ratio

CHILD = """
import json, os, sys, time
import pyarrow as pa
table = sys.argv[1]
def rows():
    with pa.OSFile(sys.argv[2]) as file:
        return pa.ipc.open_stream(file).read_all()
{imports}
began, cpu = time.perf_counter(), time.process_time()
{work}
took, cpu = time.perf_counter() - began, time.process_time() - cpu
with open("/proc/self/status") as status:
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
print(json.dumps([took, cpu, int(peak) / 1024]))
"""
OURS = """
import delta_ops.arrow as da
from delta_ops.arrow import *
from delta_ops.maintenance import optimize, vacuum
"""
PEER = "from deltalake import DeltaTable, write_deltalake"
PLAIN = """
import pyarrow.parquet as pq
from concurrent.futures import ThreadPoolExecutor
pa.array([0])  # imports pandas, if it is installed
def write(part):
    number, rows = part
    folder = f"{table}/p={number}"
    os.mkdir(folder)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema) as writer:
        writer.write_table(rows)
    with open(f"{folder}/part-0.parquet", "wb") as file:
        file.write(sink.getvalue())
def sync(place):
    descriptor = os.open(place, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
"""
ALONE = """
import glob
import pyarrow.parquet as pq
pa.array([0])  # imports pandas, if it is installed
"""
LOAD = "\ngiven = rows()"
WRITE_ALONE = "pq.write_table(given, table, compression='zstd')"
READ_ALONE = """
files = sorted(glob.glob(table + "/*.parquet"))
pa.concat_tables([pq.read_table(file) for file in files])
"""
COMPACT_ALONE = """
files = sorted(glob.glob(table + "/*.parquet"))
total = sum(map(os.path.getsize, files))
num_outputs = max(1, round(total / {target}))
size = -(-len(files) // num_outputs)
for first in range(0, len(files), size):
    held = []
    schema = pq.read_schema(files[first])
    with pq.ParquetWriter(f"{{table}}/new-{{first}}", schema, compression="zstd") as writer:
        for file in files[first : first + size]:
            held.append(pq.read_table(file))
            if sum(map(len, held)) >= 262_144:
                writer.write_table(pa.concat_tables(held))
                held = []
        if held:
            writer.write_table(pa.concat_tables(held))
"""
LAST_COMMITS = "last 10 of 3,000 commits"
FEED_OF_DELETES = "change feed of 50 deletes"
OLD_S = 1_000_000_000
DEFAULT_TARGET = 128 << 20
"""The default of delta_ops; deltalake has 100 MB."""


class Side(NamedTuple):
    """One side of a comparison."""

    imports: str
    work: str


class Shape(NamedTuple):
    name: str
    rows: Callable[[float], pa.Table]
    """Makes the rows of one write, for the scale."""
    ours: Side
    peer: Side
    plain: Side | None = None
    """The same by pyarrow alone."""
    commits: int = 0
    """Number of commits of these rows in the table beforehand."""
    partition_by: str | None = None
    changed: Callable[[pa.Table], pa.Table] | None = None
    """Makes the rows to write from the rows that are in the table."""
    sides: tuple[str, str] = ("delta_ops", "deltalake")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the files and rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", default="", help="shapes whose name holds this text")
    arguments = parser.parse_args()
    print("| shape | | time | CPU | peak memory | our ratios to it: time | CPU | memory |")
    print("|---|---|---|---|---|---|---|---|")
    for shape in shapes():
        if arguments.only in shape.name:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                for line in measure(shape, Path(folder), arguments.scale, arguments.rounds):
                    print(line, flush=True)


def shapes() -> Iterator[Shape]:
    by = ", partition_by=['p']"
    for num_partitions in (2_000, 20_000):
        yield Shape(
            name=f"write {num_partitions:,} partitions of 100 rows",
            rows=lambda scale, n=num_partitions: partitioned_rows(int(n * scale), 100),  # type: ignore[misc]
            ours=Side(OURS + LOAD, f"da.write(table, given{by})"),
            peer=Side(PEER + LOAD, f"write_deltalake(table, given{by})"),
        )
    yield Shape(
        name="append a row to each of 20,000 partitions",
        rows=lambda scale: partitioned_rows(int(20_000 * scale), 10),
        changed=lambda rows: rows.slice(0, len(rows) // 10),
        commits=1,
        partition_by="p",
        ours=Side(OURS + LOAD, "da.write(table, given)"),
        peer=Side(PEER + LOAD, "write_deltalake(table, given, mode='append')"),
    )
    yield Shape(
        name="plain loop over pyarrow: 2,000 partitions of 100 rows",
        sides=("synced", "not synced"),
        rows=lambda scale: partitioned_rows(int(2_000 * scale), 100).sort_by("p"),
        ours=Side(PLAIN + LOAD, LOOP + SYNC),
        peer=Side(PLAIN + LOAD, LOOP),
    )
    for kind, make in (("2,000 columns", wide_rows), ("nested columns", nested_rows)):
        yield write_shape(f"write {kind}", make)
        yield read_shape(f"read 10 files of {kind}", make)
        yield compact_shape(f"compact 10 files of {kind}", make, 10)
    for length in (64, 1_000):
        yield write_shape(
            f"write texts of {length:,} characters",
            lambda scale, n=length: text_rows(int(100_000_000 * scale) // n, n),  # type: ignore[misc]
        )
    for label, target in (("the default size", 0), ("32 MB", 32 << 20), ("8 MB", 8 << 20)):
        yield compact_shape(f"compact 1,000 files to {label}", plain_rows, 1_000, target)
    yield read_shape("read 1,000 files", plain_rows, 1_000)
    yield write_shape("write 10,000,000 rows", plain_rows)
    yield from repeated_shapes()
    yield Shape(
        name="vacuum dry run of 200,000 dead files",
        rows=lambda scale: partitioned_rows(int(200 * scale), 1),
        commits=1,
        partition_by="p",
        ours=Side(OURS, "vacuum(table, dry_run=True)"),
        peer=Side(PEER, "DeltaTable(table).vacuum(full=True, dry_run=True)"),
    )


def repeated_shapes() -> Iterator[Shape]:
    """Short reads of the log, after a first call that imports what they need."""
    both = (
        (LAST_COMMITS, "list(DeltaLog(table).history(limit=10))", "DeltaTable(table).history(10)"),
        (
            FEED_OF_DELETES,
            "da.read_changes(table, 1).read_all()",
            "pa.table(DeltaTable(table).load_cdf(starting_version=1))",
        ),
    )
    for name, ours, peer in both:
        yield Shape(
            name=name,
            rows=lambda scale: plain_rows(scale / 100),
            commits=1,
            ours=Side(f"{OURS}from delta_ops import DeltaLog\n{ours}", ours),
            peer=Side(f"{PEER}\n{peer}", peer),
        )


LOOP = """
os.mkdir(table)
ends = given["p"].to_numpy().searchsorted(range(given["p"][-1].as_py() + 2))
stored = given.drop_columns(["p"])
parts = [(n, stored.slice(a, b - a)) for n, (a, b) in enumerate(zip(ends[:-1], ends[1:]))]
with ThreadPoolExecutor(os.cpu_count()) as pool:
    list(pool.map(write, parts))
"""
SYNC = """
places = [f"{table}/p={n}/part-0.parquet" for n, _ in parts] + [f"{table}/p={n}" for n, _ in parts]
with ThreadPoolExecutor(32) as pool:
    list(pool.map(sync, places))
sync(table)
"""


def write_shape(name: str, rows: Callable[[float], pa.Table]) -> Shape:
    return Shape(
        name=name,
        rows=rows,
        ours=Side(OURS + LOAD, "da.write(table, given)"),
        peer=Side(PEER + LOAD, "write_deltalake(table, given)"),
        plain=Side(ALONE + LOAD, WRITE_ALONE),
    )


def read_shape(name: str, rows: Callable[[float], pa.Table], files: int = 10) -> Shape:
    return Shape(
        name=name,
        rows=rows,
        commits=files,
        ours=Side(OURS, "da.to_table(table)"),
        peer=Side(PEER, "DeltaTable(table).to_pyarrow_table()"),
        plain=Side(ALONE, READ_ALONE),
    )


def compact_shape(
    name: str, rows: Callable[[float], pa.Table], files: int, target: int = 0
) -> Shape:
    option = f"target_size={target}" if target else ""
    return Shape(
        name=name,
        rows=rows,
        commits=files,
        ours=Side(OURS, f"optimize(table, {option})"),
        peer=Side(PEER, f"DeltaTable(table).optimize.compact({option})"),
        plain=Side(ALONE, COMPACT_ALONE.format(target=target or DEFAULT_TARGET)),
    )


def measure(shape: Shape, folder: Path, scale: float, rounds: int) -> Iterator[str]:
    rows = shape.rows(scale)
    base = folder / "base"
    make_table(base, shape, rows)
    source = folder / "rows"
    given = shape.changed(rows) if shape.changed else rows
    with pa.OSFile(str(source), "wb") as file, pa.ipc.new_stream(file, given.schema) as stream:
        stream.write_table(given)
    sides = dict(zip(shape.sides, (shape.ours, shape.peer), strict=True))
    if shape.plain:
        sides["pyarrow alone"] = shape.plain
    found: dict[str, list[list[float]]] = {who: [] for who in sides}
    for number in range(rounds):
        for who in sides if number % 2 else reversed(sides):
            table = folder / "table"
            if base.exists():
                shutil.copytree(base, table, copy_function=shutil.copyfile)
            found[who].append(run(sides[who], table, source))
            shutil.rmtree(table, ignore_errors=True)
            table.unlink(missing_ok=True)
    medians = {
        who: [statistics.median(one) for one in zip(*each, strict=True)]
        for who, each in found.items()
    }
    ours = medians[shape.sides[0]]
    for who, figures in medians.items():
        took_s, cpu_s, mb = figures
        ratios = " | ".join(
            f"{mine / other:.2f}" for mine, other in zip(ours, figures, strict=True)
        )
        shown = " | | " if figures is ours else ratios
        yield f"| {shape.name} | {who} | {took_s:.2f} s | {cpu_s:.2f} s | {mb:.0f} MB | {shown} |"
    if shape.sides[1] == "deltalake":
        goals = (GOAL, GOAL, MEMORY_GOAL)
        of_peer = zip(ours, medians["deltalake"], ("s", "s of CPU", "MB"), goals, strict=True)
        for mine, other, unit, goal in of_peer:
            record_ratio(Ratio(f"shapes: {shape.name}", mine, other, unit, goal))


def run(side: Side, table: Path, source: Path) -> list[float]:
    program = CHILD.format(imports=dedent(side.imports), work=dedent(side.work))
    command = [sys.executable, "-c", program, str(table), str(source)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def make_table(root: Path, shape: Shape, rows: pa.Table) -> None:
    import delta_ops.arrow as da
    from delta_ops import DeltaLog, begin

    if not shape.commits:
        return
    by = [shape.partition_by] if shape.partition_by else None
    if shape.name == LAST_COMMITS:
        for number in range(3_000):
            da.write(root, rows.slice(number, 1))
        return
    if shape.name == FEED_OF_DELETES:
        da.write(root, rows, configuration={"delta.enableChangeDataFeed": "true"})
        for number in range(50):
            da.delete(root, f"n = {number}")
        return
    if "vacuum" in shape.name:
        da.write(root, rows, partition_by=by)
        for folder in root.glob("p=*"):
            for number in range(1_000):
                file = folder / f"part-{number:05d}-c2f3-4b1a-9d35-{number:012x}-c000.parquet"
                file.touch()
                os.utime(file, (OLD_S, OLD_S))
        return
    size = len(rows) // shape.commits if shape.commits > 10 else len(rows)
    da.write(root, rows.slice(0, size), partition_by=by)
    if shape.commits > 1:
        txn = begin(DeltaLog(root))
        for number in range(1, shape.commits):
            part = rows.slice(number * size, size) if size < len(rows) else rows
            txn.stage(da.stage_write(DeltaLog(root), part))
        txn.commit(operation="WRITE")


def partitioned_rows(num_partitions: int, rows_of_each: int) -> pa.Table:
    """Rows in the order of an id, and so not ordered by partition."""
    numbers = np.arange(num_partitions * rows_of_each)
    return pa.table(
        {
            "id": numbers,
            "x": np.random.default_rng(0).random(len(numbers)),
            "s": pa.array([f"name {number % 1000}" for number in numbers]),
            "p": pa.array(numbers % num_partitions, pa.int32()),
        }
    )


def wide_rows(scale: float) -> pa.Table:
    numbers = np.random.default_rng(0)
    count = int(2_000 * scale)
    kinds: list[Callable[[], object]] = [
        lambda: numbers.integers(0, 1_000_000, count),
        lambda: numbers.random(count),
        lambda: numbers.integers(0, 100, count).astype(str),
        lambda: numbers.integers(0, 50, count).astype("int32"),
    ]
    return pa.table({f"c{i}": kinds[i % len(kinds)]() for i in range(2_000)})


def nested_rows(scale: float) -> pa.Table:
    chance = np.random.default_rng(0)
    count = int(200_000 * scale)
    lengths = chance.integers(0, 5, count)
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    items = int(lengths.sum())
    keys = pa.array([f"key {n}" for n in range(8)]).take(pa.array(np.arange(items) % 8))
    inner = pa.StructArray.from_arrays(
        [pa.array(chance.random(count)), pa.array(chance.integers(0, 1000, count))], ["x", "n"]
    )
    return pa.table(
        {
            "id": np.arange(count),
            "list": pa.ListArray.from_arrays(ends, pa.array(chance.integers(0, 10**6, items))),
            "struct": pa.StructArray.from_arrays([inner, pa.array(np.arange(count))], ["in", "k"]),
            "map": pa.MapArray.from_arrays(ends, keys, pa.array(chance.random(items))),
        }
    )


def text_rows(count: int, length: int) -> pa.Table:
    letters = np.random.default_rng(0).integers(97, 123, count * length, dtype="uint8")
    ends = pa.py_buffer(np.arange(0, count * length + 1, length, dtype="int32"))
    texts = pa.StringArray.from_buffers(count, ends, pa.py_buffer(letters))
    return pa.table({"id": np.arange(count), "text": texts})


def plain_rows(scale: float) -> pa.Table:
    chance = np.random.default_rng(0)
    count = int(10_000_000 * scale)
    names = pa.array([f"name {number}" for number in range(1000)])
    return pa.table(
        {
            "id": np.arange(count),
            "x": chance.random(count),
            "n": pa.array(chance.integers(0, 1000, count), pa.int32()),
            "s": names.take(pa.array(chance.integers(0, 1000, count))),
        }
    )


if __name__ == "__main__":
    main()
