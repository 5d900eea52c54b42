"""DeltaIOManager: an asset is a table, a partition of the asset a slice of the table.

Outputs and inputs are of the types that `type_handlers` knows: Arrow, Spark, pandas, polars,
`Snapshot`, `DeltaLog`. An input without an annotation is a `Snapshot`, which holds no rows; an
output may also be a list of `SourcePart`. An asset that writes by itself returns the `Snapshot` or
`DeltaLog` of its own table, or None where its annotation says so, as `Optional[...]` does.

Metadata of the asset's definition say how to write:

    partition_expr      the column that holds the asset's partitions; the table is partitioned by it
    delta/mode          "overwrite" (default): a partition replaces its slice, an asset without
                        partitions the table; "append": rows are added
    delta/idempotency   "run" (default), "source" or "partition"; see `output_txns`
    delta/configuration table properties of a new table
    delta/merge_schema  True: the table takes in columns that only the output has
    delta/overwrite_schema
                        True: the columns of the output become the table's; without partitions only

What an overwrite replaces is named by a predicate on the partition column; without partitions it
is the whole table. There is no third way, and no error turns one into the other.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg
import pyarrow as pa
from pydantic import Field

from delta_ops.errors import InvalidRequestError, TableNotFoundError, VersionNotFoundError
from delta_ops.events import CommitLost, OnEvent, Progress, RaceLost
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration import _dagster_compat as compat
from delta_ops.orchestration.changes import rows_changed
from delta_ops.orchestration.metadata import (
    commit_metadata,
    data_version,
    table_metadata,
    table_version,
)
from delta_ops.orchestration.output_txns import (
    declared_idempotency,
    partition_text,
    partition_txns,
    run_txns,
    source_txn,
)
from delta_ops.orchestration.partitions import partition_predicate
from delta_ops.orchestration.reruns import root_id
from delta_ops.orchestration.resources import (
    STORAGE_OPTIONS,
    DeltaLogResource,
    lake_config,
    range_cache,
    table_log,
    validate_place,
)
from delta_ops.orchestration.type_handlers import (
    TableRead,
    is_spark_data,
    rows_of,
    takes_none,
    value_of_table,
)
from delta_ops.protocol.arrow_types import schema_from_arrow
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructType
from delta_ops.transaction import (
    DEFAULT_HOOKS,
    CommitResult,
    Transaction,
    Txn,
    begin,
    write_checksum,
)
from delta_ops.transaction.idempotency import is_done

Mode = Literal["append", "overwrite"]
PROGRESS_S = 10.0
"""Between two lines of Dagster's log that say how far a write is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePart:
    """The rows that one source holds up to a position; committed once, whatever run brings them."""

    data: Any
    """Rows, of any type that an asset may return."""
    source: str
    """Name of the source within this asset; a file's name, for instance."""
    position: int
    """Must only grow; a file's generation, for instance."""
    replaces: Predicate | None = None
    """The rows of earlier positions, which a new position replaces; None if it only adds."""


