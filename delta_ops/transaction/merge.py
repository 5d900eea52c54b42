"""Merge: what a merge asks for, and how it is said; the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.transaction.dml import RowChange, commit_change, open_for_change
from delta_ops.transaction.engine import Condition, Engine
from delta_ops.transaction.requests import Clause, MergeRequest
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.row_changes import Changed, TouchedFile, vector_metrics

SqlCondition = Any
"""SQL text, or what else the engine takes for a condition."""


class Merge:
    """A merge in the making; of the clauses for a row the first whose condition holds decides.

    Conditions are texts of SQL or expressions, and so are values in `updates`, such as
    `"source.x + 1"`; Python values of another kind are taken as they are, and `lit("text")` is a
    text.
    """

    def __init__(self, engine: Engine, request: MergeRequest) -> None:
        self._engine, self._request = engine, request

    def when_matched_update(
        self, updates: Mapping[str, Any], predicate: SqlCondition | None = None
    ) -> Merge:
        """Give columns new values in rows that meet one of the source."""
        validate_arguments(Merge.when_matched_update, locals())
        return self._add(
            Clause(
                occasion="matched",
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
        """Take over all columns of the source, but some, in rows that meet one of it."""
        validate_arguments(Merge.when_matched_update_all, locals())
        return self._add(
            Clause(
                occasion="matched",
                action="update",
                predicate=self._parse(predicate),
                except_columns=tuple(except_cols or ()),
            )
        )

    def when_matched_delete(self, predicate: SqlCondition | None = None) -> Merge:
        """Delete rows that meet one of the source."""
        validate_arguments(Merge.when_matched_delete, locals())
        return self._add(
            Clause(occasion="matched", action="delete", predicate=self._parse(predicate))
        )

    def when_not_matched_insert(
        self, updates: Mapping[str, Any], predicate: SqlCondition | None = None
    ) -> Merge:
        """Insert rows of the source that meet none of the table; other columns are null."""
        validate_arguments(Merge.when_not_matched_insert, locals())
        return self._add(
            Clause(
                occasion="not matched",
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
        """Insert rows of the source that meet none of the table, with all columns but some."""
        validate_arguments(Merge.when_not_matched_insert_all, locals())
        return self._add(
            Clause(
                occasion="not matched",
                action="insert",
                predicate=self._parse(predicate),
                except_columns=tuple(except_cols or ()),
            )
        )

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, Any], predicate: SqlCondition | None = None
    ) -> Merge:
        """Give columns new values in rows of the table that meet none of the source."""
        validate_arguments(Merge.when_not_matched_by_source_update, locals())
        return self._add(
            Clause(
                occasion="not matched by source",
                action="update",
                updates=updates,
                predicate=self._parse(predicate),
            )
        )

    def when_not_matched_by_source_delete(self, predicate: SqlCondition | None = None) -> Merge:
        """Delete rows of the table that meet none of the source."""
        validate_arguments(Merge.when_not_matched_by_source_delete, locals())
        return self._add(
            Clause(
                occasion="not matched by source",
                action="delete",
                predicate=self._parse(predicate),
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
        return None if predicate is None else self._engine.parse_condition(predicate)


def _describe(clauses: Sequence[Clause], occasion: str) -> list[dict[str, str]]:
    return [each.described for each in clauses if each.occasion == occasion]


def merge_metrics(
    changed: Changed,
    num_source_rows: int,
    counts: Mapping[tuple[str, str], int],
    num_inserted: int,
    num_copied: int,
    marked: Sequence[TouchedFile] | None,
) -> dict[str, int]:
    """`operationMetrics` of a MERGE, as the reference names them.

    Args:
        num_source_rows: Rows of the source.
        counts: Rows of the table by occasion and action.
        num_copied: Rows that were written again as they are.
        marked: Files that got vectors; None: the table has none.
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
