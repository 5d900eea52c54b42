"""Update rows by Spark: files with the new values take the place of those before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.arguments import validate_arguments
from delta_ops.errors import naming_table
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.spark.dml.assignments import Assigned, are_stable, assigned_columns, fit_values
from delta_ops.spark.dml.changed_rows import (
    CHANGED,
    assign,
    figure_of,
    follow,
    misfit_checks,
    pin,
    tell_rows,
    write_changed,
)
from delta_ops.spark.dml.touched_files import MATCHES, find_touched, mark_matching
from delta_ops.spark.empty_rows import empty_rows
from delta_ops.spark.expressions.analysis import validate_of_one_row
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.expressions.conditions import (
    Condition,
    condition_of,
    finder_with_alias,
    validate_names,
)
from delta_ops.spark.places import reach
from delta_ops.spark.read.read import read_numbered
from delta_ops.spark.session.call_sites import omitting_call_sites
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.write.data_files import discard
from delta_ops.transaction import DEFAULT_HOOKS, CommitResult, Hook, Txn
from delta_ops.transaction.changeable import validate_assigned
from delta_ops.transaction.merge import values_by_path
from delta_ops.transaction.row_changes import (
    Changed,
    RowChange,
    Touched,
    commit_change,
    open_for_change,
    update_metrics,
)
from delta_ops.transaction.write import Target

_UPDATED = "updated"


class _Update(NamedTuple):
    spark: SparkSession
    snapshot: Snapshot
    condition: Condition
    assigned: Assigned
    empty: DataFrame
    """Without rows, with the table's columns."""


def update(
    spark: SparkSession,
    target: Target,
    assignments: Mapping[str, Any],
    predicate: Predicate | Expression | Column | str | None = None,
    *,
    target_alias: str | None = None,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    on_event: OnEvent = ignore,
) -> CommitResult:
    """Give columns new values in the rows for which the predicate is true, and commit.

    Where no row matches, nothing is committed, and the result's version is None.

    Args:
        target: Where the table is, or a transaction to add to and commit.
        assignments: By column a text of Spark's SQL over the row's old values, such as
            `"price * 2"`, an expression or a Column, or a Python value of another kind, taken as it
            is; `lit("text")` is a text, None is null.
        predicate: As `col` or `parse_predicate` make it, an expression, a text of Spark's SQL or a
            Column; None: all rows.
        target_alias: What the table is called in predicate and assignments, if it is.
        txn: Application id and version: an update that the table holds already is not done again.
        user_metadata: Any text, kept in the commit.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: An argument does not fit the table, a value overflows, a row would
            break a rule of the table, or the table is append-only.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table uses what this engine cannot write.
    """
    validate_arguments(update, locals())
    transaction, snapshot = open_for_change(target, storage_options, on_event, "updated", "spark")
    reach(spark, transaction.log.storage)
    transaction.partition_time_zone = session_time_zone(spark)
    schema, table = snapshot.schema, snapshot.uri
    with naming_table(table):
        condition = condition_of(predicate, spark, schema, transaction.clock(), table, target_alias)
        values = values_by_path(assignments, target_alias, schema)
        validate_names(values.values(), spark, finder_with_alias(schema, target_alias))
        columns = assigned_columns(values, schema, named_column, table)
        validate_assigned(columns, schema, table)
        empty = condition.apply_alias(empty_rows(spark, schema))
        validate_of_one_row(columns, empty, table)
        assigned = fit_values(columns, empty, snapshot.definition, table, is_update=True)
        planned = _Update(spark, snapshot, condition, assigned, empty)
    change = RowChange(
        operation="UPDATE",
        parameters={"predicate": [] if predicate is None else [condition.text]},
        txn=txn,
        user_metadata=user_metadata,
        hooks=hooks,
    )
    return commit_change(transaction, change, partial(_update, planned), discard)


@omitting_call_sites()
def _update(planned: _Update, changed: Changed) -> dict[str, int]:
    planned = planned._replace(snapshot=changed.snapshot)
    spark, snapshot, condition, assigned, empty = planned
    transaction = changed.transaction
    transaction.read_to_change(condition.implied)
    by_vectors = transaction.properties.deletion_vectors
    touched = find_touched(
        spark,
        snapshot,
        condition,
        transaction.on_event,
        names_rows=by_vectors or not condition.is_stable,
    )
    if not touched.files:
        return update_metrics(changed, 0, 0, () if by_vectors else None)
    tells = transaction.definition.has_change_feed
    updated = _assign(planned, _matching_rows(planned, touched))
    if tells and not are_stable(assigned, empty):
        updated = pin(updated)  # readers of the feed are told the values that the rows have
        others = _assign(planned, _other_rows(planned, touched))
        rows = updated if by_vectors else others.unionAll(updated)
    else:
        rows = updated if by_vectors else _assign(planned, _all_rows(planned, touched))
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
    if tells:
        before = _matching_rows(planned, touched)
        tell_rows(changed, [("update_preimage", before), ("update_postimage", updated)])
    num_updated = figure_of(written, _UPDATED)
    marked = touched.mixed if by_vectors else None
    return update_metrics(changed, num_updated, written.num_rows - num_updated, marked)


def _assign(planned: _Update, rows: DataFrame) -> DataFrame:
    definition, table = planned.snapshot.definition, planned.snapshot.uri
    changed = named_column(CHANGED)
    new = planned.assigned.values
    values = {
        each.name: sf.when(changed, new[each.name]).otherwise(named_column(each.name))
        if each.name in new
        else named_column(each.name)
        for each in tracked_definition(definition, table).schema.fields
    }
    misfits = [(changed & is_broken, said) for is_broken, said in planned.assigned.misfits]
    assigned = {name.lower(): changed for name in new}
    named = planned.condition.apply_alias(rows)
    return follow(assign(named, values, misfits, changed), assigned.get, definition, table)


def _all_rows(planned: _Update, touched: Touched) -> DataFrame:
    """The rows of touched files, `CHANGED` where they match."""
    rows = mark_matching(planned.spark, planned.snapshot, touched.mixed, planned.condition)
    marked = rows.withColumnRenamed(MATCHES, CHANGED)
    return marked.unionAll(_rows_of(planned, touched.matched))


def _matching_rows(planned: _Update, touched: Touched) -> DataFrame:
    """The rows of touched files that match."""
    rows = mark_matching(planned.spark, planned.snapshot, touched.mixed, planned.condition)
    some = rows.filter(named_column(MATCHES)).withColumnRenamed(MATCHES, CHANGED)
    return some.unionAll(_rows_of(planned, touched.matched))


def _other_rows(planned: _Update, touched: Touched) -> DataFrame:
    """The rows of touched files that do not match."""
    rows = mark_matching(planned.spark, planned.snapshot, touched.mixed, planned.condition)
    return rows.filter(~named_column(MATCHES)).withColumnRenamed(MATCHES, CHANGED)


def _rows_of(planned: _Update, files: Sequence[AddFile]) -> DataFrame:
    """The rows of files of which every row matches."""
    rows = read_numbered(planned.spark, planned.snapshot, files)
    return rows.withColumn(CHANGED, sf.lit(True))
