"""Merge execution: the rows of a source meet those of a table, and files are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.change_files import mark_rows
from delta_ops.arrow.changeable import validate_assigned
from delta_ops.arrow.merge_clauses import Clause, PlannedClause, plan_clause, taken_columns
from delta_ops.arrow.merge_columns import TARGET, MergeColumns, localize, names_of
from delta_ops.arrow.merge_keys import load_keys, split_condition
from delta_ops.arrow.merge_matching import FileMatches, Matching, match_file
from delta_ops.arrow.merge_rows import MergedRows
from delta_ops.arrow.merge_source import load_source
from delta_ops.arrow.row_changes import (
    Changed,
    Rewriter,
    num_live_rows,
    write_again,
)
from delta_ops.arrow.row_checks import plan_checks
from delta_ops.arrow.scan import read_files
from delta_ops.arrow.write import reader_of, write_rows
from delta_ops.events import OnEvent
from delta_ops.log import Snapshot
from delta_ops.planning.scan import plan_scan
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_types import schema_from_arrow
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.expression.resolution import resolve_condition
from delta_ops.protocol.predicate import TRUE, Or, Predicate
from delta_ops.protocol.row_rules import Generated
from delta_ops.protocol.schema import ArrayType, MapType, StructType
from delta_ops.protocol.schema_evolution import validate_given_once
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction import Hook, Txn
from delta_ops.transaction.write import Target, merge_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What a merge asks for, beside its clauses."""

    target: Target
    source: Any
    predicate: Expression
    source_alias: str
    target_alias: str
    txn: Txn | tuple[str, int] | None
    merge_schema: bool
    user_metadata: str | None
    storage_options: Mapping[str, Any] | None
    hooks: Sequence[Hook]
    on_event: OnEvent


def execute_merge(
    request: MergeRequest, clauses: Sequence[Clause], snapshot: Snapshot, changed: Changed
) -> dict[str, int]:
    """Write the files of a merge, and return its `operationMetrics`.

    Args:
        request: What is asked for.
        clauses: In the order in which they decide.
        snapshot: The table before.
        changed: Collects the files.

    Raises:
        InvalidRequestError: A name, type or value does not fit, or a row breaks a rule.
    """
    transaction, table = changed.transaction, snapshot.uri
    reader = reader_of(request.source)
    source_schema = schema_from_arrow(reader.schema)
    validate_given_once(source_schema, table)
    if request.merge_schema:
        merge_columns(transaction, _new_columns(clauses, source_schema, snapshot.schema))
    columns = MergeColumns(
        target=snapshot.schema,
        source=source_schema,
        target_alias=request.target_alias,
        source_alias=request.source_alias,
    )
    definition = transaction.definition
    now_ms = transaction.clock()
    planned = [plan_clause(each, columns, definition.schema, table, now_ms) for each in clauses]
    checks = plan_checks(definition, table)
    keys, residual = split_condition(request.predicate, columns, now_ms)
    resolved = None if residual is None else resolve_condition(residual, columns.finder())
    source = load_source(reader, source_schema, table)
    merge_keys = load_keys(keys, residual, columns, source, table)
    matched = [each for each in planned if each.occasion == "matched"]
    others = [each for each in planned if each.occasion == "not matched by source"]
    looked_at = [*(columns_of(resolved) if resolved is not None else ())]
    looked_at += [c for each in (*matched, *others) for c in each.condition_columns]
    names = {path[0] for path in merge_keys.paths} | names_of(looked_at, TARGET)
    matching = Matching(
        source=source,
        keys=merge_keys,
        residual=resolved,
        matched=matched,
        not_matched_by_source=others,
        columns=[name for name in snapshot.arrow_schema.names if name in names],
    )
    read = _read_rows(merge_keys.covering, others, columns)
    transaction.read(read)
    inserts = [each for each in planned if each.occasion == "not matched"]
    rows = MergedRows(snapshot, definition, source, matching.clauses, inserts, checks, now_ms)
    updated = _updated_columns(matching.clauses, definition)
    validate_assigned(updated, definition.schema, table)
    moves = not updated.isdisjoint(definition.partition_columns)

    def write(file: AddFile, rewriter: Rewriter) -> FileMatches:
        matches = match_file(matching, snapshot, file)
        if len(matches.rows):
            rewriter.write(file, rows.changed_rows(file, matches), moves=moves)
        return matches

    files = plan_scan(snapshot, read)
    adds, found = write_again(transaction, [(each, partial(write, each)) for each in files])
    changed.add(adds, checks)
    touched = [(f, each) for f, each in zip(files, found, strict=True) if len(each.rows)]
    changed.remove([file for file, _ in touched])
    changed.tell(((file, rows.images(file, each)) for file, each in touched), moves=moves)
    num_inserted = 0
    if inserts:
        unmet = _unmet_rows(len(source), found)
        inserted = write_rows(transaction, rows.inserted_rows(unmet))
        changed.add(inserted, checks, rows.counted_values)
        num_inserted = sum(num_live_rows(add) or 0 for add in inserted)
        if touched:  # else the files that are added tell it
            changed.tell((each, _inserted_rows(snapshot, definition, each)) for each in inserted)
    num_rewritten = sum(num_live_rows(add) or 0 for add in adds)
    counts = _count_clauses(matching.clauses, found)
    return _metrics(changed, len(source), num_inserted, num_rewritten, counts)


