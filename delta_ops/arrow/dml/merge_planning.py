"""Merge planning: resolve the names of a merge over the columns of table and source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from delta_ops.arrow.assignments import Assignments
from delta_ops.arrow.dml.merge_clauses import PlannedClause, plan_clause
from delta_ops.arrow.dml.merge_source import has_delta_type, source_columns
from delta_ops.arrow.nesting import fill_types
from delta_ops.arrow.row_checks import Checks, plan_checks
from delta_ops.arrow.unsigned import signed_fields
from delta_ops.log import Snapshot
from delta_ops.planning.assigned_columns import new_columns
from delta_ops.planning.merge_columns import (
    NO_KEYS,
    SOURCE,
    MergeColumns,
    SplitCondition,
    looks_beyond_keys,
    names_of,
    split_condition,
    unmatchable_keys,
)
from delta_ops.planning.missing_columns import generated_columns
from delta_ops.protocol.expression.nodes import Column, Node, columns_of
from delta_ops.protocol.expression.resolution import resolve_condition
from delta_ops.protocol.expression.time_functions import bind_time
from delta_ops.protocol.predicate import columns as columns_of_predicate
from delta_ops.protocol.predicate import resolve
from delta_ops.protocol.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import columns_from_arrow
from delta_ops.protocol.schema.char_types import char_lengths
from delta_ops.protocol.schema.evolution import validate_unique_names
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction import Transaction
from delta_ops.transaction.mutability import validate_assigned
from delta_ops.transaction.requests import MergeRequest
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.write import merge_columns

_WITH_ONE_PARTITION_VALUE = frozenset({STRING, BYTE, SHORT, INTEGER, LONG, DATE, BOOLEAN})
"""Types whose equal values always serialize to the same partition value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """A merge over the columns of both sides."""

    definition: TableDefinition
    """The table after the commit."""
    columns: MergeColumns
    condition: SplitCondition
    residual: Node | None
    """The rest of the condition, resolved."""
    matched: Sequence[PlannedClause]
    inserts: Sequence[PlannedClause]
    others: Sequence[PlannedClause]
    """Clauses for table rows that match no source row."""
    used_columns: StructType
    """Source columns that conditions use or that rows receive."""
    checks: Checks
    moves: bool
    """Whether rows may move to other partitions."""
    now_ms: int

    @property
    def condition_columns(self) -> list[Column]:
        """Columns that decide what happens to a row of the table, except the keys."""
        clauses = (*self.matched, *self.others)
        of_residual = [] if self.residual is None else [*columns_of(self.residual)]
        return [*of_residual, *(c for each in clauses for c in each.condition_columns)]


def plan_merge(
    request: MergeRequest, source: pa.Schema, snapshot: Snapshot, transaction: Transaction
) -> MergePlan:
    """Resolve the names of a merge; reads no rows.

    Args:
        source: The columns of the source.
        snapshot: The table before the merge.
        transaction: Receives the columns that the merge adds.

    Raises:
        InvalidRequestError: A name, type or value does not fit.
    """
    table, now_ms = snapshot.uri, transaction.clock()
    columns = _columns_of_both(request, source, snapshot)
    validate_unique_names(columns.source, table)
    if request.merge_schema:
        added = new_columns(request.clauses, columns.source, columns.target, request.target_alias)
        filled = fill_types(source, snapshot.arrow_schema)
        merge_columns(transaction, _describe_columns(added, filled, snapshot.schema))
    definition = transaction.definition
    condition = split_condition(request.predicate, columns, now_ms)
    find, rest = columns.finder(), condition.residual
    unmatchable = unmatchable_keys(condition.keys, columns, definition)
    meets = None
    if looks_beyond_keys(condition, columns, definition):
        meets = resolve_condition(bind_time(request.predicate.root, now_ms), find)
    planned = [
        plan_clause(
            each,
            columns,
            definition,
            table,
            now_ms,
            unmatchable if each.action == "insert" else NO_KEYS,
            meets if each.action == "insert" else None,
        )
        for each in request.clauses
    ]
    matched, inserts, others = (
        [each for each in planned if each.kind == kind]
        for kind in ("matched", "not matched", "not matched by source")
    )
    of_rows = (*matched, *others)
    updated = _updated_columns(of_rows, definition)
    validate_assigned(updated, definition.schema, table)
    residual = None if rest is None else resolve_condition(rest, find)
    moves = not updated.isdisjoint(definition.partition_columns)
    return MergePlan(
        definition=definition,
        columns=columns,
        condition=condition,
        residual=residual,
        matched=matched,
        inserts=inserts,
        others=others,
        used_columns=_used_columns(
            planned, condition.keys, residual, request.source_rules, columns
        ),
        checks=plan_checks(definition, table),
        moves=moves and not _keeps_partitions(of_rows, condition.keys, columns, definition),
        now_ms=now_ms,
    )


