"""Write a streaming query to a table: each batch exactly once, even if the query is killed.

A batch is one commit, with the query's id and the batch number as its txn. If the checkpoint does
not record a batch as done, Spark runs it again. The batch then finds its txn in the table and does
nothing. The id stays the same as long as the checkpoint exists.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.option_words import Surface, current_surface, option, speaking
from delta_ops.protocol.expression import parse_expression
from delta_ops.protocol.schema.column_names import find_columns, find_named
from delta_ops.spark.engine import SparkEngine, engine_of
from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.schema import data_schema_from_spark
from delta_ops.spark.versions import is_connect, validate_session
from delta_ops.spark.write.data_files import BY_TABLE, FileSettings
from delta_ops.transaction import DEFAULT_HOOKS, CommitResult, Hook, begin
from delta_ops.transaction.merge import Merge
from delta_ops.transaction.requests import Epoch, MergeRequest, WriteRequest
from delta_ops.transaction.source_rules import SourceRule, key_rule
from delta_ops.transaction.write import report_ignored_properties, write_rows

OutputMode = Literal["append", "complete", "update"]

_QUERY_ID = "sql.streaming.queryId"
"""Spark's local property with the query id of a thread."""


def write_stream(
    df: DataFrame,
    target: TableOrPlace,
    *,
    checkpoint_location: str,
    output_mode: OutputMode = "append",
    keys: Sequence[str] | None = None,
    partition_by: Sequence[str] | None = None,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    configuration: Mapping[str, str] | None = None,
    available_now: bool = False,
    processing_time: str | None = None,
    query_name: str | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    on_event: OnEvent = ignore,
) -> StreamingQuery:
    """Start a query that writes its rows to a table; the first batch creates a missing table.

    Args:
        df: A streaming DataFrame.
        target: The table, or the location of a new table.
        checkpoint_location: Directory for the progress of the query, in Spark's format. Each query
            needs its own. A relative path is resolved where a table's is, in the directory of this
            process, if Spark's default file system is that of this machine.
        output_mode: "append" adds the rows of each batch. "complete" replaces all rows by the rows
            of the batch. "update" merges them by `keys`.
        keys: Columns that identify a row of an update.
        partition_by: Partition columns of a new table.
        merge_schema: Add columns and struct fields that only the data have.
        overwrite_schema: With "complete": the columns of the data replace the columns of the table.
        configuration: Table properties of a new table.
        available_now: Read the rows that exist when the query starts, in batches, and end.
        processing_time: Interval between batches, such as "10 seconds". By default each batch
            starts at the end of the previous batch.
        query_name: The name of the query in Spark's UI.
        user_metadata: Any text, kept in each commit.
        hooks: Called after each commit.

    Returns:
        The running query. `awaitTermination` waits for its end and raises its error.

    Raises:
        InvalidRequestError: An option is unknown, or contradicts another option.

    Examples:
        >>> from pathlib import Path
        >>> progress = str(Path("lake/checkpoints/copy").resolve())
        >>> stream = ds.read_stream(spark, "lake/orders")
        >>> query = ds.write_stream(
        ...     stream, "lake/copy", checkpoint_location=progress, available_now=True
        ... )
        >>> query.awaitTermination()
        >>> da.count_rows("lake/copy")
        3
    """
    validate_arguments(write_stream, locals())
    validate_session(df.sparkSession)
    if not df.isStreaming:
        raise InvalidRequestError("write_stream takes a streaming DataFrame; use write")
    trigger = _trigger(available_now=available_now, processing_time=processing_time)
    log = log_of(target, storage_options)
    if configuration:
        report_ignored_properties(log.snapshot_if_exists(), configuration)
    request = WriteRequest(
        target=log,
        partition_by=partition_by,
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        configuration=configuration,
        user_metadata=user_metadata,
        hooks=hooks,
    )
    write_batch = batch_writer(
        log,
        request,
        output_mode=output_mode,
        checkpoint_location=checkpoint_location,
        keys=keys,
        on_event=on_event,
    )
    return start_query(df, write_batch, trigger, query_name)


def _trigger(*, available_now: bool, processing_time: str | None) -> dict[str, Any] | None:
    """The arguments of Spark's trigger; None for its default."""
    if available_now and processing_time is not None:
        raise InvalidRequestError(
            f"give either {option('available_now')} or {option('processing_time')}, not both"
        )
    if available_now:
        return {"availableNow": True}
    return None if processing_time is None else {"processingTime": processing_time}


def start_query(
    df: DataFrame,
    write_batch: BatchWriter,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
) -> StreamingQuery:
    """Start a query that passes each batch to the writer.

    Args:
        trigger: Arguments of Spark's trigger.
    """
    writer = df.writeStream.outputMode(write_batch.output_mode)
    if write_batch.checkpoint_location is not None:
        place = _checkpoint_place(df.sparkSession, write_batch.checkpoint_location)
        writer = writer.option("checkpointLocation", place)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return writer.foreachBatch(write_batch).start()


