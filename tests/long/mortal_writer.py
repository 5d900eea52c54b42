"""Run by the test of random kills: continues a table's commits until it is killed.

    python mortal_writer.py TABLE COMMITS

Commit n has the txn ("mortal", n) and appends the rows n/0, n/1 and n/2; every fifth overwrites the
partition "last" with its number. Prints n once commit n is acknowledged.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog, col

APP_ID = "mortal"


def rows_of(number: int) -> list[tuple[str, str]]:
    """Rows of id and p."""
    if number % 5 == 4:
        return [(str(number), "last")]
    return [(f"{number}/{k}", "all") for k in range(3)]


def write(log: DeltaLog, number: int) -> None:
    ids, partitions = zip(*rows_of(number), strict=True)
    overwrites = partitions[0] == "last"
    da.write(
        log,
        pa.table({"id": ids, "p": partitions}),
        "overwrite" if overwrites else "append",
        partition_by=["p"],
        replace_where=(col("p") == "last") if overwrites else None,
        txn=(APP_ID, number),
        configuration={"delta.checkpointInterval": "5"},
    )


def main(table: str, commits: int) -> None:
    log = DeltaLog(table)
    print("started", flush=True)
    done = log.snapshot().transactions().get(APP_ID) if log.exists() else None
    # Writes the last commit again: a killed writer does not know that it exists.
    for number in range(done.version if done else 0, commits):
        write(log, number)
        print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
