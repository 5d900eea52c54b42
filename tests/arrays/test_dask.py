"""Datasets of Dask: chunks that threads compute and write side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zarr")
pytest.importorskip("xarray")

import dask
import numpy as np
import xarray

from delta_ops.arrays import DeltaStore, create_array_table

pytestmark = pytest.mark.full

VALUES = np.random.default_rng(0).normal(size=(24, 3))


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    with dask.config.set(scheduler="threads", num_workers=4):
        yield


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with `VALUES` in chunks of four rows."""
    create_array_table(tmp_path / "t")
    store = DeltaStore.begin(tmp_path / "t")
    lazy_dataset().to_zarr(store, consolidated=False)
    store.commit()
    return tmp_path / "t"


def lazy_dataset(rows: int = 4) -> Any:
    dataset = xarray.Dataset({"air": (("time", "x"), VALUES)}, coords={"time": np.arange(24)})
    return dataset.chunk({"time": rows})


def opened(store: Any, rows: int = 4) -> Any:
    return xarray.open_zarr(store, chunks={"time": rows}, consolidated=False)


def test_a_lazy_dataset_comes_back_identical(table: Path) -> None:
    found = opened(DeltaStore(table), rows=8)
    assert found.chunks["time"] == (8, 8, 8)
    xarray.testing.assert_identical(found.load(), lazy_dataset().load())


def test_a_session_reads_and_replaces_its_own_chunks(table: Path) -> None:
    store = DeltaStore.begin(table)
    for _ in range(2):
        changed = (opened(store) + 1).isel(time=slice(8, 16)).drop_vars("time")
        changed.to_zarr(store, region={"time": slice(8, 16)}, consolidated=False)
    store.commit()
    expected = VALUES.copy()
    expected[8:16] += 1
    expected[8:16] += 1
    np.testing.assert_array_equal(opened(DeltaStore(table))["air"], expected)


def test_a_delayed_write_is_part_of_the_commit_after_it(table: Path) -> None:
    store = DeltaStore.begin(table)
    later = (lazy_dataset() * 3).drop_vars("time")
    delayed = later.to_zarr(store, region={"time": slice(0, 24)}, consolidated=False, compute=False)
    np.testing.assert_array_equal(opened(DeltaStore(table))["air"], VALUES)
    delayed.compute()
    store.commit()
    np.testing.assert_array_equal(opened(DeltaStore(table))["air"], VALUES * 3)


def test_tasks_whose_chunks_cut_those_of_the_table_are_rejected(table: Path) -> None:
    store = DeltaStore.begin(table)
    cut = lazy_dataset(rows=3).drop_vars("time")
    with pytest.raises(ValueError, match="chunk"):
        cut.to_zarr(store, region={"time": slice(0, 24)}, consolidated=False)
    store.abandon()
    np.testing.assert_array_equal(opened(DeltaStore(table))["air"], VALUES)
