"""Array settings: metadata that decide how a dataset is written.

    partition_expr       the dimension whose labels belong to partitions
    delta/chunks         chunk sizes of new arrays by dimension, such as {"time": 24, "lat": 100}
    delta/user_metadata  strings by name, recorded in the commit with its run

The first place that has a key decides: the `Output`, the metadata that the asset adds while it
runs, the asset's definition, the IO manager (without `delta/chunks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.io_manager.input_versions import READ_KEY
from delta_ops.orchestration.io_manager.output_settings import (
    added_places,
    commit_texts,
    definition_place,
    validate_no_partitions,
)
from delta_ops.orchestration.io_manager.setting_values import (
    Metadata,
    Setting,
    first_setting,
    validate_keys,
)
from delta_ops.orchestration.metadata import BROWSE_KEY
from delta_ops.orchestration.shared_tables import SHARED_KEY
from delta_ops.orchestration.tables import TABLE_KEY

CHUNKS_KEY = "delta/chunks"
ARRAY_KEYS = ("partition_expr", CHUNKS_KEY, "delta/user_metadata")
_KEYS_OF_DEFINITIONS = (*ARRAY_KEYS, READ_KEY, TABLE_KEY, SHARED_KEY, BROWSE_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySettings:
    """How a dataset is written."""

    dimension: str | None
    """The dimension of the partitions; None without partitions."""
    chunks: Mapping[str, int]
    """Chunk sizes of new arrays by dimension."""
    user_metadata: Mapping[str, str] | None
    """Texts that the commit records in addition to its run."""


def array_settings(context: dg.OutputContext, defaults: Metadata) -> ArraySettings:
    """The settings of an output.

    Args:
        context: The context of the output, with an asset.
        defaults: Metadata of the IO manager.

    Raises:
        InvalidRequestError: A key or a value is unknown, or an asset with partitions names no
            dimension.
    """
    asset = context.asset_key.to_user_string()
    of_output = f"the metadata of the Output of asset {asset}"
    definition = definition_place(
        context.asset_key, context.definition_metadata, lambda metadata, _place: metadata
    )
    added = added_places(context, f"the metadata that asset {asset} adds")
    if not context.has_asset_partitions:
        validate_no_partitions(of_output, context.output_metadata)
        validate_no_partitions(*definition)
    validate_keys(*definition, _KEYS_OF_DEFINITIONS)
    of_run = [(of_output, context.output_metadata), *added]
    for place, metadata in of_run:
        validate_keys(place, metadata, ARRAY_KEYS)
    places = [*of_run, definition, ("the metadata of DeltaArrayIOManager", defaults)]
    dimension, chunks, texts = (first_setting(key, places) for key in ARRAY_KEYS)
    return ArraySettings(
        dimension=dimension_of(dimension, asset) if context.has_asset_partitions else None,
        chunks=_chunks(chunks),
        user_metadata=commit_texts(texts),
    )


def dimension_of(setting: Setting, asset: str) -> str:
    """The dimension of the partitions of an asset.

    Raises:
        InvalidRequestError: The setting is missing, or is not the name of a dimension.
    """
    if setting.value is None:
        raise InvalidRequestError(
            f"asset {asset} has partitions, and its metadata do not say which dimension they "
            'divide; add metadata={"partition_expr": "<dimension>"}'
        )
    if not isinstance(setting.value, str):
        raise setting.rejection("the name of one dimension")
    return setting.value


def _chunks(setting: Setting) -> Mapping[str, int]:
    value: Any = {} if setting.value is None else setting.value
    if isinstance(value, Mapping) and all(
        isinstance(name, str) and type(size) is int and size > 0 for name, size in value.items()
    ):
        return value
    raise setting.rejection("chunk sizes by dimension, such as {'time': 24}")
