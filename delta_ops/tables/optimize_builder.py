"""DeltaOptimizeBuilder: delta-spark's builder for optimize."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops.clock import system_clock
from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.log import DeltaLog
from delta_ops.maintenance import optimize
from delta_ops.spark.expressions.analysis import unresolved_text
from delta_ops.spark.session.settings import user_metadata_of
from delta_ops.spark.versions import is_connect
from delta_ops.tables.argument_checks import check_names, check_text
from delta_ops.tables.exceptions import translating
from delta_ops.tables.optimize_metrics import Optimized, optimize_frame
from delta_ops.tables.partitions import partitions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest:
    """The optimize that the builder has collected so far."""

    spark: SparkSession
    log: DeltaLog
    filters: tuple[str, ...] = ()


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
                "data columns"
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
        full=zorder_by is not None,
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
