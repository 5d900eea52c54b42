"""DeltaOptimizeBuilder: delta-spark's builder for optimize, its filters, and its metrics.

The metrics have delta-spark's columns. Columns about the inner workings of delta-spark are null,
because delta_ops has no such value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.spark as ds
from delta_ops.clock import system_clock
from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance import OptimizeResult, optimize
from delta_ops.protocol.expression.resolution import finder_of
from delta_ops.protocol.predicate import (
    Always,
    Column,
    Predicate,
    all_of,
    columns,
    parse_predicate,
)
from delta_ops.spark.expressions.analysis import reason_of, unresolved_text
from delta_ops.spark.expressions.conditions import validate_names
from delta_ops.spark.file_uris import spark_path
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.session.settings import user_metadata_of
from delta_ops.spark.session.variables import escape_variables, names_like_variables
from delta_ops.spark.versions import error_condition, frame_of_arrow, is_connect
from delta_ops.tables.argument_checks import check_names, check_text
from delta_ops.tables.exceptions import translating
from delta_ops.tables.frames import frame


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest:
    """The optimize that the builder has collected so far."""

    spark: SparkSession
    log: DeltaLog
    filters: tuple[str, ...] = ()
    is_full: bool = False
    """Whether files that are already in the order of a clustered table are ordered again."""


class DeltaOptimizeBuilder:
    """An optimize of some or all partitions; compacts or orders the files of a table.

    Examples:
        >>> DeltaTable.forPath(spark, "lake/orders").optimize().executeCompaction().columns
        ['path', 'metrics']
    """

    def __init__(self, request: OptimizeRequest) -> None:
        self._request = request

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Restrict the optimize to partitions that match a condition on partition columns."""
        checked = check_text(partitionFilter, "A filter of partitions")
        request = self._request
        return DeltaOptimizeBuilder(replace(request, filters=(*request.filters, checked)))

    @translating
    def executeCompaction(self) -> DataFrame:
        """Compact small files. Returns one row with the path and the metrics."""
        return _execute(self._request, None)

    @translating
    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Order rows by several columns at once. Returns the same row as `executeCompaction`."""
        return _execute(self._request, check_names(cols, "A column to order by"))


def _execute(request: OptimizeRequest, zorder_by: tuple[str, ...] | None) -> DataFrame:
    log, spark = request.log, request.spark
    snapshot = log.snapshot()
    for name in zorder_by or ():
        if name.lower() in {each.lower() for each in snapshot.partition_columns}:
            raise InvalidRequestError(
                f"{log.uri}: {name} is a partition column. Z-Ordering can only be performed on "
                "data columns",
                "DELTA_ZORDERING_ON_PARTITION_COLUMN",
            )
    predicate = None
    if request.filters:
        with naming_table(log.uri):
            predicate = partitions_of(spark, snapshot, request.filters)
    start_ms = system_clock()
    result = optimize(
        log,
        predicate=predicate,
        shown_predicate=unresolved_text(spark, request.filters),
        zorder_by=zorder_by,
        full=request.is_full or zorder_by is not None,
        user_metadata=user_metadata_of(spark),
        # A Java class of delta_ops computes positions on a curve, and Connect cannot load it.
        engine=None if zorder_by and is_connect(spark) else ds.rewrite(spark),
    )
    done = Optimized(
        before=snapshot,
        predicate=predicate,
        is_ordered=zorder_by is not None,
        result=result,
        start_ms=start_ms,
        end_ms=system_clock(),
    )
    return optimize_frame(spark, log, done)


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


_NUMBER = "delta_ops number"
"""Column with the number of a partition; no user column has this name, because of the space."""


def partitions_of(spark: SparkSession, snapshot: Snapshot, filters: Sequence[str]) -> Predicate:
    """The predicate over partition columns that is true if all filters are true.

    Supports any Spark SQL filter. Spark evaluates filters that delta_ops cannot parse, once for
    each existing partition.

    Raises:
        InvalidRequestError: A filter uses other columns, or Spark cannot parse it.
    """
    if any("${" in each for each in filters):  # a session variable, or part of a column's name
        return _filter_by_spark(spark, snapshot, filters)
    try:
        predicate = all_of(parse_predicate(each) for each in filters)
    except InvalidRequestError:
        return _filter_by_spark(spark, snapshot, filters)
    known = {each.lower() for each in snapshot.partition_columns}
    for name in sorted(columns(predicate)):
        if name.lower() not in known:
            raise _column_error(snapshot, name)
    return predicate


def _filter_by_spark(spark: SparkSession, snapshot: Snapshot, filters: Sequence[str]) -> Predicate:
    found = snapshot.files(
        columns=("partition_values",), partition_time_zone=session_time_zone(spark)
    )
    values = pa.Table.from_struct_array(found["partition_values"].combine_chunks())
    names = values.column_names
    if not names:
        raise InvalidRequestError(
            f"{snapshot.uri} has no partition column to filter by",
            "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        )
    partitions = values.group_by(names).aggregate([])
    numbers = pa.array(range(partitions.num_rows), pa.int64())
    rows = frame_of_arrow(spark, partitions.append_column(_NUMBER, numbers))
    validate_names(filters, spark, finder_of(snapshot.schema))
    literal = names_like_variables(snapshot.schema)
    try:
        for each in filters:
            rows = rows.where(sf.expr(escape_variables(each, literal)))
        chosen = [row[0] for row in rows.select(f"`{_NUMBER}`").collect()]
    except PySparkException as error:
        if error_condition(error) == "UNRESOLVED_COLUMN.WITH_SUGGESTION":
            parameters = error.getMessageParameters() or {}
            name = parameters.get("objectName", "").strip("`")
            raise _column_error(snapshot, name) from error
        if isinstance(error, AnalysisException):
            raise InvalidRequestError(
                f"{snapshot.uri}: the filter {' AND '.join(filters)!r} cannot be used "
                f"({reason_of(error)})"
            ) from error
        raise
    wanted = partitions.take(pa.array(chosen, pa.int64())).to_pylist()
    each_one = [
        all_of(
            Column((name,)).is_null() if value is None else Column((name,)) == value
            for name, value in row.items()
        )
        for row in wanted
    ]
    return reduce(or_, each_one) if each_one else Always(False)


def _column_error(snapshot: Snapshot, name: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{snapshot.uri}: Predicate references non-partition column '{name}'. Only the partition "
        f"columns may be referenced: [{', '.join(snapshot.partition_columns)}]",
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
    )
