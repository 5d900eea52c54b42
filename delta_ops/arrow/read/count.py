"""Count the rows of a table, from the log where it has the counts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from functools import partial

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.read.data_file import num_rows
from delta_ops.arrow.read.file_values import plan_partitioning
from delta_ops.arrow.read.scan import open_columns, stored_file_of, to_batches
from delta_ops.log import Snapshot, Source, plan_scan, snapshot_of
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.storage.concurrency import run_parallel


def count_rows(
    source: Source,
    predicate: Predicate | Expression | str | None = None,
    *,
    version: int | None = None,
    timestamp: str | date | None = None,
    ref: str | None = None,
    partition_time_zone: str = "UTC",
) -> int:
    """Count the rows of a version or snapshot, or the rows that match a predicate.

    Without a predicate, only files without a row count in the log are opened.

    Raises:
        InvalidRequestError: A column does not exist, or the predicate does not fit the table.
        DataFileError: A data file or a deletion vector is missing or unreadable.

    Examples:
        >>> da.count_rows("lake/orders"), da.count_rows("lake/orders", col("price") > 15)
        (3, 2)
    """
    validate_arguments(count_rows, locals())
    snapshot, _ = open_columns(snapshot_of(source, version, timestamp, ref), None)
    if predicate is not None:
        zone = partition_time_zone
        return sum(map(len, to_batches(snapshot, [], predicate, partition_time_zone=zone)))
    return num_live_rows(snapshot, plan_scan(snapshot))


def num_live_rows(snapshot: Snapshot, adds: Iterable[AddFile]) -> int:
    """Count the rows of live files; opens only files whose statistics lack the row count."""
    known = 0
    uncounted: list[AddFile] = []
    for add in adds:
        stats = parse_stats(add.stats)
        if stats is None or stats.num_records is None:
            uncounted.append(add)
        else:
            known += stats.num_records
        if add.deletion_vector:
            known -= add.deletion_vector.cardinality
    partitioning = plan_partitioning(StructType(), snapshot.definition, "UTC")
    files = [stored_file_of(add, partitioning, snapshot.uri) for add in uncounted]
    return known + sum(run_parallel(partial(num_rows, snapshot), files))
