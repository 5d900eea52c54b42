"""OutputSettings: how an output is written, as metadata say.

Metadata stand in four places. The first that has a key decides: the `Output` itself, what the asset
adds by `context.add_asset_metadata`, its definition, the IO manager. None is the default. A key
that begins with `delta/` and is none of these is an error before anything is written: whoever
mistypes a mode overwrites a table.

An IO manager may know other words for them (`swap_in`); it reads each place into the words here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.input_versions import READ_NAMES
from delta_ops.orchestration.io_manager.merge_settings import (
    MERGE_KEYS,
    MergeSettings,
    merge_settings,
)
from delta_ops.orchestration.io_manager.output_txns import Idempotency, declared_idempotency
from delta_ops.orchestration.io_manager.setting_values import (
    Given,
    Metadata,
    ReadMetadata,
    are_texts,
    first_given,
    read_columns,
    read_flag,
    read_texts,
    validate_keys,
)

Mode = Literal["append", "overwrite", "merge", "error", "ignore"]
PartitionExpr = str | Mapping[str, str]
"""An expression of the table's columns, or one for each dimension of the partitions."""
ColumnLineage = Mapping[str, Mapping[str, Sequence[str]]]
"""For columns of the output, by asset key, the columns that they are made of."""

_KEYS = (
    "partition_expr",
    "delta/partition_by",
    "delta/mode",
    *MERGE_KEYS,
    "delta/idempotency",
    "delta/configuration",
    "delta/merge_schema",
    "delta/overwrite_schema",
    "delta/data_version",
    "delta/column_lineage",
    "delta/user_metadata",
)
_DEFAULTS = "the metadata of DeltaIOManager"
_RUN_NAMES = "dagster/"
"""How the names begin under which a commit tells of its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """How an output is written."""

    partition_expr: PartitionExpr | None
    partition_by: tuple[str, ...] | None
    """Columns of the table's layout; None: as it is, a new table has none."""
    mode: Mode
    merge: MergeSettings | None
    """How rows are merged, where the mode is "merge"."""
    idempotency: Idempotency
    configuration: Mapping[str, str] | None
    merge_schema: bool
    overwrite_schema: bool
    is_version_of_partition: bool
    """Whether the data version is that of the output's partitions alone, not the table's."""
    column_lineage: ColumnLineage | None
    user_metadata: Mapping[str, str] | None
    """What the commit says beside which run made it."""

    @property
    def is_repeatable(self) -> bool:
        """Whether writing the same rows a second time does no harm."""
        return self.merge.is_upsert_by_keys if self.merge else self.mode == "overwrite"


def output_settings(
    context: dg.OutputContext, defaults: Metadata, read_metadata: ReadMetadata
) -> OutputSettings:
    """The settings of an output.

    Args:
        defaults: Metadata of the IO manager, in the words of this module.
        read_metadata: Reads those of the output and of its asset.

    Raises:
        InvalidRequestError: There is no such key or value, or two of them contradict each other.
    """
    asset = context.asset_key.to_user_string()
    of_output = f"the metadata of the Output of asset {asset}"
    if not context.has_asset_partitions:
        validate_no_partitions(of_output, context.output_metadata)
        validate_no_partitions(f"the metadata of asset {asset}", context.definition_metadata)
    return settings_from(
        [
            (of_output, read_metadata(context.output_metadata, of_output)),
            *_added_places(context, f"the metadata that asset {asset} adds"),
            definition_place(context.asset_key, context.definition_metadata, read_metadata),
        ],
        defaults,
        context.asset_key,
        has_partitions=context.has_asset_partitions,
    )


def validate_no_partitions(place: str, metadata: Metadata) -> None:
    """Reject a `partition_expr` that an asset without partitions would not use.

    Raises:
        InvalidRequestError: The metadata have one.
    """
    if first_given("partition_expr", [(place, metadata)]).value is not None:
        raise InvalidRequestError(
            f"{place} have a partition_expr, and the asset has no partitions, so that each run "
            "would be about the whole table; give it a partitions_def, or leave partition_expr "
            "out. Nothing was written"
        )


def _added_places(context: dg.OutputContext, place: str) -> Iterator[tuple[str, Metadata]]:
    """What the asset has added while it ran, in the words of this module."""
    partitions = context.asset_partition_keys if context.has_asset_partitions else []
    for partition in (*partitions, None):
        added = compat.added_metadata(context, partition)
        settings = {key: value for key, value in added.items() if _is_setting(key)}
        if settings and partition is not None and len(partitions) > 1:
            raise InvalidRequestError(
                f"{place} for partition {partition} have the key {next(iter(settings))!r}, and the "
                "run writes several partitions at once; add it without a partition_key. "
                "Nothing was written"
            )
        yield place, settings


def _is_setting(key: str) -> bool:
    return key in _KEYS or (key.startswith("delta/") and not key.startswith(READ_NAMES))


def definition_place(
    asset_key: dg.AssetKey, metadata: Metadata, read_metadata: ReadMetadata
) -> tuple[str, Metadata]:
    """The metadata of an asset's definition, and how errors call them."""
    place = f"the metadata of asset {asset_key.to_user_string()}"
    return place, read_metadata(metadata, place)


