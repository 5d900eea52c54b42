"""Rows written from this process, beside plain Parquet and deltalake, each in a process of its own.

    python -m benchmarks.arrow_writes [--rows 10000000] [--rounds 3] [--only TEXT] [--folder DIR]

The rows come as batches of 65,536 from a file of Arrow's, as a query would deliver them, in no
order of the partitions. All files are compressed by zstd, which is our default. What counts is from
the opening of that file to the commit; imports do not count. Plain Parquet is `ParquetWriter`, and
`pyarrow.dataset.write_dataset` for partitions. Peak memory is the process's with its imports.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.open_table import run

BATCH_ROWS = 65_536
READ = """
    import pyarrow as pa, pyarrow.parquet as pq, pyarrow.dataset as ds
    reader = lambda: pa.ipc.open_stream(pa.OSFile(sys.argv[1] + '.rows'))
"""
OURS = f"{READ}\n    import delta_ops.arrow as da"
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
    number = 0
"""
BY_PARTITION = """
    partitioning = ds.partitioning(pa.schema([('p', pa.int32())]), flavor='hive')
    ds.write_dataset(
        reader(), sys.argv[1], format='parquet', partitioning=partitioning, max_partitions=2000,
        file_options=ds.ParquetFileFormat().make_write_options(compression='zstd'),
    )
    number = 0
"""
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
    given = parser.parse_args()
    print(f"{given.rows:,} rows:\n")
    print("| | Parquet | deltalake | delta_ops | time, to Parquet | to deltalake | memory |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for name, case in CASES.items():
            if given.only in name:
                print(measure(Path(folder) / "table", name, case, given), flush=True)


def measure(root: Path, name: str, case: tuple[int, str, str], given: argparse.Namespace) -> str:
    num_partitions, by, plain = case
    write_source(Path(f"{root}.rows"), given.rows, num_partitions)
    programs = {
        "Parquet": (READ, plain),
        "deltalake": (
            PEER,
            f"write_deltalake(sys.argv[1], reader(){by}, writer_properties=zstd); number = 0",
        ),
        "delta_ops": (OURS, f"da.write(sys.argv[1], reader(){by}); number = 0"),
    }
    found: dict[str, list[tuple[float, float]]] = {who: [] for who in programs}
    for number in range(given.rounds):
        for who in programs if number % 2 else reversed(programs):
            shutil.rmtree(root, ignore_errors=True)
            taken_s, peak_mb, _ = run(*programs[who], root)
            found[who].append((taken_s, peak_mb))
    seconds = {who: statistics.median(s for s, _ in each) for who, each in found.items()}
    megabytes = {who: statistics.median(m for _, m in each) for who, each in found.items()}
    cells = [f"{seconds[who]:.2f} s, {megabytes[who]:.0f} MB" for who in programs]
    ratios = [seconds["delta_ops"] / seconds[who] for who in ("Parquet", "deltalake")]
    ratios.append(megabytes["delta_ops"] / megabytes["deltalake"])
    return f"| {name} | {' | '.join(cells)} | {' | '.join(f'{each:.2f}' for each in ratios)} |"


def write_source(path: Path, rows: int, num_partitions: int) -> None:
    """`id` ascends, `k` is one of a thousand numbers, `p` tells the partition, in no order."""
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
