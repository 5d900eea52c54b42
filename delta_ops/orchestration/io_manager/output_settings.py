"""Output settings: metadata that decide how an output is written.

Metadata come from four places, and the first place with a key decides: the `Output`, the metadata
that the asset adds by `context.add_asset_metadata`, the asset's definition, and the IO manager.
None means the default. An unknown key that begins with `delta/` is an error before anything is
written, because a mistyped mode would overwrite a table.

An IO manager may accept other keys (`swap_in`). It translates each place to the keys here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.input_versions import READ_KEY, READ_NAMES
from delta_ops.orchestration.io_manager.merge_settings import (
    MERGE_KEYS,
    MergeSettings,
    merge_settings,
)
from delta_ops.orchestration.io_manager.output_txns import Idempotency, declared_idempotency
from delta_ops.orchestration.io_manager.setting_values import (
    Metadata,
    ReadMetadata,
    Setting,
    are_texts,
    first_setting,
    keys_without_prefix,
    read_columns,
    read_flag,
    read_texts,
    validate_keys,
)
from delta_ops.orchestration.io_manager.type_handlers import takes_none
from delta_ops.orchestration.metadata import BROWSE_KEY
from delta_ops.orchestration.shared_tables import PUBLISHED_FROM_KEY, SHARED_KEY
from delta_ops.orchestration.tables import TABLE_KEY, uri_elsewhere
from delta_ops.transaction.commit.info import RESERVED_NAMES

Mode = Literal["append", "overwrite", "merge", "error", "ignore"]
PartitionExpr = str | Mapping[str, str]
"""An expression over the table's columns; for several dimensions, an expression for each."""
ColumnLineage = Mapping[str, Mapping[str, Sequence[str]]]
"""Source columns by asset key, for columns of the output."""

OUTPUT_KEYS = (
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
    "delta/commit_info",
    "delta/keep_index",
)
PUBLISH_KEY = "delta/publish"
"""Metadata of an audited asset."""
_AUDITED = "audited"
_NOT_OF_OUTPUTS = (READ_KEY, TABLE_KEY, PUBLISH_KEY, PUBLISHED_FROM_KEY, SHARED_KEY)
"""Keys that readers need before there is an output."""
KEYS_OF_DEFINITIONS = (*OUTPUT_KEYS, *_NOT_OF_OUTPUTS, BROWSE_KEY)
_KEYS_OF_DEFAULTS = (*OUTPUT_KEYS, READ_KEY)
_DEFAULTS = "the metadata of DeltaIOManager"
_RUN_NAMES = "dagster/"
"""Prefix of the names that a commit uses to record its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """How an output is written."""

    partition_expr: PartitionExpr | None
    partition_by: tuple[str, ...] | None
    """Partition columns of the table; None keeps them, and gives a new table none."""
    mode: Mode
    merge: MergeSettings | None
    """How rows are merged, if the mode is "merge"."""
    idempotency: Idempotency
    configuration: Mapping[str, str] | None
    merge_schema: bool
    overwrite_schema: bool
    is_version_of_partition: bool
    """Whether the data version depends on the output's partitions only, not on the table."""
    column_lineage: ColumnLineage | None
    user_metadata: Mapping[str, str] | None
    """Texts that the commit records in addition to its run."""
    commit_info: Mapping[str, str] | None = None
    """More fields of the commit's `commitInfo`."""
    keep_index: bool = False
    """Whether a new table gets a column for an unnamed pandas index with information."""
    partitions_new_table: bool = False
    """Whether a new table is partitioned by the columns of `partition_expr`, unless `partition_by`
    names others."""
    owns_table: bool = False
    """Whether the partition of the run has a table of its own."""
    is_audited: bool = False
    """Whether the output is written to a branch, which is published after its checks."""

    @property
    def is_repeatable(self) -> bool:
        """Whether the same rows may be written twice."""
        return self.merge.is_upsert_by_keys if self.merge else self.mode == "overwrite"

    @property
    def may_remove_rows(self) -> bool:
        """Whether rows of the table that the output lacks may be removed."""
        if self.merge is not None:
            return any(each.when == "not matched by source" for each in self.merge.clauses)
        return self.mode == "overwrite" and not self.owns_table


