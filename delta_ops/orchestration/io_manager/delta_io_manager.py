"""DeltaIOManager: stores an asset as a table, and a partition of the asset as rows of the table.

`type_handlers` has the types of outputs and inputs: Arrow, Spark, pandas, polars, `Snapshot`,
`DeltaLog`. An input without an annotation is a `Snapshot`, which holds no rows. An output may also
be a list of `SourcePart`. An asset that writes by itself returns the `Snapshot` or `DeltaLog` of
its own table, or None if its annotation allows None, as `Optional[...]` does.

Metadata decide how to write. The first place that has a key decides: the `Output`, the metadata
that the asset adds while it runs, the asset's definition, the IO manager.

    partition_expr      a column or an expression that decides the partition of a row; for several
                        dimensions, a mapping of dimensions to expressions
    delta/partition_by  partition columns of a new table; none by default
    delta/mode          "overwrite" (default): a partition replaces its rows, and an asset without
                        partitions replaces the table; "append": rows are added; "merge": rows are
                        merged, see `merge_settings`; "error" and "ignore": only a new table is
                        written, without partitions
    delta/idempotency   "run" (default), "source" or "partition"; see `output_txns`
    delta/configuration table properties of a new table
    delta/merge_schema  True: columns that only the output has are added to the table
    delta/overwrite_schema
                        True: the output's columns replace the table's; without partitions only
    delta/data_version  "table" (default): the last version that changed rows; "partition": the
                        last version that changed rows of the output's partitions
    delta/column_lineage
                        source columns, as {"total": {"orders": ["price"]}}; by default the plan of
                        a Spark DataFrame shows them
    delta/user_metadata strings by name, recorded in the commit with its run
    delta/read          the version that inputs read, see `input_settings`
    delta/publish       "audited": the output is written to a branch, see `audit_branches`
    delta/shared_table  True: the asset overwrites a table that other assets write, too

The table of an asset is `<root>/<asset key>`, unless `delta/table` of its definition names another
table below root, or `dagster/uri` another location. An `Output` cannot have the last three keys.

An input reads the rows of the upstream's partitions that Dagster maps to it. The metadata of its
`AssetIn` may change this, see `input_settings`.

An overwrite replaces the rows that match a predicate on the column of `partition_expr`, and without
partitions the whole table. No mistake can turn a partition overwrite into a table overwrite.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import dagster as dg
from pydantic import Field

from delta_ops import maintenance
from delta_ops.errors import InvalidRequestError
from delta_ops.events import CheckpointDamaged, CommitLost, Event, OnEvent, Progress, RaceLost
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.option_words import Surface, spoken_on
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.dagster_versions import run_of_resource
from delta_ops.orchestration.io_manager.audit_branches import (
    FILES_WRITTEN,
    PublishedRows,
    audited_log,
    branch_metadata,
    write_audited,
)
from delta_ops.orchestration.io_manager.input_reader import InputReader
from delta_ops.orchestration.io_manager.input_settings import input_settings
from delta_ops.orchestration.io_manager.input_versions import READ_KEY
from delta_ops.orchestration.io_manager.op_values import load_op_value, store_op_value
from delta_ops.orchestration.io_manager.output_report import WrittenOutput, report_output
from delta_ops.orchestration.io_manager.output_settings import (
    OutputSettings,
    definition_place,
    is_audited,
    output_settings,
    partition_expr_of,
    validate_defaults,
    validate_none_is_meant,
    validate_output_names_no_table,
)
from delta_ops.orchestration.io_manager.output_writer import OutputWriter
from delta_ops.orchestration.io_manager.reproduce.outputs import find_reproduced, write_reproduction
from delta_ops.orchestration.io_manager.reproduce.recorded_run import (
    is_reproduction,
    read_reproduced,
    validate_recorded,
)
from delta_ops.orchestration.resources import (
    STORAGE_OPTIONS,
    DeltaLogResource,
    lake_config,
    range_cache,
    table_log,
    validate_fields,
    validate_place,
)
from delta_ops.orchestration.shared_tables import validate_table_is_not_shared
from delta_ops.orchestration.storage_options import resolve_options
from delta_ops.orchestration.tables import TableName, table_parts, uri_elsewhere
from delta_ops.transaction import DEFAULT_HOOKS, Hook, write_checksum

PROGRESS_S = 10.0
"""Seconds between two lines of Dagster's log that report progress."""


