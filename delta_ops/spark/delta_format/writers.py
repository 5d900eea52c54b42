"""Writers: writes tables as the calls of a `format("delta")` writer specify."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from delta_ops.errors import InvalidRequestError
from delta_ops.events import ignore
from delta_ops.protocol.columns.clustering import find_clustering
from delta_ops.protocol.predicate import Predicate, parse_predicate
from delta_ops.protocol.schema.column_names import name_of_column
from delta_ops.spark.delta_format.calls import Calls
from delta_ops.spark.delta_format.options import Options, Use, options_for
from delta_ops.spark.delta_format.readers import log_at, place_of
from delta_ops.spark.delta_format.rearrangement import write_rearranged
from delta_ops.spark.engine import engine_of
from delta_ops.spark.expressions.conditions import has_times_of_session
from delta_ops.spark.read.stale_reads import refuse_stale_rows
from delta_ops.spark.schema import schema_from_spark
from delta_ops.spark.session.settings import (
    SessionSettings,
    default_properties,
    reset_txn,
    session_settings,
    txn_of,
)
from delta_ops.spark.streaming.write import OutputMode, batch_writer, start_query
from delta_ops.spark.write.data_files import FileSettings
from delta_ops.transaction import Transaction
from delta_ops.transaction.requests import Mode, PartitionOverwriteMode, WriteRequest
from delta_ops.transaction.write import (
    report_ignored_properties,
    transaction_on,
    write_rows,
)

logger = logging.getLogger(__name__)

_MODES: Mapping[str, Mode] = {
    "append": "append",
    "overwrite": "overwrite",
    "ignore": "ignore",
    "error": "error",
    "errorifexists": "error",
    "default": "error",
}
_CHECKPOINT_ROOT = "spark.sql.streaming.checkpointLocation"


def save(
    df: DataFrame,
    calls: Calls,
    path: str | None,
    storage_options: Mapping[str, Any] | None,
) -> None:
    """Write rows as the writer's calls specify.

    Raises:
        InvalidRequestError: An option is not supported, or the data do not fit the table.
        TableExistsError: The table exists, and the mode does not allow that.
    """
    options, spark = options_for(Use.WRITE, calls.options), df.sparkSession
    settings = session_settings(spark)
    own_txn = _txn(options)
    txn = own_txn or txn_of(spark)
    _refuse_buckets(calls)
    mode = mode_of(calls.mode)
    log = log_at(place_of(options, path, "save"), options, storage_options)
    engine = engine_of(df, file_settings(options))
    transaction = transaction_on(log, None, ignore, engine)
    replaces_all = mode == "overwrite" and options.text("replaceWhere") is None
    overwrites_schema = _overwrites_schema(options, replaces_all)
    partition_by = _partition_by(calls.partition_by, df)
    if partition_by is None and overwrites_schema:
        partition_by = ()  # as in the reference: a new schema resets the partitioning
    configuration = options.properties()
    if transaction.snapshot is None:
        configuration = _properties(spark, options)
    elif replaces_all:
        refuse_stale_rows(df, transaction.snapshot)
    makes_none = transaction.snapshot is not None and mode in ("error", "ignore")
    if calls.cluster_by and not makes_none:
        _cluster(transaction, calls.cluster_by, df, partition_by, configuration)
    request = WriteRequest(
        target=transaction,
        mode=mode,
        partition_by=partition_by,
        replace_where=_replace_where(options, transaction, df),
        partition_overwrite_mode=_partition_overwrite_mode(options, settings, mode),
        merge_schema=_merges_schema(options, settings) and not overwrites_schema,
        overwrite_schema=overwrites_schema,
        txn=txn,
        configuration=configuration,
        user_metadata=options.text("userMetadata") or settings.user_metadata,
    )
    if options.flag("dataChange") is False:
        write_rearranged(engine, df, transaction, request)
    else:
        write_rows(engine, df, request)
    if own_txn is None and txn is not None:
        reset_txn(spark)


def validate_stream(spark: SparkSession, calls: Calls, options: Options) -> str:
    """Check the calls of a stream before anything is created for it; returns its output mode.

    Raises:
        InvalidRequestError: `format("delta")` does not support the stream.
    """
    output_mode = (calls.output_mode or "append").lower()
    if output_mode not in ("append", "complete"):
        raise InvalidRequestError(
            f'outputMode("{output_mode}") is not supported by format("delta"); write rows that '
            "change by ds.write_stream with keys, which merges them"
        )
    if calls.cluster_by:
        raise InvalidRequestError(
            "clusterBy is not supported by df.writeStream; create the table clustered first, with "
            "delta_ops.ddl.create_table"
        )
    if options.text("checkpointLocation") is None and not spark.conf.get(_CHECKPOINT_ROOT, None):
        raise InvalidRequestError(
            "a stream needs a checkpoint location for its progress; give "
            'option("checkpointLocation", ...)'
        )
    return output_mode


def start(
    df: DataFrame,
    calls: Calls,
    path: str | None,
    storage_options: Mapping[str, Any] | None,
) -> StreamingQuery:
    """Start a query that writes to a table, as the writer's calls specify.

    Raises:
        InvalidRequestError: An option is not supported, or contradicts another option.
    """
    options, spark = options_for(Use.STREAM_WRITE, calls.options), df.sparkSession
    output_mode = validate_stream(spark, calls, options)
    settings = session_settings(spark)
    log = log_at(place_of(options, path, "start"), options, storage_options)
    checkpoint = options.text("checkpointLocation")
    overwrites_schema = _overwrites_schema(options, output_mode == "complete")
    if properties := options.properties():
        report_ignored_properties(log.snapshot_if_exists(), properties)
    request = WriteRequest(
        target=log,
        partition_by=_partition_by(calls.partition_by, df),
        merge_schema=_merges_schema(options, settings) and not overwrites_schema,
        overwrite_schema=overwrites_schema,
        configuration=_properties(spark, options),
        user_metadata=options.text("userMetadata") or settings.user_metadata,
    )
    write_batch = batch_writer(
        log,
        request,
        output_mode=cast("OutputMode", output_mode),
        checkpoint_location=checkpoint,
    )
    write_batch = replace(write_batch, settings=file_settings(options))
    name = calls.query_name or options.text("queryName")
    return start_query(df, write_batch, calls.trigger, name)


def _refuse_buckets(calls: Calls) -> None:
    if calls.has_buckets:
        raise InvalidRequestError(
            "bucketBy and sortBy are not supported by Delta tables; partition by columns, or "
            "cluster by them with clusterBy"
        )


def mode_of(mode: str | None) -> Mode:
    """The mode of a write by Spark's name for it.

    Raises:
        InvalidRequestError: The mode is unknown.
    """
    found = _MODES.get((mode or "error").lower())
    if found is None:
        raise InvalidRequestError(
            f"mode {mode!r} is unknown; choose append, overwrite, ignore or errorifexists"
        )
    return found


def _partition_by(names: Sequence[str] | None, df: DataFrame) -> tuple[str, ...] | None:
    """The partition columns as the data spell them.

    An unknown column keeps its name, and the write rejects it.
    """
    if not names:
        return None
    exact_names = {name.lower(): name for name in df.columns}
    return tuple(name_of_column(exact_names.get(name.lower(), name)) for name in names)


def _properties(spark: SparkSession, options: Options) -> dict[str, str]:
    """Properties for a table that the write creates."""
    value = options.properties()
    lower = {name.lower() for name in value}
    defaults = default_properties(spark)
    return {**{n: v for n, v in defaults.items() if n.lower() not in lower}, **value}


def _cluster(
    transaction: Transaction,
    clusters: Sequence[str],
    df: DataFrame,
    partition_by: Sequence[str] | None,
    configuration: Mapping[str, str] | None,
) -> None:
    """Cluster a new table, or reject a clustering that differs from the table's."""
    if transaction.snapshot is None:
        transaction.create_table(
            schema_from_spark(df.schema),
            partition_by=partition_by or (),
            configuration=configuration,
        )
    definition, table = transaction.definition, transaction.log.uri
    wanted = find_clustering(clusters, definition.schema, definition.partition_columns, table)
    if transaction.snapshot is None:
        transaction.set_clustering(wanted)
    elif wanted != transaction.clustering_columns:
        raise InvalidRequestError(
            f"{table} is not clustered by {', '.join(clusters)}; leave clusterBy "
            "out, or change the table's clustering first with delta_ops.ddl.cluster_by"
        )


