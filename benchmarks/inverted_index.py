"""Inverted indexes: look-ups, building, refreshing, and upserts of scattered keys.

The values of the key are scattered over all files, so partition values and statistics leave every
file. Each step runs in a process of its own, with its time and its highest memory. Files are on the
local disk and in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.maintenance import create_index, list_indexes, refresh_index
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from delta_ops.transaction.changes import Add


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--upserted", type=int, default=1000, help="keys of an upsert")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        run(Path(folder), options.files, options.rows, options.upserted)


def run(folder: Path, num_files: int, num_rows: int, upserted: int) -> None:
    plain, indexed = folder / "plain", folder / "indexed"
    measure(make_table, plain, num_files, num_rows)
    shutil.copytree(plain, indexed, copy_function=os.link)
    size = DeltaLog(plain).snapshot().size_bytes
    total = num_files * num_rows
    print(
        f"{total:,} rows in {num_files:,} files, {size / 1e6:,.0f} MB; each value is in one file.\n"
    )
    print("| work | time | CPU time | highest memory | files opened |")
    print("|---|---|---|---|---|", flush=True)
    show("look-up of a value, statistics alone", measure(look_up, plain, total, 3))
    column = measure(read_and_sort, plain)
    show("read and sort the column", column)
    built = measure(build, indexed)
    show("build the index", built)
    found = measure(look_up, indexed, total, 20)
    show("look-up of a value, index", found)
    show("look-up of 100 values, index", measure(look_up, indexed, total, 5, 100))
    (info,) = list_indexes(indexed)
    runs, entries, index_bytes = info.num_runs, info.num_entries, info.size_bytes
    measure(append, indexed, num_files, num_rows)
    show("refresh after 1 % new files", measure(refresh, indexed))
    for name, root in (("statistics alone", plain), ("index", indexed)):
        changed = measure(upsert, root, total, upserted)
        show(f"upsert of {upserted:,} scattered keys, {name}", changed)
    print(f"\nThe index has {runs} runs and {index_bytes / entries:.2f} bytes an entry.")
    print(f"The column has {column['bytes'] / total:.2f} bytes a value in its Parquet files.")


def measure(step: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """The figures of a step, which runs in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure_here, step, arguments).result()


def _measure_here(step: Callable[..., dict[str, Any]], arguments: Any) -> dict[str, Any]:
    DeltaLog(arguments[0]).snapshot_if_exists()  # imports what each step needs
    begun, begun_cpu = time.perf_counter(), time.process_time()
    figures = step(*arguments)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "cpu": cpu, "peak": peak, **figures}


def show(name: str, figures: dict[str, Any]) -> None:
    peak, files = figures["peak"] / 1e6, figures.get("files", "")
    times = f"{figures['seconds']:.3g} s | {figures['cpu']:.3g} s"
    print(f"| {name} | {times} | {peak:,.0f} MB | {files} |", flush=True)


def rows_of(keys: np.ndarray) -> pa.Table:
    return pa.table(
        {"key": keys, "amount": keys * 0.5, "note": pc.cast(pa.array(keys % 97), "string")}
    )


def make_table(root: Path, num_files: int, num_rows: int) -> dict[str, Any]:
    keys = np.random.default_rng(1).permutation(num_files * num_rows).reshape(num_files, num_rows)
    root.mkdir()
    adds = [add_file(root, f"part-{n:05}.parquet", rows_of(keys[n])) for n in range(num_files)]
    transaction = begin(root)
    transaction.create_table(schema_from_arrow(rows_of(keys[0][:1]).schema))
    transaction.apply(Add(files=tuple(adds), num_rows=num_files * num_rows))
    transaction.commit(operation="WRITE")
    return {}


def add_file(root: Path, name: str, rows: pa.Table) -> AddFile:
    pq.write_table(rows, root / name)
    bounds = pc.min_max(rows["key"]).as_py()
    stats = {
        "numRecords": len(rows),
        "minValues": {"key": bounds["min"]},
        "maxValues": {"key": bounds["max"]},
        "nullCount": {"key": 0},
    }
    size = (root / name).stat().st_size
    return AddFile(
        path=name, size=size, partition_values={}, modification_time=1, stats=json.dumps(stats)
    )


def look_up(root: Path, total: int, times: int, num_keys: int = 1) -> dict[str, Any]:
    random, seconds, cpu, files = np.random.default_rng(2), [], [], 0
    for _ in range(times):
        predicate = col("key").isin(random.integers(0, total, num_keys).tolist())
        begun, begun_cpu = time.perf_counter(), time.process_time()
        found = da.to_table(root, predicate=predicate)
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - begun_cpu)
        assert 0 < len(found) <= num_keys
        files = len(da.explain_scan(root, predicate))
    return {"seconds": median(seconds), "cpu": median(cpu), "files": f"{files:,}"}


def read_and_sort(root: Path) -> dict[str, Any]:
    keys = da.to_table(root, columns=["key"])["key"]
    keys.combine_chunks().take(pc.sort_indices(keys))
    chunks = (pq.read_metadata(each).row_group(0).column(0) for each in root.glob("*.parquet"))
    return {"bytes": sum(each.total_compressed_size for each in chunks)}


def build(root: Path) -> dict[str, Any]:
    create_index(root, "keys", "key")
    return {}


def refresh(root: Path) -> dict[str, Any]:
    return {"files": f"{refresh_index(root, 'keys').indexed_files:,}"}


def append(root: Path, num_files: int, num_rows: int) -> dict[str, Any]:
    first = num_files * num_rows
    count = max(1, num_files // 100)
    keys = np.random.default_rng(3).permutation(count * num_rows).reshape(count, num_rows) + first
    adds = [add_file(root, f"new-{n:05}.parquet", rows_of(keys[n])) for n in range(count)]
    transaction = begin(root)
    transaction.apply(Add(files=tuple(adds), num_rows=count * num_rows))
    transaction.commit(operation="WRITE")
    return {}


def upsert(root: Path, total: int, count: int) -> dict[str, Any]:
    keys = np.random.default_rng(4).choice(total, count, replace=False)
    merge = da.merge(root, rows_of(keys), "target.key = source.key")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert result.metrics["numTargetRowsUpdated"] == count
    return {"files": f"rewrites {result.metrics['numTargetFilesRemoved']:,}"}


if __name__ == "__main__":
    main()
