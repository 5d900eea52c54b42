"""Update: rewrites matching rows with new values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.log import Snapshot
from delta_ops.planning.assigned_columns import values_by_path
from delta_ops.planning.conditions import finder_with_alias
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.spark.assignments import Assigned, are_stable, assigned_columns, fit_values
from delta_ops.spark.casting import FitValue
from delta_ops.spark.dml.changed_rows import (
    CHANGED,
    assign,
    figure_of,
    follow,
    misfit_checks,
    pin,
    record_row_changes,
    write_changed,
)
from delta_ops.spark.dml.touched_files import MATCHES, find_touched, mark_matching
from delta_ops.spark.expressions.analysis import validate_values
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.expressions.conditions import (
    Condition,
    condition_of,
    validate_names,
)
from delta_ops.spark.read.read import read_numbered
from delta_ops.spark.schema import empty_rows
from delta_ops.spark.session.call_sites import omitting_call_sites
from delta_ops.transaction import Transaction
from delta_ops.transaction.mutability import validate_assigned
from delta_ops.transaction.requests import UpdateRequest
from delta_ops.transaction.row_changes import Changed, Touched, update_metrics

_UPDATED = "updated"


@dataclass(frozen=True, slots=True)
class PlannedUpdate:
    """See `PlannedChange`."""

    spark: SparkSession
    condition: Condition
    assigned: Assigned
    empty: DataFrame
    """The columns of the table, without rows."""

    @property
    def text(self) -> str:
        """See `PlannedChange`."""
        return self.condition.selection.text

    @omitting_call_sites()
    def change_rows(self, changed: Changed) -> dict[str, int]:
        """See `PlannedChange`."""
        return _update(self, changed)


def plan_update(
    spark: SparkSession, request: UpdateRequest, transaction: Transaction, fit_value: FitValue
) -> PlannedUpdate:
    """See `Engine.plan_change`."""
    definition, alias, table = transaction.definition, request.target_alias, transaction.log.uri
    schema = definition.schema
    condition = condition_of(request.predicate, spark, schema, transaction.clock(), table, alias)
    values = values_by_path(request.assignments, alias, schema)
    find = finder_with_alias(schema, alias)
    validate_names(values.values(), spark, find)
    columns = assigned_columns(values, schema, named_column, table)
    validate_assigned(columns, schema, table)
    empty = condition.apply_alias(empty_rows(spark, schema))
    validate_values(columns, empty, table, find)
    assigned = fit_values(columns, empty, definition, table, fit_value, is_update=True)
    return PlannedUpdate(spark, condition, assigned, empty)


def _update(planned: PlannedUpdate, changed: Changed) -> dict[str, int]:
    spark, snapshot, condition = planned.spark, changed.snapshot, planned.condition
    assigned, transaction = planned.assigned, changed.transaction
    transaction.read(condition.selection.implied, changes_rows=True)
    by_vectors = transaction.definition.properties.deletion_vectors
    touched = find_touched(
        spark,
        snapshot,
        condition,
        transaction.on_event,
        names_rows=by_vectors or not condition.is_stable,
    )
    if not touched.files:
        return update_metrics(changed, 0, 0, () if by_vectors else None)
    has_feed = transaction.definition.has_change_feed
    updated = _assign(planned, snapshot, _matching_rows(planned, snapshot, touched))
    if has_feed and not are_stable(assigned, planned.empty):
        updated = pin(updated)  # the feed must get the written values
        others = _assign(planned, snapshot, _other_rows(planned, snapshot, touched))
        rows = updated if by_vectors else others.unionAll(updated)
    else:
        rows = (
            updated
            if by_vectors
            else _assign(planned, snapshot, _all_rows(planned, snapshot, touched))
        )
    written = write_changed(
        changed,
        rows,
        misfit_checks(assigned.misfits),
        {_UPDATED: sf.count_if(named_column(CHANGED))},
        among=named_column(CHANGED),
    )
    changed.remove(touched.matched)
    if by_vectors:
        changed.mark_deleted(touched.mixed)
    else:
        changed.remove([each.file for each in touched.mixed])
    if has_feed:
        before = _matching_rows(planned, snapshot, touched)
        record_row_changes(changed, [("update_preimage", before), ("update_postimage", updated)])
    num_updated = figure_of(written, _UPDATED)
    marked = touched.mixed if by_vectors else None
    return update_metrics(changed, num_updated, written.num_rows - num_updated, marked)


def _assign(planned: PlannedUpdate, snapshot: Snapshot, rows: DataFrame) -> DataFrame:
    definition, table = snapshot.definition, snapshot.uri
    changed = named_column(CHANGED)
    new = planned.assigned.values
    values = {
        each.name: sf.when(changed, new[each.name]).otherwise(named_column(each.name))
        if each.name in new
        else named_column(each.name)
        for each in tracked_definition(definition, table).schema.fields
    }
    misfits = [
        each._replace(is_broken=changed & each.is_broken) for each in planned.assigned.misfits
    ]
    assigned = {name.lower(): changed for name in new}
    named = planned.condition.apply_alias(rows)
    return follow(assign(named, values, misfits, changed), assigned.get, definition, table)


def _all_rows(planned: PlannedUpdate, snapshot: Snapshot, touched: Touched) -> DataFrame:
    """All rows of touched files; `CHANGED` is true for matching rows."""
    rows = mark_matching(planned.spark, snapshot, touched.mixed, planned.condition)
    marked = rows.withColumnRenamed(MATCHES, CHANGED)
    return marked.unionAll(_rows_of(planned, snapshot, touched.matched))


def _matching_rows(planned: PlannedUpdate, snapshot: Snapshot, touched: Touched) -> DataFrame:
    """The matching rows of touched files."""
    rows = mark_matching(planned.spark, snapshot, touched.mixed, planned.condition)
    some = rows.filter(named_column(MATCHES)).withColumnRenamed(MATCHES, CHANGED)
    return some.unionAll(_rows_of(planned, snapshot, touched.matched))


def _other_rows(planned: PlannedUpdate, snapshot: Snapshot, touched: Touched) -> DataFrame:
    """The rows of touched files that do not match."""
    rows = mark_matching(planned.spark, snapshot, touched.mixed, planned.condition)
    return rows.filter(~named_column(MATCHES)).withColumnRenamed(MATCHES, CHANGED)


def _rows_of(planned: PlannedUpdate, snapshot: Snapshot, files: Sequence[AddFile]) -> DataFrame:
    """The rows of files where every row matches."""
    rows = read_numbered(planned.spark, snapshot, files)
    return rows.withColumn(CHANGED, sf.lit(True))
