"""Small files with large content: small batches, or a clear error for lack of memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_names import checksum_name, commit_name
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from tests.arrow.foreign_table import create

MB = 1 << 20
CHILD = """
import resource, sys
import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import DeltaOpsError
with open('/proc/self/statm') as statm:
    limit = int(statm.read().split()[0]) * resource.getpagesize() + (400 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    da.to_table(DeltaLog(sys.argv[1]).snapshot())
except DeltaOpsError as error:
    print(type(error).__name__, error)
"""


def one_text(rows: int, size: int) -> pa.DictionaryArray:
    """One long text repeated, as a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0), rows), ["x" * size])


def table_of(root: Path, columns: dict[str, Any], schema: pa.Schema, **options: Any) -> DeltaLog:
    pq.write_table(pa.table(columns), root / "0", store_schema=False, **options)
    size = (root / "0").stat().st_size
    file = AddFile(path="0", size=size, partition_values={}, modification_time=0)
    create(root, schema_from_arrow(schema), [file])
    return DeltaLog(root)


@pytest.mark.parametrize(
    ("compression", "checksums"),
    [("none", True), ("snappy", False), ("gzip", False), ("zstd", True)],
)
def test_a_text_that_a_file_has_once_and_rows_often_passes_in_small_batches(
    tmp_path: Path, compression: str, checksums: bool
) -> None:
    log = table_of(
        tmp_path,
        {"s": one_text(20_000, 16 << 10)},
        pa.schema([("s", pa.string())]),
        compression=compression,
        write_page_checksum=checksums,
    )
    assert (tmp_path / "0").stat().st_size < MB
    batches = da.to_batches(log.snapshot())
    first = next(iter(batches))
    assert set(first["s"].to_pylist()) == {"x" * (16 << 10)}
    assert first.nbytes < 32 * MB


def test_texts_in_lists_pass_in_small_batches(tmp_path: Path) -> None:
    texts = pa.ListArray.from_arrays(pa.array(range(0, 20_001, 10)), one_text(20_000, 16 << 10))
    schema = pa.schema([("s", pa.list_(pa.string()))])
    log = table_of(tmp_path, {"s": texts}, schema)
    assert next(iter(da.to_batches(log.snapshot()))).nbytes < 32 * MB


def test_short_texts_of_a_dictionary_pass_in_large_batches(tmp_path: Path) -> None:
    texts = pa.array([str(number % 50_000) for number in range(200_000)])
    log = table_of(tmp_path, {"s": texts}, pa.schema([("s", pa.string())]))
    assert next(iter(da.to_batches(log.snapshot()))).num_rows == 1 << 17


def test_a_partition_column_of_many_rows_passes_in_small_batches(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1], "p": ["x" * 100]}), partition_by=["p"])
    (place,) = tmp_path.rglob("*.parquet")
    pq.write_table(pa.table({"id": pa.repeat(pa.scalar(7, pa.int64()), 1_000_000)}), place)
    batches = list(da.to_batches(DeltaLog(tmp_path).snapshot(), columns=["p"]))
    assert sum(batch.num_rows for batch in batches) == 1_000_000
    assert max(batch.nbytes for batch in batches) < 32 * MB


def error_with_little_memory(root: Path) -> str:
    """The error of a read of the table in 400 MB."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(root)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},  # others reserve beforehand
    )
    return done.stdout


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_a_file_that_takes_more_memory_than_there_is_need_not_be_restored(tmp_path: Path) -> None:
    schema = pa.schema([("s", pa.string())])
    columns = {"s": pa.array(["x" * (300 * MB)])}
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    table_of(tmp_path, columns, schema, **options)
    reported = error_with_little_memory(tmp_path)
    assert reported.startswith("DataFileError")
    assert "more memory" in reported
    assert "restore" not in reported


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_a_checkpoint_that_takes_more_memory_than_there_is_is_not_to_be_deleted(
    tmp_path: Path,
) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    write_checkpoint(DeltaLog(tmp_path).snapshot(), now_ms=0)
    (place,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    swell(place, num_rows=9_000, stats_bytes=100_000)
    (tmp_path / "_delta_log" / commit_name(0)).unlink()
    (tmp_path / "_delta_log" / checksum_name(0)).unlink(missing_ok=True)
    assert place.stat().st_size < MB
    reported = error_with_little_memory(tmp_path)
    assert reported.startswith("StorageError")
    assert "more memory" in reported
    assert "delete" not in reported


def swell(place: Path, *, num_rows: int, stats_bytes: int) -> None:
    """More adds for a checkpoint, with the same long statistics, stored once in the file."""
    stored = pq.read_table(place)
    adds = stored["add"].combine_chunks()
    (row,) = [at for at, value in enumerate(adds.is_valid().to_pylist()) if value]
    struct = adds.chunk(0) if isinstance(adds, pa.ChunkedArray) else adds
    columns = []
    for field in struct.type:
        one = struct.field(field.name).take(pa.repeat(pa.scalar(row), num_rows))
        columns.append(one_text(num_rows, stats_bytes) if field.name == "stats" else one)
    more = pa.StructArray.from_arrays(columns, names=[field.name for field in struct.type])
    nulls = {
        name: pa.nulls(num_rows, stored.schema.field(name).type) for name in stored.schema.names
    }
    added = pa.table({**nulls, "add": more})
    first = stored.set_column(stored.schema.get_field_index("add"), "add", _as(adds, more.type))
    with pq.ParquetWriter(place, added.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(first)
        writer.write_table(added)


def _as(adds: pa.StructArray, data_type: pa.StructType) -> pa.StructArray:
    fields = list(data_type)
    columns = [adds.field(field.name).cast(field.type) for field in fields]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=adds.is_null())
