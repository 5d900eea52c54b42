"""Array reader: reads the partitions of an input from a version of an array table.

An input that is annotated with `dict[str, xarray.Dataset]` is a dictionary by partition key. Any
other input is one dataset with all its partitions. Values are read when they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.arrays import DeltaStore
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.arrays.array_settings import dimension_of
from delta_ops.orchestration.arrays.partition_labels import positions_of
from delta_ops.orchestration.arrays.region_writer import open_dataset
from delta_ops.orchestration.io_manager.input_reader import InputReader, partition_type
from delta_ops.orchestration.io_manager.input_settings import require_partitions
from delta_ops.orchestration.io_manager.input_versions import input_version, read_metadata
from delta_ops.orchestration.io_manager.setting_values import Setting
from delta_ops.orchestration.io_manager.type_handlers import drop_none, takes_none


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayReader:
    """Reads an input of a step.

    Args:
        reader: The settings of the input.
        partitions: The partitions of the upstream that the input reads; None for all.
    """

    reader: InputReader

    def read(self, log: DeltaLog) -> Any:
        """Open the arrays at the version that the settings choose, and report that version.

        Returns:
            None if the table does not exist and the annotation allows None.

        Raises:
            InvalidRequestError: The annotation or a setting does not suit arrays.
            TableNotFoundError: The table does not exist.
        """
        context, settings = self.reader.context, self.reader.settings
        wanted = self.reader.wanted_type()
        self._validate(wanted)
        try:
            version = input_version(context, log, settings.read, lambda _snapshot: None)
        except TableNotFoundError:
            if takes_none(wanted):
                return None
            raise
        compat.record_read(context, read_metadata(context.asset_key, version))
        return self._value(log, version.snapshot, wanted)

    def _validate(self, wanted: Any) -> None:
        import xarray

        each = partition_type(wanted)
        known = (Any, object, xarray.Dataset)
        if drop_none(wanted) not in (*known, DeltaStore) if each is None else each not in known:
            raise InvalidRequestError(
                f"the input {compat.input_text(self.reader.context)} is annotated with {wanted}; "
                "choose xarray.Dataset, dict[str, xarray.Dataset] for the partitions by key, or "
                "DeltaStore. Nothing was read"
            )
        if self.reader.settings.predicate is not None:
            raise InvalidRequestError(
                f"the metadata of the input {compat.input_text(self.reader.context)} have "
                "delta/predicate, which selects rows; select from the dataset. Nothing was read"
            )

    def _value(self, log: DeltaLog, snapshot: Snapshot, wanted: Any) -> Any:
        store = DeltaStore(log, version=snapshot.version)
        if drop_none(wanted) is DeltaStore:
            return store
        dataset = open_dataset(store)
        if self.reader.settings.columns is not None:
            dataset = dataset[list(self.reader.settings.columns)]
        found = self._partitions()
        if partition_type(wanted) is None:
            return dataset if found is None else self._select(dataset, *found)
        if found is None:
            raise InvalidRequestError(
                f"the input {compat.input_text(self.reader.context)} is a dictionary of "
                "partitions, and its upstream has no partitions; annotate it with xarray.Dataset"
            )
        partitions, keys = found
        return {key: self._select(dataset, partitions, [key]) for key in keys}

    def _partitions(self) -> tuple[dg.PartitionsDefinition[Any], Sequence[str]] | None:
        context = self.reader.context
        if self.reader.settings.partition_expr is not None:
            return require_partitions(context)
        if context.has_asset_partitions and context.upstream_output is not None:
            return context.asset_partitions_def, context.asset_partition_keys
        return None

    def _select(
        self, dataset: Any, partitions: dg.PartitionsDefinition[Any], keys: Sequence[str]
    ) -> Any:
        """The labels of partitions; the whole dataset if it has no others."""
        context = self.reader.context
        expression = self.reader.settings.partition_expr or self.reader.partition_expr
        asset = context.asset_key.to_user_string()
        place = f"the metadata of asset {asset}"
        dimension = dimension_of(Setting("partition_expr", expression, place), asset)
        positions = positions_of(dataset[dimension].values, partitions, keys)
        if len(positions) == dataset.sizes[dimension]:
            return dataset
        if positions and positions[-1] - positions[0] + 1 == len(positions):
            return dataset.isel({dimension: slice(positions[0], positions[-1] + 1)})
        return dataset.isel({dimension: positions})
