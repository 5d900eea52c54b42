"""Frames: results of commands as DataFrames with delta-spark's columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from delta_ops.log import HistoryEntry, Snapshot
from delta_ops.maintenance import RestorePlan
from delta_ops.protocol.columns.mapping import logical_path
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.spark.file_uris import spark_path
from delta_ops.spark.versions import frame_of_arrow

_HISTORY = """
    version BIGINT, timestamp TIMESTAMP, userId STRING, userName STRING, operation STRING,
    operationParameters MAP<STRING, STRING>,
    job STRUCT<jobId: STRING, jobName: STRING, jobRunId: STRING, runId: STRING, jobOwnerId: STRING,
        triggerType: STRING>,
    notebook STRUCT<notebookId: STRING>, clusterId STRING, readVersion BIGINT,
    isolationLevel STRING, isBlindAppend BOOLEAN, operationMetrics MAP<STRING, STRING>,
    userMetadata STRING, engineInfo STRING"""
_DETAIL = """
    format STRING, id STRING, name STRING, description STRING, location STRING,
    createdAt TIMESTAMP, lastModified TIMESTAMP, partitionColumns ARRAY<STRING>,
    clusteringColumns ARRAY<STRING>, numFiles BIGINT, sizeInBytes BIGINT,
    properties MAP<STRING, STRING>, minReaderVersion INT, minWriterVersion INT,
    tableFeatures ARRAY<STRING>"""
_MERGED = {
    "num_affected_rows": (
        "numTargetRowsUpdated",
        "numTargetRowsDeleted",
        "numTargetRowsInserted",
    ),
    "num_updated_rows": ("numTargetRowsUpdated",),
    "num_deleted_rows": ("numTargetRowsDeleted",),
    "num_inserted_rows": ("numTargetRowsInserted",),
}
"""The merge metrics that add up to each figure."""


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """A DataFrame of local rows, with columns in Spark SQL syntax."""
    return spark.createDataFrame(rows, schema)


def figures_frame(spark: SparkSession, figures: Mapping[str, int]) -> DataFrame:
    """A DataFrame of one row of numbers, by column."""
    # Through Arrow, because Spark needs a third of the time that a list of rows takes it.
    row = {name: pa.array([number], pa.int64()) for name, number in figures.items()}
    return frame_of_arrow(spark, pa.table(row))


def history_frame(spark: SparkSession, entries: Iterable[HistoryEntry]) -> DataFrame:
    """The operation of each version."""
    return frame(spark, [_history_row(each) for each in entries], _HISTORY)


def detail_frame(spark: SparkSession, snapshot: Snapshot, modified_ms: int | None) -> DataFrame:
    """The location, size, properties and protocol of a table.

    Args:
        modified_ms: Commit time of its latest version, in milliseconds since the Unix epoch.
    """
    metadata, protocol = snapshot.metadata, snapshot.protocol
    created_ms = metadata.created_time
    row = (
        "delta",
        metadata.id,
        metadata.name,
        metadata.description,
        spark_path(snapshot.storage, ""),
        None if created_ms is None else _time(created_ms),
        None if modified_ms is None else _time(modified_ms),
        list(snapshot.partition_columns),
        [name_of_path(logical_path(path, snapshot.schema)) for path in snapshot.clustering_columns],
        snapshot.num_files,
        snapshot.size_bytes,
        dict(metadata.configuration),
        protocol.min_reader_version,
        protocol.min_writer_version,
        sorted(snapshot.definition.features),
    )
    return frame(spark, [row], _DETAIL)


def merge_frame(spark: SparkSession, metrics: Mapping[str, int]) -> DataFrame:
    """The numbers of rows that a merge changed."""
    figures = {name: sum(metrics.get(each, 0) for each in added) for name, added in _MERGED.items()}
    return figures_frame(spark, figures)


def restore_frame(spark: SparkSession, plan: RestorePlan, wanted: Snapshot) -> DataFrame:
    """The metrics of a restore.

    Args:
        wanted: The version that was restored.
    """
    figures = {
        "table_size_after_restore": wanted.size_bytes,
        "num_of_files_after_restore": wanted.num_files,
        "num_removed_files": len(plan.removes),
        "num_restored_files": len(plan.adds),
        "removed_files_size": sum(each.size for each in plan.removes),
        "restored_files_size": sum(each.size for each in plan.adds),
    }
    return figures_frame(spark, figures)


def _history_row(entry: HistoryEntry) -> tuple[Any, ...]:
    commit_info = entry.commit_info
    return (
        entry.version,
        _time(entry.timestamp_ms),
        _text(commit_info.get("userId")),
        _text(commit_info.get("userName")),
        entry.operation,
        _texts(entry.operation_parameters),
        None,
        None,
        _text(commit_info.get("clusterId")),
        commit_info.get("readVersion") if isinstance(commit_info.get("readVersion"), int) else None,
        _text(commit_info.get("isolationLevel")),
        commit_info.get("isBlindAppend")
        if isinstance(commit_info.get("isBlindAppend"), bool)
        else None,
        _texts(entry.operation_metrics),
        entry.user_metadata,
        entry.engine_info,
    )


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> str | None:
    """A JSON value as a string; a string stays unchanged."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))
