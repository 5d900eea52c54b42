"""Arrays on an S3 server: chunks, commits of two sessions, conflicts and the sweep."""

from __future__ import annotations

from datetime import timedelta

import pytest

pytest.importorskip("zarr")

from zarr.core.buffer import cpu

from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.arrays.chunks import CHUNKS_DIRECTORY
from delta_ops.errors import ChunkConflictError
from delta_ops.maintenance import vacuum
from tests.support.servers.s3 import S3Server

pytestmark = pytest.mark.full
ONE, OTHER = (bytes([number]) * 100_000 for number in (1, 2))


@pytest.fixture
def log(s3_server: S3Server) -> DeltaLog:
    log = DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    create_array_table(log)
    return log


def writer(log: DeltaLog, key: str, data: bytes) -> DeltaStore:
    store = DeltaStore.begin(log)
    store.set_sync(key, cpu.Buffer.from_bytes(data))
    return store


def bytes_of(log: DeltaLog, key: str) -> bytes | None:
    found = DeltaStore(log).get_sync(key)
    return None if found is None else found.to_bytes()


def test_sessions_commit_conflict_and_share_equal_chunks(log: DeltaLog) -> None:
    first, second, third = (
        writer(log, "a/c/0", ONE),
        writer(log, "a/c/1", ONE),
        writer(log, "a/c/1", OTHER),
    )
    assert (first.commit(), second.commit()) == (1, 2)
    with pytest.raises(ChunkConflictError) as caught:
        third.commit()
    assert caught.value.coordinates == ((1,),)
    assert third.commit(on_conflict="ours") == 3
    assert (bytes_of(log, "a/c/0"), bytes_of(log, "a/c/1")) == (ONE, OTHER)
    assert len(list(log.storage.list_tree(CHUNKS_DIRECTORY))) == 2


def test_a_vacuum_deletes_the_chunk_that_nobody_names(log: DeltaLog) -> None:
    for data in (ONE, OTHER):
        writer(log, "a/c/0", data).commit()
    later = log.snapshot().add_files()[0].modification_time + 60_000
    now = {"retention": timedelta(0), "enforce_retention": False}
    result = vacuum(log, clock=lambda: later, **now)  # type: ignore[arg-type]
    assert result.chunks.num_chunks == 1
    assert bytes_of(log, "a/c/0") == OTHER
