"""Merge clauses: plan each clause, and choose the first clause that applies to a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.assignments import Assignments, nodes_of, plan_assignments
from delta_ops.arrow.expressions.evaluation import Rows, evaluate_condition, scatter
from delta_ops.planning.assigned_columns import assigned_values, taken_columns
from delta_ops.planning.merge_columns import SIDES, MergeColumns
from delta_ops.protocol.arrow_values import FALSE_SCALAR, scalar
from delta_ops.protocol.expression.nodes import Column, Node, columns_of
from delta_ops.protocol.expression.quotes import validate_condition
from delta_ops.protocol.expression.resolution import resolve_condition
from delta_ops.protocol.expression.time_functions import bind_time
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction.requests import Action, Clause, ClauseKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClause:
    """A clause with names resolved over the columns of both sides."""

    kind: ClauseKind
    action: Action
    condition: Node | None
    """The resolved condition; None means always."""
    parsed_condition: Node | None
    """The condition as parsed."""
    assignments: Assignments | None

    @property
    def condition_columns(self) -> tuple[Column, ...]:
        """The columns that the condition uses."""
        return () if self.condition is None else tuple(columns_of(self.condition))


def plan_clause(
    clause: Clause,
    columns: MergeColumns,
    definition: TableDefinition,
    table: str,
    now_ms: int,
    unmatchable: Mapping[str, int],
    meets: Node | None,
) -> PlannedClause:
    """Resolve the names of a clause.

    Args:
        clause: The clause as given.
        columns: The columns of both sides.
        definition: The table after the merge.
        table: For messages.
        now_ms: Time of the merge, in milliseconds since the Unix epoch.
        unmatchable: Minimum length of inserted keys, by column. A shorter key would match no
            source row.
        meets: The condition for a match. Needed if it uses a string partition column besides keys,
            because an empty string is stored as null and may then not match.

    Raises:
        InvalidRequestError: A name, type or value does not fit.
    """
    find = columns.finder(SIDES[clause.kind])
    if clause.predicate is not None:
        validate_condition(clause.predicate, find)
    parsed = bind_time(clause.predicate.root, now_ms) if clause.predicate else None
    assignments = None
    if clause.action != "delete":
        wanted = definition.schema
        nodes = _nodes(clause, columns, wanted, table, now_ms)
        assignments = plan_assignments(
            nodes,
            find,
            wanted,
            table,
            definition.partition_columns,
            is_update=clause.action == "update",
            unmatchable=unmatchable,
            meets=meets,
        )
    return PlannedClause(
        kind=clause.kind,
        action=clause.action,
        condition=None if parsed is None else resolve_condition(parsed, find),
        parsed_condition=parsed,
        assignments=assignments,
    )


def choose_clauses(clauses: Sequence[PlannedClause], rows: Rows) -> pa.Array:
    """Return the number of the first clause that applies to each row; null if none does."""
    chosen = pa.nulls(len(rows), pa.int8())
    for number, clause in enumerate(clauses):
        number_of = scalar(number, pa.int8())
        if clause.condition is None:
            return pc.fill_null(chosen, number_of)
        is_open = chosen.is_null()
        holds = scatter(evaluate_condition(clause.condition, rows.narrow(is_open)), is_open)
        chosen = pc.if_else(pc.fill_null(holds, FALSE_SCALAR), number_of, chosen)
    return chosen


def _nodes(
    clause: Clause, columns: MergeColumns, wanted: StructType, table: str, now_ms: int
) -> Mapping[str, Node]:
    if clause.updates is None:
        taken = taken_columns(clause, columns.source, wanted, table)
        return {name: Column((columns.source_alias, each)) for name, each in taken.items()}
    values = assigned_values(clause, columns.target_alias, wanted)
    is_whole = clause.action == "update"
    return nodes_of(values, wanted, table, now_ms, columns.target_alias, is_whole=is_whole)
