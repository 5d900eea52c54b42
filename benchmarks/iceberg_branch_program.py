"""Branches of an Iceberg table: `python iceberg_branch_program.py FOLDER ROUNDS`, for `versioning`.

Needs pyiceberg[sql-sqlite,pyarrow]. Prints the median seconds, and seconds of a core, of loading a
table of one file and creating a branch.
"""

import statistics
import sys
import time
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog  # type: ignore[import-not-found]

root, rounds = Path(sys.argv[1]), int(sys.argv[2])
root.mkdir()
catalog = SqlCatalog("c", uri=f"sqlite:///{root}/c.db", warehouse=f"file://{root}")
catalog.create_namespace("n")
rows = pa.table({"id": [1]})
catalog.create_table("n.t", rows.schema).append(rows)
found = []
for number in range(rounds + 1):
    started, cpu = time.perf_counter(), time.process_time()
    table = catalog.load_table("n.t")
    snapshot = table.current_snapshot()
    table.manage_snapshots().create_branch(snapshot.snapshot_id, f"b{number}").commit()
    found.append((time.perf_counter() - started, time.process_time() - cpu))
print(*(statistics.median(each[place] for each in found[1:]) for place in (0, 1)))
