"""Merge clauses: compiles each clause of a merge to Spark columns.

A clause is for one kind of rows: matched rows, source rows without a match, or rows of the table
without a match. Clauses for rows of the table are numbered in the order of their evaluation: first
the clauses for matched rows, then the clauses for rows without a match. Insert clauses have their
own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.planning.assigned_columns import assigned_values, is_sql_text, taken_columns
from delta_ops.planning.merge_columns import NO_KEYS
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.resolution import Find
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.assignments import Assigned, assigned_columns, fit_values
from delta_ops.spark.casting import FitValue, Misfit
from delta_ops.spark.expressions.analysis import reason_of, validate_values
from delta_ops.spark.expressions.columns import named_column, quote
from delta_ops.spark.expressions.conditions import (
    SparkCondition,
    is_true,
    qualify,
    validate_condition,
    validate_names,
)
from delta_ops.transaction.requests import Action, Clause, ClauseKind

CLAUSE = "delta_ops clause"
"""Number of the clause that applies to a row, or null; the space avoids table column names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClause:
    """A clause over the columns of both sides, each under its alias."""

    kind: ClauseKind
    action: Action
    predicate: SparkCondition | None
    """The condition of the clause. None: it always applies."""
    takes_all: bool
    assigned: Assigned | None
    """New values; None for a deletion."""

    @property
    def condition(self) -> Column:
        """Whether the clause applies to a row of the kind that it is for."""
        return sf.lit(True) if self.predicate is None else is_true(self.predicate.column)

    @property
    def names(self) -> frozenset[str]:
        """Columns that the clause assigns."""
        return frozenset(self.assigned.values) if self.assigned else frozenset()

    @property
    def unfilled(self) -> PlannedClause:
        """The clause with partition values as they are before empty strings become null."""
        assert self.assigned
        values = {**self.assigned.values, **self.assigned.unfilled}
        return replace(self, assigned=self.assigned._replace(values=values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Both sides of a merge, for name resolution; no row is read."""

    target: DataFrame
    """Without rows, under its alias."""
    source: DataFrame
    """Under its alias."""
    target_alias: str
    source_alias: str
    source_schema: StructType

    def rows_of(self, kind: ClauseKind) -> DataFrame:
        """The columns that a clause for this kind of rows may use."""
        match kind:
            case "matched":
                return self.target.crossJoin(self.source)
            case "not matched":
                return self.source
        return self.target

    def source_column(self, name: str) -> Column:
        """A column of the source."""
        return sf.col(f"{quote(self.source_alias)}.{quote(name)}")

    def target_column(self, name: str) -> Column:
        """A column of the target."""
        return sf.col(f"{quote(self.target_alias)}.{quote(name)}")


def plan_clause(
    clause: Clause,
    sides: Sides,
    find: Find,
    definition: TableDefinition,
    table: str,
    unmatchable: Mapping[str, int],
    fit_value: FitValue,
) -> PlannedClause:
    """Resolve the names of a clause.

    Args:
        clause: The clause of the request.
        sides: Columns of both sides.
        find: Finds a column of the sides that have a row in this clause.
        definition: The table after the merge.
        table: For messages.
        unmatchable: Minimum length of inserted keys, by column. A shorter key would match no
            source row.
        fit_value: Converts a value to the type of its column.

    Raises:
        InvalidRequestError: A name, type or value does not fit.
    """
    wanted = definition.schema
    rows = sides.rows_of(clause.kind)
    spark, shared = rows.sparkSession, _shared_names(clause, sides, wanted)
    predicate: SparkCondition | None = clause.predicate
    if predicate is not None:
        predicate = predicate.qualify_names(sides.target_alias, shared, spark)
        predicate = predicate.naming(wanted, sides.source_schema)
        validate_condition(predicate, rows, table, find)
        _validate_alias(predicate.column, predicate.text, clause, sides, table)
    assigned, is_update = None, clause.action == "update"
    if clause.action != "delete":
        if clause.takes_all:
            taken = taken_columns(clause, sides.source_schema, wanted, table)
            columns = {name: sides.source_column(each) for name, each in taken.items()}
        else:
            values = assigned_values(clause, sides.target_alias, wanted)
            validate_names(values.values(), spark, find)
            values = {
                path: qualify(value, sides.target_alias, shared, spark)
                if is_sql_text(value) or isinstance(value, Expression)
                else value
                for path, value in values.items()
            }
            columns = assigned_columns(
                values,
                wanted,
                sides.target_column,
                table,
                sides.source_schema,
                is_whole=is_update,
            )
            validate_values(columns, rows, table, find)
            for name, value in columns.items():
                _validate_alias(value, f"value of {name}", clause, sides, table)
        keys = NO_KEYS if is_update else unmatchable
        assigned = fit_values(
            columns, rows, definition, table, fit_value, is_update=is_update, unmatchable=keys
        )
    return PlannedClause(
        kind=clause.kind,
        action=clause.action,
        predicate=predicate,
        takes_all=clause.takes_all,
        assigned=assigned,
    )


def _shared_names(clause: Clause, sides: Sides, target: StructType) -> Set[str]:
    """Columns of both sides in a clause that has a row of the target only; else nothing.

    Such a clause means the target's columns, but Spark evaluates it over a join of both sides.
    """
    if clause.kind != "not matched by source":
        return frozenset()
    aliases = {sides.target_alias.lower(), sides.source_alias.lower()}
    of_source = sides.source_schema.fields_by_lower_name.keys()
    return target.fields_by_lower_name.keys() & of_source - aliases


def _validate_alias(column: Column, label: str, clause: Clause, sides: Sides, table: str) -> None:
    """Reject an ambiguous name in a clause for rows that have no source row.

    The clause is evaluated over a join, where Spark finds the names of both sides.

    Raises:
        InvalidRequestError: Names the condition or the column.
    """
    if clause.kind != "not matched by source":
        return
    try:
        _ = sides.rows_of("matched").select(column).schema
    except PySparkException as error:
        raise InvalidRequestError(
            f"{table}: {label!r} in a clause for rows that the source lacks is ambiguous "
            f"({reason_of(error)}); write it with the target's alias, {sides.target_alias}.name"
        ) from error


def choose_clause(clauses: Sequence[tuple[int, Column, PlannedClause]]) -> Column:
    """Number of the first clause that applies to a row, or null.

    Args:
        clauses: For each clause: its number, the condition that a row is of its kind, the clause.
    """
    chosen = sf.lit(None).cast("int")
    for number, is_meant, clause in reversed(clauses):
        chosen = sf.when(is_meant & clause.condition, sf.lit(number)).otherwise(chosen)
    return chosen


def values_by_clause(
    clauses: Mapping[int, PlannedClause], name: str, otherwise: Mapping[int, Column] | Column
) -> Column:
    """Value of a column, depending on the clause that applies to the row.

    Args:
        clauses: By number.
        name: The column.
        otherwise: Value for clauses that do not assign the column.
    """
    number = named_column(CLAUSE)
    made = sf.lit(None) if isinstance(otherwise, Mapping) else otherwise
    for each, clause in clauses.items():
        assert clause.assigned is not None
        value = clause.assigned.values.get(name)
        if value is None and isinstance(otherwise, Mapping):
            value = otherwise[each]
        if value is not None:
            made = sf.when(number == each, value).otherwise(made)
    return made


def is_among(numbers: Sequence[int]) -> Column:
    """Whether one of these clauses applies to a row; false if no clause applies."""
    clause = named_column(CLAUSE)
    return reduce(or_, map(clause.eqNullSafe, numbers)) if numbers else sf.lit(False)


def flags_of_misfits(
    clauses: Mapping[int, PlannedClause],
) -> list[Misfit]:
    """Checks that the values of clauses fit, in rows to which the clause applies."""
    return [
        each._replace(is_broken=is_among([number]) & each.is_broken)
        for number, clause in clauses.items()
        if clause.assigned is not None
        for each in clause.assigned.misfits
    ]


def where_assigned(clauses: Mapping[int, PlannedClause], name: str) -> Column | None:
    """Condition that a clause assigns the column; None: no clause does.

    Args:
        name: The column, in lower case.
    """
    numbers = [
        number
        for number, clause in clauses.items()
        if name in {each.lower() for each in clause.names}
    ]
    return is_among(numbers) if numbers else None
