"""TableRef: a table by the asset that stands for it and the place where it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from delta_ops.log import DeltaLog
from delta_ops.orchestration.metadata import definition_metadata
from delta_ops.orchestration.storage_options import resolve_options
from delta_ops.storage import Lock, RangeCache

_KIND = "deltalake"
_MAX_KINDS = 3
"""The number of kinds that Dagster takes for an asset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """A table that jobs and sensors look after."""

    asset_key: dg.AssetKey
    uri: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What fsspec's file system takes; `dg.EnvVar`s in it, at any depth, are asked for by `log`."""
    lock: Lock | None = field(default=None, repr=False)
    """As `DeltaLog` takes it; so is `cache`."""
    cache: RangeCache | None = None
    partitions_def: dg.PartitionsDefinition[Any] | None = None
    """The asset's partitions; None: as its definition in the same code location says."""
    partition_expr: str | Mapping[str, str] | None = None
    """Which rows belong to them, as the metadata of an asset say it; None: as those say it."""

    @property
    def name(self) -> str:
        """The asset's key as users write it."""
        return self.asset_key.to_user_string()

    def log(self) -> DeltaLog:
        """The table's handle."""
        options = resolve_options(self.storage_options)
        return DeltaLog(self.uri, options, lock=self.lock, cache=self.cache)


def external_table(table: TableRef, *, description: str | None = None) -> dg.AssetSpec:
    """The asset of a table that others write; `build_commit_sensor` reports its commits."""
    expression = {} if table.partition_expr is None else {"partition_expr": table.partition_expr}
    return dg.AssetSpec(
        table.asset_key,
        description=description,
        kinds={_KIND},
        metadata={**definition_metadata(table.uri), **expression},
        partitions_def=table.partitions_def,
    )


def add_table_metadata(
    assets: Iterable[dg.AssetsDefinition | dg.AssetSpec],
    table_of: Callable[[dg.AssetKey], TableRef],
) -> Sequence[dg.AssetsDefinition | dg.AssetSpec]:
    """The assets with what Dagster's UI shows of their tables: URI, name, kind of storage.

    By the name and the kind Dagster links assets of several code locations that are one table.
    What an asset says itself stays.

    Args:
        table_of: The table of an asset's key, as `DeltaLogResource(...).table` has it.
    """

    def describe(spec: dg.AssetSpec) -> dg.AssetSpec:
        given = definition_metadata(table_of(spec.key).uri)
        kinds = {_KIND} if len(spec.kinds) < _MAX_KINDS else set[str]()
        return spec.merge_attributes(metadata={**given, **spec.metadata}, kinds=kinds)

    return dg.map_asset_specs(describe, assets)
