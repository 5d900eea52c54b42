"""Reads of arrays make few calls to the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zarr")

import zarr

from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.maintenance import create_checkpoint
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage, recording

pytestmark = pytest.mark.full


def test_the_first_chunk_takes_five_calls_and_its_neighbours_none(tmp_path: Path) -> None:
    create_array_table(tmp_path / "t")
    store = DeltaStore.begin(tmp_path / "t")
    array: Any = zarr.create_array(store, name="a", shape=(20,), chunks=(1,), dtype="u1")
    array[:] = range(20)
    store.commit()
    create_checkpoint(tmp_path / "t")
    calls: list[str] = []
    counted = CountingStorage(open_storage(tmp_path / "t"), recording(calls))
    reader: Any = zarr.open_array(DeltaStore(DeltaLog("", storage=counted)), path="a", mode="r")
    assert reader[7] == 7
    assert len(calls) == 5, "_last_checkpoint, the list of the log, the checkpoint, two blocks"
    assert reader[:].tolist() == list(range(20))
    assert len(calls) == 5
