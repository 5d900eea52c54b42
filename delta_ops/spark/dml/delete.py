"""Delete: removes matching rows by deletion vectors or by rewriting files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from delta_ops.log import Snapshot
from delta_ops.spark.dml.changed_rows import record_row_changes, write_changed
from delta_ops.spark.dml.touched_files import MATCHES, find_touched, mark_matching
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.expressions.conditions import Condition, condition_of
from delta_ops.spark.read.read import pad_columns, read_kept, read_numbered
from delta_ops.spark.session.call_sites import omitting_call_sites
from delta_ops.transaction import Transaction
from delta_ops.transaction.requests import DeleteRequest
from delta_ops.transaction.row_changes import Changed, Touched, TouchedFile, delete_metrics


@dataclass(frozen=True, slots=True)
class PlannedDelete:
    """See `PlannedChange`."""

    spark: SparkSession
    condition: Condition

    @property
    def text(self) -> str:
        """See `PlannedChange`."""
        return self.condition.selection.text

    @omitting_call_sites()
    def change_rows(self, changed: Changed) -> dict[str, int]:
        """See `PlannedChange`."""
        spark, condition = self.spark, self.condition
        transaction, snapshot = changed.transaction, changed.snapshot
        transaction.read(condition.selection.implied, changes_rows=True)
        by_vectors = transaction.definition.properties.deletion_vectors
        names_rows = by_vectors or not condition.is_stable
        touched = find_touched(
            spark, snapshot, condition, transaction.on_event, names_rows=names_rows
        )
        changed.remove(touched.matched)
        num_copied = 0
        if by_vectors:
            changed.mark_deleted(touched.mixed)
        elif touched.mixed:
            mixed = [each.file for each in touched.mixed]
            changed.remove(mixed)
            survivors = _survivors(spark, snapshot, touched.mixed, condition)
            num_copied = write_changed(changed, survivors, among=None).num_rows
        if touched.mixed and transaction.definition.has_change_feed:
            record_row_changes(
                changed, [("delete", _deleted_rows(spark, snapshot, touched, condition))]
            )
        marked = touched.mixed if by_vectors else ()
        return delete_metrics(changed, touched.num_rows, num_copied, marked)


def plan_delete(
    spark: SparkSession, request: DeleteRequest, transaction: Transaction
) -> PlannedDelete:
    """See `Engine.plan_change`."""
    table, now_ms = transaction.log.uri, transaction.clock()
    schema, alias = transaction.schema, request.target_alias
    condition = condition_of(request.predicate, spark, schema, now_ms, table, alias)
    return PlannedDelete(spark, condition)


def _survivors(
    spark: SparkSession, snapshot: Snapshot, mixed: Sequence[TouchedFile], condition: Condition
) -> DataFrame:
    if condition.is_stable:
        rows = read_kept(spark, snapshot, [each.file for each in mixed])
        rows = pad_columns(rows, snapshot.schema)
        return condition.apply_alias(rows).filter(~condition.column)
    rows = mark_matching(spark, snapshot, mixed, condition)
    return rows.filter(~named_column(MATCHES))


def _deleted_rows(
    spark: SparkSession, snapshot: Snapshot, touched: Touched, condition: Condition
) -> DataFrame:
    rows = mark_matching(spark, snapshot, touched.mixed, condition)
    some = rows.filter(named_column(MATCHES)).drop(MATCHES)
    return some.unionAll(read_numbered(spark, snapshot, touched.matched))
