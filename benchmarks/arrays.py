"""Zarr arrays in a table, beside Zarr's store of files, Icechunk and VirtualiZarr.

    python -m benchmarks.arrays [--chunks 10000] [--references 1000000] [--files 1000] [--rounds 3]
        [--only chunks]

Icechunk, VirtualiZarr and h5py are no dependencies of the project; without them, their columns are
empty. An environment of their own has them beside the project:

    python -m venv .peers/arrays
    .peers/arrays/bin/pip install -e '.[zarr,spark,dev]' icechunk virtualizarr h5py obstore

Chunks: an array of chunks of 100 KB of random bytes without compression is written and committed,
then read from a new store. References: an array with this many chunks of a few bytes, 10,000 to a
block or to a manifest; Icechunk's are ranges of a file, because Zarr writes a million chunks one by
one. The array is opened and its first chunk read; then one chunk is changed and
committed. Files: HDF5 files with one variable of 24 chunks each; two tasks of Spark read where the
chunks are and append a row for each; VirtualiZarr opens each file in one process, and concatenates
them. Seconds of a core are those of this process and its children.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from zarr.core.buffer import cpu
from zarr.storage import LocalStore

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, block_name, block_shape, create_array_table, etag_of
from delta_ops.arrays.keys import BLOCK_KEYS
from delta_ops.arrays.rows import COLUMNS
from delta_ops.maintenance import create_checkpoint
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage, recording

CHUNK_BYTES = 100_000


SECTIONS = ("chunks", "references", "files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--references", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", choices=SECTIONS)
    arguments = parser.parse_args()
    wanted = SECTIONS if arguments.only is None else (arguments.only,)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if "chunks" in wanted:
            report_chunks(Path(folder), arguments.chunks, arguments.rounds)
        if "references" in wanted:
            report_references(Path(folder), arguments.references, arguments.rounds)
        if "files" in wanted:
            report_files(Path(folder), arguments.files, arguments.rounds)


def has(package: str) -> bool:
    return find_spec(package) is not None


def report_chunks(folder: Path, num_chunks: int, rounds: int) -> None:
    """Print the times of writing and reading an array, the medians of some rounds."""
    data = np.random.default_rng(0).integers(0, 256, num_chunks * CHUNK_BYTES, "u1")
    took: dict[str, list[Took]] = {}
    sides = [("delta_ops", write_table, read_table), ("LocalStore", write_files, read_files)]
    if has("icechunk"):
        sides.append(("Icechunk", write_icechunk, read_icechunk))
    for number in range(rounds):
        path = folder / str(number)
        create_array_table(path / "table")
        for name, write, read in sides if number % 2 else reversed(sides):
            took.setdefault(f"{name} write", []).append(measure(partial(write, path, data)))
            took.setdefault(f"{name} read", []).append(measure(partial(read, path)))
        again = measure(partial(write_again, path, data))
        took.setdefault("delta_ops again", []).append(again)
        shutil.rmtree(path)
    found = {name: medians(each) for name, each in took.items()}
    print(f"{num_chunks:,} chunks of {CHUNK_BYTES // 1000} KB, seconds and seconds of a core:\n")
    names = [name for name, _, _ in sides]
    print(f"| | {' | '.join(names)} |\n|---{'|---' * len(names)}|")
    for each in ("write", "read"):
        print(f"| {each} | {' | '.join(time_text(found[f'{name} {each}']) for name in names)} |")
    print(f"| the same bytes again, no version | {time_text(found['delta_ops again'])} |\n")
    for each in ("write", "read"):
        ours = found[f"delta_ops {each}"][1]
        ratios = [f"{ours / found[f'{name} {each}'][1]:.2f} of {name}" for name in names[1:]]
        print(f"{each}, seconds of a core: {', '.join(ratios)}")


Took = tuple[float, float]
"""Seconds, and seconds of a core."""


def measure(call: Callable[[], object], times: int = 1) -> Took:
    """What one call takes; the system counts seconds of a core in hundredths."""
    started, cores = time.perf_counter(), core_seconds()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times, (core_seconds() - cores) / times


def core_seconds() -> float:
    """Seconds of a core of this process and its children, such as those of Spark."""
    stats: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            stats[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family: set[int] = set()
    added = {os.getpid()}
    while added:
        family |= added
        added = {pid for pid, (parent, _) in stats.items() if parent in family} - family
    return sum(stats[pid][1] for pid in family) / os.sysconf("SC_CLK_TCK")


def medians(each: list[Took]) -> Took:
    seconds, cores = zip(*each, strict=True)
    return statistics.median(seconds), statistics.median(cores)


def time_text(took: Took) -> str:
    return f"{took[0]:.3g}, {took[1]:.3g}"


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


def repository(path: Path, num_in_manifest: int | None = None) -> Any:
    """A new Icechunk repository; with manifests of this many chunks, if a number is given."""
    import icechunk

    config = icechunk.RepositoryConfig.default()
    if num_in_manifest is not None:
        axis = icechunk.ManifestSplitDimCondition.Any()
        split = {icechunk.ManifestSplitCondition.AnyArray(): {axis: num_in_manifest}}
        config.manifest = icechunk.ManifestConfig(
            splitting=icechunk.ManifestSplittingConfig.from_dict(split)
        )
    storage = icechunk.local_filesystem_storage(str(path / "icechunk"))
    return icechunk.Repository.open_or_create(storage, config=config)


def write_icechunk(path: Path, data: Any) -> None:
    session = repository(path).writable_session("main")
    new_array(session.store, data)
    session.commit("write")


def read_icechunk(path: Path) -> None:
    store = repository(path).readonly_session("main").store
    zarr.open_array(store, path="a", mode="r")[:]


def report_references(folder: Path, count: int, rounds: int) -> None:
    """Print what the first chunk and a change of one chunk cost in a long array."""
    log = DeltaLog(folder / "long")
    create_array_table(log)
    store = DeltaStore.begin(log)
    tiny_array(store, count)
    store.commit()
    for first in range(0, count, BLOCK_KEYS):
        numbers = range(first, min(first + BLOCK_KEYS, count))
        da.write(log, block_of(first, numbers))
    create_checkpoint(log)
    calls: list[str] = []
    counted = DeltaLog("", storage=CountingStorage(open_storage(log.uri), recording(calls)))
    first_of(DeltaStore(counted))
    read_icechunk_first, change_icechunk = icechunk_references(folder, count)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(measure(lambda: first_of(DeltaStore(log)), REPEATED))
        if read_icechunk_first is not None:
            theirs.append(measure(read_icechunk_first, REPEATED))
    blocks = {each.path: each.size for each in log.snapshot().add_files()}
    largest = max(blocks.values())
    store = DeltaStore.begin(log)
    store.set_sync("a/c/5", cpu.Buffer.from_bytes(b"7"))
    changed = measure(store.commit)
    added = sum(each.size for each in log.snapshot().add_files() if each.path not in blocks)
    print(f"{count:,} chunks in {len(blocks) - 2} blocks, seconds and seconds of a core:\n")
    print("| | delta_ops | Icechunk |\n|---|---|---|")
    their_time = time_text(medians(theirs)) if theirs else ""
    their_change = time_text(measure(change_icechunk)) if change_icechunk else ""
    print(f"| open, and the first chunk | {time_text(medians(ours))} | {their_time} |")
    print(f"| storage calls | {len(calls)} | |")
    print(f"| commit of one chunk | {time_text(changed)} | {their_change} |")
    print(f"| bytes written, and of the largest block | {added:,}, {largest:,} | |\n")


def tiny_array(store: Any, count: int) -> Any:
    return zarr.create_array(
        store, name="a", shape=(count,), chunks=(1,), dtype="u1", compressors=None, fill_value=255
    )


def first_of(store: Any) -> None:
    array: Any = zarr.open_array(store, path="a", mode="r")
    assert array[0] == 0


Call = Callable[[], object]
REPEATED = 20


def icechunk_references(folder: Path, count: int) -> tuple[Call | None, Call | None]:
    """Calls that read the first chunk in Icechunk, and change one chunk; None without it."""
    if not has("icechunk"):
        return None, None
    import icechunk

    session = repository(folder, BLOCK_KEYS).writable_session("main")
    tiny_array(session.store, count)[0] = 0
    file = folder / "bytes"
    file.write_bytes(bytes(range(251)))
    session.store.set_virtual_refs(
        "a",
        [
            icechunk.VirtualChunkSpec([number], file.as_uri(), number % 251, 1)
            for number in range(1, count)
        ],
        validate_containers=False,
    )
    session.commit("write")

    def read() -> None:
        first_of(repository(folder, BLOCK_KEYS).readonly_session("main").store)

    session = repository(folder, BLOCK_KEYS).writable_session("main")
    array: Any = zarr.open_array(session.store, path="a", mode="r+")
    array[5] = 7
    return read, lambda: session.commit("change")


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


CHUNKS_IN_FILE, CHUNK_VALUES = 24, 1000


def report_files(folder: Path, count: int, rounds: int) -> None:
    """Print what the references of many files cost."""
    if not has("h5py"):
        return
    import h5py

    paths = []
    for number in range(count):
        paths.append(str(folder / f"{number}.h5"))
        with h5py.File(paths[-1], "w") as file:
            shape = (CHUNKS_IN_FILE, CHUNK_VALUES)
            data = file.create_dataset("a", shape, "f4", chunks=(1, CHUNK_VALUES))
            data[:] = number
            for place, name in enumerate(("time", "x")):
                data.dims[place].label = name
    session = spark_session()
    ours, theirs = [], []
    for number in range(rounds + 1):
        log = new_table_of_files(folder / f"refs{number}", count)
        took = measure(partial(append_references, session, log, paths))
        if has("virtualizarr"):
            theirs.append(measure(partial(open_virtually, paths)))
        if number:
            ours.append(took)
    check_references(log, folder, count)
    print(
        f"References of {count:,} files with {CHUNKS_IN_FILE} chunks each, seconds and seconds of"
    )
    print("a core of this process (the tasks of Spark have others):\n")
    print("| Spark, two tasks | VirtualiZarr, one process |\n|---|---|")
    print(f"| {time_text(medians(ours))} | {time_text(medians(theirs[1:])) if theirs else ''} |")


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


def new_table_of_files(place: Path, count: int) -> DeltaLog:
    log = DeltaLog(place)
    create_array_table(log)
    store = DeltaStore.begin(log)
    zarr.create_array(
        store,
        name="a",
        shape=(count * CHUNKS_IN_FILE, CHUNK_VALUES),
        chunks=(1, CHUNK_VALUES),
        dtype="f4",
        compressors=None,
    )
    store.commit()
    return log


def append_references(session: Any, log: DeltaLog, paths: list[str]) -> None:
    """Read where the chunks of the files are, and append a row for each."""
    shape = block_shape([len(paths) * CHUNKS_IN_FILE, 1])
    source = session.createDataFrame(list(enumerate(paths)), "number int, path string")
    rows = source.repartition(2).mapInArrow(
        partial(references_of, shape=shape),
        "node string, block string, key string, data binary, location string, offset long, "
        "length long, sha256 string, etag string",
    )
    ds.write(rows, log)


def references_of(batches: Iterable[pa.RecordBatch], shape: tuple[int, ...]) -> Any:
    import h5py

    for batch in batches:
        rows = []
        for file in batch.to_pylist():
            path = Path(file["path"])
            etag = etag_of(open_storage(str(path.parent)).stat(path.name))
            with h5py.File(path) as opened:
                dataset = opened["a"].id
                for place in range(dataset.get_num_chunks()):
                    chunk = dataset.get_chunk_info(place)
                    time = file["number"] * CHUNKS_IN_FILE + chunk.chunk_offset[0]
                    rows.append(
                        {
                            "node": "/a",
                            "block": block_name((time, 0), shape),
                            "key": f"a/c/{time}/0",
                            "location": str(path),
                            "offset": chunk.byte_offset,
                            "length": chunk.size,
                            "etag": etag,
                        }
                    )
        yield pa.RecordBatch.from_pylist(rows, schema=COLUMNS)


def check_references(log: DeltaLog, folder: Path, count: int) -> None:
    reader = DeltaStore(log, virtual_prefixes={str(folder): None})
    array: Any = zarr.open_array(reader, path="a", mode="r")
    assert array[CHUNKS_IN_FILE * (count - 1) + 5, 7] == count - 1


def open_virtually(paths: list[str]) -> None:
    import xarray
    from obstore.store import LocalStore as Files
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser
    from virtualizarr.registry import ObjectStoreRegistry

    registry = ObjectStoreRegistry({"file://": Files()})
    opened = [
        open_virtual_dataset(f"file://{path}", registry=registry, parser=HDFParser())
        for path in paths
    ]
    xarray.concat(opened, dim="time", coords="minimal", compat="override")


if __name__ == "__main__":
    main()
