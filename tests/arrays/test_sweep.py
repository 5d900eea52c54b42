"""The sweep of chunks: it deletes old chunks that no data file names, and no other file."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("zarr")

from deltalake import DeltaTable
from zarr.core.buffer import cpu

from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.arrays.chunks import CHUNKS_DIRECTORY, chunk_path, digest_of
from delta_ops.errors import StorageError
from delta_ops.maintenance import optimize, vacuum
from delta_ops.maintenance.vacuum.result import VacuumResult
from delta_ops.versioning import create_branch, create_tag

OLD, NEW, OTHER = (bytes([number]) * 100_000 for number in (1, 2, 3))


@pytest.fixture
def table(tmp_path: Path) -> DeltaLog:
    """Version 1 has the chunk OLD, version 2 the chunk NEW in its place."""
    log = DeltaLog(tmp_path / "t")
    create_array_table(log)
    set_chunk(log, OLD)
    set_chunk(log, NEW)
    return log


def set_chunk(log: DeltaLog, data: bytes, key: str = "a/c/0") -> None:
    store = DeltaStore.begin(log)
    store.set_sync(key, cpu.Buffer.from_bytes(data))
    store.commit()


def chunks(log: DeltaLog) -> set[str]:
    return {path.name for path in (Path(log.uri) / CHUNKS_DIRECTORY).glob("*/*")}


def hashes(*data: bytes) -> set[str]:
    return {digest_of(each) for each in data}


def age(log: DeltaLog, data: bytes) -> None:
    """Make a chunk ten days old."""
    path = Path(log.uri) / chunk_path(digest_of(data))
    ten_days_ago = path.stat().st_mtime - 10 * 24 * 3600
    os.utime(path, (ten_days_ago, ten_days_ago))


def vacuum_now(log: DeltaLog, *, dry_run: bool = False) -> VacuumResult:
    time.sleep(0.005)  # the horizon is in milliseconds
    return vacuum(log, retention=timedelta(0), enforce_retention=False, dry_run=dry_run)


def test_a_chunk_goes_after_the_last_data_file_that_names_it(table: DeltaLog) -> None:
    assert chunks(table) == hashes(OLD, NEW)
    found = vacuum_now(table).chunks
    assert (found.num_chunks, found.size_bytes) == (1, len(OLD))
    assert chunks(table) == hashes(NEW)
    kept = DeltaStore(table).get_sync("a/c/0")
    assert kept is not None
    assert kept.to_bytes() == NEW


@pytest.mark.full
def test_a_dry_run_deletes_nothing(table: DeltaLog) -> None:
    set_chunk(table, OTHER, "b/c/0")
    vacuum_now(table)
    store = DeltaStore.begin(table)
    store.set_sync("x", cpu.Buffer.from_bytes(OLD))
    store.abandon()
    assert vacuum_now(table, dry_run=True).chunks.num_chunks == 1
    assert chunks(table) == hashes(OLD, NEW, OTHER)


@pytest.mark.full
def test_young_chunks_stay(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    store.set_sync("x", cpu.Buffer.from_bytes(OTHER))
    for each in (OLD, NEW):
        age(table, each)
    assert vacuum(table).chunks.num_chunks == 0  # data files name both
    assert chunks(table) == hashes(OLD, NEW, OTHER)


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("ref", ["tag", "branch", "session"])
def test_chunks_of_refs_stay(table: DeltaLog, ref: str) -> None:
    if ref == "tag":
        create_tag(table, "old", version=1)
    elif ref == "branch":
        create_branch(table, "old", version=1)
    else:
        store = DeltaStore.begin(table)
        store.set_sync("x", cpu.Buffer.from_bytes(OTHER))
        store.flush()
        set_chunk(table, OLD)
    vacuum_now(table)
    if ref == "session":
        assert chunks(table) == hashes(OLD, NEW, OTHER)
        assert store.commit() is not None
    else:
        assert chunks(table) == hashes(OLD, NEW)
        found = DeltaStore(table, ref=f"{ref}:old").get_sync("a/c/0")
        assert found is not None
        assert found.to_bytes() == OLD


def test_a_chunk_that_is_written_again_stays(table: DeltaLog) -> None:
    for each in (OLD, NEW):
        age(table, each)
    vacuum(table, retention=timedelta(0), enforce_retention=False, mode="lite")
    store = DeltaStore.begin(table)
    store.set_sync("x", cpu.Buffer.from_bytes(OLD))  # written again, and not named yet
    assert vacuum(table, retention=timedelta(days=8)).chunks.num_chunks == 0
    store.commit()
    found = DeltaStore(table).get_sync("x")
    assert found is not None
    assert found.to_bytes() == OLD


@pytest.mark.full
@pytest.mark.parametrize("is_staged", [True, False])
def test_a_session_whose_chunk_is_gone_is_not_committed(table: DeltaLog, is_staged: bool) -> None:
    store = DeltaStore.begin(table)
    store.set_sync("x", cpu.Buffer.from_bytes(OTHER))
    if is_staged:
        store.flush()
    vacuum_now(table)
    if is_staged:
        assert chunks(table) == hashes(NEW, OTHER)
        (Path(table.uri) / chunk_path(digest_of(OTHER))).unlink()  # as a sweep at that moment
    with pytest.raises(StorageError, match=r"does not exist|another program deleted it"):
        store.commit()
    assert DeltaStore(table).get_sync("x") is None


def test_the_vacuum_of_deltalake_keeps_chunks(table: DeltaLog) -> None:
    create_tag(table, "old", version=1)
    for path in (Path(table.uri) / CHUNKS_DIRECTORY).glob("*/*"):
        os.utime(path, (1, 1))
    found = DeltaTable(table.uri)
    found.optimize.compact()
    found.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert chunks(table) == hashes(OLD, NEW)
    kept = DeltaStore(table).get_sync("a/c/0")
    assert kept is not None
    assert kept.to_bytes() == NEW


@pytest.mark.full
def test_deltalake_reads_the_rows(table: DeltaLog) -> None:
    rows = DeltaTable(table.uri).to_pyarrow_table().to_pylist()
    assert [(each["node"], each["block"], each["key"]) for each in rows] == [
        ("/a", "10000-0", "a/c/0")
    ]
    assert rows[0]["sha256"] == digest_of(NEW)


@pytest.mark.full
def test_a_link_in_the_table_keeps_all_chunks(table: DeltaLog, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (Path(table.uri) / "linked").symlink_to(tmp_path / "elsewhere")
    found = vacuum_now(table).chunks
    assert (found.num_chunks, found.reason_to_stay) == (0, "linked is a link")
    assert chunks(table) == hashes(OLD, NEW)


def test_a_data_file_that_cannot_be_read_keeps_all_chunks(table: DeltaLog) -> None:
    torn = Path(table.uri) / "part-0.parquet"
    torn.write_bytes(b"PAR1")
    future = time.time() + 3600
    os.utime(torn, (future, future))
    found = vacuum_now(table).chunks
    assert found.num_chunks == 0
    assert found.reason_to_stay is not None
    assert "part-0.parquet cannot be read" in found.reason_to_stay


@pytest.mark.full
def test_other_tables_are_not_swept(tmp_path: Path) -> None:
    import pyarrow as pa

    import delta_ops.arrow as da

    da.write(tmp_path / "t", pa.table({"id": [1]}))
    path = tmp_path / "t" / chunk_path(digest_of(OLD))
    path.parent.mkdir(parents=True)
    path.write_bytes(OLD)
    vacuum_now(DeltaLog(tmp_path / "t"))
    assert path.exists()


@pytest.mark.full
def test_a_compaction_keeps_chunks_named(table: DeltaLog) -> None:
    set_chunk(table, OTHER, "a/c/1")
    optimize(table)
    vacuum_now(table)
    assert chunks(table) == hashes(NEW, OTHER)
