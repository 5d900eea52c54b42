"""Rows written from this process, beside plain Parquet and deltalake, each in its own process.

    python -m benchmarks.arrow_writes [--rows 10000000] [--rounds 3] [--only TEXT] [--folder DIR]

The rows are read as batches of 65,536 from an Arrow file, as a query would deliver them, and are
not ordered by partition. All files are compressed by zstd, our default; a second run of deltalake
uses snappy, its own default. The time is from the opening of that file to the commit, without
imports. CPU is the time of all threads, which is more exact when other work runs. Plain Parquet is
`ParquetWriter`, and `pyarrow.dataset.write_dataset` for partitions. Peak memory is the process's
with its imports; written is the size of the data files.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import numpy as np
import pyarrow as pa

from benchmarks.open_table import run
from benchmarks.ratios import LIBRARY_GOAL, Ratio, record_ratio

BATCH_ROWS = 65_536
READ = """
    import pyarrow as pa, pyarrow.parquet as pq, pyarrow.dataset as ds
    reader = lambda: pa.ipc.open_stream(pa.OSFile(sys.argv[1] + '.rows'))
"""
OURS = f"{READ}\n    import delta_ops.arrow as da\n    from delta_ops.arrow import *"
PEER = f"""{READ}
    from deltalake import WriterProperties, write_deltalake
    zstd = WriterProperties(compression='ZSTD')
"""
ONE_FILE = """
    import os
    os.mkdir(sys.argv[1])
    rows = reader()
    path = sys.argv[1] + '/part-0.parquet'
    with pq.ParquetWriter(path, rows.schema, compression='zstd') as writer:
        for batch in rows:
            writer.write_batch(batch)
"""
BY_PARTITION = """
    partitioning = ds.partitioning(pa.schema([('p', pa.int32())]), flavor='hive')
    ds.write_dataset(
        reader(), sys.argv[1], format='parquet', partitioning=partitioning, max_partitions=2000,
        file_options=ds.ParquetFileFormat().make_write_options(compression='zstd'),
    )
"""
TIMED = "began = time.process_time()\n{work}\nnumber = time.process_time() - began"
"""The reported number is the CPU time."""
CASES: Mapping[str, tuple[int, str, str]] = {
    "one directory": (1, "", ONE_FILE),
    "30 partitions": (30, ", partition_by=['p']", BY_PARTITION),
    "1,000 partitions": (1000, ", partition_by=['p']", BY_PARTITION),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    arguments = parser.parse_args()
    print(f"{arguments.rows:,} rows:\n")
    print("| | | time | CPU | memory | written | our ratios to it: time | CPU | memory |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name, case in CASES.items():
            if arguments.only in name:
                print(measure(Path(folder) / "table", name, case, arguments), flush=True)


def measure(
    root: Path, name: str, case: tuple[int, str, str], arguments: argparse.Namespace
) -> str:
    num_partitions, by, plain = case
    write_source(Path(f"{root}.rows"), arguments.rows, num_partitions)
    write = f"write_deltalake(sys.argv[1], reader(){by}"
    programs = {
        "delta_ops": (OURS, f"da.write(sys.argv[1], reader(){by})"),
        "Parquet": (READ, plain),
        "deltalake": (PEER, f"{write}, writer_properties=zstd)"),
        "deltalake, snappy": (PEER, f"{write})"),
    }
    found: dict[str, list[tuple[float, float, float, int]]] = {who: [] for who in programs}
    for number in range(arguments.rounds):
        for who in programs if number % 2 else reversed(programs):
            shutil.rmtree(root, ignore_errors=True)
            imports, work = programs[who]
            taken_s, peak_mb, cpu_s = run(imports, TIMED.format(work=dedent(work)), root)
            num_bytes = sum(each.stat().st_size for each in root.rglob("*.parquet"))
            found[who].append((taken_s, cpu_s, peak_mb, num_bytes))
    medians = {
        who: [statistics.median(one) for one in zip(*each, strict=True)]
        for who, each in found.items()
    }
    for peer in ("deltalake", "deltalake, snappy"):
        figures = zip(("s", "s of CPU"), medians["delta_ops"], medians[peer], strict=False)
        for unit, mine, other in figures:
            record_ratio(Ratio(f"arrow_writes: {name}, {peer}", mine, other, unit, LIBRARY_GOAL))
    lines = []
    for who, theirs in medians.items():
        s, cpu_s, mb, num_bytes = theirs
        ratios = [
            f"{mine / other:.2f}"
            for mine, other in zip(medians["delta_ops"][:3], theirs[:3], strict=True)
        ]
        lines.append(
            f"| {name} | {who} | {s:.2f} s | {cpu_s:.2f} s | {mb:.0f} MB "
            f"| {num_bytes / 1e6:.0f} MB | {' | '.join(ratios)} |"
        )
    return "\n".join(lines)


def write_source(path: Path, rows: int, num_partitions: int) -> None:
    """`id` ascends, `k` is one of a thousand numbers, `p` is the partition, in no order."""
    chance = np.random.default_rng(0)
    names = pa.array([f"name {number}" for number in range(1000)])
    with pa.OSFile(str(path), "wb") as file:
        writer = None
        for first in range(0, rows, BATCH_ROWS):
            ids = np.arange(first, min(first + BATCH_ROWS, rows))
            batch = pa.record_batch(
                {
                    "id": pa.array(ids),
                    "x": pa.array(chance.random(len(ids))),
                    "s": names.take(pa.array(ids % 1000)),
                    "k": pa.array(chance.integers(0, 1000, len(ids)), pa.int32()),
                    "p": pa.array(chance.integers(0, num_partitions, len(ids)), pa.int32()),
                }
            )
            writer = writer or pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
        if writer:
            writer.close()


if __name__ == "__main__":
    main()