def output_settings(
    context: dg.OutputContext, defaults: Metadata, read_metadata: ReadMetadata
) -> OutputSettings:
    """The settings of an output.

    Args:
        defaults: Metadata of the IO manager, with the keys of this module.
        read_metadata: Translates the metadata of the output and of its asset.

    Raises:
        InvalidRequestError: A key or a value is unknown, or two values contradict each other.
    """
    key = compat.output_key(context)
    asset = key.to_user_string()
    of_output = f"the metadata of the Output of asset {asset}"
    if not context.has_asset_partitions:
        validate_no_partitions(of_output, context.output_metadata)
        validate_no_partitions(f"the metadata of asset {asset}", context.definition_metadata)
    places = [
        (of_output, read_metadata(context.output_metadata, of_output)),
        *added_places(context, f"the metadata that asset {asset} adds"),
        definition_place(key, context.definition_metadata, read_metadata),
    ]
    for place, metadata in places:
        for name, meant in keys_without_prefix(metadata, KEYS_OF_DEFINITIONS).items():
            context.log.warning(
                f"{place} have the key {name!r}, which has no effect; use {meant!r}"
            )
    return settings_from(
        places,
        defaults,
        key,
        has_partitions=context.has_asset_partitions,
    )


def validate_no_partitions(place: str, metadata: Metadata) -> None:
    """Reject a `partition_expr` on an asset without partitions.

    Raises:
        InvalidRequestError: The metadata have a `partition_expr`.
    """
    if first_setting("partition_expr", [(place, metadata)]).value is not None:
        raise InvalidRequestError(
            f"{place} have a partition_expr, but the asset has no partitions, so each run would "
            "write the whole table; give the asset a partitions_def, or leave partition_expr out. "
            "Nothing was written"
        )


def added_places(context: dg.OutputContext, place: str) -> Iterator[tuple[str, Metadata]]:
    """The metadata that the asset added while it ran, with the keys of this module."""
    partitions = context.asset_partition_keys if context.has_asset_partitions else []
    for partition in (*partitions, None):
        added = compat.added_metadata(context, partition)
        settings = {key: value for key, value in added.items() if is_setting(key)}
        if settings and partition is not None and len(partitions) > 1:
            raise InvalidRequestError(
                f"{place} for partition {partition} have the key {next(iter(settings))!r}, and the "
                "run writes several partitions at once; add it without a partition_key. "
                "Nothing was written"
            )
        yield place, settings


def is_setting(key: str) -> bool:
    """Whether a metadata key is meant to decide how an output is written."""
    return key in OUTPUT_KEYS or (key.startswith("delta/") and not key.startswith(READ_NAMES))


def definition_place(
    asset_key: dg.AssetKey, metadata: Metadata, read_metadata: ReadMetadata
) -> tuple[str, Metadata]:
    """The metadata of an asset's definition, and their name in errors."""
    place = f"the metadata of asset {asset_key.to_user_string()}"
    return place, read_metadata(metadata, place)


