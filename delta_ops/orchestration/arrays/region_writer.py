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
from delta_ops.orchestration.arrays.stored_variables import (
    check_values,
    encoding_text,
    validate_times,
    validate_variables,
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
            validate_variables(
                self.dataset, open_dataset(self.store), asset=self.labels.asset, dimension=dimension
            )
        places = position_by_label(all_labels)
        positions = [places[each] for each in labels.tolist()]
        order = sorted(range(len(positions)), key=positions.__getitem__)
        targets = list(regions([positions[each] for each in order]))
        self._validate_chunks(targets)
        if len(new):
            self._append_labels(new)
            resize_dimension(self.store, dimension, len(all_labels))
            self._validate_labels(all_labels)
        ours = self._variables_along().isel({dimension: order})
        for source, target in targets:
            self._write_region(ours.isel({dimension: source}), {dimension: target})

    def _write_region(self, part: Any, region: Mapping[str, slice]) -> None:
        part = check_values(part, open_dataset(self.store), self.labels.asset)
        write_to(part, self.store, self.labels.asset, region=region)
        validate_times(part, open_dataset(self.store).isel(region), self.labels.asset)

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

    def _validate_labels(self, labels: Labels) -> None:
        """Reject labels that the encoding of the dimension changes.

        Raises:
            InvalidRequestError: A label is read as another label.
        """
        ours, stored = _align_types(labels, self._stored_labels())
        changed = np.flatnonzero(ours != stored)
        if len(changed):
            encoding = open_dataset(self.store)[self._dimension].encoding
            raise InvalidRequestError(
                f"asset {self.labels.asset}: the label {ours[changed[0]]} of dimension "
                f"{self._dimension} would be read as {stored[changed[0]]}, because the table "
                f"stores it as {encoding_text(encoding)}. Let the asset write a new table, whose "
                "first dataset has another encoding; Dataset.drop_encoding removes it. Nothing was "
                "written"
            )

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


def open_dataset(store: DeltaStore) -> Any:
    """The group of a store as an `xarray.Dataset`, which reads values when they are needed."""
    import xarray

    return xarray.open_zarr(store, consolidated=False)


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
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidRequestError(
            f"asset {asset}: xarray cannot write the dataset ({error}). Nothing was written"
        ) from error
