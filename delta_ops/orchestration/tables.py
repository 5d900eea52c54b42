"""TableRef: a table with its asset key and its location."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.orchestration.metadata import definition_metadata
from delta_ops.orchestration.storage_options import resolve_options
from delta_ops.protocol.file_paths import place_of
from delta_ops.storage import Lock, RangeCache
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.paths import redact

TableName = str | dg.AssetKey | Sequence[str]
"""A table: its name below root, or the asset key of its asset."""
TABLE_KEY = "delta/table"
"""Metadata of an asset's definition with the name of its table below the root."""
_KIND = "deltalake"
_MAX_KINDS = 3
"""The number of kinds that Dagster accepts for an asset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """A table for jobs, sensors and checks.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> orders.log().snapshot().num_files
        1
    """

    asset_key: dg.AssetKey
    uri: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of fsspec's file system; `log` resolves each `dg.EnvVar` in them, at any depth."""
    lock: Lock | None = field(default=None, repr=False)
    """The lock of `DeltaLog`."""
    cache: RangeCache | None = None
    """The cache of `DeltaLog`."""
    partitions_def: dg.PartitionsDefinition[Any] | None = None
    """The asset's partitions; None: from the asset's definition in the same code location."""
    partition_expr: str | Mapping[str, str] | None = None
    """The column or expression of the partitions; None: from the metadata of the asset."""

    def __post_init__(self) -> None:
        validate_arguments(TableRef, {"asset_key": self.asset_key, "uri": self.uri})

    @property
    def name(self) -> str:
        """The asset key as text, such as sales/orders."""
        return self.asset_key.to_user_string()

    def log(self) -> DeltaLog:
        """The table's handle."""
        options = resolve_options(self.storage_options)
        return DeltaLog(self.uri, options, lock=self.lock, cache=self.cache)


def external_table(table: TableRef, *, description: str | None = None) -> dg.AssetSpec:
    """The asset spec of a table that others write; `build_commit_sensor` reports its commits.

    Examples:
        >>> external_table(TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")).key
        AssetKey(['orders'])
    """
    validate_arguments(external_table, locals())
    expression = {} if table.partition_expr is None else {"partition_expr": table.partition_expr}
    return dg.AssetSpec(
        table.asset_key,
        description=description,
        kinds={_KIND},
        metadata={**definition_metadata(table.name, table.uri), **expression},
        partitions_def=table.partitions_def,
    )


def table_parts(asset_key: dg.AssetKey, metadata: Mapping[str, Any]) -> Sequence[str] | None:
    """The folders below the root in the metadata `delta/table` of an asset's definition.

    The asset can thus have another key than its table, for example after it was renamed.

    Returns:
        None if the metadata name no table.

    Raises:
        InvalidRequestError: The value is neither a string nor a list of strings.
    """
    value = metadata.get(TABLE_KEY)
    name = value.value if isinstance(value, dg.MetadataValue) else value
    if name is None:
        return None
    asset = asset_key.to_user_string()
    parts = name.split("/") if isinstance(name, str) else name
    is_list = isinstance(parts, list | tuple) and all(isinstance(each, str) for each in parts)
    if not is_list or not parts:
        raise InvalidRequestError(
            f"the metadata of asset {asset} have the {TABLE_KEY} {name!r}, of type "
            f"{type(name).__name__}; give the name of its table below root, such as sales/orders"
        )
    return [*parts]


def uri_elsewhere(asset_key: dg.AssetKey, metadata: Mapping[str, Any], uri: str) -> str | None:
    """The table location in the metadata `dagster/uri` of an asset's definition.

    Args:
        uri: The location of the table without this metadata.

    Returns:
        None if the metadata name no location, or name `uri`.

    Raises:
        InvalidRequestError: The value is not a string, or `delta/table` names another location.
    """
    value = metadata.get("dagster/uri")
    address = value.value if isinstance(value, dg.MetadataValue) else value
    if address is None or address == "":
        return None
    if not isinstance(address, str):
        raise InvalidRequestError(
            f"the metadata of asset {asset_key.to_user_string()} have the dagster/uri {address!r}, "
            f"of type {type(address).__name__}; give the path or URI of its table"
        )
    if place_of_table(address) == place_of_table(redact(uri)):
        return None
    if metadata.get(TABLE_KEY):
        raise InvalidRequestError(
            f"the metadata of asset {asset_key.to_user_string()} have both {TABLE_KEY} and "
            "dagster/uri, which name two locations; give one"
        )
    return address


def place_of_table(uri: str) -> str:
    """The place of a table, the same for all addresses of a location."""
    local = local_path_of(uri)
    return (place_of(uri) if local is None else local).rstrip("/")


class StoresAssets(Protocol):
    """An IO manager of delta_ops, such as `DeltaIOManager`, or one with the names of others."""

    def table_name(self, asset_key: dg.AssetKey, metadata: Mapping[str, Any]) -> TableName:
        """The table of an asset, by the metadata of its definition."""

    def log(self, table: TableName) -> DeltaLog:
        """The log of a table."""


def add_table_metadata(
    assets: Iterable[dg.AssetsDefinition | dg.AssetSpec],
    table_of: Callable[[dg.AssetKey], TableRef] | StoresAssets,
) -> Sequence[dg.AssetsDefinition | dg.AssetSpec]:
    """Add table metadata for Dagster's UI to assets: URI, table name and storage kind.

    Dagster uses the name and the kind to link assets of several code locations with the same table.
    Existing metadata of an asset stay.

    Args:
        table_of: The IO manager of the assets, also one of `swap_in`; or a function that returns
            the table of an asset key, such as `DeltaLogResource(...).table`.

    Examples:
        >>> @dg.asset
        ... def visits() -> pa.Table:
        ...     return pa.table({"page": ["/"]})
        >>> (shown,) = add_table_metadata([visits], DeltaIOManager(root="lake"))
        >>> "dagster/uri" in shown.metadata_by_key[visits.key]
        True
    """
    validate_arguments(add_table_metadata, locals())

    def describe(spec: dg.AssetSpec) -> dg.AssetSpec:
        uri = _uri_of(spec.key, spec.metadata, table_of)
        metadata_of_table = definition_metadata(
            spec.key.to_user_string(), uri_elsewhere(spec.key, spec.metadata, uri) or uri
        )
        kinds = {_KIND} if len(spec.kinds) < _MAX_KINDS else set[str]()
        return spec.merge_attributes(metadata={**metadata_of_table, **spec.metadata}, kinds=kinds)

    return dg.map_asset_specs(describe, assets)


def _uri_of(
    asset_key: dg.AssetKey,
    metadata: Mapping[str, Any],
    table_of: Callable[[dg.AssetKey], TableRef] | StoresAssets,
) -> str:
    if callable(table_of):
        parts = table_parts(asset_key, metadata)
        return table_of(asset_key if parts is None else dg.AssetKey(parts)).uri
    return table_of.log(table_of.table_name(asset_key, metadata)).uri
