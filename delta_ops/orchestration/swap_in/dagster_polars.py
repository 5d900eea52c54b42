"""The names of the package dagster-polars for Delta tables.

The table of an asset is `<base_dir>/<asset key>.delta`. With `partition_by`, a column or a mapping
of dimensions to columns, the asset's partitions are rows of this table, and a new table is also
partitioned by these columns. Without `partition_by`, each partition is a table of its own,
`<base_dir>/<asset key>/<partition>.delta`. The default of `base_dir` is the storage of the Dagster
instance.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar

import dagster as dg
from pydantic import Field, PrivateAttr

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.option_words import Surface, spoken_on
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.output_report import WrittenOutput
from delta_ops.orchestration.io_manager.output_settings import OutputSettings
from delta_ops.orchestration.resources import table_log
from delta_ops.orchestration.swap_in.io_manager import RenamedIOManager, translate_version
from delta_ops.orchestration.swap_in.merge_translations import (
    MERGE_FLAGS,
    translate_merge_options,
    unite_merge_flags,
)
from delta_ops.orchestration.swap_in.translations import (
    WORDS_OF_SCHEMA_MODE,
    Translations,
    ignore_setting,
    ignore_with_warning,
    reject,
    rename,
    translate,
    translate_commit_properties,
    translate_custom_metadata,
    translate_schema_mode,
    translate_writer_properties,
)
from delta_ops.orchestration.tables import TableName, table_parts, uri_elsewhere
from delta_ops.orchestration.tags import reject_reproduction
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.paths import redact

if TYPE_CHECKING:
    import polars as pl

    DataFramePartitions = dict[str, pl.DataFrame]
    LazyFramePartitions = dict[str, pl.LazyFrame]

__all__ = [
    "BasePolarsUPathIOManager",
    "DataFramePartitions",
    "DeltaSchemaMode",
    "DeltaWriteMode",
    "LazyFramePartitions",
    "PolarsDeltaIOManager",
]

_NO_SAMPLE = "a materialization shows no sample of rows"
_OWN_READER = "delta_ops has its own reader; columns and partitions choose what it reads"


class DeltaWriteMode(StrEnum):
    """How an output treats existing rows."""

    error = "error"
    append = "append"
    overwrite = "overwrite"
    ignore = "ignore"
    merge = "merge"


class DeltaSchemaMode(StrEnum):
    """How an output treats existing columns."""

    merge = "merge"
    overwrite = "overwrite"


def __getattr__(name: str) -> Any:
    """Build the annotations of partitioned inputs on first access, because they import polars."""
    if name in ("DataFramePartitions", "LazyFramePartitions"):
        import polars as pl

        return GenericAlias(dict, (str, getattr(pl, name.removesuffix("Partitions"))))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _translate_partition_by(value: Any, where: str) -> Mapping[str, Any]:
    match value:
        case str():
            return {"partition_expr": value, "delta/partition_by": [value]}
        case Mapping() if all(isinstance(each, str) for each in value.values()):
            return {"partition_expr": value, "delta/partition_by": list(value.values())}
    raise InvalidRequestError(
        f"{where} {value!r}; give a column, or a mapping of dimensions to columns"
    )


_WRITE_OPTIONS: Translations = {
    "schema_mode": translate_schema_mode,
    "configuration": rename("delta/configuration"),
    "custom_metadata": translate_custom_metadata,
    "commit_properties": translate_commit_properties,
    "writer_properties": translate_writer_properties,
    "engine": ignore_setting,
}


def _translate_write_options(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or set(value) - set(_WRITE_OPTIONS):
        raise InvalidRequestError(
            f"{where}, but delta_ops has its own writer and supports only the options "
            f"{', '.join(_WRITE_OPTIONS)}. Nothing was written"
        )
    return translate(value, where, _WRITE_OPTIONS)


class PolarsDeltaIOManager(RenamedIOManager):
    """Stores polars frames; an input without an annotation is a polars frame."""

    output_translations: ClassVar[Translations] = {
        "mode": rename("delta/mode"),
        "partition_by": _translate_partition_by,
        "delta_write_options": _translate_write_options,
        "delta_merge_options": translate_merge_options,
        "overwrite_schema": rename("delta/overwrite_schema"),
        "n_rows": ignore_with_warning(_NO_SAMPLE),
        "fraction": ignore_with_warning(_NO_SAMPLE),
        "descriptions": ignore_with_warning("a column's description is its comment in the table"),
        "streaming": ignore_setting,
    }
    input_translations: ClassVar[Translations] = {
        "version": translate_version,
        "pyarrow_options": reject(_OWN_READER, outcome="Nothing was read"),
        "delta_table_options": reject(_OWN_READER, outcome="Nothing was read"),
        "allow_missing_partitions": ignore_setting,  # read by `load_input`
    }
    field_translations: ClassVar[Translations] = {
        "mode": rename("delta/mode"),
        "overwrite_schema": rename("delta/overwrite_schema"),
        "schema_mode": translate_schema_mode,
        "version": translate_version,
        "extension": reject("the folders of the tables end in .delta", unless=(".delta",)),
    }
    table_keys: ClassVar[Sequence[str]] = ()
    root_field: ClassVar[str] = "base_dir"
    schema_field: ClassVar[str] = ""
    their_words: ClassVar[Mapping[str, str]] = {
        **WORDS_OF_SCHEMA_MODE,
        "partition_expr": "partition_by",
    }
    needs_root: ClassVar[bool] = False
    their_hooks: ClassVar[Sequence[str]] = (
        "write_df_to_path",
        "sink_df_to_path",
        "scan_df_from_path",
        "dump_to_path",
        "load_from_path",
        "load_partitions",
        "get_metadata",
        "get_path_for_partition",
        "get_asset_relative_path",
        "get_delta_version_to_load",
        "get_partition_filters",
        "get_predicate",
        "make_safe_partition_path",
    )
    # The names of fields in the config of a run; `_our_fields` translates them.
    base_dir: str | None = Field(default=None, description="Folder or URI of the tables.")
    mode: str | None = Field(default=None, description="How outputs treat existing rows.")
    schema_mode: str | None = Field(default=None, description="How outputs change columns.")
    version: int | None = Field(default=None, description="Version that inputs read.")
    _instance_storage: str | None = PrivateAttr(default=None)

    def __init__(self, **config: Any) -> None:
        if "cloud_storage_options" in config:
            config["storage_options"] = config.pop("cloud_storage_options")
        super().__init__(**config)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Take the storage of the instance as the default of `base_dir`."""
        if context.instance is not None:
            self._instance_storage = context.instance.storage_directory()
        super().setup_for_execution(context)

    def log(self, table: TableName) -> DeltaLog:
        """The log of a table, by name below `base_dir`."""
        if self.root is not None or self.lake is not None:
            return super().log(table)
        if self._instance_storage is None:
            raise InvalidRequestError(
                f"{type(self).__name__} has no base_dir, and only a run has a Dagster instance "
                "whose storage is the default; give base_dir"
            )
        return table_log(self._instance_storage, self.storage_options, table, lock=self.lock)

    def table_name(
        self,
        asset_key: dg.AssetKey,
        metadata: Mapping[str, Any],
    ) -> Sequence[str]:
        """The asset key; the last part gets the extension .delta."""
        named = table_parts(asset_key, metadata)
        if named is not None:
            return named
        *prefix, name = asset_key.path
        return [*prefix, f"{name}.delta"]

    def read_metadata(self, metadata: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        """Translate metadata to the keys of `DeltaIOManager`."""
        if metadata.get("mode") not in (None, "merge", DeltaWriteMode.merge):
            metadata = _drop_merge_options(metadata, place)
        return super().read_metadata(unite_merge_flags(metadata, place), place)

    def settings_of(self, context: dg.OutputContext) -> OutputSettings:
        """The settings of an output; without `partition_by`, each partition has its own table."""
        settings = super().settings_of(context)
        owns_table = context.has_asset_partitions and settings.partition_expr is None
        return replace(settings, owns_table=owns_table)

    def log_of_output(self, context: dg.OutputContext, settings: OutputSettings) -> DeltaLog:
        """The log of the asset's table, or of the table of the run's partition."""
        if not settings.owns_table:
            return super().log_of_output(context, settings)
        keys = list(context.asset_partition_keys)
        if len(keys) != 1:
            raise InvalidRequestError(
                f"asset {context.asset_key.to_user_string()} has no partition_by, so each "
                f"partition is a table of its own, and the run writes {len(keys)} partitions at "
                "once; add partition_by, or start a run for each partition. Nothing was written"
            )
        folder = self._folder_of_partitions(context.asset_key, context.definition_metadata)
        return self.log([*folder, *_partition_path(keys[0])])

    @spoken_on(Surface.ASSET)
    def load_input(self, context: dg.InputContext) -> Any:
        """Read the upstream: its table, or the tables of its partitions."""
        if not context.has_asset_key or not context.has_asset_partitions:
            return super().load_input(context)
        reader = replace(self.input_reader(context), owns_tables=True)
        if reader.partition_expr is not None or reader.settings.partition_expr is not None:
            return super().load_input(context)
        reject_reproduction(
            {} if (run := compat.run_of_input(context)) is None else run.tags,
            "reading partitions that have tables of their own",
        )
        may_miss = bool((context.definition_metadata or {}).get("allow_missing_partitions"))
        upstream = context.upstream_output
        metadata = upstream.definition_metadata if upstream is not None else {}
        folder = self._folder_of_partitions(context.asset_key, metadata)
        logs = {
            key: self.log([*folder, *_partition_path(key)]) for key in context.asset_partition_keys
        }
        return self.rephrase_errors(lambda: reader.read_tables(logs, may_miss=may_miss))

    def _folder_of_partitions(
        self, asset_key: dg.AssetKey, metadata: Mapping[str, Any]
    ) -> Sequence[str]:
        """The folders below `base_dir` that hold the tables of an asset's partitions.

        Args:
            metadata: Metadata of the asset's definition.

        Raises:
            InvalidRequestError: `dagster/uri` names another place.
        """
        folder = table_parts(asset_key, metadata) or asset_key.path
        if uri_elsewhere(asset_key, metadata, self.log(folder).uri) is not None:
            raise InvalidRequestError(
                f"asset {asset_key.to_user_string()} has dagster/uri, and without partition_by "
                "each partition is a table of its own; add partition_by, or give delta/table "
                "instead, the folder of the partitions' tables"
            )
        return folder

    def event_metadata(
        self, context: dg.OutputContext, table: Snapshot, output: WrittenOutput
    ) -> dict[str, Any]:
        """The metadata of an output with the names of dagster-polars."""
        path = local_path_of(table.uri) or redact(table.uri)
        appended = {}
        if output.mode == "append" and not context.has_asset_partitions:
            appended = {"append_row_count": output.num_rows_written}
        return {
            **super().event_metadata(context, table, output),
            "path": dg.MetadataValue.path(path),
            "version": table.version,
            **appended,
        }

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs without an annotation."""
        import polars as pl

        return pl.DataFrame

    @staticmethod
    def get_partition_filters(
        context: dg.InputContext | dg.OutputContext,
    ) -> Sequence[tuple[str, str, Sequence[str]]]:
        """The partitions of a step as filters of deltalake: (column, "in", keys).

        For code of assets that calls deltalake; delta_ops itself reads the partitions' windows.
        """
        return [(column, "in", keys) for column, _, keys in _keys_by_column(context)]

    @staticmethod
    def get_predicate(context: dg.InputContext | dg.OutputContext) -> str | None:
        """The partitions of a step as SQL; None without `partition_by`.

        For code of assets that calls deltalake; delta_ops itself reads the partitions' windows.
        """
        conditions = []
        for column, dimension, keys in _keys_by_column(context):
            literals = [_literal(key, dimension, context) for key in keys]
            is_equality = dimension is None and len(keys) == 1
            choice = f"= {literals[0]}" if is_equality else f"in ({', '.join(literals)})"
            conditions.append(f"{column} {choice}")
        return " AND ".join(conditions) or None


BasePolarsUPathIOManager = PolarsDeltaIOManager


def _keys_by_column(
    context: dg.InputContext | dg.OutputContext,
) -> list[tuple[str, str | None, list[str]]]:
    """The columns of `partition_by`; for each its dimension, if there are several, and its keys."""
    described = context if isinstance(context, dg.OutputContext) else context.upstream_output
    partition_by = described.definition_metadata.get("partition_by") if described else None
    if partition_by is None or not context.has_asset_partitions:
        return []
    keys = list(context.asset_partition_keys)
    if isinstance(partition_by, str):
        return [(partition_by, None, keys)]
    found: dict[str, dict[str, None]] = {}
    for key in keys:
        if not isinstance(key, dg.MultiPartitionKey):
            raise InvalidRequestError(
                f"partition_by {partition_by!r} is a mapping, but the partitions have one "
                "dimension; give the column"
            )
        for dimension, part in key.keys_by_dimension.items():
            found.setdefault(dimension, {})[part] = None
    # Dagster gives the keys of several dimensions in a random order.
    return [(partition_by[name], name, sorted(parts)) for name, parts in found.items()]


def _literal(key: str, dimension: str | None, context: dg.InputContext | dg.OutputContext) -> str:
    """A partition key as SQL: the key of a time window is a date."""
    partitions = context.asset_partitions_def
    if dimension is not None and isinstance(partitions, dg.MultiPartitionsDefinition):
        partitions = partitions.get_partitions_def_for_dimension(dimension)
    kind = "DATE " if isinstance(partitions, dg.TimeWindowPartitionsDefinition) else ""
    escaped = key.replace("'", "''")
    return f"{kind}'{escaped}'"


def _partition_path(partition: str) -> list[str]:
    """The folders of a partition's own table; several dimensions are nested folders."""
    parts = [partition]
    if isinstance(partition, dg.MultiPartitionKey):
        parts = [part for _, part in sorted(partition.keys_by_dimension.items())]
    return [*parts[:-1], f"{parts[-1]}.delta"]


def _drop_merge_options(metadata: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Drop the options of a merge if the mode is not "merge", as dagster-polars does."""
    dropped = [name for name in ("delta_merge_options", *MERGE_FLAGS) if name in metadata]
    if dropped:
        warnings.warn(
            f"{place} have {', '.join(dropped)}, which changes nothing: the mode is "
            f"{metadata['mode']}",
            stacklevel=2,
        )
    return {name: value for name, value in metadata.items() if name not in dropped}