class DeltaIOManager(dg.ConfigurableIOManager):
    """Stores each asset as the Delta table at `<root>/<asset key>`."""

    lake: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="A DeltaLogResource, in the place of root, storage_options, cache and lock.",
    )
    root: str | None = Field(
        default=None, description="Folder or URI under which each asset has its table."
    )
    storage_options: dict[str, Any] = Field(default={}, description=STORAGE_OPTIONS)
    cache_directory: str | None = Field(
        default=None,
        description="Where this machine keeps what it reads of checkpoints in object stores.",
    )
    cache_max_bytes: int = Field(default=1 << 30, gt=0, description="That the cache may take.")
    lock: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="Within which commits are created, for a store that cannot do so exclusively; "
        "a function, as DeltaLog takes it.",
    )
    checkpoint: Literal["inline", "scheduled"] = Field(
        default="inline",
        description="Whether a write makes the checkpoint that it makes due, or leaves it to the "
        "maintenance job.",
    )
    spark: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="dagster-pyspark's resource; needed to load Spark DataFrames.",
    )

    def __init__(self, **given: Any) -> None:
        validate_place(given)
        super().__init__(**lake_config(given))

    @classmethod
    def configure_at_launch(cls, **given: Any) -> Any:
        """The IO manager with further fields from the config of a run; see Dagster's own."""
        return super().configure_at_launch(**lake_config(given))

    def log(self, asset_key: dg.AssetKey) -> DeltaLog:
        """The table of an asset."""
        if isinstance(self.lake, DeltaLogResource):
            return self.lake.log(asset_key)
        if self.lake is not None:
            raise InvalidRequestError(
                f"lake is of type {type(self.lake).__name__}; give a DeltaLogResource"
            )
        assert self.root is not None  # or `validate_place` had refused
        cache = range_cache(self.cache_directory, self.cache_max_bytes)
        return table_log(self.root, self.storage_options, asset_key, lock=self.lock, cache=cache)

    def listener(self, context: dg.OutputContext) -> OnEvent:
        """What hears the events of a write; by default lost races, lost commits and, now and then,
        how many of Spark's tasks are done go to Dagster's log."""
        told_at = time.monotonic()

        def on_event(event: Any) -> None:
            nonlocal told_at
            if isinstance(event, Progress) and time.monotonic() - told_at >= PROGRESS_S:
                told_at = time.monotonic()
                done = f"{event.done:,} of {event.total:,} tasks done"
                context.log.info(f"{event.table}: {event.operation}, {done}")
            if isinstance(event, RaceLost):
                context.log.info(f"{event.table}: another writer committed {event.version} first")
            if isinstance(event, CommitLost):
                context.log.warning(f"{event.table}: {event.advice}")

        return on_event

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the output and describe the table's new version to Dagster."""
        if obj is None:
            if context.has_asset_key:  # ops hand on None where they are done
                _validate_none_is_meant(context)
            return
        log = self.log(context.asset_key)
        if isinstance(obj, Snapshot | DeltaLog) and obj.uri == log.uri:
            results = []  # the asset has written by itself
        elif isinstance(obj, list):
            results = self._write_parts(context, log, obj)
        else:
            results = [self._write_output(context, log, rows_of(obj))]
        # A rerun that found its work done must not take the data version back to where it was.
        written = [result.snapshot for result in results if result.snapshot is not None]
        shown = written[-1] if written else log.snapshot_if_exists()
        if shown is None:
            return
        compat.set_data_version(context, data_version(shown))
        context.add_output_metadata({**table_metadata(shown), **commit_metadata(results)})

    def load_input(self, context: dg.InputContext) -> Any:
        """Read the upstream at the version that Dagster records as provenance, if it is there."""
        log = self.log(context.asset_key)
        wanted = context.dagster_type.typing_type
        try:
            snapshot = self._pin_snapshot(context, log)
        except TableNotFoundError:
            if takes_none(wanted):
                return None
            raise
        predicate = self._input_predicate(context, snapshot)
        compat.record_read(
            context, f"delta/read/{context.asset_key.to_user_string()}", snapshot.version
        )
        columns = (context.definition_metadata or {}).get("columns")
        read = TableRead(
            log=log,
            snapshot=snapshot,
            columns=columns,
            predicate=predicate,
            spark_session=self._session,
        )
        return value_of_table(wanted, read)

    def _write_output(self, context: dg.OutputContext, log: DeltaLog, data: Any) -> CommitResult:
        metadata = context.definition_metadata
        mode: Mode = metadata.get("delta/mode", "overwrite")
        if mode not in ("append", "overwrite"):
            raise InvalidRequestError(
                f"asset {context.asset_key.to_user_string()} has the delta/mode {mode!r}; choose "
                "append or overwrite"
            )
        idempotency = declared_idempotency(
            context.asset_key, metadata.get("delta/idempotency", "run")
        )
        if idempotency == "source":
            raise InvalidRequestError(
                f"asset {context.asset_key.to_user_string()} declares idempotency 'source'; return "
                "a list of SourcePart, which say what the source and its position are"
            )
        if idempotency == "partition" and mode != "overwrite":
            raise InvalidRequestError("idempotency 'partition' is for overwrites; use 'run'")
        identify = partition_txns if idempotency == "partition" else run_txns
        txns = identify(context, log)
        transaction = begin(log, on_event=self.listener(context))
        replaced = (
            self._output_predicate(context, transaction, data) if mode == "overwrite" else None
        )
        return self._write(context, transaction, data, mode, replaced, txns)

    def _write_parts(
        self, context: dg.OutputContext, log: DeltaLog, parts: Sequence[object]
    ) -> list[CommitResult]:
        results: list[CommitResult] = []
        known: Snapshot | None = None
        for part in parts:
            if not isinstance(part, SourcePart):
                raise InvalidRequestError(
                    f"asset {context.asset_key.to_user_string()} returned a list of "
                    f"{type(part).__name__}; return a DataFrame, Arrow data, or SourceParts"
                )
            txn = source_txn(context.asset_key, part.source, part.position)
            transaction = begin(log, on_event=self.listener(context), snapshot=known)
            known = transaction.snapshot
            stored = known.transactions() if known is not None else {}
            if is_done(txn, stored, table=log.uri):
                results.append(CommitResult(version=None, already_committed=True, attempts=0))
                continue
            # Asked of the table and not of its txns, which can expire: replacing nothing is cheap.
            mode: Mode = "append" if part.replaces is None else "overwrite"
            rows = rows_of(part.data)
            result = self._write(context, transaction, rows, mode, part.replaces, [txn])
            results.append(result)
            known = result.snapshot or known
        return results

    def _write(
        self,
        context: dg.OutputContext,
        transaction: Transaction,
        data: Any,
        mode: Mode,
        replaced: Predicate | None,
        txns: Sequence[Txn],
    ) -> CommitResult:
        for txn in txns:
            transaction.set_transaction(txn)
        exists = transaction.snapshot is not None
        metadata = context.definition_metadata
        overwrite_schema = metadata.get("delta/overwrite_schema", False)
        settings: dict[str, Any] = {
            "mode": mode,
            "partition_by": _partition_by(metadata) if overwrite_schema or not exists else None,
            "replace_where": replaced,
            "merge_schema": metadata.get("delta/merge_schema", False),
            "overwrite_schema": overwrite_schema,
            "configuration": None if exists else metadata.get("delta/configuration"),
            "user_metadata": _user_metadata(context),
            "hooks": DEFAULT_HOOKS if self.checkpoint == "inline" else (write_checksum,),
        }
        if is_spark_data(data):
            from delta_ops import spark

            return spark.write(data, transaction, **settings)
        from delta_ops import arrow

        return arrow.write(transaction, data, **settings)

    def _output_predicate(
        self, context: dg.OutputContext, transaction: Transaction, data: Any
    ) -> Predicate | None:
        if not context.has_asset_partitions:
            return None
        schema = _schema_of(data) if transaction.snapshot is None else transaction.schema
        return partition_predicate(
            _partition_column(context.asset_key, context.definition_metadata),
            schema,
            context.asset_partitions_def,
            context.asset_partition_keys,
        )

    def _pin_snapshot(self, context: dg.InputContext, log: DeltaLog) -> Snapshot:
        latest = log.snapshot()
        version = table_version(compat.input_data_version(context), latest)
        if version is None or version >= latest.version:
            return latest
        if not rows_changed(log, version + 1, latest.version):
            # The same rows, in files that maintenance has not replaced.
            return latest
        try:
            return log.snapshot(version)
        except VersionNotFoundError as error:
            context.log.warning(f"{error}; reading version {latest.version} instead")
            return latest

    def _input_predicate(self, context: dg.InputContext, snapshot: Snapshot) -> Predicate | None:
        if not context.has_asset_partitions or context.upstream_output is None:
            return None
        metadata = context.upstream_output.definition_metadata
        return partition_predicate(
            _partition_column(context.asset_key, metadata),
            snapshot.schema,
            context.asset_partitions_def,
            context.asset_partition_keys,
        )

    def _session(self) -> Any:
        if self.spark is None:
            raise InvalidRequestError(
                "a Spark DataFrame was asked for and DeltaIOManager has no Spark; give it "
                "spark=LazyPySparkResource(...)"
            )
        return self.spark.spark_session