def _updated_columns(clauses: Sequence[PlannedClause], definition: TableDefinition) -> set[str]:
    """The columns that may have other values in rows that are there."""
    updates = [each.assignments for each in clauses if each.assignments]
    generated = {each.column for each in definition.row_rules if isinstance(each, Generated)}
    assigned = {name for each in updates for name in each.names}
    return assigned | generated if updates else assigned


def _inserted_rows(
    snapshot: Snapshot, definition: TableDefinition, file: AddFile
) -> Iterator[pa.RecordBatch]:
    """The rows of a new file, for the change data feed."""
    names = definition.arrow_schema.names
    for batch in read_files(snapshot, [file], names, None, definition):
        yield mark_rows(batch, "insert")


def _new_columns(clauses: Sequence[Clause], source: StructType, target: StructType) -> StructType:
    """The columns that clauses take, but those whose place in the table is clear."""
    taken = taken_columns(clauses, source)
    known = target.fields_by_lower_name
    return StructType(
        tuple(
            field
            for field in taken.fields
            if field.name.lower() not in known
            or isinstance(field.data_type, StructType | ArrayType | MapType)
        )
    )


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


def _unmet_rows(num_rows: int, found: Sequence[FileMatches]) -> pa.Int64Array:
    """The rows of the source that meet no row of the table."""
    numbers = pa.arange(0, num_rows)
    if not found:
        return numbers
    met = pa.concat_arrays([each.met for each in found])
    return numbers.filter(pc.invert(pc.is_in(numbers, value_set=met)))


def _count_clauses(
    clauses: Sequence[PlannedClause], found: Sequence[FileMatches]
) -> dict[tuple[str, str], int]:
    """The rows by occasion and action."""
    counts: dict[tuple[str, str], int] = {}
    for each in found:
        for counted in pc.value_counts(each.clauses).to_pylist():
            clause = clauses[counted["values"]]
            key = clause.occasion, clause.action
            counts[key] = counts.get(key, 0) + counted["counts"]
    return counts


def _metrics(
    changed: Changed,
    num_source: int,
    num_inserted: int,
    num_rewritten: int,
    counts: Mapping[tuple[str, str], int],
) -> dict[str, int]:
    """`operationMetrics` of a MERGE, as the reference names them."""
    updated, deleted = counts.get(("matched", "update"), 0), counts.get(("matched", "delete"), 0)
    others_updated = counts.get(("not matched by source", "update"), 0)
    others_deleted = counts.get(("not matched by source", "delete"), 0)
    return {
        "numSourceRows": num_source,
        "numTargetRowsInserted": num_inserted,
        "numTargetRowsUpdated": updated + others_updated,
        "numTargetRowsDeleted": deleted + others_deleted,
        "numTargetRowsMatchedUpdated": updated,
        "numTargetRowsMatchedDeleted": deleted,
        "numTargetRowsNotMatchedBySourceUpdated": others_updated,
        "numTargetRowsNotMatchedBySourceDeleted": others_deleted,
        "numTargetRowsCopied": num_rewritten - updated - others_updated,
        "numOutputRows": num_rewritten + num_inserted,
        "numTargetFilesAdded": len(changed.written),
        "numTargetFilesRemoved": changed.num_removed,
        "numTargetBytesAdded": changed.added_bytes,
        "numTargetBytesRemoved": changed.removed_bytes,
        "numTargetChangeFilesAdded": len(changed.change_files),
        "numTargetChangeFileBytes": sum(each.size for each in changed.change_files),
        "numTargetDeletionVectorsAdded": 0,
        "numTargetDeletionVectorsRemoved": 0,
        "numTargetDeletionVectorsUpdated": 0,
    }
