"""delta-spark reads the rows of arrays, compacts them, and appends references."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("zarr")

import numpy as np
import pyarrow as pa
import zarr

from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, create_array_table, etag_of
from delta_ops.arrays.rows import COLUMNS
from delta_ops.storage import open_storage
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows, rows_by_deltalake

pytestmark = pytest.mark.full
VALUES = np.arange(60_000, dtype="i4")


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """Arrays with chunks in rows and in files, after two commits."""
    log = DeltaLog(tmp_path / "t")
    create_array_table(log)
    for name, chunk in (("short", 10_000), ("long", 30_000)):
        store = DeltaStore.begin(log)
        zarr.create_array(store, name=name, data=VALUES, chunks=(chunk,), compressors=None)
        store.commit()
    return log


def test_delta_spark_reads_the_rows_that_deltalake_reads(
    log: DeltaLog, delta_spark: DeltaSpark
) -> None:
    found = rows(delta_spark.read(Path(log.uri)))
    assert found == rows_by_deltalake(Path(log.uri))
    assert not delta_spark.warnings
    assert {each["key"] for each in found} >= {"long/zarr.json", "long/c/1", "short/c/5"}


def test_arrays_are_read_after_a_compaction_of_delta_spark(
    log: DeltaLog, delta_spark: DeltaSpark
) -> None:
    session = DeltaStore.begin(log)
    zarr.open_array(session, path="short", mode="r+")[:10_000] = -1
    delta_spark.sql(f"OPTIMIZE delta.`{log.uri}`")
    delta_spark.sql(f"UPDATE delta.`{log.uri}` SET etag = 'seen' WHERE key = 'long/c/0'")
    session.commit()
    store = DeltaStore(log)
    changed = np.concatenate([np.full(10_000, -1, "i4"), VALUES[10_000:]])
    assert np.array_equal(zarr.open_array(store, path="short", mode="r")[:], changed)
    assert np.array_equal(zarr.open_array(store, path="long", mode="r")[:], VALUES)


def test_delta_spark_appends_references_to_files(
    log: DeltaLog, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "a.bin").write_bytes(bytes(range(100)))
    etag = etag_of(open_storage(str(archive)).stat("a.bin"))
    data = [
        {
            "node": "/outside",
            "block": "10000-0",
            "key": f"outside/c/{number}",
            "location": f"{archive}/a.bin",
            "offset": 10 * number,
            "length": 10,
            "etag": etag,
        }
        for number in range(10)
    ]
    delta_spark.write(Path(log.uri), pa.Table.from_pylist(data, schema=COLUMNS))
    reader = DeltaStore(log, virtual_prefixes={str(archive): None})
    last = reader.get_sync("outside/c/9")
    assert last is not None
    assert last.to_bytes() == bytes(range(90, 100))
