"""Merge rows of a source into a table from this process.

    da.merge(target, source, "target.id = source.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()

The source is taken once and held in memory; the table's files are gone through one by one, and
only those are written again of which a row changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.changeable import validate_inserts, validate_new_rows
from delta_ops.arrow.merge_clauses import Clause, PlannedClause, plan_clause, taken_columns
from delta_ops.arrow.merge_columns import TARGET, MergeColumns, localize, names_of
from delta_ops.arrow.merge_keys import load_keys, split_condition
from delta_ops.arrow.merge_matching import FileMatches, Matching, match_file
from delta_ops.arrow.merge_rows import MergedRows
from delta_ops.arrow.merge_source import load_source
from delta_ops.arrow.row_changes import (
    Changed,
    Rewriter,
    RowChange,
    commit_change,
    num_live_rows,
    open_for_change,
    write_again,
)
from delta_ops.arrow.row_checks import plan_checks
from delta_ops.arrow.write import reader_of, write_rows
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot
from delta_ops.planning.scan import plan_scan
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_types import schema_from_arrow
from delta_ops.protocol.expression import Expression, parse_expression
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.expression.resolution import resolve_condition
from delta_ops.protocol.predicate import TRUE, Or, Predicate
from delta_ops.protocol.schema import ArrayType, MapType, StructType
from delta_ops.protocol.schema_evolution import validate_given_once
from delta_ops.transaction import DEFAULT_HOOKS, CommitResult, Hook, Txn
from delta_ops.transaction.write import Target, merge_columns


def merge(
    target: Target,
    source: Any,
    predicate: str | Expression,
    *,
    source_alias: str = "source",
    target_alias: str = "target",
    txn: Txn | tuple[str, int] | None = None,
    merge_schema: bool = False,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    on_event: OnEvent = ignore,
) -> Merge:
    """A merge of rows into a table, to which clauses are added before `execute`.

    Args:
        target: Where the table is, or a transaction to add to and commit.
        source: An Arrow table, batch or reader, or anything with `__arrow_c_stream__`; taken once,
            by `execute`.
        predicate: When a row of the target and one of the source meet: an equality of a column of
            the target with one of the source, or several, and any other conditions, joined by AND.
            A key that is null meets nothing.
        source_alias: What the source is called in expressions.
        target_alias: What the table is called in expressions.
        txn: Application id and version: a merge that the table holds already is not done again.
        merge_schema: Add columns, and fields of structs, that clauses take as a whole from the
            source and that the table does not have.
        user_metadata: Any text, kept in the commit.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: The predicate cannot be understood, or an argument is of another type.
    """
    validate_arguments(merge, locals())
    parsed = parse_expression(predicate) if isinstance(predicate, str) else predicate
    return Merge(
        _Request(
            target=target,
            source=source,
            predicate=parsed,
            source_alias=source_alias,
            target_alias=target_alias,
            txn=txn,
            merge_schema=merge_schema,
            user_metadata=user_metadata,
            storage_options=storage_options,
            hooks=hooks,
            on_event=on_event,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
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


class Merge:
    """A merge in the making; of the clauses for a row the first whose condition holds decides.

    Conditions are texts of SQL or expressions, and so are values in `updates`, such as
    `"source.x + 1"`; Python values of another kind are taken as they are, and `lit("text")` is a
    text.
    """

    def __init__(self, request: _Request, clauses: Sequence[Clause] = ()) -> None:
        self._request, self._clauses = request, list(clauses)

    def when_matched_update(
        self, updates: Mapping[str, Any], predicate: str | Expression | None = None
    ) -> Merge:
        """Give columns new values in rows that meet one of the source."""
        validate_arguments(Merge.when_matched_update, locals())
        return self._add(
            Clause(
                occasion="matched",
                action="update",
                updates=updates,
                predicate=_parse(predicate),
            )
        )

    def when_matched_update_all(
        self,
        predicate: str | Expression | None = None,
        except_cols: Sequence[str] | None = None,
    ) -> Merge:
        """Take over all columns of the source, but some, in rows that meet one of it."""
        validate_arguments(Merge.when_matched_update_all, locals())
        return self._add(
            Clause(
                occasion="matched",
                action="update",
                predicate=_parse(predicate),
                except_columns=tuple(except_cols or ()),
            )
        )

    def when_matched_delete(self, predicate: str | Expression | None = None) -> Merge:
        """Delete rows that meet one of the source."""
        validate_arguments(Merge.when_matched_delete, locals())
        return self._add(Clause(occasion="matched", action="delete", predicate=_parse(predicate)))

    def when_not_matched_insert(
        self, updates: Mapping[str, Any], predicate: str | Expression | None = None
    ) -> Merge:
        """Insert rows of the source that meet none of the table; other columns are null."""
        validate_arguments(Merge.when_not_matched_insert, locals())
        return self._add(
            Clause(
                occasion="not matched",
                action="insert",
                updates=updates,
                predicate=_parse(predicate),
            )
        )

    def when_not_matched_insert_all(
        self,
        predicate: str | Expression | None = None,
        except_cols: Sequence[str] | None = None,
    ) -> Merge:
        """Insert rows of the source that meet none of the table, with all columns but some."""
        validate_arguments(Merge.when_not_matched_insert_all, locals())
        return self._add(
            Clause(
                occasion="not matched",
                action="insert",
                predicate=_parse(predicate),
                except_columns=tuple(except_cols or ()),
            )
        )

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, Any], predicate: str | Expression | None = None
    ) -> Merge:
        """Give columns new values in rows of the table that meet none of the source."""
        validate_arguments(Merge.when_not_matched_by_source_update, locals())
        return self._add(
            Clause(
                occasion="not matched by source",
                action="update",
                updates=updates,
                predicate=_parse(predicate),
            )
        )

    def when_not_matched_by_source_delete(self, predicate: str | Expression | None = None) -> Merge:
        """Delete rows of the table that meet none of the source."""
        validate_arguments(Merge.when_not_matched_by_source_delete, locals())
        return self._add(
            Clause(
                occasion="not matched by source",
                action="delete",
                predicate=_parse(predicate),
            )
        )

    def execute(self) -> CommitResult:
        """Take the source, write files and commit.

        Where no row changes, nothing is committed, and the result's version is None.

        Raises:
            InvalidRequestError: A name, type or value does not fit, several rows of the source
                would change one of the table, a row would break a rule of the table, or the table
                is append-only.
            CommitConflictError: A concurrent commit invalidates this one; the files are deleted
                again.
            CommitStateUnknownError: The store did not tell; the files are kept.
            StorageError: The store failed; what was written is deleted again.
            TableNotFoundError: There is no table.
            UnsupportedFeatureError: The table uses what this engine cannot write.
        """
        request, clauses = self._request, self._clauses
        if not clauses:
            raise InvalidRequestError(
                "A merge has no clause; add one, such as when_matched_update_all()"
            )
        transaction, snapshot = open_for_change(
            request.target, request.storage_options, request.on_event, "merged"
        )
        validate_new_rows(snapshot.definition, snapshot.uri, "merged")
        if any(each.action == "insert" for each in clauses):
            validate_inserts(snapshot.definition, snapshot.uri)
        change = RowChange(
            operation="MERGE",
            parameters={
                "predicate": [request.predicate.text],
                "matchedPredicates": _describe(clauses, "matched"),
                "notMatchedPredicates": _describe(clauses, "not matched"),
                "notMatchedBySourcePredicates": _describe(clauses, "not matched by source"),
            },
            txn=request.txn,
            user_metadata=request.user_metadata,
            hooks=request.hooks,
        )
        return commit_change(transaction, change, partial(_merge, request, clauses, snapshot))

    def _add(self, clause: Clause) -> Merge:
        return Merge(self._request, [*self._clauses, clause])


def _parse(predicate: str | Expression | None) -> Expression | None:
    return parse_expression(predicate) if isinstance(predicate, str) else predicate


def _describe(clauses: Sequence[Clause], occasion: str) -> list[dict[str, str]]:
    return [each.described for each in clauses if each.occasion == occasion]


def _merge(
    request: _Request, clauses: Sequence[Clause], snapshot: Snapshot, changed: Changed
) -> dict[str, int]:
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
    planned = [plan_clause(each, columns, definition.schema, table) for each in clauses]
    checks = plan_checks(definition, table)
    keys, residual = split_condition(request.predicate, columns)
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
    rows = MergedRows(snapshot, definition, source, matching.clauses, checks)
    partitions = set(definition.partition_columns)
    moves = any(
        each.assignments and not partitions.isdisjoint(each.assignments.names)
        for each in matching.clauses
    )

    def process(rewriter: Rewriter, file: AddFile) -> FileMatches:
        matches = match_file(matching, snapshot, file)
        if len(matches.rows):
            rewriter.write(file, rows.changed_rows(file, matches), moves=moves)
        return matches

    files = plan_scan(snapshot, read)
    adds, found = write_again(transaction, files, process)
    changed.add(adds, definition.row_rules)  # old rows keep them, and the new ones are checked
    changed.remove([f for f, each in zip(files, found, strict=True) if len(each.rows)])
    inserts = [each for each in planned if each.occasion == "not matched"]
    num_inserted = 0
    if inserts:
        unmet = _unmet_rows(len(source), found)
        inserted = write_rows(transaction, rows.inserted_rows(inserts, unmet))
        changed.add(inserted, definition.row_rules)
        num_inserted = sum(num_live_rows(add) or 0 for add in inserted)
    num_rewritten = sum(num_live_rows(add) or 0 for add in adds)
    counts = _count_clauses(matching.clauses, found)
    return _metrics(changed, len(source), num_inserted, num_rewritten, counts)


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
        "numTargetChangeFilesAdded": 0,
        "numTargetDeletionVectorsAdded": 0,
        "numTargetDeletionVectorsRemoved": 0,
        "numTargetDeletionVectorsUpdated": 0,
    }
