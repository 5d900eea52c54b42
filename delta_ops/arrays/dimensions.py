"""Dimensions: the arrays of a group that have a dimension, and their size along it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import zarr

from delta_ops.arrays.store import DeltaStore


class ArrayAlong(NamedTuple):
    """An array that has the dimension."""

    name: str
    size: int
    """Positions along the dimension."""
    unit: int
    """Positions along the dimension of one key: of a chunk, or of a shard with several chunks."""


def arrays_along(store: DeltaStore, dimension: str) -> list[ArrayAlong]:
    """The arrays of the root group that have a dimension, by name.

    Args:
        store: A store with a group of Zarr 3.
        dimension: The name of the dimension.
    """
    found = []
    for array, axis in _arrays(store, dimension, "r"):
        units = array.shards or array.chunks
        found.append(ArrayAlong(array.basename, array.shape[axis], units[axis]))
    return sorted(found)


def resize_dimension(store: DeltaStore, dimension: str, size: int) -> None:
    """Give all arrays with a dimension another size along it; chunks outside of it are deleted.

    Args:
        store: A store with a session.
        dimension: The name of the dimension.
        size: Positions along the dimension.
    """
    for array, axis in _arrays(store, dimension, "r+"):
        shape = list(array.shape)
        shape[axis] = size
        if tuple(shape) != array.shape:
            array.resize(tuple(shape))


def _arrays(store: DeltaStore, dimension: str, mode: Literal["r", "r+"]) -> list[tuple[Any, int]]:
    group: Any = zarr.open_group(store, mode=mode)
    arrays = [(each, each.metadata.dimension_names or ()) for _, each in group.arrays()]
    return [(each, names.index(dimension)) for each, names in arrays if dimension in names]
