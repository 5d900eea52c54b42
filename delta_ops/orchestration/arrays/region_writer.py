"""Region writer: writes a dataset to a session, as regions along one dimension.

1. The dimension has a place for each partition that exists, so a backfill of many partitions makes
   the arrays longer once, and its runs do not conflict.
2. The first partition creates the arrays. Later partitions have the same variables, and the same
   values of variables without the dimension.
3. Everything is validated before the session is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from delta_ops.arrays import DeltaStore
from delta_ops.arrays.dimensions import arrays_along, resize_dimension
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.arrays.chunk_sizes import (
    add_encodings,
    sizes_that_fit,
    validate_chunks_fit,
)
from delta_ops.orchestration.arrays.partition_labels import (
    Labels,
    PartitionedLabels,
    position_by_label,
    regions,
)

_LABELS_IN_CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionWriter:
    """Writes the regions of the partitions of a run.

    Args:
        store: A store with a session.
        dataset: The `xarray.Dataset` of the partitions.
        labels: The rules of the labels.
        chunks: Chunk sizes by dimension, for new arrays.
    """

    store: DeltaStore
    dataset: Any
    labels: PartitionedLabels
    chunks: Mapping[str, int]

    def write(self) -> None:
        """Write the dataset.

        Raises:
            InvalidRequestError: The dataset does not fit the partitions or the stored arrays.
        """
        self._validate_dimension()
        dimension, labels = self._dimension, self.dataset[self._dimension].values
        is_new = self.store.get_sync("zarr.json") is None
        stored = labels[:0] if is_new else self._stored_labels()
        labels, stored = _align_types(labels, stored)
        new = self.labels.new_labels(labels, stored)
        all_labels = np.concatenate([stored, new]) if len(stored) else new
        if is_new:
            self._create(labels, all_labels)
        else:
            self._validate_variables()
        places = position_by_label(all_labels)
        positions = [places[each] for each in labels.tolist()]
        order = sorted(range(len(positions)), key=positions.__getitem__)
        targets = list(regions([positions[each] for each in order]))
        self._validate_chunks(targets)
        if len(new):
            self._append_labels(new)
            resize_dimension(self.store, dimension, len(all_labels))
        ours = self._variables_along().isel({dimension: order})
        for source, target in targets:
            part = ours.isel({dimension: source})
            write_to(part, self.store, self.labels.asset, region={dimension: target})

    @property
    def _dimension(self) -> str:
        return self.labels.dimension

    def _validate_dimension(self) -> None:
        dimension, asset = self._dimension, self.labels.asset
        if dimension not in self.dataset.dims:
            raise InvalidRequestError(
                f"asset {asset}: the dataset has no dimension {dimension}, which partition_expr "
                f"names; its dimensions are {', '.join(map(str, self.dataset.dims)) or 'none'}. "
                "Nothing was written"
            )
        if dimension not in self.dataset.coords:
            raise InvalidRequestError(
                f"asset {asset}: the dimension {dimension} has no coordinate, which says to which "
                "partition each position belongs; add one with Dataset.assign_coords. Nothing was "
                "written"
            )

    def _stored_labels(self) -> Labels:
        stored = open_dataset(self.store)
        if self._dimension not in stored.coords:
            raise InvalidRequestError(
                f"asset {self.labels.asset}: the arrays of the table have no coordinate "
                f"{self._dimension}, so the place of a partition is unknown. Let the asset write a "
                "new table. Nothing was written"
            )
        labels: Labels = stored[self._dimension].values
        return labels

    def _create(self, labels: Labels, all_labels: Labels) -> None:
        """Create the arrays without positions; xarray finds types by the first label."""
        fit = sizes_that_fit(self.labels.edges(labels, all_labels))[-1]
        first = self.dataset.isel({self._dimension: slice(0, 1)})
        first = add_encodings(first, self.chunks, self._dimension, fit)
        own = self.dataset[self._dimension].encoding
        first[self._dimension].encoding["chunks"] = own.get("chunks", (_LABELS_IN_CHUNK,))
        write_to(first, self.store, self.labels.asset, mode="w")
        resize_dimension(self.store, self._dimension, 0)
        arrays = self._arrays()
        validate_chunks_fit(
            arrays,
            self.labels.edges(labels, all_labels),
            asset=self.labels.asset,
            dimension=self._dimension,
        )

    def _append_labels(self, new: Labels) -> None:
        import xarray

        stored = open_dataset(self.store)  # an append replaces attributes
        labels = (self._dimension, new, stored[self._dimension].attrs)
        grown = xarray.Dataset(coords={self._dimension: labels}, attrs=stored.attrs)
        write_to(grown, self.store, self.labels.asset, append_dim=self._dimension)

    def _validate_chunks(self, targets: Sequence[tuple[slice, slice]]) -> None:
        edges = [edge for _, target in targets for edge in (target.start, target.stop)]
        asset, dimension = self.labels.asset, self._dimension
        validate_chunks_fit(self._arrays(), edges, asset=asset, dimension=dimension)

    def _arrays(self) -> list[Any]:
        """The arrays along the dimension, without its labels."""
        arrays = arrays_along(self.store, self._dimension)
        return [each for each in arrays if each.name != self._dimension]

    def _variables_along(self) -> Any:
        others = [name for name, each in self.dataset.variables.items() if not self._is_along(each)]
        return self.dataset.drop_vars([*others, self._dimension])

    def _is_along(self, variable: Any) -> bool:
        return self._dimension in variable.dims

    def _validate_variables(self) -> None:
        """Reject other variables than the table has.

        Raises:
            InvalidRequestError: A variable is missing, new, or has other values although it does
                not have the dimension of the partitions.
        """
        stored, asset = open_dataset(self.store), self.labels.asset
        ours, theirs = set(self.dataset.variables), set(stored.variables)
        for names, problem in ((theirs - ours, "lacks"), (ours - theirs, "has the new")):
            if names:
                raise InvalidRequestError(
                    f"asset {asset}: the dataset {problem} variable {', '.join(map(str, names))}; "
                    "each partition needs the variables of the first. Let the asset write a new "
                    "table to change them. Nothing was written"
                )
        for name, variable in self.dataset.variables.items():
            other = stored.variables[name]
            if variable.dims != other.dims:
                raise InvalidRequestError(
                    f"asset {asset}: variable {name} has the dimensions {variable.dims}, and in "
                    f"the table {other.dims}; transpose the dataset. Nothing was written"
                )
            if _casts(variable, other):
                raise InvalidRequestError(
                    f"asset {asset}: variable {name} is of type {variable.dtype}, and in the table "
                    f"{other.dtype}; convert it with Dataset.astype. Nothing was written"
                )
            if _rounds(variable, other):
                raise InvalidRequestError(
                    f"asset {asset}: variable {name} is packed in the table by "
                    f"{_packing(other)}, which may round its values; set these in its encoding, "
                    "or let the asset write a new table. Nothing was written"
                )
            if changed := _changed_attributes(variable.attrs, other.attrs):
                raise InvalidRequestError(
                    f"asset {asset}: variable {name} has the attribute {changed[0]}="
                    f"{variable.attrs[changed[0]]!r}, and in the table "
                    f"{other.attrs.get(changed[0])!r}; give each partition the attributes of the "
                    "first, or leave them out. Nothing was written"
                )
            if not self._is_along(variable) and not variable.equals(other):
                raise InvalidRequestError(
                    f"asset {asset}: variable {name} does not have the dimension "
                    f"{self._dimension}, and its values are not those of the table; partitions "
                    "share it, so each needs the same values. Nothing was written"
                )


def open_dataset(store: DeltaStore) -> Any:
    """The group of a store as an `xarray.Dataset`, which reads values when they are needed."""
    import xarray

    return xarray.open_zarr(store, consolidated=False)


def _casts(variable: Any, stored: Any) -> bool:
    """Whether xarray would cast the numbers of a variable; a cast may lose digits.

    Packed numbers are decoded to floats, so any type of float is right for them.
    """
    if variable.dtype.kind not in "biufc" or variable.dtype == stored.dtype:
        return False
    is_packed = stored.encoding.get("dtype", stored.dtype) != stored.dtype
    return not (is_packed and variable.dtype.kind == "f")


def _rounds(variable: Any, stored: Any) -> bool:
    """Whether the table packs floats in another way than the encoding of a variable says."""
    packing = _packing(stored)
    is_packed = stored.dtype.kind == "f" and packing["dtype"].kind in "iu"
    return is_packed and variable.dtype.kind == "f" and _packing(variable) != packing


def _packing(variable: Any) -> dict[str, Any]:
    encoding = {"dtype": variable.dtype, **variable.encoding}
    found = {name: encoding.get(name) for name in ("scale_factor", "add_offset")}
    return {"dtype": np.dtype(encoding["dtype"]), **found}


def _changed_attributes(ours: Mapping[Any, Any], stored: Mapping[Any, Any]) -> list[Any]:
    """Names of attributes that are new or have another value; the table would keep its own."""
    return [
        name
        for name, value in ours.items()
        if name not in stored or not _are_equal(_json_value(value), _json_value(stored[name]))
    ]


def _are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return bool(one == other or (one != one and other != other))  # NaN  # noqa: PLR0124


def _json_value(value: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def free_strings(dataset: Any) -> Any:
    """The dataset with strings of any length, because later partitions may have longer strings."""
    names = [name for name, each in dataset.variables.items() if each.dtype.kind == "U"]
    return dataset.assign({name: dataset[name].astype(object) for name in names})


def _align_types(one: Labels, other: Labels) -> tuple[Labels, Labels]:
    """Labels of one type; times may differ in their unit, and strings in their length."""
    if one.dtype.kind == other.dtype.kind == "M":
        common = np.promote_types(one.dtype, other.dtype)
        return one.astype(common), other.astype(common)
    if one.dtype.kind in "OUT":
        return one.astype(object), other.astype(object)
    return one, other


def write_to(dataset: Any, store: DeltaStore, asset: str, **options: Any) -> None:
    """Write a dataset by `Dataset.to_zarr`.

    Args:
        dataset: The `xarray.Dataset`.
        store: A store with a session.
        asset: The asset key as text, for messages.
        options: Options of `to_zarr`.

    Raises:
        InvalidRequestError: xarray rejects it.
    """
    try:
        dataset.to_zarr(store, consolidated=False, **options)
    except (ValueError, TypeError) as error:
        raise InvalidRequestError(
            f"asset {asset}: xarray cannot write the dataset ({error}). Nothing was written"
        ) from error