def settings_from(
    places: Sequence[tuple[str, Metadata]],
    defaults: Metadata,
    asset_key: dg.AssetKey,
    *,
    has_partitions: bool,
) -> OutputSettings:
    """Read the settings of an output from the metadata of several places, nearest first.

    Args:
        places: The last place is the definition of the asset.

    Raises:
        InvalidRequestError: A key or a value is unknown, or two values contradict each other.
    """
    *of_output, definition = places
    for place, metadata in of_output:
        _validate_is_of_output(place, metadata)
        validate_keys(place, metadata, OUTPUT_KEYS)
    validate_keys(*definition, KEYS_OF_DEFINITIONS)
    validate_defaults(defaults)
    places = [*places, (_DEFAULTS, defaults)]
    by_key = {key: first_setting(key, places) for key in OUTPUT_KEYS}
    mode, idempotency = by_key["delta/mode"], by_key["delta/idempotency"]
    _validate_merge_is_meant(by_key, defaults_rank=len(places) - 1)
    settings = OutputSettings(
        partition_expr=read_expressions(by_key["partition_expr"]),
        partition_by=read_columns(by_key["delta/partition_by"]),
        mode=_mode(mode),
        merge=merge_settings(by_key) if _mode(mode) == "merge" else None,
        idempotency=declared_idempotency(asset_key, idempotency.value or "run"),
        configuration=read_texts(by_key["delta/configuration"], "table properties to strings"),
        merge_schema=read_flag(by_key["delta/merge_schema"]),
        overwrite_schema=read_flag(by_key["delta/overwrite_schema"]),
        is_version_of_partition=_is_of_partition(by_key["delta/data_version"]),
        column_lineage=_lineage(by_key["delta/column_lineage"]),
        user_metadata=commit_texts(by_key["delta/user_metadata"]),
        commit_info=_commit_info(by_key["delta/commit_info"]),
        keep_index=read_flag(by_key["delta/keep_index"]),
        is_audited=is_audited(asset_key, definition[1]),
    )
    if settings.idempotency == "partition" and settings.mode != "overwrite":
        raise InvalidRequestError(
            f"{idempotency.place} have the delta/idempotency 'partition', which is for overwrites; "
            "use 'run'"
        )
    if settings.merge is not None and settings.overwrite_schema:
        raise InvalidRequestError(
            f"{mode.place} have the delta/mode 'merge' and delta/overwrite_schema, but a merge "
            "keeps rows without a match, which need the old columns; use delta/merge_schema. "
            "Nothing was written"
        )
    if settings.is_audited:
        _validate_can_be_audited(settings, definition[0])
    if settings.mode in ("error", "ignore") and has_partitions:
        raise InvalidRequestError(
            f"{mode.place} have the delta/mode {settings.mode!r}, which would write only the first "
            f"partition of asset {asset_key.to_user_string()}; choose append or overwrite"
        )
    return settings


def is_audited(asset_key: dg.AssetKey, metadata: Metadata) -> bool:
    """Whether an asset is written to a branch, which is published after its checks.

    Args:
        metadata: Metadata of the asset's definition.

    Raises:
        InvalidRequestError: The value is unknown.
    """
    place = f"the metadata of asset {asset_key.to_user_string()}"
    setting = first_setting(PUBLISH_KEY, [(place, metadata)])
    if setting.value in (None, _AUDITED):
        return setting.value is not None
    raise setting.rejection(f"{_AUDITED!r}, or leave it out")


def _validate_can_be_audited(settings: OutputSettings, place: str) -> None:
    if settings.mode in ("error", "ignore"):
        raise InvalidRequestError(
            f"{place} have the {PUBLISH_KEY} {_AUDITED!r} and the delta/mode {settings.mode!r}, "
            "which writes only a new table, but a branch needs a table; choose append, overwrite "
            "or merge. Nothing was written"
        )
    if settings.commit_info:
        raise InvalidRequestError(
            f"{place} have the {PUBLISH_KEY} {_AUDITED!r}, and delta/commit_info is set, which a "
            "publication does not keep; use delta/user_metadata. Nothing was written"
        )


def _validate_is_of_output(place: str, metadata: Metadata) -> None:
    for key in _NOT_OF_OUTPUTS:
        if key in metadata:
            raise InvalidRequestError(
                f"{place} have {key}, which readers need before there is an output; put it into "
                "the metadata of the asset's definition. Nothing was written"
            )


def validate_defaults(defaults: Metadata) -> None:
    """Reject unknown keys in the metadata of an IO manager.

    Raises:
        InvalidRequestError: A key is unknown; the error names the nearest known key.
    """
    validate_keys(_DEFAULTS, defaults, _KEYS_OF_DEFAULTS, only_ours=True)


def partition_expr_of(
    metadata: Metadata,
    defaults: Metadata,
    asset_key: dg.AssetKey,
    read_metadata: ReadMetadata = lambda metadata, _place: metadata,
) -> PartitionExpr | None:
    """The partition expression of an asset, for readers of the asset."""
    place = definition_place(asset_key, metadata, read_metadata)
    places = (place, (_DEFAULTS, defaults))
    return read_expressions(first_setting("partition_expr", places))


def _mode(setting: Setting) -> Mode:
    match setting.value:
        case None:
            return "overwrite"
        case "append" | "overwrite" | "merge" | "error" | "ignore" as mode:
            known: Mode = mode
            return known
    raise InvalidRequestError(
        f"{setting.place} have the delta/mode {setting.value!r}; choose append, overwrite, merge, "
        "error or ignore. Nothing was written"
    )


