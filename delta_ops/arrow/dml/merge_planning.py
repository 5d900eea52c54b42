"""Merge planning: what a merge asks for, over the columns of the table and of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from delta_ops.arrow.assignments import Assignments
from delta_ops.arrow.dml.merge_clauses import PlannedClause, plan_clause
from delta_ops.arrow.dml.merge_keys import load_keys
from delta_ops.arrow.dml.merge_matching import Matching
from delta_ops.arrow.dml.merge_rows import MergedRows
from delta_ops.arrow.dml.merge_source import (
    give_types,
    has_delta_type,
    load_source,
    source_columns,
    validate_source,
)
from delta_ops.arrow.read.scan import plan_reading
from delta_ops.arrow.row_checks import Checks, plan_checks
from delta_ops.arrow.write.write import reader_of
from delta_ops.log import Snapshot
from delta_ops.planning.merge_columns import (
    SOURCE,
    TARGET,
    MergeColumns,
    localize,
    looks_beyond_keys,
    names_of,
    split_condition,
    unmatchable_keys,
)
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.expression.nodes import Column, Node, columns_of
from delta_ops.protocol.expression.resolution import resolve_condition
from delta_ops.protocol.expression.statement_time import bind_time
from delta_ops.protocol.predicate import TRUE, Or, Predicate, resolve
from delta_ops.protocol.predicate import columns as columns_of_predicate
from delta_ops.protocol.row_rules import Generated
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
from delta_ops.protocol.schema.evolution import validate_given_once
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction import Transaction
from delta_ops.transaction.changeable import validate_assigned
from delta_ops.transaction.merge import Clause, MergeRequest, new_columns
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.write import merge_columns

_OF_ONE_TEXT = frozenset({STRING, BYTE, SHORT, INTEGER, LONG, DATE, BOOLEAN})
"""Types of which every value is written in one way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """How the rows of a table and of a source become the table that a merge leaves."""

    definition: TableDefinition
    """The table as the commit will leave it."""
    matching: Matching
    rows: MergedRows
    checks: Checks
    read: Predicate
    """The rows of the table on which the outcome depends."""
    moves: bool
    """Whether rows may come to other partitions."""
    inserts: bool
    """Whether rows of the source may be inserted."""


def plan_merge(
    request: MergeRequest,
    clauses: Sequence[Clause],
    snapshot: Snapshot,
    transaction: Transaction,
) -> MergePlan:
    """Take the source and find what every name means.

    Args:
        request: What is asked for.
        clauses: In the order in which they decide.
        snapshot: The table before.
        transaction: Gets the columns that the merge adds.

    Raises:
        InvalidRequestError: A name, type or value does not fit.
    """
    table, now_ms = snapshot.uri, transaction.clock()
    schema, reader = request.taken[0] if request.taken else _open_source(request.source)
    given = give_types(schema, snapshot.arrow_schema)
    source_schema, unusable = source_columns(given, snapshot.arrow_schema)
    validate_given_once(source_schema, table)
    if request.merge_schema:
        added = new_columns(clauses, source_schema, snapshot.schema, request.target_alias)
        merge_columns(transaction, _describe_columns(added, given, snapshot.schema))
    columns = MergeColumns(
        target=snapshot.schema,
        source=source_schema,
        target_alias=request.target_alias,
        source_alias=request.source_alias,
        unusable={
            name: f"{table}: column {name} of the source is of Arrow type {of_type}, which "
            "has no Delta type; cast it, or leave it out with except_cols"
            for name, of_type in unusable.items()
        },
    )
    definition = transaction.definition
    condition = split_condition(request.predicate, columns, now_ms)
    keys, residual, _ = condition
    unmatchable = unmatchable_keys(keys, columns, definition)
    meets = None
    if looks_beyond_keys(condition, columns, definition):
        root = bind_time(request.predicate.root, now_ms)
        meets = resolve_condition(root, columns.finder())
    planned = [
        plan_clause(each, columns, definition, table, now_ms, unmatchable, meets)
        for each in clauses
    ]
    matched, inserts, others = (
        [each for each in planned if each.occasion == occasion]
        for occasion in ("matched", "not matched", "not matched by source")
    )
    updated = _updated_columns((*matched, *others), definition)
    validate_assigned(updated, definition.schema, table)
    checks = plan_checks(definition, table)
    resolved = None if residual is None else resolve_condition(residual, columns.finder())
    used = _used_columns(planned, keys, resolved, request.source_rules, columns)
    source = load_source(reader, used, table)
    request.taken[:] = [(schema, source.rows.to_reader())]
    validate_source(source, request.source_rules, table)
    merge_keys = load_keys(condition, columns, source, table)
    looked_at = [*(columns_of(resolved) if resolved is not None else ())]
    looked_at += [c for each in (*matched, *others) for c in each.condition_columns]
    names = {path[0] for path in merge_keys.paths} | names_of(looked_at, TARGET)
    deciding = [name for name in snapshot.arrow_schema.names if name in names]
    matching = Matching(
        source=source,
        keys=merge_keys,
        residual=resolved,
        matched=matched,
        not_matched_by_source=others,
        read=plan_reading(snapshot, deciding),
    )
    return MergePlan(
        definition=definition,
        matching=matching,
        rows=MergedRows(
            snapshot, definition, source, matching.clauses, inserts, checks, deciding, now_ms
        ),
        checks=checks,
        read=_read_rows(merge_keys.covering, others, columns),
        moves=not updated.isdisjoint(definition.partition_columns)
        and not _stay((*matched, *others), keys, columns, definition),
        inserts=bool(inserts),
    )