def _partition_by(metadata: Mapping[str, Any]) -> Sequence[str] | None:
    column = metadata.get("partition_expr")
    return None if column is None else [column]


def _partition_column(asset_key: dg.AssetKey, metadata: Mapping[str, Any]) -> str:
    column = metadata.get("partition_expr")
    if not isinstance(column, str):
        raise InvalidRequestError(
            f"asset {asset_key.to_user_string()} has partitions, and its metadata do not say which "
            'column holds them; add metadata={"partition_expr": "<column>"}'
        )
    return column


def _validate_none_is_meant(context: dg.OutputContext) -> None:
    if not takes_none(context.dagster_type.typing_type):
        raise InvalidRequestError(
            f"asset {context.asset_key.to_user_string()} returned None, so nothing was written; "
            "return its rows, or annotate the function with -> None, or Optional[...], where it "
            "may write nothing"
        )


def _schema_of(data: Any) -> StructType:
    if is_spark_data(data):
        from delta_ops.spark.schema import schema_from_spark

        return schema_from_spark(data.schema)
    return schema_from_arrow(pa.schema(data.schema))


def _user_metadata(context: dg.OutputContext) -> str | None:
    run = compat.dagster_run(context)
    if run is None:
        return None
    values = {
        "dagster/run_id": run.run_id,
        "dagster/root_run_id": root_id(run),
        "dagster/job": run.job_name,
        "dagster/asset": context.asset_key.to_user_string(),
    }
    if context.has_asset_partitions:
        values["dagster/partition"] = partition_text(context)
    return json.dumps(values, separators=(",", ":"))
