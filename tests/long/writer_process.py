"""Run by the long tests: one process that writes to or maintains a shared table.

    python writer_process.py TABLE ROLE NUMBER COMMITS

Prints the ids of the rows whose commit was acknowledged, one a line.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import CommitConflictError
from delta_ops.maintenance import Operation, maintain


def append(table: str, number: int, commits: int) -> None:
    for i in range(commits):
        rows = pa.table({"id": [f"{number}/{i}/{k}" for k in range(5)], "writer": [number] * 5})
        txn = (f"writer {number}", i)
        for _ in range(2):  # a rerun of every write finds it done
            da.write(table, rows, partition_by=["writer"], txn=txn)
        print("\n".join(rows["id"].to_pylist()))


def overwrite(table: str, number: int, commits: int) -> None:
    mine = col("writer") == number
    for i in range(commits):
        rows = pa.table({"id": [f"{number}/{i}"], "writer": [number]})
        da.write(table, rows, "overwrite", replace_where=mine)
    print(f"{number}/{commits - 1}")


OPERATIONS: list[Operation] = ["vacuum", "optimize", "checkpoint", "clean_up_log"]


def foreign(table: str, number: int, commits: int) -> None:
    from deltalake import write_deltalake
    from deltalake.exceptions import CommitFailedError

    for i in range(commits):
        rows = pa.table({"id": [f"{number}/{i}"], "writer": pa.array([number], pa.int64())})
        while True:
            try:
                write_deltalake(table, rows, mode="append")
            except CommitFailedError:  # it treats concurrent deletes as conflicts of an append
                continue
            break
        print(f"{number}/{i}")


def maintenance(table: str, _number: int, commits: int) -> None:
    for _ in range(commits):
        try:
            maintain(
                DeltaLog(table), operations=["vacuum", "optimize", "checkpoint", "clean_up_log"]
            )
        except CommitConflictError:
            continue


ROLES = {"append": append, "overwrite": overwrite, "foreign": foreign, "maintain": maintenance}

if __name__ == "__main__":
    ROLES[sys.argv[2]](sys.argv[1], int(sys.argv[3]), int(sys.argv[4]))
