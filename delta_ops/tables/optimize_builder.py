"""DeltaOptimizeBuilder: an optimize in the words of delta-spark."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops.clock import system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.maintenance import optimize
from delta_ops.protocol.predicate import Predicate, all_of, columns, parse_predicate
from delta_ops.tables import given
from delta_ops.tables.exceptions import translating
from delta_ops.tables.optimize_metrics import Optimized, optimize_frame


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest:
    """An optimize as it was asked for up to here."""

    spark: SparkSession
    log: DeltaLog
    filters: tuple[str, ...] = ()


class DeltaOptimizeBuilder:
    """An optimize, of some partitions or all; the table's files are compacted or ordered."""

    def __init__(self, request: OptimizeRequest) -> None:
        self._request = request

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:  # noqa: N803
        """Take only the partitions for which a condition over partition columns is true."""
        asked = given.text(partitionFilter, "A filter of partitions")
        request = self._request
        return DeltaOptimizeBuilder(replace(request, filters=(*request.filters, asked)))

    @translating
    def executeCompaction(self) -> DataFrame:  # noqa: N802
        """Put small files together; what was done, as a row of the path and its metrics."""
        return _execute(self._request, ())

    @translating
    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:  # noqa: N802
        """Order rows by several columns at once; what was done, as `executeCompaction` says it."""
        return _execute(self._request, given.names(cols, "A column to order by"))


def _execute(request: OptimizeRequest, zorder_by: tuple[str, ...]) -> DataFrame:
    log, spark = request.log, request.spark
    snapshot = log.snapshot()
    for name in zorder_by:
        if name.lower() in {each.lower() for each in snapshot.partition_columns}:
            raise InvalidRequestError(
                f"{log.uri}: {name} is a partition column. Z-Ordering can only be performed on "
                "data columns"
            )
    if zorder_by:
        raise InvalidRequestError(f"{log.uri}: rows cannot be ordered yet; compact the files")
    predicate = _partitions(request.filters, snapshot.partition_columns, log.uri)
    start_ms = system_clock()
    result = optimize(log, predicate=predicate, engine=ds.rewrite(spark))
    done = Optimized(
        before=snapshot,
        predicate=predicate,
        is_ordered=bool(zorder_by),
        result=result,
        start_ms=start_ms,
        end_ms=system_clock(),
    )
    return optimize_frame(spark, log, done)


def _partitions(
    filters: tuple[str, ...], partition_columns: tuple[str, ...], table: str
) -> Predicate | None:
    """The predicate that filters stand for; None: there is none."""
    predicate = all_of(parse_predicate(each) for each in filters)
    known = {each.lower() for each in partition_columns}
    for name in sorted(columns(predicate)):
        if name.lower() not in known:
            raise InvalidRequestError(
                f"{table}: Predicate references non-partition column '{name}'. Only the partition "
                f"columns may be referenced: [{', '.join(partition_columns)}]"
            )
    return predicate if filters else None
