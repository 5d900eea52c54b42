"""Merge rows: computes updated rows of the table and new rows from the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.planning.merge_columns import looks_beyond_keys, unmatchable_message
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.schema import LONG, StructField, StructType
from delta_ops.spark.casting import Misfit, fit, null_of
from delta_ops.spark.dml.changed_rows import (
    CHANGED,
    assign,
    follow,
    misfit_checks,
    record_row_changes,
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
from delta_ops.spark.expressions.conditions import is_true
from delta_ops.spark.read.file_index import ROW_NUMBER
from delta_ops.spark.read.read import NUMBER, read_files
from delta_ops.spark.row_checks import RowCheck
from delta_ops.spark.write.missing_columns import CompletedRows, gather_tasks, missing_values
from delta_ops.transaction.row_changes import Changed

_MET, _MEETS = "delta_ops met", "delta_ops meets"
"""Whether a new row matches its source row, by the assigned and by the stored values."""
_NEXT = "delta_ops next value of "


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """Rows that the merge inserts, from unmatched source rows."""

    completed: CompletedRows
    checks: Sequence[RowCheck]


def make_new_rows(plan: MergePlan, unmet: DataFrame, now_ms: int) -> NewRows:
    """Compute the rows that the merge inserts.

    Args:
        unmet: Source rows that match no row of the table.
        now_ms: Time of the merge, in milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: A column without an assigned value needs one.
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
    absent = {number: dict(by.values) for number, by in missing.items()}
    if counted:
        # One column for all clauses: in the clauses, each expression would count for itself.
        next_values = {name: by[name] for by in absent.values() for name in counted if name in by}
        rows = gather_tasks(rows).withColumns({_NEXT + n: each for n, each in next_values.items()})
        for by in absent.values():
            by.update({name: named_column(_NEXT + name) for name in counted if name in by})
    values = {
        field.name: values_by_clause(
            plan.inserts,
            field.name,
            {
                number: by.get(field.name, null_of(field.data_type))
                for number, by in absent.items()
                if field.name not in plan.inserts[number].names
            },
        )
        for field in definition.schema.fields
    }
    rows, lost = _flag_lost_matches(plan, rows, values)
    misfits = [*flags_of_misfits(plan.inserts), *lost]
    first = len(flags_of_misfits(plan.updates))
    is_changed, clause = sf.lit(True).alias(CHANGED), named_column(CLAUSE)
    made = assign(rows, values, misfits, is_changed, clause, first_misfit=first)
    new = follow(made, partial(where_assigned, plan.inserts), definition, table)
    completed = CompletedRows(frame=new, counted=tuple(counted.values()), table=table)
    return NewRows(completed=completed, checks=[*misfit_checks(misfits, first), *completed.checks])


def _flag_lost_matches(
    plan: MergePlan, rows: DataFrame, values: Mapping[str, Column]
) -> tuple[DataFrame, list[Misfit]]:
    """Find new rows that match their source row only before empty partition values become null.

    As stored they match no source row, so each later merge would insert them again. Where the keys
    cannot show this, the condition is evaluated for each new row and its source row.

    Args:
        rows: Rows of the source, with the clause that inserts them.
        values: Columns of the new rows.
    """
    clauses = {number: each.unfilled for number, each in plan.inserts.items()}
    texts = {
        name for each in plan.inserts.values() if each.assigned for name in each.assigned.unfilled
    }
    keys = plan.keys
    is_certain = keys is not None and not looks_beyond_keys(keys, plan.columns, plan.definition)
    if is_certain or not texts:
        return rows, []
    by_clause = {name: values_by_clause(clauses, name, values[name]) for name in sorted(texts)}
    flagged = rows.withColumns({_MET: sf.lit(True), _MEETS: sf.lit(False)})
    if plan.sides.target_alias.lower() not in plan.sides.source_schema.fields_by_lower_name:
        with suppress(PySparkException):  # for names that resolve only in a join
            evaluated = _evaluate_with_flag(plan, rows, {**values, **by_clause}, _MET)
            evaluated = _evaluate_with_flag(plan, evaluated, values, _MEETS)
            _ = evaluated.schema
            flagged = evaluated
    is_lost = named_column(_MET) & ~named_column(_MEETS)
    return flagged, [
        Misfit(
            is_lost & sf.coalesce(sf.length(value) == 0, sf.lit(False)), unmatchable_message(name)
        )
        for name, value in by_clause.items()
    ]


def _evaluate_with_flag(
    plan: MergePlan, rows: DataFrame, target: Mapping[str, Column], flag: str
) -> DataFrame:
    """Evaluate the merge condition between each source row and the target row with these values."""
    of_source = plan.sides.source_schema.fields_by_lower_name
    alone = {name: each for name, each in target.items() if name.lower() not in of_source}
    row = sf.struct(*(each.alias(name) for name, each in target.items()))
    flagged = rows.withColumns({**alone, plan.sides.target_alias: row})
    met = flagged.withColumn(flag, is_true(plan.condition.column))
    return met.drop(plan.sides.target_alias, *alone)


def insert(plan: MergePlan, new: NewRows, changed: Changed, *, is_recorded: bool = False) -> int:
    """Write new rows on their own; return their number.

    Args:
        is_recorded: Whether this commit has files of the change data feed.
    """
    written = write_changed(
        changed,
        new.completed.frame,
        new.checks,
        new.completed.figures,
        counted=new.completed.counted_values,
        among=sf.lit(True),
    )
    if is_recorded and plan.definition.has_change_feed:  # otherwise readers use the added files
        rows = read_files(plan.spark, plan.snapshot, written.adds, plan.definition)
        record_row_changes(changed, [("insert", rows)])
    return written.num_rows


def evolve(plan: MergePlan, rows: DataFrame) -> DataFrame:
    """Add the columns that the merge adds to the table."""
    before, table = plan.snapshot.definition, plan.snapshot.uri
    if plan.definition.schema == before.schema:
        return rows
    places = (NUMBER, StructField(ROW_NUMBER, LONG))
    wanted = tracked_definition(plan.definition, table).schema
    return fit(rows, StructType((*wanted.fields, *places)), table).frame


def assign_updates(plan: MergePlan, rows: DataFrame, *kept: Column) -> DataFrame:
    """Compute the new values of table rows; `CHANGED` is true for updated rows.

    Args:
        rows: Remaining rows, joined with their source rows and clauses.
        kept: Columns to add after the table's columns.
    """
    table, updates = plan.snapshot.uri, plan.updates
    names = [f.name for f in tracked_definition(plan.definition, table).schema.fields]
    values = {
        name: values_by_clause(updates, name, plan.sides.target_column(name)) for name in names
    }
    is_changed, clause = is_among(list(updates)).alias(CHANGED), named_column(CLAUSE)
    made = assign(rows, values, flags_of_misfits(updates), is_changed, clause, *kept)
    return follow(made, partial(where_assigned, updates), plan.definition, table)
