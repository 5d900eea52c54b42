"""Zarr arrays in a table, beside Zarr's store of files on the same disk.

    python -m benchmarks.arrays [--chunks 10000] [--references 1000000] [--rounds 3]

Chunks: an array of chunks of 100 KB of random bytes without compression is written and committed,
then read from a new store. References: an array with this many chunks of a few bytes, 10,000 to a
block; the table is opened and its first chunk read; then one chunk is changed and committed.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from zarr.core.buffer import cpu
from zarr.storage import LocalStore

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.arrays.keys import BLOCK_KEYS
from delta_ops.arrays.rows import COLUMNS
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage, recording

CHUNK_BYTES = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--references", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report_chunks(Path(folder), arguments.chunks, arguments.rounds)
        report_references(Path(folder), arguments.references)


def report_chunks(folder: Path, num_chunks: int, rounds: int) -> None:
    """Print the times of writing and reading an array, the medians of some rounds."""
    data = np.random.default_rng(0).integers(0, 256, num_chunks * CHUNK_BYTES, "u1")
    took: dict[str, list[float]] = {}
    for number in range(rounds):
        path = folder / str(number)
        create_array_table(path / "table")
        for name, write, read in (
            ("delta_ops", write_table, read_table),
            ("LocalStore", write_files, read_files),
        ):
            took.setdefault(f"{name} write", []).append(seconds(partial(write, path, data)))
            took.setdefault(f"{name} read", []).append(seconds(partial(read, path)))
        again = seconds(partial(write_again, path, data))
        took.setdefault("delta_ops same again", []).append(again)
        shutil.rmtree(path)
    found = {name: statistics.median(each) for name, each in took.items()}
    print(f"{num_chunks:,} chunks of {CHUNK_BYTES // 1000} KB:\n")
    print("| | delta_ops | LocalStore | ratio |\n|---|---|---|---|")
    for each in ("write", "read"):
        ours, peer = found[f"delta_ops {each}"], found[f"LocalStore {each}"]
        print(f"| {each}, s | {ours:.2f} | {peer:.2f} | {ours / peer:.2f} |")
    print(f"| the same bytes again, no version, s | {found['delta_ops same again']:.2f} | | |\n")


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def new_array(store: Any, data: Any) -> None:
    array = zarr.create_array(
        store,
        name="a",
        shape=data.shape,
        chunks=(CHUNK_BYTES,),
        dtype="u1",
        compressors=None,
        fill_value=0,
    )
    array[:] = data


def write_table(path: Path, data: Any) -> None:
    store = DeltaStore.begin(path / "table")
    new_array(store, data)
    assert store.commit() == 1


def write_again(path: Path, data: Any) -> None:
    store = DeltaStore.begin(path / "table")
    array = zarr.open_array(store, path="a", mode="r+")
    array[:] = data
    assert store.commit() is None


def write_files(path: Path, data: Any) -> None:
    new_array(LocalStore(path / "files"), data)


def read_table(path: Path) -> None:
    zarr.open_array(DeltaStore(path / "table"), path="a", mode="r")[:]


def read_files(path: Path) -> None:
    zarr.open_array(LocalStore(path / "files"), path="a", mode="r")[:]


def report_references(folder: Path, count: int) -> None:
    """Print what the first chunk and a change of one chunk cost in a long array."""
    log = DeltaLog(folder / "long")
    create_array_table(log)
    store = DeltaStore.begin(log)
    zarr.create_array(store, name="a", shape=(count,), chunks=(1,), dtype="u1", compressors=None)
    store.commit()
    for first in range(0, count, BLOCK_KEYS):
        numbers = range(first, min(first + BLOCK_KEYS, count))
        da.write(log, block_of(first, numbers))
    calls: list[str] = []
    counted = DeltaLog("", storage=CountingStorage(open_storage(log.uri), recording(calls)))
    took = seconds(lambda: zarr.open_array(DeltaStore(counted), path="a", mode="r")[0])
    blocks = {each.path: each.size for each in log.snapshot().add_files()}
    largest = max(blocks.values())
    store = DeltaStore.begin(log)
    store.set_sync("a/c/5", cpu.Buffer.from_bytes(b"7"))
    changed = seconds(store.commit)
    added = sum(each.size for each in log.snapshot().add_files() if each.path not in blocks)
    print(f"{count:,} chunks in {len(blocks) - 2} blocks:\n\n| | |\n|---|---|")
    print(f"| open, and the first chunk, s | {took:.3f} |\n| storage calls | {len(calls)} |")
    print(f"| commit of one chunk, s | {changed:.3f} |")
    print(f"| bytes written, and of the largest block | {added:,}, {largest:,} |")


def block_of(first: int, numbers: range) -> pa.Table:
    size = len(numbers)
    columns = {
        "node": ["/a"] * size,
        "block": [f"{BLOCK_KEYS}-{first // BLOCK_KEYS}"] * size,
        "key": [f"a/c/{number}" for number in numbers],
        "data": [bytes([number % 251]) for number in numbers],
    }
    nulls = {name: [None] * size for name in COLUMNS.names if name not in columns}
    return pa.table({**columns, **nulls}, schema=COLUMNS)


if __name__ == "__main__":
    main()
