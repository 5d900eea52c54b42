"""Delete, update and merge beside deltalake, each in its own process on a copy of the table.

    python -m benchmarks.dml [--rows 10000000] [--files 100] [--changed 100000] [--rounds 3]
                             [--only TEXT]

The time is from the call that opens the table to the commit. It excludes imports (also of the SQL
parser) and the creation of the source. CPU is the time of all threads, which is more exact when
other work runs. Peak memory is the process's with its imports; written is the growth of the table's
folder. deltalake writes no vectors: both our ways are compared with its rewriting. For a change in
every file, the report also has the time of pyarrow alone to read all files and write them again, in
parallel on all processors. Ratios below one are in our favour.
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
from benchmarks.open_table import run
from benchmarks.ratios import Ratio, record_ratio
from delta_ops import DeltaLog, begin
from delta_ops.ddl import set_properties
from delta_ops.protocol.schema.arrow_types import schema_from_arrow

PLAIN, MARKED = "plain", "with vectors"
"""The table, and a copy with deletion vectors enabled."""
OURS = """
    import glob, os
    from concurrent.futures import ThreadPoolExecutor
    import pyarrow as pa, pyarrow.parquet as pq
    import delta_ops.arrow as da
    from delta_ops.arrow import *
    from delta_ops import DeltaLog, col, parse_expression
    parse_expression("1")  # imports the parser
    table = sys.argv[1]
    source = pq.read_table(table + ".source.parquet") if {source} else None
    def upsert():
        merge = da.merge(table, source, "target.id = source.id")
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()
    def write_again(path):
        schema = pq.read_schema(path)
        rows = pq.read_table(path, read_dictionary=["s"], use_threads=False).cast(schema)
        dictionaries = ["s", "k"]
        pq.write_table(rows, path + ".again", compression="zstd", use_dictionary=dictionaries)
    def write_all_again():
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(write_again, glob.glob(table + "/*.parquet")))
"""
PEER = """
    import pyarrow as pa, pyarrow.parquet as pq
    from deltalake import DeltaTable
    table = sys.argv[1]
    source = pq.read_table(table + ".source.parquet") if {source} else None
    def merge():
        return DeltaTable(table).merge(
            source, "target.id = source.id", source_alias="source", target_alias="target"
        )
    def upsert():
        return merge().when_matched_update_all().when_not_matched_insert_all().execute()
