"""Rows read into this process, beside deltalake on the same table, each in its own process.

    python -m benchmarks.read_rows [--files 1000] [--rows 10000] [--rounds 5] [--only TEXT]

The time is from the call that opens the table to the last row, as an Arrow table or as batches that
are counted and dropped; imports are excluded. Peers: `QueryBuilder`, and
`DeltaTable.to_pyarrow_table`, which reads no deletion vectors. A ratio compares with the better of
the two, for time and for peak memory, which is the process's with its imports. The table for rows
deleted by vectors has a tenth of the files, ten times as large: on a thousand files with a vector
each, `QueryBuilder` never ends.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import delta_ops.arrow as da
from benchmarks.open_table import run
from benchmarks.ratios import LIBRARY_GOAL, Ratio, record_ratio
from delta_ops import DeltaLog, begin
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import stored_vector

COMMITS = 10
OURS = """
    import pyarrow as pa
    import delta_ops.arrow as da
    from delta_ops.arrow import *
    from delta_ops import DeltaLog, col
    log = DeltaLog(sys.argv[1])
"""
PEER = """
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder
    def query(sql):
        return QueryBuilder().register("t", DeltaTable(sys.argv[1])).execute(sql)
"""
CASES = {
    "all rows, a table": (
        "number = da.to_table(log).num_rows",
        "number = pa.table(query('select * from t')).num_rows",
        "number = DeltaTable(sys.argv[1]).to_pyarrow_table().num_rows",
    ),
    "all rows, batches": (
        "number = sum(map(len, da.to_batches(log)))",
        "number = sum(batch.num_rows for batch in query('select * from t'))",
        "number = sum(map(len, DeltaTable(sys.argv[1]).to_pyarrow_dataset().to_batches()))",
    ),
    "one column": (
        "number = da.to_table(log, columns=['x']).num_rows",
        "number = pa.table(query('select x from t')).num_rows",
        "number = DeltaTable(sys.argv[1]).to_pyarrow_table(columns=['x']).num_rows",
    ),
    "one row": (
        "number = da.to_table(log, predicate=col('id') == 4_711).num_rows",
        "number = pa.table(query('select * from t where id = 4711')).num_rows",
        "number = DeltaTable(sys.argv[1]).to_pyarrow_table(filters=[('id', '=', 4711)]).num_rows",
    ),
    "a row of a thousand": (
        "number = da.to_table(log, predicate=col('k') == 7).num_rows",
        "number = pa.table(query('select * from t where k = 7')).num_rows",
        "number = DeltaTable(sys.argv[1]).to_pyarrow_table(filters=[('k', '=', 7)]).num_rows",
    ),
}
DELETED = {
    "a tenth deleted by vectors": CASES["all rows, a table"][:2],
    "the same, batches": CASES["all rows, batches"][:2],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=10_000, help="of a file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        root = Path(folder)
        make_table(root, arguments.files // COMMITS, arguments.rows)
        print(f"{arguments.files:,} files of {arguments.rows:,} rows:\n")
        print("| | QueryBuilder | to_pyarrow_table | delta_ops | time, ratio | memory, ratio |")
        print("|---|---|---|---|---|---|")
        report(
            root,
            {name: each for name, each in CASES.items() if arguments.only in name},
            arguments.rounds,
        )
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        root, rows = Path(folder), arguments.rows * 10
        make_table(root, arguments.files // 10 // COMMITS, rows)
        delete_rows(root, rows)
        report(
            root,
            {name: each for name, each in DELETED.items() if arguments.only in name},
            arguments.rounds,
        )


def make_table(root: Path, files: int, rows: int) -> None:
    """`id` ascends through the table, `k` is one of a thousand numbers, in no order."""
    for commit in range(COMMITS):
        txn = begin(DeltaLog(root))
        tables = [rows_of(commit * files + number, rows) for number in range(files)]
        if txn.snapshot is None:
            txn.create_table(schema_from_arrow(tables[0].schema))
        for table in tables:
            txn.stage(da.stage_write(txn, table))
        txn.commit(operation="WRITE")


def rows_of(number: int, rows: int) -> pa.Table:
    chance = random.Random(number)
    ids = range(number * rows, (number + 1) * rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "x": pa.array(array("d", [chance.random() for _ in ids])),
            "s": pa.array([f"name {i % 1000} of {number % 10}" for i in ids]),
            "k": pa.array([chance.randrange(1000) for _ in ids], pa.int32()),
        }
    )


def delete_rows(root: Path, rows: int, one_of: int = 10, max_files: int | None = None) -> None:
    """Delete a part of each file by vectors in one file, as the reference stores them.

    Args:
        rows: Number of rows of a file.
        one_of: A tenth for 10.
        max_files: Leaves the other files unchanged.
    """
    log = DeltaLog(root)
    chance = random.Random(0)
    snapshot = log.snapshot()
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("deletionVectors",),
        writer_features=("appendOnly", "deletionVectors", "invariants"),
    )
    adds = snapshot.add_files()[:max_files]
    with_vectors = [
        replace(
            add,
            deletion_vector=stored_vector(root, chance.sample(range(rows), rows // one_of)),
        )
        for add in adds
    ]
    removes = [tombstone(add, 0, data_change=True) for add in adds]
    create_commit(
        log.storage, log.log_directory, snapshot.version + 1, [protocol, *removes, *with_vectors]
    )


def report(root: Path, cases: Mapping[str, Sequence[str]], rounds: int) -> None:
    for name, works in cases.items():
        imports = (OURS, PEER, PEER)[: len(works)]
        found: list[list[tuple[float, float, int]]] = [[] for _ in works]
        for turn in range(rounds):
            order = range(len(works)) if turn % 2 else reversed(range(len(works)))
            for i in order:
                found[i].append(run(imports[i], works[i], root))
        (_,) = {num_rows for of_one in found for _, _, num_rows in of_one}
        (ours_s, *peers_s), (ours_mb, *peers_mb) = (
            [statistics.median(each[i] for each in of_one) for of_one in found] for i in range(2)
        )
        record_ratio(Ratio(f"read_rows: {name}", ours_s, min(peers_s), goal=LIBRARY_GOAL))
        cells = [f"{s:.2f} s, {mb:,.0f} MB" for s, mb in zip(peers_s, peers_mb, strict=True)]
        cells += [] if len(works) == 3 else ["-"]
        print(
            f"| {name} | {' | '.join(cells)} | {ours_s:.2f} s, {ours_mb:,.0f} MB "
            f"| {ours_s / min(peers_s):.2f} | {ours_mb / min(peers_mb):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
