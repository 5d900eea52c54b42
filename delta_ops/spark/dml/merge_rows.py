"""Rows of a merge: those of the table with their new values, and new ones of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.schema import LONG, StructField, StructType
from delta_ops.spark.dml.changed_rows import (
    CHANGED,
    assign,
    follow,
    misfit_checks,
    tell_rows,
    write_changed,
)
from delta_ops.spark.dml.merge_clauses import (
    CLAUSE,
    choose_clause,
    flags_of_misfits,
    is_among,
    values_by_clause,
    where_assigned,
)
from delta_ops.spark.dml.merge_planning import MergePlan
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.read.file_index import ROW_NUMBER
from delta_ops.spark.read.read import NUMBER, read_files
from delta_ops.spark.row_checks import RowCheck
from delta_ops.spark.write.missing_columns import CompletedRows, gather_tasks, missing_values
from delta_ops.spark.write.table_columns import fit, null_of
from delta_ops.transaction.row_changes import Changed


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """The rows of the source that meet none of the table, as clauses make them."""

    completed: CompletedRows
    checks: Sequence[RowCheck]


def make_new_rows(plan: MergePlan, unmet: DataFrame, now_ms: int) -> NewRows:
    """The rows that the merge inserts.

    Args:
        unmet: Rows of the source that meet none of the table.
        now_ms: Time of the merge, in milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: A column that no clause gives a value can have none.
    """
    definition, table = plan.definition, plan.snapshot.uri
    chosen = choose_clause([(number, sf.lit(True), each) for number, each in plan.inserts.items()])
    rows = unmet.alias(plan.sides.source_alias).withColumn(CLAUSE, chosen)
    rows = rows.filter(named_column(CLAUSE).isNotNull())
    missing = {
        number: missing_values(each.names, definition, plan.spark, now_ms, table)
        for number, each in plan.inserts.items()
    }
    counted = {each.name: each for by in missing.values() for each in by.counted}
    if counted:
        rows = gather_tasks(rows)
    values = {
        field.name: values_by_clause(
            plan.inserts,
            field.name,
            {
                number: by.values[field.name]
                if field.name in by.values
                else null_of(field.data_type)
                for number, by in missing.items()
                if field.name not in plan.inserts[number].names
            },
        )
        for field in definition.schema.fields
    }
    misfits, first = flags_of_misfits(plan.inserts), len(flags_of_misfits(plan.updates))
    is_changed, clause = sf.lit(True).alias(CHANGED), named_column(CLAUSE)
    made = assign(rows, values, misfits, is_changed, clause, first_misfit=first)
    new = follow(made, partial(where_assigned, plan.inserts), definition, table)
    completed = CompletedRows(frame=new, counted=tuple(counted.values()), table=table)
    return NewRows(completed=completed, checks=[*misfit_checks(misfits, first), *completed.checks])


def insert(plan: MergePlan, new: NewRows, changed: Changed, *, is_told_of: bool = False) -> int:
    """Write new rows alone; how many there are.

    Args:
        is_told_of: Whether files tell readers of the feed what the merge does.
    """
    written = write_changed(
        changed,
        new.completed.frame,
        new.checks,
        new.completed.figures,
        counted=new.completed.counted_values,
        among=sf.lit(True),
    )
    if is_told_of and plan.definition.has_change_feed:  # else the files that are added tell it
        told = read_files(plan.spark, plan.snapshot, written.adds, plan.definition)
        tell_rows(changed, [("insert", told)])
    return written.num_rows


def evolve(plan: MergePlan, rows: DataFrame) -> DataFrame:
    """Rows of the table with the columns that the merge gives it."""
    before, table = plan.snapshot.definition, plan.snapshot.uri
    if plan.definition.schema == before.schema:
        return rows
    places = (NUMBER, StructField(ROW_NUMBER, LONG))
    wanted = tracked_definition(plan.definition, table).schema
    return fit(rows, StructType((*wanted.fields, *places)), table).frame


def assign_updates(plan: MergePlan, rows: DataFrame, *kept: Column) -> DataFrame:
    """Rows of the table with their new values, and whether they have such in `CHANGED`.

    Args:
        rows: Rows that stay, beside what the source has for them, with the clause that decides.
        kept: Columns that stand behind the table's.
    """
    table, updates = plan.snapshot.uri, plan.updates
    names = [f.name for f in tracked_definition(plan.definition, table).schema.fields]
    values = {
        name: values_by_clause(updates, name, plan.sides.target_column(name)) for name in names
    }
    is_changed, clause = is_among(list(updates)).alias(CHANGED), named_column(CLAUSE)
    made = assign(rows, values, flags_of_misfits(updates), is_changed, clause, *kept)
    return follow(made, partial(where_assigned, updates), plan.definition, table)