def _validate_merge_is_meant(by_key: Mapping[str, Setting], defaults_rank: int) -> None:
    """Reject merge settings without a merge, which would overwrite the rows of the table.

    A nearer place may choose another mode, such as a run that writes the whole table again.
    Defaults are for the assets whose mode is "merge".
    """
    mode = by_key["delta/mode"]
    if mode.value == "merge":
        return
    for key in MERGE_KEYS:
        setting = by_key[key]
        if setting.value is None:
            continue
        if mode.value is None:
            raise InvalidRequestError(
                f"{setting.place} have {key} without a delta/mode, so existing rows would be "
                f"overwritten; add the delta/mode merge, or leave {key} out. Nothing was written"
            )
        if setting.rank <= mode.rank and setting.rank < defaults_rank:
            raise InvalidRequestError(
                f"{setting.place} have {key}, and {mode.place} have the delta/mode "
                f"{mode.value!r}, which does not merge; give the delta/mode merge, or leave {key} "
                "out. Nothing was written"
            )


def _is_of_partition(setting: Setting) -> bool:
    if setting.value in (None, "table", "partition"):
        return bool(setting.value == "partition")
    raise InvalidRequestError(
        f"{setting.place} have the delta/data_version {setting.value!r}; choose table or "
        "partition. Nothing was written"
    )


def _lineage(setting: Setting) -> ColumnLineage | None:
    value = setting.value
    if value is None:
        return None
    wanted = 'a mapping such as {"total": {"orders": ["price", "quantity"]}}'
    if not isinstance(value, Mapping):
        raise setting.rejection(wanted)
    for column, sources in value.items():
        if not isinstance(column, str) or not isinstance(sources, Mapping):
            raise setting.rejection(wanted)
        for key, columns in sources.items():
            if not isinstance(key, str) or not are_texts(columns):
                raise setting.rejection(wanted)
    return value


def commit_texts(setting: Setting) -> Mapping[str, str] | None:
    """Read strings that a commit records beside its run.

    Raises:
        InvalidRequestError: The value is of another type, or has a name of Dagster.
    """
    texts = read_texts(setting, "names to strings")
    for name in texts or ():
        if name.startswith(_RUN_NAMES):
            raise InvalidRequestError(
                f"{setting.place} have {name!r} in {setting.key}, a name under which each commit "
                "records its run; give it another name. Nothing was written"
            )
    return texts


def _commit_info(setting: Setting) -> Mapping[str, str] | None:
    texts = read_texts(setting, "names to strings")
    for name in texts or ():
        if name in RESERVED_NAMES:
            raise InvalidRequestError(
                f"{setting.place} have {name!r} in {setting.key}, a field that the commit itself "
                "sets; give it another name. Nothing was written"
            )
    return texts


def read_expressions(setting: Setting) -> PartitionExpr | None:
    """Read an expression, or an expression for each dimension."""
    value = setting.value
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping) and all(isinstance(t, str) for i in value.items() for t in i):
        return value
    raise setting.rejection("an expression, or a mapping of dimensions to expressions")


def validate_output_names_no_table(context: dg.OutputContext, log: DeltaLog) -> None:
    """Reject a location in the output: readers find the table by the asset's definition."""
    for metadata in (context.output_metadata, compat.added_metadata(context, None)):
        if uri_elsewhere(context.asset_key, metadata or {}, log.uri) is not None:
            raise InvalidRequestError(
                f"the Output of asset {context.asset_key.to_user_string()} has the metadata "
                "dagster/uri, but readers find the table by the metadata of the asset's "
                "definition; set dagster/uri there. Nothing was written"
            )


def validate_none_is_meant(context: dg.OutputContext) -> None:
    """Reject the value None unless the annotation of the asset allows it."""
    if not takes_none(compat.annotation(context)):
        raise InvalidRequestError(
            f"asset {context.asset_key.to_user_string()} returned None, so nothing was written; "
            "return its rows, or annotate the function with -> None, or Optional[...], where it "
            "may write nothing"
        )