"""
UPSERT = ("upsert()", "upsert()")
TIMED = "began = time.process_time(); {call}; number = time.process_time() - began"
"""The reported number is the CPU time."""
CASES: Mapping[str, tuple[str, str, str]] = {
    "merge, changed rows in 1% of the files": ("near", *UPSERT),
    "merge, changed rows in all files": ("far", *UPSERT),
    "merge that inserts 1% new keys": (
        "new",
        "da.merge(table, source, 'target.id = source.id').when_not_matched_insert_all().execute()",
        "merge().when_not_matched_insert_all().execute()",
    ),
    "delete of 0.1% in all files": (
        "",
        "da.delete(table, col('k') == 7)",
        "DeltaTable(table).delete('k = 7')",
    ),
    "update of 0.1% in all files": (
        "",
        "da.update(table, {'x': parse_expression('x * 2')}, col('k') == 7)",
        "DeltaTable(table).update({'x': 'x * 2'}, predicate='k = 7')",
    ),
    "delete of 0.1% in one file": (
        "",
        "da.delete(table, col('id') < {few})",
        "DeltaTable(table).delete('id < {few}')",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--changed", type=int, default=100_000, help="rows of a merge's source")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        root = Path(folder)
        make_table(root / PLAIN, arguments.files, arguments.rows // arguments.files)
        shutil.copytree(root / PLAIN, root / MARKED)
        set_properties(root / MARKED, {"delta.enableDeletionVectors": "true"})
        print(
            f"{arguments.rows:,} rows in {arguments.files:,} files, "
            f"{arguments.changed:,} rows of a source:\n"
        )
        print("| | | time | CPU | memory | written | the ratios of these four | | | |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for name, (source, ours, peer) in CASES.items():
            if arguments.only in name:
                report(root, name, source, (ours, peer), arguments)


def make_table(root: Path, files: int, rows: int) -> None:
    """`id` ascends through the table, `k` is one of a thousand numbers, in no order."""
    txn = begin(DeltaLog(root))
    for number in range(files):
        table = rows_of(np.arange(number * rows, (number + 1) * rows), number)
        if number == 0:
            txn.create_table(schema_from_arrow(table.schema))
        txn.stage(da.stage_write(txn, table))
    txn.commit(operation="WRITE")


def rows_of(ids: np.ndarray, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    names = pa.array([f"name {number} of {seed % 10}" for number in range(1000)])
    return pa.table(
        {
            "id": pa.array(ids),
            "x": pa.array(chance.random(len(ids))),
            "s": names.take(pa.array(ids % 1000)),
            "k": pa.array(chance.integers(0, 1000, len(ids)), pa.int32()),
        }
    )


def source_of(kind: str, rows: int, files: int, changed: int) -> pa.Table:
    """The rows of a source.

    Args:
        kind: "near": in a hundredth of the files; "far": in all; "new": a hundredth of the keys
            are not in the table, the others are.
        rows: Number of rows of the table.
        files: Number of files of the table.
        changed: Number of rows of the source.
    """
    chance = np.random.default_rng(0)
    within = max(rows // 100, rows // files) if kind == "near" else rows
    ids = chance.choice(within, min(changed, within), replace=False)
    if kind == "new":
        num_new = max(1, changed // 100)
        ids = np.concatenate([ids[num_new:], np.arange(rows, rows + num_new)])
    return rows_of(ids, 4711)


def report(
    root: Path, name: str, source: str, calls: tuple[str, str], arguments: argparse.Namespace
) -> None:
    ours, peer = calls
    ways = {
        "deltalake": (PLAIN, PEER, peer),
        "ours, copy-on-write": (PLAIN, OURS, ours),
        "ours, by vectors": (MARKED, OURS, ours),
    }
    if "all files" in name:
        ways["pyarrow alone, all rows"] = (PLAIN, OURS, "write_all_again()")
    found: dict[str, list[tuple[float, float, float, int]]] = {each: [] for each in ways}
    copy = root / "copy"
    if source:
        table = source_of(source, arguments.rows, arguments.files, arguments.changed)
        pq.write_table(table, f"{copy}.source.parquet")
    for _ in range(arguments.rounds):
        for way, (table_name, setup, call) in ways.items():
            shutil.rmtree(copy, ignore_errors=True)
            # No engine writes into an existing file.
            shutil.copytree(root / table_name, copy, copy_function=os.link)
            before = size_of(copy)
            imports = setup.replace("{source}", str(bool(source)))
            few = str(arguments.rows // 1000)
            timed = TIMED.replace("{call}", call.replace("{few}", few))
            taken_s, peak_mb, cpu_s = run(imports, timed, copy)
            found[way].append((taken_s, cpu_s, peak_mb, size_of(copy) - before))
    first = None
    for way, each in found.items():
        medians = [statistics.median(one) for one in zip(*each, strict=True)]
        first = first or medians
        if way.startswith("ours"):
            record_ratio(Ratio(f"dml: {name}, {way}", medians[0], first[0]))
        ratios = [f"{mine / theirs:.2f}" for mine, theirs in zip(medians, first, strict=True)]
        s, cpu_s, mb, num_bytes = medians
        print(
            f"| {name} | {way} | {s:.2f} s | {cpu_s:.2f} s | {mb:.0f} MB "
            f"| {num_bytes / 1e6:.1f} MB | "
            f"{' | '.join(ratios)} |",
            flush=True,
        )


def size_of(folder: Path) -> int:
    """Bytes of all files of a table, with its log."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


if __name__ == "__main__":
    main()
