"""Merge: the builder of a merge and its metrics, the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.transaction.dml import RowChange, commit_change, open_for_change
from delta_ops.transaction.engine import Condition, Engine
from delta_ops.transaction.requests import Clause, MergeRequest, name_of
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.row_changes import Changed, TouchedFile, vector_metrics

SqlCondition = Any
"""SQL text, or another form that the engine accepts for a condition."""


class Merge:
    """A merge that is being built; the first clause with a true condition applies to a row.

    Conditions and values in `updates` are SQL texts or expressions, such as `"source.x + 1"`.
    Other Python values are literals; a text literal is `lit("text")`.

    Examples:
        >>> rows = pa.table({"id": [3, 4], "country": ["LU", "LU"], "price": [35.0, 40.0]})
        >>> merge = da.merge("lake/orders", rows, "target.id = source.id")
        >>> merge = merge.when_matched_update({"price": "source.price"})
        >>> merge.when_not_matched_insert_all().execute().metrics["numTargetRowsUpdated"]
        1
        >>> sorted(da.to_table("lake/orders")["price"].to_pylist())
        [10.0, 20.0, 35.0, 40.0]
    """

    def __init__(self, engine: Engine, request: MergeRequest) -> None:
        self._engine, self._request = engine, request

    def when_matched_update(
        self, updates: Mapping[str, Any], predicate: SqlCondition | None = None
    ) -> Merge:
        """Update columns of table rows that match a source row."""
        validate_arguments(Merge.when_matched_update, locals())
        return self._add(
            Clause(
                kind="matched",
                action="update",
                updates=updates,
                predicate=self._parse(predicate),
            )
        )

    def when_matched_update_all(
        self,
        predicate: SqlCondition | None = None,
        except_cols: Sequence[str] | None = None,
    ) -> Merge:
        """Update all columns except some of table rows that match a source row."""
        validate_arguments(Merge.when_matched_update_all, locals())
        return self._add(
            Clause(
                kind="matched",
                action="update",
                predicate=self._parse(predicate),
                except_columns=tuple(except_cols or ()),
            )
        )

    def when_matched_delete(self, predicate: SqlCondition | None = None) -> Merge:
        """Delete table rows that match a source row."""
        validate_arguments(Merge.when_matched_delete, locals())
        return self._add(Clause(kind="matched", action="delete", predicate=self._parse(predicate)))

    def when_not_matched_insert(
        self, updates: Mapping[str, Any], predicate: SqlCondition | None = None
    ) -> Merge:
        """Insert source rows that match no table row; columns without a value are null."""
        validate_arguments(Merge.when_not_matched_insert, locals())
        return self._add(
            Clause(
                kind="not matched",
                action="insert",
                updates=updates,
                predicate=self._parse(predicate),
            )
        )

    def when_not_matched_insert_all(
        self,
        predicate: SqlCondition | None = None,
        except_cols: Sequence[str] | None = None,
    ) -> Merge:
        """Insert source rows that match no table row, with all columns except some."""
        validate_arguments(Merge.when_not_matched_insert_all, locals())
        return self._add(
            Clause(
                kind="not matched",
                action="insert",
                predicate=self._parse(predicate),
                except_columns=tuple(except_cols or ()),
            )
        )

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, Any], predicate: SqlCondition | None = None
    ) -> Merge:
        """Update columns of table rows that match no source row."""
        validate_arguments(Merge.when_not_matched_by_source_update, locals())
        return self._add(
            Clause(
                kind="not matched by source",
                action="update",
                updates=updates,
                predicate=self._parse(predicate),
            )
        )

    def when_not_matched_by_source_delete(self, predicate: SqlCondition | None = None) -> Merge:
        """Delete table rows that match no source row."""
        validate_arguments(Merge.when_not_matched_by_source_delete, locals())
        return self._add(
            Clause(
                kind="not matched by source",
                action="delete",
                predicate=self._parse(predicate),
            )
        )

    def execute(self) -> CommitResult:
        """Run the merge and commit.

        If no row changes, nothing is committed, and the version of the result is None.

        Raises:
            InvalidRequestError: A name, type or value does not fit; several source rows would
                change the same table row; a row would break a rule of the table; or the table is
                append-only.
            CommitConflictError: A concurrent commit invalidates this one; the new files are
                deleted.
            CommitStateUnknownError: The store did not report whether the commit exists; the new
                files stay.
            StorageError: The store failed; the new files are deleted.
            TableNotFoundError: There is no table.
            UnsupportedFeatureError: The table uses a feature that this engine cannot write.
        """
        request = self._request
        if not request.clauses:
            raise InvalidRequestError(
                "A merge has no clause; add one, such as when_matched_update_all()"
            )
        transaction = open_for_change(self._engine, request, "merged")
        planned = self._engine.plan_change(request, transaction)
        change = RowChange(
            engine=self._engine,
            request=request,
            planned=planned,
            operation="MERGE",
            parameters={
                "predicate": [planned.text],
                "matchedPredicates": _describe(request.clauses, "matched"),
                "notMatchedPredicates": _describe(request.clauses, "not matched"),
                "notMatchedBySourcePredicates": _describe(request.clauses, "not matched by source"),
            },
        )
        return commit_change(transaction, change)

    def _add(self, clause: Clause) -> Merge:
        clauses = (*self._request.clauses, clause)
        return Merge(self._engine, replace(self._request, clauses=clauses))

    def _parse(self, predicate: SqlCondition | None) -> Condition | None:
        if predicate is None:
            return None
        with naming_table(name_of(self._request.target)):
            return self._engine.parse_condition(predicate)


def _describe(clauses: Sequence[Clause], kind: str) -> list[dict[str, str]]:
    return [each.described for each in clauses if each.kind == kind]


def merge_metrics(
    changed: Changed,
    num_source_rows: int,
    counts: Mapping[tuple[str, str], int],
    num_inserted: int,
    num_copied: int,
    marked: Sequence[TouchedFile] | None,
) -> dict[str, int]:
    """`operationMetrics` of a MERGE, with the reference's names.

    Args:
        num_source_rows: Number of source rows.
        counts: Number of changed table rows by the clause's kind, such as "matched", and its
            action, such as "update".
        num_inserted: Number of inserted rows.
        num_copied: Number of rows that were rewritten unchanged.
        marked: Files with new deletion vectors; None for a table without deletion vectors.
    """
    updated, deleted = counts.get(("matched", "update"), 0), counts.get(("matched", "delete"), 0)
    others_updated = counts.get(("not matched by source", "update"), 0)
    others_deleted = counts.get(("not matched by source", "delete"), 0)
    vectors = dict.fromkeys(vector_metrics(changed, ()), 0)
    if marked is not None:
        vectors = vector_metrics(changed, marked)
    return {
        "numSourceRows": num_source_rows,
        "numTargetRowsInserted": num_inserted,
        "numTargetRowsUpdated": updated + others_updated,
        "numTargetRowsDeleted": deleted + others_deleted,
        "numTargetRowsMatchedUpdated": updated,
        "numTargetRowsMatchedDeleted": deleted,
        "numTargetRowsNotMatchedBySourceUpdated": others_updated,
        "numTargetRowsNotMatchedBySourceDeleted": others_deleted,
        "numTargetRowsCopied": num_copied,
        "numOutputRows": num_copied + updated + others_updated + num_inserted,
        "numTargetFilesAdded": len(changed.written),
        "numTargetFilesRemoved": changed.num_removed,
        "numTargetBytesAdded": changed.added_bytes,
        "numTargetBytesRemoved": changed.removed_bytes,
        "numTargetChangeFilesAdded": len(changed.change_files),
        "numTargetChangeFileBytes": sum(each.size for each in changed.change_files),
        **{name.replace("num", "numTarget", 1): value for name, value in vectors.items()},
    }