def _checkpoint_place(spark: SparkSession, location: str) -> str:
    """Resolve a relative path of this machine as a table's; the JVM keeps its first directory."""
    if is_connect(spark) or urlsplit(location).scheme:
        return location
    context: Any = spark.sparkContext
    is_local = str(context._jsc.hadoopConfiguration().get("fs.defaultFS")).startswith("file:")
    return os.path.abspath(location) if is_local else location


def batch_writer(
    log: DeltaLog,
    request: WriteRequest,
    *,
    output_mode: OutputMode,
    checkpoint_location: str | None,
    keys: Sequence[str] | None = None,
    on_event: OnEvent = ignore,
) -> BatchWriter:
    """Create the function for `foreachBatch`; it writes each batch once.

    Args:
        request: Its mode is set from the output mode.
        checkpoint_location: The query's checkpoint; required on Spark Connect.

    Raises:
        InvalidRequestError: An option is unknown, or contradicts another option.
    """
    if output_mode not in get_args(OutputMode):
        raise InvalidRequestError(
            f"{option('output_mode')} {output_mode!r} is unknown; choose "
            f"{', '.join(get_args(OutputMode))}"
        )
    if (output_mode == "update") != bool(keys):
        raise InvalidRequestError(
            f"{option('output_mode', 'update')} needs {option('keys')}, which need it: give both, "
            f"such as {option('output_mode', 'update')}, {option('keys', ['id'])}, or neither"
        )
    if request.overwrite_schema and output_mode != "complete":
        raise InvalidRequestError(
            f"{option('overwrite_schema')} needs {option('output_mode', 'complete')}"
        )
    if request.overwrite_schema and request.merge_schema:
        raise InvalidRequestError(
            f"give either {option('merge_schema')} or {option('overwrite_schema')}, not both"
        )
    return BatchWriter(
        log=log,
        output_mode=output_mode,
        checkpoint_location=checkpoint_location,
        surface=current_surface(),
        keys=tuple(keys or ()),
        request=replace(request, mode="overwrite" if output_mode == "complete" else "append"),
        on_event=on_event,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWriter:
    """Writes the batches of one query; Connect sends it to the server."""

    log: DeltaLog
    output_mode: OutputMode
    checkpoint_location: str | None
    keys: tuple[str, ...]
    request: WriteRequest
    on_event: OnEvent
    settings: FileSettings = BY_TABLE
    surface: Surface = Surface.PYTHON

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch, unless the table already has it."""
        with speaking(self.surface):
            self._write(batch, batch_id)

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        query = _query_id(batch, self.checkpoint_location)
        if self.keys and self.log.exists():
            result = self._merge(batch, (query, batch_id))
        else:
            epoch = Epoch(query_id=query, number=batch_id, output_mode=self.output_mode)
            request = replace(
                self.request,
                target=self.log,
                on_event=self.on_event,
                txn=(query, batch_id),
                epoch=epoch,
                source_rules=self._rules(batch, self.request.partition_by or ()),
            )
            result = write_rows(engine_of(batch, self.settings), batch, request)
        if result.already_committed:
            # Spark fails a batch of a stateful query unless its rows are computed.
            batch.write.format("noop").mode("overwrite").save()

    def _merge(self, batch: DataFrame, txn: tuple[str, int]) -> CommitResult:
        engine, names = SparkEngine(batch.sparkSession), map(quote, self._keys_of(batch))
        transaction = begin(self.log, on_event=self.on_event)
        transaction.is_of_one_change = True
        keys = " AND ".join(f"target.{name} = source.{name}" for name in names)
        request = MergeRequest(
            target=transaction,
            source=batch,
            predicate=engine.parse_condition(parse_expression(keys)),
            txn=txn,
            merge_schema=self.request.merge_schema,
            user_metadata=self.request.user_metadata,
            hooks=self.request.hooks,
            on_event=self.on_event,
            source_rules=self._rules(batch, transaction.definition.partition_columns),
        )
        merge = Merge(engine, request)
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _rules(self, batch: DataFrame, partition_columns: Sequence[str]) -> list[SourceRule]:
        if not self.keys:
            return []
        schema = data_schema_from_spark(batch.schema)
        partitions = [find_named(schema, name).name for name in partition_columns]
        return [key_rule(self._keys_of(batch), "the batch", partitions)]

    def _keys_of(self, batch: DataFrame) -> tuple[str, ...]:
        return find_columns(data_schema_from_spark(batch.schema), self.keys)


def _query_id(batch: DataFrame, checkpoint_location: str | None) -> str:
    spark = batch.sparkSession
    try:
        found = spark.sparkContext.getLocalProperty(_QUERY_ID)
    except (PySparkException, Py4JError, AttributeError):  # Connect has no context
        found = None
    if found is not None:
        return str(found)
    if checkpoint_location is None:
        raise InvalidRequestError(
            "this session does not reveal the query of a batch; give the query's "
            f"{option('checkpoint_location')}, which stores its id"
        )
    # Spark writes the file before the first batch and never changes it.
    text = spark.read.text(f"{checkpoint_location.rstrip('/')}/metadata").collect()[0][0]
    return str(json.loads(text)["id"])
