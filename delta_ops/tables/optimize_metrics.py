"""Metrics of an optimize, in delta-spark's columns.

Columns about the inner workings of delta-spark are null, because delta_ops has no such value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance import OptimizeResult
from delta_ops.protocol.predicate import Predicate
from delta_ops.spark.file_uris import spark_path
from delta_ops.tables.frames import frame

_SIZES = "STRUCT<min: BIGINT, max: BIGINT, avg: DOUBLE, totalFiles: BIGINT, totalSize: BIGINT>"
_CUBE = "STRUCT<num: BIGINT, size: BIGINT>"
_ZCUBE = "STRUCT<numFiles: BIGINT, size: BIGINT>"
_SCHEMA = f"""
    path STRING,
    metrics STRUCT<
        numFilesAdded: BIGINT, numFilesRemoved: BIGINT, filesAdded: {_SIZES},
        filesRemoved: {_SIZES}, partitionsOptimized: BIGINT,
        zOrderStats: STRUCT<
            strategyName: STRING, inputCubeFiles: {_CUBE}, inputOtherFiles: {_CUBE},
            inputNumCubes: BIGINT, mergedFiles: {_CUBE}, numOutputCubes: BIGINT,
            mergedNumCubes: BIGINT>,
        clusteringStats: STRUCT<
            inputZCubeFiles: {_ZCUBE}, inputOtherFiles: {_ZCUBE}, inputNumZCubes: BIGINT,
            mergedFiles: {_ZCUBE}, numOutputZCubes: BIGINT>,
        numBins: BIGINT, numBatches: BIGINT, totalConsideredFiles: BIGINT,
        totalFilesSkipped: BIGINT, preserveInsertionOrder: BOOLEAN,
        numFilesSkippedToReduceWriteAmplification: BIGINT,
        numBytesSkippedToReduceWriteAmplification: BIGINT, startTimeMs: BIGINT, endTimeMs: BIGINT,
        totalClusterParallelism: BIGINT, totalScheduledTasks: BIGINT,
        autoCompactParallelismStats: STRUCT<
            maxClusterActiveParallelism: BIGINT, minClusterActiveParallelism: BIGINT,
            maxSessionActiveParallelism: BIGINT, minSessionActiveParallelism: BIGINT>,
        deletionVectorStats: STRUCT<
            numDeletionVectorsRemoved: BIGINT, numDeletionVectorRowsRemoved: BIGINT>,
        numTableColumns: BIGINT, numTableColumnsWithStats: BIGINT>"""


class Optimized(NamedTuple):
    """An optimize and its result."""

    before: Snapshot
    """The table before the optimize."""
    predicate: Predicate | None
    is_ordered: bool
    result: OptimizeResult
    start_ms: int
    end_ms: int


def optimize_frame(spark: SparkSession, log: DeltaLog, done: Optimized) -> DataFrame:
    """The result of an optimize: one row with the table's path and the metrics."""
    result = done.result
    added, removed = _sizes_of_files(log, done)
    partitions = {tuple(g.files[0].partition_values.items()) for g in result.plan.groups}
    considered = done.before.files(columns=("path",), predicate=done.predicate).num_rows
    taken = (result.files_removed, result.bytes_removed)
    zorder = ("all", (0, 0), taken, 0, taken, len(partitions), None)
    metrics = (
        result.files_added,
        result.files_removed,
        _figures(added, result.files_added, result.bytes_added),
        _figures(removed, result.files_removed, result.bytes_removed),
        len(partitions),
        zorder if done.is_ordered else None,
        None,
        len(result.plan.groups),
        1,
        considered,
        considered - result.files_removed,
        False,
        0,
        0,
        done.start_ms,
        done.end_ms,
        None,
        None,
        None,
        None,
        len(done.before.schema.fields),
        None,
    )
    return frame(spark, [(spark_path(log.storage, ""), metrics)], _SCHEMA)


def _sizes_of_files(log: DeltaLog, done: Optimized) -> tuple[list[int], list[int]]:
    """Sizes of the added and of the removed files, from the commits."""
    added: list[int] = []
    removed: list[int] = []
    if done.result.version is None or done.result.already_committed:
        return added, removed
    for commit in log.commits(done.before.version + 1, done.result.version):
        if commit.operation == "OPTIMIZE":
            added += commit.adds["size"].to_pylist()
            removed += pc.fill_null(commit.removes["size"], 0).to_pylist()
    return added, removed


def _figures(sizes: Sequence[int], num_files: int, num_bytes: int) -> tuple[Any, ...]:
    """Figures of files; minimum and maximum are None unless all sizes are known."""
    known = sizes if len(sizes) == num_files and sum(sizes) == num_bytes else ()
    mean = num_bytes / num_files if num_files else 0.0
    return (min(known, default=None), max(known, default=None), mean, num_files, num_bytes)
