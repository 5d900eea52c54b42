"""Explain a read: the files that it would open, and how they were found."""

from __future__ import annotations

from datetime import date

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.read.scan import open_columns, split_condition
from delta_ops.log import ScanPlan, Source, plan_scan, snapshot_of
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate


def explain_scan(
    source: Source,
    predicate: Predicate | Expression | str | None = None,
    *,
    version: int | None = None,
    timestamp: str | date | None = None,
    ref: str | None = None,
    partition_time_zone: str = "UTC",
) -> ScanPlan:
    """Return the files that `to_table` would open for a predicate, and how they were found.

    Opens no data file. `print` the plan to see how many files each step left.

    Args:
        predicate: As for `to_table`. `ScanPlan.predicate` is the part of it that selects files.

    Raises:
        InvalidRequestError: A column does not exist, or the predicate does not fit the table.

    Examples:
        >>> plan = da.explain_scan("lake/orders", col("id") > 3)
        >>> [(step.name, step.columns, step.num_files) for step in plan.steps]
        [('live files', (), 1), ('statistics', ('id',), 0)]
        >>> len(plan), plan.size_bytes, plan.max_rows
        (0, 0, 0)
    """
    validate_arguments(explain_scan, locals())
    snapshot, _ = open_columns(snapshot_of(source, version, timestamp, ref), None)
    implied, _ = split_condition(predicate, snapshot)
    return plan_scan(snapshot, implied, partition_time_zone=partition_time_zone)