def _columns_of_both(request: MergeRequest, source: pa.Schema, snapshot: Snapshot) -> MergeColumns:
    known = snapshot.arrow_schema
    source_schema, unusable = source_columns(fill_types(source, known), known)
    return MergeColumns(
        target=snapshot.schema,
        source=source_schema,
        target_alias=request.target_alias,
        source_alias=request.source_alias,
        unusable={
            name: f"{snapshot.uri}: column {name} of the source is of Arrow type {of_type}, which "
            "has no Delta type; cast it, or leave it out with except_cols"
            for name, of_type in unusable.items()
        },
    )


def _describe_columns(added: StructType, source: pa.Schema, known: StructType) -> StructType:
    """Return the source's types for columns that a merge adds, or may extend with fields.

    Raises:
        InvalidRequestError: A column that the table lacks has no Delta type.
    """
    fields = [source.field(each.name) for each in added.fields]
    names = known.fields_by_lower_name
    usable = [f for f in fields if f.name.lower() not in names or has_delta_type(f.type)]
    return columns_from_arrow(pa.schema(signed_fields(usable, None)))


def _used_columns(
    clauses: Sequence[PlannedClause],
    keys: Sequence[tuple[Node, Node]],
    residual: Node | None,
    rules: Sequence[SourceRule],
    columns: MergeColumns,
) -> StructType:
    find, schema = columns.finder(), columns.source
    used = [*(columns_of(residual) if residual is not None else ())]
    for each in clauses:
        used += each.condition_columns
        used += each.assignments.columns if each.assignments else ()
    names = names_of(used, SOURCE)
    names |= {find(each.path).path[1] for _, value in keys for each in columns_of(value)}
    for rule in rules:
        names |= columns_of_predicate(resolve(rule.predicate_on(schema), schema))
    return StructType(tuple(each for each in schema.fields if each.name in names))


def _keeps_partitions(
    clauses: Sequence[PlannedClause],
    keys: Sequence[tuple[Node, Node]],
    columns: MergeColumns,
    definition: TableDefinition,
) -> bool:
    """Return whether partition columns keep their values, because they are keys of the merge."""
    find = columns.finder()
    met = {
        (find(column.path).path[1:], find(value.path).path)
        for column, value in keys
        if isinstance(column, Column) and isinstance(value, Column)
    }
    generated = {each.column for each in generated_columns(definition)}

    def keeps(field: StructField, assignments: Assignments) -> bool:
        value = assignments.nodes.get(field.name)
        if value is None:
            return field.name not in generated
        is_met = isinstance(value, Column) and ((field.name,), value.path) in met
        return is_met and value.data_type == field.data_type and _has_one_partition_value(field)

    return all(
        keeps(field, each.assignments)
        for each in clauses
        if each.assignments
        for field in definition.partition_fields
    )


def _has_one_partition_value(field: StructField) -> bool:
    """Return whether equal values always belong to the same partition."""
    return field.data_type in _WITH_ONE_PARTITION_VALUE and char_lengths(field) is None


def _updated_columns(clauses: Sequence[PlannedClause], definition: TableDefinition) -> set[str]:
    """Return the columns whose values may change in existing rows."""
    updates = [each.assignments for each in clauses if each.assignments]
    generated = {each.column for each in generated_columns(definition)}
    assigned = {name for each in updates for name in each.names}
    return assigned | generated if updates else assigned
