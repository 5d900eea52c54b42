"""Datasets of xarray through the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zarr")
pytest.importorskip("xarray")

import xarray

from delta_ops.arrays import DeltaStore, create_array_table

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
]

NUMBERS = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
TIMES = ("M8[s]", "M8[ns]", "m8[s]", "m8[ns]")


def dataset(size: int = 6) -> Any:
    """A variable of each type, along time."""
    values = np.arange(size)
    columns: dict[str, Any] = {name: values.astype(name) for name in (*NUMBERS, *TIMES)}
    columns["text"] = np.array([f"é{number}" for number in values])
    columns["bytes"] = np.array([f"b{number}".encode() for number in values])
    columns["missing"] = np.where(values % 2, np.nan, values)
    names = {name: f"v{number}" for number, name in enumerate(columns)}
    return xarray.Dataset(
        {names[name]: ("time", data, {"type": name}) for name, data in columns.items()},
        coords={"time": np.datetime64("2026-01-01", "ns") + values.astype("m8[D]")},
        attrs={"title": "one variable of each type"},
    )


def test_a_dataset_of_every_type_is_read_as_it_was_written(tmp_path: Path) -> None:
    create_array_table(tmp_path / "t")
    store = DeltaStore.begin(tmp_path / "t")
    dataset().to_zarr(store, mode="w")
    store.commit()
    found = xarray.open_zarr(DeltaStore(tmp_path / "t")).load()
    xarray.testing.assert_identical(found, dataset())


def test_regions_and_appended_days_are_committed_one_by_one(tmp_path: Path) -> None:
    days = dataset(6)[["v4"]]
    create_array_table(tmp_path / "t")
    store = DeltaStore.begin(tmp_path / "t")
    first_days = days.isel(time=slice(0, 2))
    first_days.to_zarr(store, mode="w", encoding={"v4": {"chunks": (2,)}})
    store.commit()
    for first in (2, 4):
        store = DeltaStore.begin(tmp_path / "t")
        days.isel(time=slice(first, first + 2)).to_zarr(store, append_dim="time")
        store.commit()
    sessions = [DeltaStore.begin(tmp_path / "t") for _ in range(3)]
    for number, each in enumerate(sessions):
        part = slice(2 * number, 2 * number + 2)
        (days.isel(time=part) * 10).drop_vars("time").to_zarr(each, region={"time": part})
    assert [each.commit() for each in sessions] == [4, 5, 6]
    found = xarray.open_zarr(DeltaStore(tmp_path / "t")).load()
    assert found["v4"].values.tolist() == [0, 10, 20, 30, 40, 50]