class DeltaIOManager(dg.ConfigurableIOManager):
    """Stores each asset as the Delta table at `<root>/<asset key>`, or at its `dagster/uri`.

    Examples:
        >>> @dg.asset(metadata={"delta/mode": "append"})
        ... def visits() -> pa.Table:
        ...     return pa.table({"page": ["/"]})
        >>> resources = {"io_manager": DeltaIOManager(root="lake")}
        >>> dg.materialize([visits], resources=resources).success
        True
        >>> da.to_table("lake/visits").to_pylist()
        [{'page': '/'}]
    """

    lake: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="A DeltaLogResource; replaces root, storage_options, cache and lock.",
    )
    root: str | None = Field(
        default=None, description="Folder or URI that contains the tables of the assets."
    )
    storage_options: dict[str, Any] = Field(default={}, description=STORAGE_OPTIONS)
    cache_directory: str | None = Field(
        default=None,
        description="Local directory that caches data of checkpoints read from object stores.",
    )
    cache_max_bytes: int = Field(
        default=1 << 30, gt=0, description="Maximum disk space of the cache, in bytes."
    )
    lock: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="Lock to hold while a commit is created, for stores without exclusive create; "
        "a function, as for DeltaLog.",
    )
    metadata: dict[str, Any] = Field(
        default={},
        description="Default metadata of outputs, such as partition_expr and delta/mode. Metadata "
        "of an output or of its asset override them.",
    )
    checkpoint: Literal["inline", "scheduled"] = Field(
        default="inline",
        description="inline: after a write, create a checkpoint if it is due, and compact small "
        "files if delta.autoOptimize.autoCompact is set. scheduled: leave both to the maintenance "
        "job.",
    )
    op_outputs: Literal["pickle", "error"] = Field(
        default="pickle",
        description="Outputs of ops that belong to no asset. pickle: store them in the storage of "
        "the Dagster instance. error: reject them.",
    )
    spark: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="dagster-pyspark's resource; needed to load Spark DataFrames.",
    )

    needs_root: ClassVar[bool] = True
    """Whether a root or a lake must be given."""

    def __init__(self, **config: Any) -> None:
        validate_fields(type(self), config)
        validate_defaults(config.get("metadata", {}))
        validate_place(config, needs_root=self.needs_root)
        super().__init__(**lake_config(config))

    @classmethod
    def configure_at_launch(cls, **config: Any) -> Any:
        """The IO manager with more fields from the run config, as in Dagster."""
        return super().configure_at_launch(**lake_config(config))

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Reject a run that reproduces another run, if versions of that run are gone."""
        validate_recorded(context.instance, run_of_resource(context), self.log_of_asset)

    def table_name(
        self,
        asset_key: dg.AssetKey,
        metadata: Mapping[str, Any],
    ) -> TableName:
        """The table name of an asset: `delta/table` of its metadata, or else its key.

        Args:
            metadata: Metadata of the asset's definition.
        """
        return table_parts(asset_key, metadata) or asset_key

    def read_metadata(
        self,
        metadata: Mapping[str, Any],
        place: str,  # noqa: ARG002 - for IO managers that have other words
    ) -> Mapping[str, Any]:
        """Translate metadata of an output or an asset's definition to the keys above.

        Args:
            place: Name of the metadata, for errors.
        """
        return metadata

    def read_input_metadata(
        self,
        metadata: Mapping[str, Any],
        place: str,  # noqa: ARG002 - for IO managers that have other words
    ) -> Mapping[str, Any]:
        """Translate metadata of an input to the keys of `input_settings`.

        Args:
            place: Name of the metadata, for errors.
        """
        return metadata

    def default_metadata(self) -> Mapping[str, Any]:
        """The default settings of outputs and inputs; their own metadata override them."""
        return self.metadata

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs without an annotation; None: a `Snapshot`, which holds no rows."""
        return None

    def log(self, table: TableName) -> DeltaLog:
        """The log of a table, by asset key or by name below root."""
        if isinstance(self.lake, DeltaLogResource):
            return self.lake.open_log(table)
        if self.lake is not None:
            raise InvalidRequestError(
                f"lake is of type {type(self.lake).__name__}; give a DeltaLogResource"
            )
        assert self.root is not None  # checked by `validate_place`
        cache = range_cache(self.cache_directory, self.cache_max_bytes)
        return table_log(self.root, self.storage_options, table, lock=self.lock, cache=cache)

    def log_of_asset(self, asset_key: dg.AssetKey, metadata: Mapping[str, Any]) -> DeltaLog:
        """The log of an asset's table: at `dagster/uri` of the metadata, or else below root.

        Checks and maintenance find the table in the same way.

        Args:
            metadata: Metadata of the asset's definition.

        Raises:
            InvalidRequestError: There is a table below root, and no table at `dagster/uri`.
        """
        log = self.log(self.table_name(asset_key, metadata))
        uri = uri_elsewhere(asset_key, metadata, log.uri)
        if uri is None:
            return log
        lake = self.lake if isinstance(self.lake, DeltaLogResource) else self
        cache = range_cache(lake.cache_directory, lake.cache_max_bytes)
        placed = DeltaLog(uri, resolve_options(lake.storage_options), lock=lake.lock, cache=cache)
        if not placed.exists() and log.exists():
            raise InvalidRequestError(
                f"the table of asset {asset_key.to_user_string()} is {log.uri}, and the metadata "
                f"dagster/uri of the asset name {placed.uri}, where there is no table; move the "
                "table there, or leave dagster/uri out. Nothing was read or written"
            )
        return placed

    def listener(self, context: dg.OutputContext) -> OnEvent:
        """The listener for events of a write; by default it logs some of them to Dagster."""
        return _LogListener(context.log)

    @spoken_on(Surface.ASSET)
    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the output, and report the table's new version to Dagster."""
        if not context.has_asset_key:
            self.handle_op_output(context, obj)
            return
        if obj is None:
            validate_none_is_meant(context)
            if is_audited(context.asset_key, context.definition_metadata):
                context.add_output_metadata({FILES_WRITTEN: 0})
            return
        settings = self.settings_of(context)
        log = self.log_of_output(context, settings)
        validate_output_names_no_table(context, log)
        self.write_output(context, log, obj, settings)

    def log_of_output(
        self,
        context: dg.OutputContext,
        settings: OutputSettings,  # noqa: ARG002 - for IO managers with a table for each partition
    ) -> DeltaLog:
        """The log of the table that an output is written to."""
        return self.log_of_asset(context.asset_key, context.definition_metadata)

    def settings_of(self, context: dg.OutputContext) -> OutputSettings:
        """The settings of an output."""
        return output_settings(context, self.default_metadata(), self.read_metadata)

    def write_output(
        self, context: dg.OutputContext, log: DeltaLog, obj: Any, settings: OutputSettings
    ) -> Snapshot | None:
        """Write rows to a table and report its version; return the table at that version."""
        if settings.may_remove_rows and not isinstance(obj, PublishedRows | Snapshot | DeltaLog):
            validate_table_is_not_shared(context, log)
        writer = OutputWriter(
            context=context,
            settings=settings,
            log=log,
            on_event=self.listener(context),
            hooks=() if settings.is_audited else self.hooks,
        )
        branch = None
        if (named := find_reproduced(context)) is not None:
            return self._reproduce(writer, named, obj)
        if settings.is_audited:
            audited = write_audited(writer, obj)
            log, branch, output = audited.log, audited.branch, audited.output
        elif isinstance(obj, PublishedRows):
            output = WrittenOutput(obj.results, is_replaced=False, mode=settings.mode)
        else:
            output = writer.write(obj)
        table = report_output(context, log, settings, output)
        if table is not None:
            context.add_output_metadata(self.event_metadata(context, table, output))
            if branch is not None:
                context.add_output_metadata(branch_metadata(log, branch, table.version))
        if isinstance(obj, PublishedRows):
            context.add_output_metadata(obj.metadata)
        return table

    def _reproduce(self, writer: OutputWriter, named: dg.DagsterRun, obj: Any) -> Snapshot | None:
        """Write an output to a branch, and report how it differs from that of the named run."""
        context = writer.context
        reproduced = write_reproduction(writer, named, obj)
        table = report_output(context, reproduced.log, writer.settings, reproduced.output)
        reproduced.set_data_version(context, writer.log.snapshot())
        context.add_output_metadata(reproduced.metadata())
        return table

    @property
    def hooks(self) -> Sequence[Hook]:
        """The hooks that run after each commit to a table."""
        if self.checkpoint == "scheduled":
            return (write_checksum,)
        return (*DEFAULT_HOOKS, maintenance.auto_compact())  # the name loads the Arrow engine

    def event_metadata(
        self,
        context: dg.OutputContext,  # noqa: ARG002 - for IO managers that add metadata
        table: Snapshot,  # noqa: ARG002
        output: WrittenOutput,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Additional metadata of an output, for subclasses; empty by default.

        Args:
            table: The table after the write.
        """
        return {}

    def handle_op_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Store the value of an op that belongs to no asset.

        Raises:
            InvalidRequestError: `op_outputs` is "error", or the value cannot be pickled.
        """
        if self.op_outputs == "pickle":
            store_op_value(context, obj)
        elif obj is not None:  # ops return None when they are done
            raise InvalidRequestError(
                f"{compat.output_name(context)} belongs to no asset, so there is no table for it, "
                'and op_outputs is "error"; make the op an asset, give the output another '
                'io_manager_key, or set op_outputs="pickle"'
            )

    def load_op_output(self, context: dg.InputContext) -> Any:
        """Load the value of an op that belongs to no asset."""
        return load_op_value(context)

    @spoken_on(Surface.ASSET)
    def load_input(self, context: dg.InputContext) -> Any:
        """Read the upstream at the version that Dagster records as provenance, if it exists."""
        context = compat.add_asset_key(context)
        if not context.has_asset_key:
            return self.load_op_output(context)
        upstream = context.upstream_output
        metadata = upstream.definition_metadata if upstream is not None else {}
        reader, log = self.input_reader(context), self.log_of_asset(context.asset_key, metadata)
        if is_reproduction(context):
            return read_reproduced(reader, log)
        if is_audited(context.asset_key, metadata) and not reader.settings.is_chosen_by_input:
            branch = audited_log(context, log)
            return reader.read(log) if branch is None else reader.reading("latest").read(branch)
        return reader.read(log)

    def input_reader(self, context: dg.InputContext) -> InputReader:
        """The reader of an input, with the settings from all metadata that may have them."""
        upstream = context.upstream_output
        metadata = upstream.definition_metadata if upstream is not None else {}
        expression = None
        places = _consumer_places(context)
        if context.has_asset_key:
            places.append(definition_place(context.asset_key, metadata, self.read_metadata))
            expression = partition_expr_of(
                metadata, self.default_metadata(), context.asset_key, self.read_metadata
            )
        places.append(("the metadata of the IO manager", self.default_metadata()))
        return InputReader(
            context=context,
            settings=input_settings(context, self.read_input_metadata, places),
            partition_expr=expression,
            spark_session=self._session,
            default_type=self.default_load_type(),
        )

    def _session(self) -> Any:
        if self.spark is None:
            raise InvalidRequestError(
                "an input is annotated with a Spark DataFrame, but DeltaIOManager has no Spark "
                "session; give it spark=LazyPySparkResource(...)"
            )
        return self.spark.spark_session


def _consumer_places(context: dg.InputContext) -> list[tuple[str, Mapping[str, Any]]]:
    """The setting `delta/read` of the assets that read an input; they may have any IO manager."""
    return [
        (f"the metadata of asset {key.to_user_string()}", {READ_KEY: metadata[READ_KEY]})
        for key, metadata in compat.consumer_metadata(context).items()
        if READ_KEY in metadata
    ]


class _LogListener:
    """Logs lost races, lost commits and, at intervals, the number of finished Spark tasks.

    Args:
        log: The log of a Dagster context.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._logged_at = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Log one event."""
        match event:
            case Progress() if time.monotonic() - self._logged_at >= PROGRESS_S:
                self._logged_at = time.monotonic()
                self._log.info(f"{event.table}: {event.operation}, {event.count} tasks done")
            case RaceLost():
                self._log.info(f"{event.table}: another writer committed {event.version} first")
            case CommitLost() | CheckpointDamaged():
                self._log.warning(f"{event.table}: {event.advice}")
