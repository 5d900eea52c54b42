"""Shared tables: rejects an overwrite of a table that another asset writes, too.

Assets of one code location can have the same table, by `delta/table`, by `dagster/uri`, or by IO
managers with the same root. An overwrite by one asset would remove the rows of the others. Appends
and merges keep them.

An audited asset and its publish asset share a table. An asset without an output, as the annotation
None declares, writes nothing through its IO manager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import dagster as dg

from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.tables import place_of_table, uri_elsewhere

SHARED_KEY = "delta/shared_table"
"""Metadata of an asset that overwrites a table of several assets on purpose."""
PUBLISHED_FROM_KEY = "delta/published_from"
"""Metadata of a publish asset: the audited asset that it publishes."""


class _Writer(NamedTuple):
    """An asset, and the asset whose rows it publishes."""

    key: dg.AssetKey
    publishes: str | None


_writers: WeakKeyDictionary[Any, Mapping[str, Sequence[_Writer]]] = WeakKeyDictionary()
"""The assets by the place of their table, for the asset graph of each code location."""


def validate_table_is_not_shared(context: dg.OutputContext, log: DeltaLog) -> None:
    """Reject an output that may remove rows of other assets, unless its asset shares the table.

    Raises:
        InvalidRequestError: Another asset of the code location writes the table.
    """
    if not context.has_asset_key:  # the output of an op
        return
    key, name = context.asset_key, context.asset_key.to_user_string()
    is_meant = context.definition_metadata.get(SHARED_KEY, False)
    is_meant = is_meant.value if isinstance(is_meant, dg.MetadataValue) else is_meant
    if not isinstance(is_meant, bool):
        raise InvalidRequestError(
            f"the metadata of asset {name} have the {SHARED_KEY} {is_meant!r}, of type "
            f"{type(is_meant).__name__}; give True or False. Nothing was written"
        )
    graph = compat.asset_graph_of(context)
    if is_meant or graph is None:
        return
    if graph not in _writers:
        _writers[graph] = _find_writers(graph)
    for writer in _writers[graph].get(place_of_table(log.uri), ()):
        if writer.key == key or writer.publishes == name:
            continue
        other = writer.key.to_user_string()
        raise InvalidRequestError(
            f"assets {name} and {other} both write to the table {log.uri}, so an overwrite by "
            f"{name} could remove the rows of {other}; give one of them another delta/table, or "
            f"give {name} the delta/mode append or merge. If they share the table on purpose, "
            f"such as for different partitions, add {SHARED_KEY!r}: True to the metadata of each. "
            "Nothing was written"
        )


def _find_writers(graph: Any) -> Mapping[str, Sequence[_Writer]]:
    found: dict[str, list[_Writer]] = {}
    for assets in graph.assets_defs:
        for key in assets.keys if assets.is_materializable else ():
            uri = None if compat.has_no_output(assets, key) else _table_uri(assets, key)
            if uri is not None:
                published = assets.metadata_by_key[key].get(PUBLISHED_FROM_KEY)
                found.setdefault(place_of_table(uri), []).append(_Writer(key, published))
    return found


def _table_uri(assets: dg.AssetsDefinition, key: dg.AssetKey) -> str | None:
    """The location of an asset's table; None if its definition does not say it."""
    manager, metadata = compat.io_manager_of(assets, key), assets.metadata_by_key[key]
    if not (hasattr(manager, "table_name") and hasattr(manager, "log")):
        return None
    try:
        uri: str = manager.log(manager.table_name(key, metadata)).uri
        return uri_elsewhere(key, metadata, uri) or uri
    except (DeltaOpsError, AssertionError):  # the root comes from the config of a run
        return None
