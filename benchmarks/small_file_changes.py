"""Changes that touch one row in each of many small files, beside deltalake.

    python -m benchmarks.small_file_changes [--rounds 5] [--folder DIR] [--only TEXT]

Each run has its own process and its own copy of the table, and the two engines take turns. The time
is from the call that opens the table to the commit. It excludes imports (also of the SQL parser)
and the creation of the source. CPU is the time of all threads. Peak memory is the process's with
its imports. Files is the number of live files after the change. All settings are the defaults.
Times faster is deltalake's time divided by ours.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import delta_ops.arrow as da
from benchmarks.dml import OURS, PEER, TIMED, UPSERT, rows_of
from benchmarks.open_table import run
from benchmarks.ratios import Ratio, record_ratio
from benchmarks.vacuum import Run
from delta_ops import DeltaLog, begin
from delta_ops.protocol.schema.arrow_types import schema_from_arrow

SHAPES: Mapping[str, tuple[int, int]] = {
    "1,000 files of 1,000 rows": (1_000, 1_000),
    "150 files of 20,000 rows": (150, 20_000),
    "one file of 3,000,000 rows": (1, 3_000_000),
}
"""The number of files and the rows of each."""
CALLS: Mapping[str, tuple[str, str]] = {
    "delete": ("da.delete(table, col('place') == 7)", "DeltaTable(table).delete('place = 7')"),
    "update": (
        "da.update(table, {'x': parse_expression('x * 2')}, col('place') == 7)",
        "DeltaTable(table).update({'x': 'x * 2'}, predicate='place = 7')",
    ),
    "merge": UPSERT,
}
"""For each verb our call and the peer's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    arguments = parser.parse_args()
    print(
        "| | delta_ops, s | deltalake, s | times faster | CPU seconds of each "
        "| peak MB of each | files of each |"
    )
    print("|---|---|---|---|---|---|---|")
    for shape, (num_files, num_rows) in SHAPES.items():
        cases = {f"{verb}, {shape}": calls for verb, calls in CALLS.items()}
        chosen = {name: calls for name, calls in cases.items() if arguments.only in name}
        if not chosen:
            continue
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            root = Path(folder)
            make_table(root / "table", num_files, num_rows)
            source = changed_rows(num_files, num_rows)
            pq.write_table(source, root / "copy.source.parquet")
            for name, calls in chosen.items():
                print(row_of(name, measure(root, calls, arguments.rounds)), flush=True)


def make_table(root: Path, num_files: int, num_rows: int) -> None:
    """Create the table; `place` is the number of a row in its file."""
    transaction = begin(DeltaLog(root))
    for number in range(num_files):
        ids = np.arange(number * num_rows, (number + 1) * num_rows)
        rows = rows_with_places(ids, num_rows)
        if number == 0:
            transaction.create_table(schema_from_arrow(rows.schema))
        transaction.stage(da.stage_write(transaction, rows))
    transaction.commit(operation="WRITE")


def changed_rows(num_files: int, num_rows: int) -> pa.Table:
    """Return the source of the merge: one row for each file."""
    return rows_with_places(np.arange(num_files) * num_rows + 7, num_rows)


def rows_with_places(ids: np.ndarray, num_rows: int) -> pa.Table:
    places = pa.array((ids % num_rows).astype(np.int32))
    return rows_of(ids, int(ids[0])).append_column("place", places)


def measure(root: Path, calls: tuple[str, str], rounds: int) -> list[Run]:
    """Return the medians of our runs and of the peer's."""
    found: list[list[Run]] = [[], []]
    for number in range(rounds):
        # The engine that runs first alternates.
        for place in (0, 1) if number % 2 == 0 else (1, 0):
            found[place].append(run_once(root, (OURS, PEER)[place], calls[place]))
    return [Run(*map(statistics.median, zip(*each, strict=True))) for each in found]


def run_once(root: Path, setup: str, call: str) -> Run:
    copy = root / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    # No engine writes into an existing file.
    shutil.copytree(root / "table", copy, copy_function=os.link)
    imports = setup.replace("{source}", str(call == UPSERT[0]))
    seconds, peak_mb, cpu_seconds = run(imports, TIMED.replace("{call}", call), copy)
    num_files = DeltaLog(copy).snapshot().files(("path",)).num_rows
    return Run(seconds, cpu_seconds, peak_mb, num_files)


def row_of(name: str, medians: list[Run]) -> str:
    ours, peer = medians
    record_ratio(Ratio(f"small_file_changes: {name}", ours.seconds, peer.seconds))
    record_ratio(
        Ratio(f"small_file_changes: {name}", ours.cpu_seconds, peer.cpu_seconds, "s of CPU")
    )
    return (
        f"| {name} | {ours.seconds:.2f} | {peer.seconds:.2f} "
        f"| {peer.seconds / ours.seconds:.2f} "
        f"| {ours.cpu_seconds:.2f}, {peer.cpu_seconds:.2f} "
        f"| {ours.peak_mb:.0f}, {peer.peak_mb:.0f} "
        f"| {ours.num_files:.0f}, {peer.num_files:.0f} |"
    )


if __name__ == "__main__":
    main()
