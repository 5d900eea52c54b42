"""Streaming in bounded memory: tables ten times larger than the memory in use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from tests.arrow.foreign_table import create

MB = 1 << 20
ID = pa.schema([("id", pa.int64())])
CHILD = """
import json, sys
import delta_ops.arrow as da
from delta_ops import DeltaLog, col
def peak():
    with open('/proc/self/status') as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith('VmHWM'))
small, large = (DeltaLog(place).snapshot() for place in sys.argv[1:])
list(da.to_batches(small))
before, num_bytes = peak(), 0
for batch in da.to_batches(large):
    num_bytes += batch.nbytes
print(json.dumps([num_bytes, peak() - before]))
"""


def many_files(root: Path, num_rows: int) -> list[AddFile]:
    """300 names of one file of noise."""
    pq.write_table(noise(num_rows), root / "0")
    for number in range(1, 300):
        os.link(root / "0", root / str(number))
    return [file(root, str(number)) for number in range(300)]


def one_large_file(root: Path, num_rows: int) -> list[AddFile]:
    """Row groups of noise."""
    with pq.ParquetWriter(root / "x", ID) as writer:
        for _ in range(100):
            writer.write(noise(num_rows))
    return [file(root, "x")]


def files_that_swell(root: Path, num_rows: int) -> list[AddFile]:
    """Six files of kilobytes that hold rows of hundreds of megabytes."""
    table = pa.table({"id": pa.repeat(pa.scalar(7, pa.int64()), 300 * num_rows)})
    pq.write_table(table, root / "0", row_group_size=num_rows)
    for number in range(1, 6):
        os.link(root / "0", root / str(number))
    return [file(root, str(number)) for number in range(6)]


def noise(num_rows: int) -> pa.Table:
    numbers = pa.py_buffer(os.urandom(8 * num_rows))
    return pa.table({"id": pa.Array.from_buffers(pa.int64(), num_rows, [None, numbers])})


def file(root: Path, name: str) -> AddFile:
    size = (root / name).stat().st_size
    return AddFile(path=name, size=size, partition_values={}, modification_time=0)


@pytest.mark.full
@pytest.mark.parametrize(
    "make",
    [
        one_large_file,
        pytest.param(many_files, marks=pytest.mark.long),
        pytest.param(files_that_swell, marks=pytest.mark.long),
    ],
)
def test_a_table_passes_by_in_a_tenth_of_its_size(
    tmp_path: Path, make: Callable[[Path, int], list[AddFile]]
) -> None:
    places = []
    for name, num_rows in (("small", 10), ("large", 400_000)):
        place = tmp_path / name
        place.mkdir()
        create(place, schema_from_arrow(ID), make(place, num_rows))
        places.append(str(place))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *places], check=True, stdout=subprocess.PIPE, text=True
    )
    num_bytes, grown = json.loads(done.stdout)
    assert num_bytes > 150 * MB
    assert grown < num_bytes / 10
