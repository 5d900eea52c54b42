"""Arrays whose names are numbers, with slashes between coordinates, as in OME-Zarr 0.4.

The key `0/5/7` may then be a chunk of the array `0`, or of the root.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

pytest.importorskip("zarr")

import zarr

from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.errors import ChunkConflictError

pytestmark = pytest.mark.full


def image(place: Path) -> Path:
    """A table with an image of two levels, below the group `image`."""
    create_array_table(place)
    store = DeltaStore.begin(place)
    group = zarr.create_group(store, path="image", zarr_format=2)
    for name, size in (("0", 8), ("1", 4)):
        level: Any = group.create_array(
            name,
            shape=(size, size),
            chunks=(2, 2),
            dtype="u1",
            chunk_key_encoding={"name": "v2", "separator": "/"},
        )
        level[:] = 1
    store.commit()
    return place


def level(store: DeltaStore, name: str, mode: Literal["r", "r+"] = "r+") -> Any:
    return zarr.open_array(store, path=f"image/{name}", mode=mode)


def write_chunk(store: DeltaStore, name: str = "0") -> None:
    level(store, name)[0:2, 0:2] = 2


def resize(store: DeltaStore) -> None:
    level(store, "0").resize((4, 3))


def remove(store: DeltaStore) -> None:
    del zarr.open_group(store, path="image", mode="r+")["0"]


@pytest.mark.parametrize("change", [resize, remove])
@pytest.mark.parametrize("is_chunk_first", [True, False])
def test_a_chunk_conflicts_with_another_shape_of_its_array(
    tmp_path: Path, change: Callable[[DeltaStore], None], is_chunk_first: bool
) -> None:
    image(tmp_path / "t")
    stores = [DeltaStore.begin(tmp_path / "t"), DeltaStore.begin(tmp_path / "t")]
    changes = [write_chunk, change] if is_chunk_first else [change, write_chunk]
    for store, each in zip(stores, changes, strict=True):
        each(store)
    stores[0].commit()
    with pytest.raises(ChunkConflictError, match="image/0/"):
        stores[1].commit()


def test_another_shape_of_one_level_leaves_the_chunks_of_the_other(tmp_path: Path) -> None:
    image(tmp_path / "t")
    one, two = DeltaStore.begin(tmp_path / "t"), DeltaStore.begin(tmp_path / "t")
    resize(one)
    write_chunk(two, "1")
    one.commit()
    assert two.commit() == 3
    found = DeltaStore(tmp_path / "t")
    assert level(found, "0", "r").shape == (4, 3)
    assert level(found, "1", "r")[1, 1] == 2


def test_theirs_leaves_out_the_writes_to_the_resized_level_only(tmp_path: Path) -> None:
    image(tmp_path / "t")
    one, two = DeltaStore.begin(tmp_path / "t"), DeltaStore.begin(tmp_path / "t")
    resize(one)
    write_chunk(two, "0")
    write_chunk(two, "1")
    one.commit()
    two.commit(on_conflict="theirs")
    found = DeltaStore(tmp_path / "t")
    assert (level(found, "0", "r")[0, 0], level(found, "1", "r")[0, 0]) == (1, 2)
