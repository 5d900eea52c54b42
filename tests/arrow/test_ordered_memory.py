"""Rows sorted in bounded memory: a table ten times as large as all the memory that there is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_types import schema_from_arrow
from tests.arrow.foreign_table import create

LIMIT = 512 << 20
COLUMNS = [f"c{number}" for number in range(10)]
FILE_ROWS = 640_000
CHILD = """
import functools, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]),) * 2)
import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.maintenance import optimize
engine = functools.partial(da.rewrite, memory_bytes=64 << 20)
log = DeltaLog(sys.argv[1])
result = optimize(log, zorder_by=["c0", "c1"], target_size=64 << 20, engine=engine)
print(result.files_removed, result.files_added)
"""


def noise(num_rows: int) -> pa.Table:
    def column() -> pa.Array:
        numbers = pa.py_buffer(os.urandom(8 * num_rows))
        return pa.Array.from_buffers(pa.int64(), num_rows, [None, numbers])

    return pa.table({name: column() for name in COLUMNS})


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_a_table_ten_times_as_large_as_the_memory_is_sorted(tmp_path: Path) -> None:
    pq.write_table(noise(FILE_ROWS), tmp_path / "0")
    num_files = 11 * LIMIT // (FILE_ROWS * 8 * len(COLUMNS))
    for number in range(1, num_files):
        os.link(tmp_path / "0", tmp_path / str(number))
    size = (tmp_path / "0").stat().st_size
    files = [
        AddFile(path=str(number), size=size, partition_values={}, modification_time=0)
        for number in range(num_files)
    ]
    schema = pa.schema([(name, pa.int64()) for name in COLUMNS])
    create(tmp_path, schema_from_arrow(schema), files)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), str(LIMIT)],
        check=True,
        # The kernel counts what allocators keep for later, too.
        env={
            **os.environ,
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "MALLOC_ARENA_MAX": "2",
            "MALLOC_MMAP_THRESHOLD_": "65536",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    removed, added = map(int, done.stdout.split())
    assert removed == num_files
    assert added > num_files // 2
