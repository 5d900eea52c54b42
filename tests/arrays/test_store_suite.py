"""Zarr's own suite for stores, on each store of tables, without a skip."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zarr")

from zarr.core.buffer import Buffer, cpu
from zarr.testing.store import StoreTests

from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.log import DeltaLog
from delta_ops.versioning import begin_session
from tests.support.servers.s3 import S3Server


class SessionSuite(StoreTests[DeltaStore, cpu.Buffer]):
    """The suite for a store with a session. Another store of the session sets and reads keys."""

    store_cls = DeltaStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def table(self) -> DeltaLog:
        """Where the table is created."""
        raise NotImplementedError

    @pytest.fixture
    def store_kwargs(self, table: DeltaLog) -> dict[str, Any]:
        create_array_table(table)
        return {"table": table, "session": begin_session(table).token}

    @pytest.fixture
    def store(self, open_kwargs: dict[str, Any]) -> DeltaStore:
        store: DeltaStore = asyncio.run(DeltaStore.open(**open_kwargs))
        return store

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> DeltaStore:
        return DeltaStore(**store_kwargs)

    def _other(self, store: DeltaStore) -> DeltaStore:
        return DeltaStore(self._table(store), session=store.session)

    def _table(self, store: DeltaStore) -> DeltaLog:
        return store.log

    async def set(self, store: DeltaStore, key: str, value: Buffer) -> None:
        other = self._other(store)
        other.set_sync(key, value)
        other.flush()
        store.refresh()

    async def get(self, store: DeltaStore, key: str) -> Buffer:
        store.flush()
        value = self._other(store).get_sync(key)
        assert value is not None
        return value

    def test_store_repr(self, store: DeltaStore) -> None:
        assert repr(store).startswith("DeltaStore(")
        assert "session" in repr(store)

    def test_store_supports_writes(self, store: DeltaStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: DeltaStore) -> None:
        assert store.supports_listing


@pytest.mark.full
class TestOnDisk(SessionSuite):
    @pytest.fixture
    def table(self, tmp_path: Path) -> DeltaLog:
        return DeltaLog(tmp_path / "t")


@pytest.mark.full
class TestInMemory(SessionSuite):
    @pytest.fixture
    def table(self) -> DeltaLog:
        return DeltaLog(f"memory://arrays/{uuid.uuid4()}")


@pytest.mark.full
class TestOnS3(SessionSuite):
    @pytest.fixture
    def table(self, s3_server: S3Server) -> DeltaLog:
        return DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
