"""Every operation on every shape of table, beside deltalake: the grid of all ratios.

    python -m benchmarks.shape_grid [--scale 1.0] [--rounds 2] [--only TEXT] [--folder DIR]

All settings are the defaults of both. A process of each engine runs all operations of a shape, each
on its own copy of the table, after it has run them on a tiny table. A figure is the median of the
rounds. The grid shows how many times as much the peer takes: by time, and by CPU, which is more
exact while other programs run. Where the Parquet library does most of the work, on both sides, the
goal is 1.0, otherwise 1.2. A dash is an operation that deltalake cannot do on such a table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.ratios import GOAL, LIBRARY_GOAL, Ratio, ratio_table, record_ratio
from benchmarks.shapes import nested_rows, text_rows, wide_rows

PROGRAM = "benchmarks.shape_grid_program"
SIDES = ("delta_ops", "deltalake")
OPERATIONS = (
    *("open", "plan", "read", "column", "filter", "append", "overwrite", "delete", "update"),
    *("merge", "optimize", "vacuum", "history", "changes"),
)
OF_LIBRARY = ("read", "column", "append", "overwrite", "optimize")
"""Operations whose time is mostly the Parquet library's."""
MOST_SECONDS = 900
"""A process that takes longer is stopped; its remaining operations have no figure."""
FEED = {"delta.enableChangeDataFeed": "true"}


class Shape(NamedTuple):
    rows: Callable[[float], pa.Table]
    """Makes the rows of the table for the scale; the columns `id`, `k` and `x` are added."""
    num_files: int = 1
    num_appended: int | None = None
    """Number of rows of an append; None means the rows of a file."""
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = {}
    column: str = "x"
    change: str = ""
    """`delete` or `update`: made once, so that there are vectors or change files."""


Took = dict[str, tuple[float, float]]
"""Seconds and seconds of CPU by operation."""


