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
from functools import partial
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.merge_clauses import Clause
from delta_ops.arrow.merge_execution import execute_merge
from delta_ops.arrow.merge_planning import MergeRequest
from delta_ops.arrow.row_changes import (
    RowChange,
    commit_change,
    open_for_change,
)
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.protocol.expression import Expression, parse_expression
from delta_ops.transaction import DEFAULT_HOOKS, CommitResult, Hook, Txn
from delta_ops.transaction.write import Target


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
        MergeRequest(
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


class Merge:
    """A merge in the making; of the clauses for a row the first whose condition holds decides.

    Conditions are texts of SQL or expressions, and so are values in `updates`, such as
    `"source.x + 1"`; Python values of another kind are taken as they are, and `lit("text")` is a
    text.
    """

    def __init__(self, request: MergeRequest, clauses: Sequence[Clause] = ()) -> None:
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
        return commit_change(
            transaction, change, partial(execute_merge, request, clauses, snapshot)
        )

    def _add(self, clause: Clause) -> Merge:
        return Merge(self._request, [*self._clauses, clause])


def _parse(predicate: str | Expression | None) -> Expression | None:
    return parse_expression(predicate) if isinstance(predicate, str) else predicate


def _describe(clauses: Sequence[Clause], occasion: str) -> list[dict[str, str]]:
    return [each.described for each in clauses if each.occasion == occasion]
