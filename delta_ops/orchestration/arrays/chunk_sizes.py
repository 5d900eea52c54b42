"""Chunk sizes: of new arrays, and whether the chunks of arrays fit the regions of partitions.

Two partitions must not share a chunk: each would overwrite what the other has written beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from delta_ops.arrays.dimensions import ArrayAlong
from delta_ops.errors import InvalidRequestError

_MOST_BYTES = 16 * 1024 * 1024
"""Largest size of a chunk by default, before compression."""
_KEPT_ENCODING = ("preferred_chunks", "source", "original_shape")
"""Keys of an encoding that describe the file that a variable was read from."""


def sizes_that_fit(edges: Sequence[int]) -> list[int]:
    """The chunk sizes that cut no region between two of these positions, ascending.

    Examples:
        >>> sizes_that_fit([0, 24, 36])
        [1, 2, 3, 4, 6, 12]
    """
    largest = gcd(*edges)
    return [size for size in range(1, largest + 1) if largest % size == 0]


def validate_chunks_fit(
    arrays: Sequence[ArrayAlong], edges: Sequence[int], *, asset: str, dimension: str
) -> None:
    """Reject arrays if a region would cut a chunk.

    Args:
        arrays: The arrays along the dimension.
        edges: Positions at which a region begins or ends.
        asset: The asset key as text, for messages.
        dimension: The name of the dimension.

    Raises:
        InvalidRequestError: Two partitions would share a chunk.
    """
    for array in arrays:
        cut = next((edge for edge in edges if edge % array.unit), None)
        if cut is not None:
            sizes = ", ".join(map(str, sizes_that_fit(edges)))
            raise InvalidRequestError(
                f"asset {asset}: array {array.name} has chunks of {array.unit} along {dimension}, "
                f"and a partition begins or ends at position {cut}, so two partitions would share "
                f"a chunk. Sizes that fit: {sizes}. Set one for a new table by the metadata "
                f'"delta/chunks": {{"{dimension}": ...}}. Nothing was written'
            )


def add_encodings(
    dataset: Any, chunks: Mapping[str, int], dimension: str | None = None, fit: int = 1
) -> Any:
    """Copy a dataset, with the encodings of new arrays.

    Positions that nobody has written read as missing values, where the type has one.

    Args:
        dataset: The `xarray.Dataset`.
        chunks: Chunk sizes by dimension that the asset chooses.
        dimension: The dimension of the partitions; None without partitions.
        fit: The largest chunk size along the dimension that fits.
    """
    copy = dataset.copy()
    for name, variable in dataset.variables.items():
        copy[name].encoding = _encoding(variable, chunks, dimension, fit)
    return copy


def _encoding(variable: Any, chunks: Mapping[str, int], dimension: str | None, fit: int) -> Any:
    own = {name: each for name, each in variable.encoding.items() if name not in _KEPT_ENCODING}
    sizes = _chunk_sizes(variable, own, chunks, dimension, fit)
    if sizes is not None:
        own["chunks"] = sizes
    missing = own.get("_FillValue", own.get("missing_value"))
    if missing is not None:
        own.setdefault("_FillValue", missing)
        own.setdefault("fill_value", missing)
    elif variable.dtype.kind in "fc" and np.dtype(own.get("dtype", "f8")).kind in "fc":
        own.setdefault("fill_value", np.nan)
    elif variable.dtype.kind in "mM" and "units" not in own:
        own |= _time_encoding(variable)
    return own


def _chunk_sizes(
    variable: Any,
    own: Mapping[str, Any],
    chosen: Mapping[str, int],
    dimension: str | None,
    fit: int,
) -> tuple[int, ...] | None:
    """The chunk sizes; None if xarray chooses them."""
    if dimension not in variable.dims and not set(chosen) & set(variable.dims):
        return None
    known = own.get("chunks")
    if variable.chunks is not None:  # of Dask
        known = tuple(each[0] for each in variable.chunks)
    sizes = dict(zip(variable.dims, known or variable.shape, strict=True))
    if known is None and dimension in sizes:
        sizes[dimension] = fit
    sizes = {name: max(chosen.get(name, size), 1) for name, size in sizes.items()}
    if known is None:
        free = [name for name in sizes if name not in chosen and name != dimension]
        while free and prod(sizes.values()) * variable.dtype.itemsize > _MOST_BYTES:
            longest = max(free, key=lambda name: sizes[name])
            if sizes[longest] == 1:
                break
            sizes[longest] = -(-sizes[longest] // 2)
    return tuple(sizes.values())


def _time_encoding(variable: Any) -> dict[str, Any]:
    """An encoding that keeps each time; xarray would choose units that fit the first partition."""
    names = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}
    unit = names.get(np.datetime_data(variable.dtype)[0], "nanoseconds")
    lowest = np.iinfo("i8").min
    since = " since 1970-01-01" if variable.dtype.kind == "M" else ""
    return {"units": f"{unit}{since}", "dtype": "int64", "_FillValue": lowest, "fill_value": lowest}