def _describe_columns(added: StructType, given: pa.Schema, known: StructType) -> StructType:
    """Columns that a merge adds, or of which it may add fields, with what their metadata say.

    Raises:
        InvalidRequestError: A column that the table lacks has no Delta type.
    """
    fields = [given.field(each.name) for each in added.fields]
    names = known.fields_by_lower_name
    return columns_from_arrow(
        pa.schema([f for f in fields if f.name.lower() not in names or has_delta_type(f.type)])
    )


def _open_source(source: Any) -> tuple[pa.Schema, pa.RecordBatchReader]:
    reader = reader_of(source)
    return reader.schema, reader


def _used_columns(
    clauses: Sequence[PlannedClause],
    keys: Sequence[tuple[Node, Node]],
    residual: Node | None,
    rules: Sequence[SourceRule],
    columns: MergeColumns,
) -> StructType:
    """The columns of the source that decide, or that rows get."""
    find, schema = columns.finder(), columns.source
    looked_at = [*(columns_of(residual) if residual is not None else ())]
    for each in clauses:
        looked_at += each.condition_columns
        looked_at += each.assignments.columns if each.assignments else ()
    names = names_of(looked_at, SOURCE)
    names |= {find(each.path).path[1] for _, value in keys for each in columns_of(value)}
    for rule in rules:
        names |= columns_of_predicate(resolve(rule.predicate_on(schema), schema))
    return StructType(tuple(each for each in schema.fields if each.name in names))


def _stay(
    clauses: Sequence[PlannedClause],
    keys: Sequence[tuple[Node, Node]],
    columns: MergeColumns,
    definition: TableDefinition,
) -> bool:
    """Whether partition columns only get the values that they have, since they are keys."""
    find = columns.finder()
    met = {
        (find(column.path).path[1:], find(value.path).path)
        for column, value in keys
        if isinstance(column, Column) and isinstance(value, Column)
    }
    generated = {each.column for each in definition.row_rules if isinstance(each, Generated)}

    def keeps(field: StructField, assignments: Assignments) -> bool:
        value = assignments.nodes.get(field.name)
        if value is None:
            return field.name not in generated
        is_met = isinstance(value, Column) and ((field.name,), value.path) in met
        return is_met and value.data_type == field.data_type and _is_of_one_text(field)

    return all(
        keeps(field, each.assignments)
        for each in clauses
        if each.assignments
        for field in definition.partition_fields
    )


def _is_of_one_text(field: StructField) -> bool:
    """Whether values that are equal are the same partition."""
    return field.data_type in _OF_ONE_TEXT and char_lengths(field) is None


def _updated_columns(clauses: Sequence[PlannedClause], definition: TableDefinition) -> set[str]:
    """The columns that may have other values in rows that are there."""
    updates = [each.assignments for each in clauses if each.assignments]
    generated = {each.column for each in definition.row_rules if isinstance(each, Generated)}
    assigned = {name for each in updates for name in each.names}
    return assigned | generated if updates else assigned


def _read_rows(
    covering: Predicate, others: Sequence[PlannedClause], columns: MergeColumns
) -> Predicate:
    """The rows of the table on which the outcome depends."""
    if not others:
        return covering
    find = columns.finder((TARGET,))
    parts = [covering]
    for each in others:
        if each.given_condition is None:
            return TRUE
        parts.append(implied_predicate(localize(each.given_condition, find), columns.target))
    return TRUE if TRUE in parts else Or(tuple(parts))