def _replace_where(options: Options, transaction: Transaction, df: DataFrame) -> Predicate | None:
    text = options.text("replaceWhere")
    if text is None:
        return None
    predicate, known = parse_predicate(text), transaction.snapshot
    schema = known.schema if known else schema_from_spark(df.schema)
    if has_times_of_session(predicate, text, df.sparkSession, schema):
        raise InvalidRequestError(
            f"replaceWhere {text!r} contains times, which delta_ops reads in UTC, and the time "
            "zone of this session is not UTC; set spark.sql.session.timeZone to UTC, or use "
            "ds.write with datetimes in replace_where"
        )
    return predicate


def _partition_overwrite_mode(
    options: Options, settings: SessionSettings, mode: Mode
) -> PartitionOverwriteMode:
    if mode != "overwrite":
        return "static"
    value = options.text("partitionOverwriteMode")
    if value is None:
        is_dynamic = settings.overwrites_dynamically and options.text("replaceWhere") is None
        return "dynamic" if is_dynamic else "static"
    match value.lower():
        case "static":
            return "static"
        case "dynamic":
            return "dynamic"
    raise InvalidRequestError(f"partitionOverwriteMode is {value!r}; choose static or dynamic")


def _overwrites_schema(options: Options, replaces_all: bool) -> bool:
    is_set = bool(options.flag("overwriteSchema"))
    if is_set and not replaces_all:
        logger.warning(
            "overwriteSchema has no effect: it needs the mode overwrite without replaceWhere, or "
            'outputMode("complete") of a stream'
        )
    return is_set and replaces_all


def _merges_schema(options: Options, settings: SessionSettings) -> bool:
    value = options.flag("mergeSchema")
    return settings.merge_schema if value is None else value


def _txn(options: Options) -> tuple[str, int] | None:
    app_id, version = options.text("txnAppId"), options.version("txnVersion")
    if app_id is None and version is None:
        return None
    if app_id is None or version is None:
        raise InvalidRequestError("give both txnAppId and txnVersion, or neither")
    return app_id, version


def file_settings(options: Options) -> FileSettings:
    """Settings for the new files of a write."""
    return FileSettings(
        codec=options.codec("compression"), max_rows=options.count("maxRecordsPerFile")
    )
