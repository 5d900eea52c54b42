"""Merge: what a merge asks for, and how it is said; the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent
from delta_ops.log import Snapshot
from delta_ops.protocol.features import Engine
from delta_ops.protocol.schema import ArrayType, ColumnPath, MapType, StructType, find_field
from delta_ops.protocol.schema.column_names import find_columns, name_of_path, path_of_name
from delta_ops.protocol.schema.widening import is_number
from delta_ops.transaction.commit.hooks import Hook
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.row_changes import (
    Changed,
    Discard,
    RowChange,
    TouchedFile,
    commit_change,
    open_for_change,
    vector_metrics,
)
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.write import Target

Occasion = Literal["matched", "not matched", "not matched by source"]
Action = Literal["update", "delete", "insert"]
Condition = Any
"""A text of SQL, or what else the engine takes for a condition."""


class ParsedCondition(Protocol):
    """A condition as an engine has it."""

    @property
    def text(self) -> str:
        """The condition in SQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What a merge asks for, beside its clauses."""

    target: Target
    source: Any
    predicate: Any
    """As the engine parsed it."""
    source_alias: str
    target_alias: str
    txn: Txn | tuple[str, int] | None
    merge_schema: bool
    user_metadata: str | None
    storage_options: Mapping[str, Any] | None
    hooks: Sequence[Hook]
    on_event: OnEvent
    source_rules: Sequence[SourceRule] = ()
    """Looked at before a row of the table is."""
    taken: list[Any] = field(default_factory=list)
    """The rows of the source as the engine has taken them, for a merge that is made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A clause as the caller gives it."""

    occasion: Occasion
    action: Action
    updates: Mapping[str, Any] | None = None
    """Values by column; None: those of all columns of the source."""
    predicate: Any = None
    """As the engine parsed it; None: always."""
    except_columns: Sequence[str] = ()

    @property
    def takes_all(self) -> bool:
        """Whether the clause takes all columns of the source."""
        return self.updates is None and self.action != "delete"

    @property
    def described(self) -> dict[str, str]:
        """The clause as the reference has it in `operationParameters`."""
        said = {} if self.predicate is None else {"predicate": self.predicate.text}
        return {"actionType": self.action, **said}


def taken_columns(
    clause: Clause, source: StructType, wanted: StructType, table: str
) -> dict[str, str]:
    """The columns of the source that a clause takes, by the names that the table has for them.

    Args:
        clause: One that takes all columns.
        source: The columns of the source.
        wanted: The columns of the table as the merge leaves it.
        table: For messages.

    Raises:
        InvalidRequestError: The table has no such column, or one that is to be left out is not
            there.
    """
    names = _all_names(clause, source)
    for name in names:
        if name.lower() not in wanted.fields_by_lower_name:
            raise InvalidRequestError(
                f"{table} has no column {name!r}, which the source has; leave it out with "
                "except_cols, or merge with merge_schema=True to add it"
            )
    return {find_field(wanted, name).name: name for name in names}


def given_values(clause: Clause, target_alias: str, wanted: StructType) -> dict[ColumnPath, Any]:
    """The values of a clause by the paths of columns and, in rows that are there, of fields.

    Raises:
        InvalidRequestError: A name is none, or a new row is given a field of a struct.
    """
    values = values_by_path(clause.updates or {}, target_alias, wanted)
    for path in values:
        if len(path) > 1 and clause.action == "insert":
            raise InvalidRequestError(
                f"{name_of_path(path)} is a field of column {path[0]}, and a new row is given "
                f"whole columns; give {path[0]} a struct with its fields"
            )
    return values


def values_by_path(
    values: Mapping[Any, Any], alias: str | None, wanted: StructType
) -> dict[ColumnPath, Any]:
    """Values by the paths of columns and fields, which are named as in SQL.

    Args:
        values: By names as `column_names` reads them.
        alias: The table's, which may stand before a name.
        wanted: The table's columns. A name that is none of theirs is a path by itself.

    Raises:
        InvalidRequestError: A name is none, or is given a value twice.
    """
    by_path: dict[ColumnPath, Any] = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise InvalidRequestError(f"{name!r} is no name of a column; give a text")
        path = _path_said(name, alias, wanted)
        if path in by_path:
            raise InvalidRequestError(f"Column {name} is given a value twice; give it once.")
        by_path[path] = value
    return by_path


def _path_said(name: str, alias: str | None, wanted: StructType) -> ColumnPath:
    known = wanted.fields_by_lower_name
    try:
        path = path_of_name(name, wanted)
    except InvalidRequestError:
        return (name,)
    if alias is not None and len(path) > 1 and path[0].lower() == alias.lower():
        path = path[1:]
    return path if len(path) == 1 or path[0].lower() in known else (name,)


def new_columns(
    clauses: Sequence[Clause], source: StructType, target: StructType, target_alias: str
) -> StructType:
    """The columns that clauses take, but those of which the table has all there can be.

    A clause that sets a column which only the source has takes that column, whatever its value.

    Raises:
        InvalidRequestError: A column that is to be left out is not there.
    """
    names = {name for each in clauses if each.takes_all for name in _all_names(each, source)}
    known = target.fields_by_lower_name
    for each in clauses:
        for name, *_ in given_values(each, target_alias, target):
            if name.lower() not in known:
                names |= {found.name for found in source.fields_by_lower_name.get(name.lower(), ())}
    return StructType(
        tuple(
            field
            for field in source.fields
            if field.name in names
            if field.name.lower() not in known
            or isinstance(field.data_type, StructType | ArrayType | MapType)
            or is_number(field.data_type)
        )
    )


def _all_names(clause: Clause, source: StructType) -> list[str]:
    left_out = set(find_columns(source, clause.except_columns))
    return [each.name for each in source.fields if each.name not in left_out]


class MergeEngine(Protocol):
    """How an engine merges rows."""

    name: Engine

    def parse(self, condition: Condition) -> ParsedCondition:
        """What a caller gives for a condition.

        Raises:
            InvalidRequestError: It is none.
        """

    def parse_own(self, text: str) -> ParsedCondition:
        """A text of SQL that we have written, in which every name and value is meant as it is."""

    def join(self, conditions: Sequence[Any]) -> ParsedCondition:
        """The condition that all of these are true, which were parsed from texts."""

    def execute(
        self,
        request: MergeRequest,
        clauses: Sequence[Clause],
        snapshot: Snapshot,
        changed: Changed,
    ) -> Mapping[str, int]:
        """Write the files of a merge, and return its `operationMetrics`.

        Args:
            request: What is asked for.
            clauses: In the order in which they decide.
            snapshot: The table before.
            changed: Collects the files.

        Raises:
            InvalidRequestError: A name, type or value does not fit, or a row breaks a rule.
        """

    @property
    def discard(self) -> Discard:
        """Deletes files that no version names or can come to name."""


class Merge:
    """A merge in the making; of the clauses for a row the first whose condition holds decides.

    Conditions are texts of SQL or expressions, and so are values in `updates`, such as
    `"source.x + 1"`; Python values of another kind are taken as they are, and `lit("text")` is a
    text.
    """

    def __init__(
        self, request: MergeRequest, engine: MergeEngine, clauses: Sequence[Clause] = ()
    ) -> None:
        self._request, self._engine, self._clauses = request, engine, list(clauses)

    def when_matched_update(
        self, updates: Mapping[str, Any], predicate: Condition | None = None
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
        predicate: Condition | None = None,
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

    def when_matched_delete(self, predicate: Condition | None = None) -> Merge:
        """Delete rows that meet one of the source."""
        validate_arguments(Merge.when_matched_delete, locals())
        return self._add(
            Clause(occasion="matched", action="delete", predicate=self._parse(predicate))
        )

    def when_not_matched_insert(
        self, updates: Mapping[str, Any], predicate: Condition | None = None
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
        predicate: Condition | None = None,
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
        self, updates: Mapping[str, Any], predicate: Condition | None = None
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

    def when_not_matched_by_source_delete(self, predicate: Condition | None = None) -> Merge:
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
        request, clauses, engine = self._request, self._clauses, self._engine
        if not clauses:
            raise InvalidRequestError(
                "A merge has no clause; add one, such as when_matched_update_all()"
            )
        transaction, _ = open_for_change(
            request.target, request.storage_options, request.on_event, "merged", engine.name
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
        request = replace(request, taken=[])

        def make(changed: Changed) -> Mapping[str, int]:
            return engine.execute(request, clauses, changed.snapshot, changed)

        return commit_change(transaction, change, make, engine.discard)

    def _add(self, clause: Clause) -> Merge:
        return Merge(self._request, self._engine, [*self._clauses, clause])

    def _parse(self, predicate: Condition | None) -> ParsedCondition | None:
        return None if predicate is None else self._engine.parse(predicate)


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