def settings_from(
    places: Sequence[tuple[str, Metadata]],
    defaults: Metadata,
    asset_key: dg.AssetKey,
    *,
    has_partitions: bool,
) -> OutputSettings:
    """The settings of an asset's output by the metadata of several places, the nearest first.

    Raises:
        InvalidRequestError: There is no such key or value, or two of them contradict each other.
    """
    for place, metadata in places:
        validate_keys(place, metadata, _KEYS)
    validate_defaults(defaults)
    places = [*places, (_DEFAULTS, defaults)]
    given = {key: first_given(key, places) for key in _KEYS}
    mode, idempotency = given["delta/mode"], given["delta/idempotency"]
    _validate_merge_is_meant(given, defaults_rank=len(places) - 1)
    settings = OutputSettings(
        partition_expr=read_expressions(given["partition_expr"]),
        partition_by=read_columns(given["delta/partition_by"]),
        mode=_mode(mode),
        merge=merge_settings(given) if _mode(mode) == "merge" else None,
        idempotency=declared_idempotency(asset_key, idempotency.value or "run"),
        configuration=read_texts(given["delta/configuration"], "table properties to texts"),
        merge_schema=read_flag(given["delta/merge_schema"]),
        overwrite_schema=read_flag(given["delta/overwrite_schema"]),
        is_version_of_partition=_is_of_partition(given["delta/data_version"]),
        column_lineage=_lineage(given["delta/column_lineage"]),
        user_metadata=_commit_texts(given["delta/user_metadata"]),
    )
    if settings.idempotency == "partition" and settings.mode != "overwrite":
        raise InvalidRequestError(
            f"{idempotency.place} have the delta/idempotency 'partition', which is for overwrites; "
            "use 'run'"
        )
    if settings.merge is not None and settings.overwrite_schema:
        raise InvalidRequestError(
            f"{mode.place} have the delta/mode 'merge' beside delta/overwrite_schema, and a merge "
            "keeps the rows that none meets; use delta/merge_schema. Nothing was written"
        )
    if settings.mode in ("error", "ignore") and has_partitions:
        raise InvalidRequestError(
            f"{mode.place} have the delta/mode {settings.mode!r}, by which only the first of the "
            f"partitions of asset {asset_key.to_user_string()} would be written; choose append or "
            "overwrite"
        )
    return settings


def validate_defaults(defaults: Metadata) -> None:
    """Reject keys in the metadata of an IO manager that say nothing.

    Raises:
        InvalidRequestError: With the key and the nearest that is known.
    """
    validate_keys(_DEFAULTS, defaults, _KEYS, only_ours=True)


def partition_expr_of(
    metadata: Metadata,
    defaults: Metadata,
    asset_key: dg.AssetKey,
    read_metadata: ReadMetadata = lambda metadata, _place: metadata,
) -> PartitionExpr | None:
    """What says which rows belong to a partition of an asset, to whoever reads it."""
    place = definition_place(asset_key, metadata, read_metadata)
    places = (place, (_DEFAULTS, defaults))
    return read_expressions(first_given("partition_expr", places))


def _mode(given: Given) -> Mode:
    match given.value:
        case None:
            return "overwrite"
        case "append" | "overwrite" | "merge" | "error" | "ignore" as mode:
            known: Mode = mode
            return known
    raise InvalidRequestError(
        f"{given.place} have the delta/mode {given.value!r}; choose append, overwrite, merge, "
        "error or ignore. Nothing was written"
    )


def _validate_merge_is_meant(given: Mapping[str, Given], defaults_rank: int) -> None:
    """Reject merge settings that nothing would use; rows that are there would be overwritten.

    A nearer place may choose another mode, such as a run that writes the whole table again, and
    defaults are there for the assets whose mode is "merge".
    """
    mode = given["delta/mode"]
    if mode.value == "merge":
        return
    for key in MERGE_KEYS:
        setting = given[key]
        if setting.value is None:
            continue
        if mode.value is None:
            raise InvalidRequestError(
                f"{setting.place} have {key} without a delta/mode, and what is there would be "
                f"overwritten; add the delta/mode merge, or leave {key} out. Nothing was written"
            )
        if setting.rank <= mode.rank and setting.rank < defaults_rank:
            raise InvalidRequestError(
                f"{setting.place} have {key}, and {mode.place} have the delta/mode "
                f"{mode.value!r}, which merges nothing; give the delta/mode merge, or leave {key} "
                "out. Nothing was written"
            )


def _is_of_partition(given: Given) -> bool:
    if given.value in (None, "table", "partition"):
        return bool(given.value == "partition")
    raise InvalidRequestError(
        f"{given.place} have the delta/data_version {given.value!r}; choose table or partition. "
        "Nothing was written"
    )


def _lineage(given: Given) -> ColumnLineage | None:
    value = given.value
    if value is None:
        return None
    wanted = 'a mapping such as {"total": {"orders": ["price", "quantity"]}}'
    if not isinstance(value, Mapping):
        raise given.refuse(wanted)
    for column, sources in value.items():
        if not isinstance(column, str) or not isinstance(sources, Mapping):
            raise given.refuse(wanted)
        for key, columns in sources.items():
            if not isinstance(key, str) or not are_texts(columns):
                raise given.refuse(wanted)
    return value


def _commit_texts(given: Given) -> Mapping[str, str] | None:
    texts = read_texts(given, "names to texts")
    for name in texts or ():
        if name.startswith(_RUN_NAMES):
            raise InvalidRequestError(
                f"{given.place} have {name!r} in {given.key}, which is where a commit tells of its "
                "run; give it another name. Nothing was written"
            )
    return texts


def read_expressions(given: Given) -> PartitionExpr | None:
    """An expression, or one for each dimension."""
    value = given.value
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping) and all(isinstance(t, str) for i in value.items() for t in i):
        return value
    raise given.refuse("an expression, or a mapping of dimensions to expressions")
