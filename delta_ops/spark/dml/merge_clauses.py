"""Merge clauses: what becomes of a row of the table, or of the source, as Spark decides it.

The clauses for rows of the table are numbered in the order in which they decide, those for rows
that meet one of the source first; those for inserts are numbered by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.planning.given_columns import given_values, taken_columns
from delta_ops.protocol.expression.resolution import Find
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.dml.assignments import Assigned, assigned_columns, fit_values
from delta_ops.spark.expressions.analysis import reason_of, validate_of_one_row
from delta_ops.spark.expressions.columns import named_column, quote
from delta_ops.spark.expressions.conditions import (
    SparkCondition,
    is_true,
    validate_condition,
    validate_names,
)
from delta_ops.transaction.requests import Action, Clause, Occasion

CLAUSE = "delta_ops clause"
"""The number of the clause that decides of a row, null for none; no table's name, for the space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClause:
    """A clause over the columns of both sides, each under its alias."""

    occasion: Occasion
    action: Action
    predicate: SparkCondition | None
    """As given; None: always."""
    takes_all: bool
    assigned: Assigned | None
    """New values; None of a deletion."""

    @property
    def condition(self) -> Column:
        """Whether it decides of a row for which it is meant."""
        return sf.lit(True) if self.predicate is None else is_true(self.predicate.column)

    @property
    def names(self) -> frozenset[str]:
        """The columns that get values."""
        return frozenset(self.assigned.values) if self.assigned else frozenset()

    @property
    def unfilled(self) -> PlannedClause:
        """The clause with values of partition columns as they are given, empty ones too."""
        assert self.assigned
        values = {**self.assigned.values, **self.assigned.unfilled}
        return replace(self, assigned=self.assigned._replace(values=values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Both sides of a merge, of which no row is read."""

    target: DataFrame
    """Without rows, under its alias."""
    source: DataFrame
    """Under its alias."""
    target_alias: str
    source_alias: str
    source_schema: StructType

    def rows_of(self, occasion: Occasion) -> DataFrame:
        """The columns that there are on an occasion."""
        match occasion:
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
    unmatchable: Collection[str],
) -> PlannedClause:
    """The clause with its names found.

    Args:
        clause: As given.
        sides: The columns of both.
        find: Finds columns of both.
        definition: The table as the merge leaves it.
        table: For messages.
        unmatchable: Keys that no row may leave empty.

    Raises:
        InvalidRequestError: A name, type or value does not fit.
    """
    wanted = definition.schema
    rows = sides.rows_of(clause.occasion)
    predicate: SparkCondition | None = clause.predicate
    if predicate is not None:
        predicate = predicate.naming(wanted, sides.source_schema)
        validate_condition(predicate, rows, table, find)
        _validate_alias(predicate.column, predicate.text, clause, sides, table)
    assigned, is_update = None, clause.action == "update"
    if clause.action != "delete":
        if clause.takes_all:
            taken = taken_columns(clause, sides.source_schema, wanted, table)
            columns = {name: sides.source_column(each) for name, each in taken.items()}
        else:
            values = given_values(clause, sides.target_alias, wanted)
            validate_names(values.values(), rows.sparkSession, find)
            columns = assigned_columns(
                values,
                wanted,
                sides.target_column,
                table,
                sides.source_schema,
                is_whole=is_update,
            )
            validate_of_one_row(columns, rows, table)
            for name, value in columns.items():
                _validate_alias(value, f"value of {name}", clause, sides, table)
        assigned = fit_values(
            columns, rows, definition, table, is_update=is_update, unmatchable=unmatchable
        )
    return PlannedClause(
        occasion=clause.occasion,
        action=clause.action,
        predicate=predicate,
        takes_all=clause.takes_all,
        assigned=assigned,
    )


def _validate_alias(column: Column, said: str, clause: Clause, sides: Sides, table: str) -> None:
    """Refuse a name that both sides have, where one of them has no row.

    Rows are told apart by a join, in which Spark finds names of both.

    Raises:
        InvalidRequestError: With the condition or the column.
    """
    if clause.occasion != "not matched by source":
        return
    try:
        _ = sides.rows_of("matched").select(column).schema
    except PySparkException as error:
        raise InvalidRequestError(
            f"{table}: {said!r} of rows that the source lacks has a name that both sides have "
            f"({reason_of(error)}); write it with the target's alias, {sides.target_alias}.name"
        ) from error


def choose_clause(clauses: Sequence[tuple[int, Column, PlannedClause]]) -> Column:
    """The number of the first clause that decides of a row; null where none does.

    Args:
        clauses: Numbers, whether a row is one of those for which the clause is meant, and clauses.
    """
    chosen = sf.lit(None).cast("int")
    for number, is_meant, clause in reversed(clauses):
        chosen = sf.when(is_meant & clause.condition, sf.lit(number)).otherwise(chosen)
    return chosen


def values_by_clause(
    clauses: Mapping[int, PlannedClause], name: str, otherwise: Mapping[int, Column] | Column
) -> Column:
    """The value of a column in rows of which clauses have decided.

    Args:
        clauses: By number.
        name: The column.
        otherwise: Its value by the clauses that give it none.
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
    """Whether one of these clauses has decided of a row; false where none has."""
    clause = named_column(CLAUSE)
    return reduce(or_, map(clause.eqNullSafe, numbers)) if numbers else sf.lit(False)


def flags_of_misfits(
    clauses: Mapping[int, PlannedClause],
) -> list[tuple[Column, str]]:
    """Whether a clause's value does not fit, and what to say of it."""
    return [
        (is_among([number]) & is_broken, message)
        for number, clause in clauses.items()
        if clause.assigned is not None
        for is_broken, message in clause.assigned.misfits
    ]


def where_assigned(clauses: Mapping[int, PlannedClause], name: str) -> Column | None:
    """Where a column has values of clauses, by its name in lower case; None: nowhere."""
    numbers = [
        number
        for number, clause in clauses.items()
        if name in {each.lower() for each in clause.names}
    ]
    return is_among(numbers) if numbers else None