def shapes() -> dict[str, Shape]:
    plain = (100, 20_000)
    return {
        "one file of 10 rows": Shape(lambda _: value_rows(10)),
        "150 files of 20,000 rows": Shape(lambda scale: value_rows(150 * int(20_000 * scale)), 150),
        "1,000 files of 1,000 rows": Shape(
            lambda scale: value_rows(1_000 * int(1_000 * scale)), 1_000
        ),
        "20,000 partitions": Shape(
            lambda scale: partition_rows(int(20_000 * scale)),
            num_appended=1_000,
            partition_by=("p",),
        ),
        "2,000 columns": Shape(
            lambda scale: pa.concat_tables([wide_rows(scale)] * 10), 10, column="c7"
        ),
        "nested": Shape(nested_rows, 10, column="struct"),
        "texts of 64 characters": Shape(
            lambda scale: text_rows(int(1_000_000 * scale), 64), 10, column="text"
        ),
        "texts of 1,000 characters": Shape(
            lambda scale: text_rows(int(64_000 * scale), 1_000), 10, column="text"
        ),
        "few distinct values": Shape(lambda scale: value_rows(int(2_000_000 * scale), 20), 10),
        "many distinct values": Shape(lambda scale: value_rows(int(2_000_000 * scale), 10**9), 10),
        "deletion vectors": Shape(
            lambda scale: value_rows(plain[0] * int(plain[1] * scale)),
            plain[0],
            properties={"delta.enableDeletionVectors": "true"},
            change="delete",
        ),
        "column mapping": Shape(
            lambda scale: value_rows(plain[0] * int(plain[1] * scale)),
            plain[0],
            properties={"delta.columnMapping.mode": "name"},
        ),
        "change data feed": Shape(
            lambda scale: value_rows(plain[0] * int(plain[1] * scale)),
            plain[0],
            properties=FEED,
            change="update",
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of a file")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", default="", help="shapes whose name holds this text")
    arguments = parser.parse_args()
    ratios: list[Ratio] = []
    print(f"| times as fast, by time; by CPU | {' | '.join(OPERATIONS)} |")
    print("|---" * (len(OPERATIONS) + 1) + "|")
    for name, shape in shapes().items():
        if arguments.only in name:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                found = measure(shape, Path(folder), arguments.scale, arguments.rounds)
            cells = dict(cells_of(name, *found))
            shown = [
                "; ".join(f"{each.times:.2f}" for each in cells.get(o, ())) for o in OPERATIONS
            ]
            print(f"| {name} | {' | '.join(each or '-' for each in shown)} |", flush=True)
            ratios += [by_cpu for _, by_cpu in cells.values()]
    for ratio in ratios:
        record_ratio(ratio)
    below = [each for each in ratios if each.is_below_goal]
    below.sort(key=lambda each: each.times / each.goal)
    print(f"\nCells below their goals by CPU, worst first:\n\n{ratio_table(below)}")


def measure(shape: Shape, folder: Path, scale: float, rounds: int) -> tuple[Took, Took]:
    given = folder / "given.json"
    tiny = make_given(folder / "tiny", shape, 10 / 20_000)
    given.write_text(json.dumps([tiny, make_given(folder / "large", shape, scale)]))
    runs: tuple[list[Took], list[Took]] = ([], [])
    for number in range(rounds):
        for side in (0, 1) if number % 2 else (1, 0):
            runs[side].append(run(SIDES[side], given))
    ours, peers = map(medians, runs)
    return ours, peers


def run(side: str, given: Path) -> Took:
    command = [sys.executable, "-m", PROGRAM, side, str(given)]
    with tempfile.TemporaryFile("w+") as output:
        try:
            subprocess.run(command, check=True, stdout=output, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{side}: stopped after {MOST_SECONDS} s", file=sys.stderr)
        output.seek(0)
        lines = [json.loads(line) for line in output]
    return {name: (took_s, cpu_s) for name, took_s, cpu_s in lines if took_s is not None}


def medians(runs: list[Took]) -> Took:
    names = [name for name in runs[0] if all(name in each for each in runs)]
    by_name = {name: list(zip(*(each[name] for each in runs), strict=True)) for name in names}
    return {name: (statistics.median(s), statistics.median(c)) for name, (s, c) in by_name.items()}


def make_given(folder: Path, shape: Shape, scale: float) -> dict[str, object]:
    """Make the table of a shape and what its operations use; see `Given` of the program."""
    import delta_ops.arrow as da
    from delta_ops import DeltaLog, begin, col, parse_expression

    folder.mkdir()
    base = folder / "base"
    rows = number_rows(shape.rows(scale))
    size = -(-len(rows) // shape.num_files)
    by = list(shape.partition_by) or None
    da.write(base, rows.slice(0, size), partition_by=by, configuration=dict(shape.properties))
    if len(rows) > size:
        txn = begin(DeltaLog(base))
        for start in range(size, len(rows), size):
            txn.stage(da.stage_write(DeltaLog(base), rows.slice(start, size)))
        txn.commit(operation="WRITE")
    if shape.change == "delete":
        da.delete(base, col("k") == 3)
    if shape.change == "update":
        da.update(base, {"x": parse_expression("x + 1")}, col("k") == 3)
    appended = rows.slice(0, shape.num_appended or size)
    return {
        "base": str(base),
        "rows": stream(folder / "rows", appended),
        "source": stream(folder / "source", source_of(rows)),
        "column": shape.column,
        "key": len(rows) // 2,
    }


def number_rows(rows: pa.Table) -> pa.Table:
    """Add `id`, which ascends, `k`, one of fifty numbers in each file, and a number `x`."""
    ids = np.arange(len(rows))
    kept = rows.drop_columns([name for name in ("id", "k", "x") if name in rows.column_names])
    x = np.random.default_rng(1).random(len(rows)) if "x" not in rows.column_names else rows["x"]
    columns = {"id": ids, "k": pa.array(ids % 50, pa.int32()), "x": x}
    return pa.table({**columns, **dict(zip(kept.column_names, kept.columns, strict=True))})


def source_of(rows: pa.Table) -> pa.Table:
    """A hundred rows for a merge: half of their ids are in the table, spread over all files."""
    places = np.linspace(0, len(rows) - 1, min(100, len(rows))).astype(int)
    chosen = rows.take(pa.array(places))
    ids = np.where(np.arange(len(places)) % 2, places, places + len(rows))
    return chosen.set_column(0, "id", pa.array(ids))


def stream(place: Path, rows: pa.Table) -> str:
    with pa.OSFile(str(place), "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return str(place)


def value_rows(count: int, num_distinct: int = 1_000) -> pa.Table:
    chance = np.random.default_rng(0)
    numbers = chance.integers(0, num_distinct, count)
    texts = np.char.add("name ", numbers.astype(str)) if num_distinct > count else None
    names = pa.array([f"name {number}" for number in range(min(num_distinct, 1_000))])
    return pa.table(
        {
            "x": chance.random(count).round(6) if num_distinct > 100 else numbers * 0.5,
            "n": pa.array(numbers.astype(np.int32)),
            "s": names.take(pa.array(numbers % len(names))) if texts is None else pa.array(texts),
        }
    )


def partition_rows(count: int) -> pa.Table:
    numbers = np.arange(5 * count)
    rows = value_rows(len(numbers))
    return rows.append_column("p", pa.array((numbers % max(count, 1)).astype(np.int32)))


def cells_of(shape: str, ours: Took, peers: Took) -> Iterator[tuple[str, tuple[Ratio, Ratio]]]:
    """Yield each operation of both engines, with its ratios by time and by CPU."""
    for name, figures in ours.items():
        if name in peers:
            goal = LIBRARY_GOAL if name in OF_LIBRARY else GOAL
            by_time, by_cpu = (
                Ratio(f"{shape}: {name}", mine, other, unit, goal)
                for mine, other, unit in zip(figures, peers[name], ("s", "s of CPU"), strict=True)
            )
            yield name, (by_time, by_cpu)


if __name__ == "__main__":
    main()
