"""Merge planning: resolves a merge over the columns of both sides and finds the rows it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.planning.assigned_columns import new_columns
from delta_ops.planning.merge_columns import (
    NO_KEYS,
    SIDES,
    MergeColumns,
    SplitCondition,
    implied_on_target,
    rows_to_read,
    split_condition,
    unmatchable_keys,
)
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.nodes import Column as ColumnNode
from delta_ops.protocol.expression.resolution import locate
from delta_ops.protocol.expression.time_functions import bind_time
from delta_ops.protocol.predicate import TRUE
from delta_ops.protocol.schema import collation, find_field
from delta_ops.protocol.schema.evolution import validate_unique_names
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.assignments import are_stable
from delta_ops.spark.casting import FitValue
from delta_ops.spark.dml.merge_clauses import PlannedClause, Sides, plan_clause
from delta_ops.spark.dml.merge_source import Covered, Key, cover
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.expressions.conditions import SparkCondition, validate_condition
from delta_ops.spark.schema import data_schema_from_spark, describe, empty_rows
from delta_ops.spark.session.progress import OnTasks, tasks_reporter
from delta_ops.transaction import Transaction
from delta_ops.transaction.mutability import validate_assigned
from delta_ops.transaction.requests import MergeRequest
from delta_ops.transaction.write import merge_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """A merge, resolved over the columns of both sides."""

    spark: SparkSession
    snapshot: Snapshot
    definition: TableDefinition
    """The table as the commit will leave it."""
    condition: SparkCondition
    keys: SplitCondition | None
    """The condition as `split_condition` splits it; None if only Spark can evaluate it."""
    columns: MergeColumns
    sides: Sides
    clauses: Mapping[int, PlannedClause]
    """Clauses for rows of the table, by number."""
    inserts: Mapping[int, PlannedClause]
    source: DataFrame
    """Computed once by `pin`."""
    on_tasks: OnTasks

    @property
    def updates(self) -> dict[int, PlannedClause]:
        """Clauses that update rows of the table."""
        return {number: each for number, each in self.clauses.items() if each.assigned}

    def expression_of(self, condition: SparkCondition) -> Expression | None:
        """The condition as a delta_ops expression; None if only Spark can evaluate it."""
        schemas = (self.definition.schema, self.sides.source_schema)
        return condition.expression_in(self.spark, schemas)

    @property
    def has_stable_values(self) -> bool:
        """Whether each evaluation is known to give the same new values."""
        return all(
            are_stable(each.assigned, self.sides.rows_of(each.kind))
            for each in self.clauses.values()
            if each.assigned is not None
        )

    @property
    def changes_unmatched_rows(self) -> bool:
        """Whether a clause may change rows that match no source row."""
        return any(each.kind == "not matched by source" for each in self.clauses.values())

    @property
    def allows_repeats(self) -> bool:
        """Whether a row may match several source rows: each of them would give the same result."""
        matched = [each for each in self.clauses.values() if each.kind == "matched"]
        match matched:
            case [PlannedClause(action="delete", predicate=None)]:
                return True
        return not matched


def plan_merge(
    request: MergeRequest,
    source: DataFrame,
    snapshot: Snapshot,
    transaction: Transaction,
    fit_value: FitValue,
) -> MergePlan:
    """Resolve the names of a merge; reads no row.

    Args:
        source: Numbered rows.
        snapshot: The table before the merge.
        transaction: Receives the columns that the merge adds.
        fit_value: Converts a value to the type of its column.

    Raises:
        InvalidRequestError: A name, type or value does not fit.
    """
    table, spark = snapshot.uri, source.sparkSession
    source_schema = data_schema_from_spark(request.source.schema)
    validate_unique_names(source_schema, table)
    if request.merge_schema:
        alias = request.target_alias
        added = new_columns(request.clauses, source_schema, snapshot.schema, alias)
        merge_columns(transaction, describe(added, request.source.schema))
    definition = transaction.definition
    empty = empty_rows(spark, definition.schema)
    sides = Sides(
        target=empty.alias(request.target_alias),
        source=source.alias(request.source_alias),
        target_alias=request.target_alias,
        source_alias=request.source_alias,
        source_schema=source_schema,
    )
    condition: SparkCondition = request.predicate.naming(definition.schema, source_schema)
    columns = MergeColumns(
        target=snapshot.schema,
        source=source_schema,
        target_alias=request.target_alias,
        source_alias=request.source_alias,
    )
    validate_condition(condition, sides.rows_of("matched"), table, columns.finder())
    expression = condition.expression_in(spark, (definition.schema, source_schema))
    keys = None if expression is None else _split(expression, columns, transaction.clock())
    unmatchable = NO_KEYS if keys is None else unmatchable_keys(keys.keys, columns, definition)
    find = columns.finder
    planned = [
        plan_clause(each, sides, find(SIDES[each.kind]), definition, table, unmatchable, fit_value)
        for each in request.clauses
    ]
    of_rows = [
        each
        for kind in ("matched", "not matched by source")
        for each in planned
        if each.kind == kind
    ]
    inserts = [each for each in planned if each.kind == "not matched"]
    updated = {name for each in of_rows for name in each.names}
    validate_assigned(updated, definition.schema, table)
    return MergePlan(
        spark=spark,
        snapshot=snapshot,
        definition=definition,
        condition=condition,
        keys=keys,
        columns=columns,
        sides=sides,
        clauses=dict(enumerate(of_rows)),
        inserts=dict(enumerate(inserts)),
        source=source,
        on_tasks=tasks_reporter(transaction.on_event, table, "merge"),
    )


def _split(condition: Expression, columns: MergeColumns, now_ms: int) -> SplitCondition | None:
    try:
        return split_condition(condition, columns, now_ms)
    except InvalidRequestError:  # no equality, or only Spark can evaluate it
        return None


def find_read(plan: MergePlan, now_ms: int) -> Covered:
    """Find the table rows that can affect the result, as precisely as the conditions allow."""
    covered = _cover_matches(plan)
    conditions = [
        each.predicate for each in plan.clauses.values() if each.kind == "not matched by source"
    ]
    known = [None if each is None else plan.expression_of(each) for each in conditions]
    others = [None if each is None else bind_time(each.root, now_ms) for each in known]
    return covered._replace(predicate=rows_to_read(covered.predicate, others, plan.columns))


def _cover_matches(plan: MergePlan) -> Covered:
    if plan.keys is None or plan.keys.is_null_safe:
        return Covered(TRUE)
    (keys, residual, _), columns = plan.keys, plan.columns
    find = columns.finder()
    usable = []
    for target, value in keys:
        if isinstance(target, ColumnNode) and isinstance(value, ColumnNode):
            of_target = locate(find(target.path).path[1:], columns.target)
            if collation(find_field(columns.target, of_target.path[0])) is not None:
                continue  # byte statistics do not apply to a collation
            of_source = locate(find(value.path).path[1:], columns.source)
            column = reduce(
                lambda parent, name: parent.getField(name),
                of_source.path[1:],
                named_column(of_source.path[0]),
            )
            usable.append(Key(of_target.path, of_target.data_type, column, of_source.data_type))
    covered = cover(plan.source, usable, plan.on_tasks)
    if residual is not None:
        covered = covered._replace(numbers=None)
    implied = implied_on_target(residual, columns)
    return covered if implied is TRUE else covered._replace(predicate=covered.predicate & implied)
