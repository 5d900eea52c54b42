"""Requests of the public verbs, the same for both engines.

A public verb takes the options of its `TypedDict` as keyword arguments and builds the request.
`shares_options` adds the options to the signature and the documentation of the verb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict

from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.events import OnEvent, ignore
from delta_ops.log.delta_log import DeltaLog, TableOrPlace
from delta_ops.option_words import option
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.implication import predicate_of
from delta_ops.protocol.predicate import Predicate
from delta_ops.storage.paths import redact
from delta_ops.transaction.commit.hooks import DEFAULT_HOOKS, Hook
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.transaction import Transaction

Target = TableOrPlace | Transaction
Mode = Literal["append", "overwrite", "error", "ignore"]
PartitionOverwriteMode = Literal["static", "dynamic"]
ClauseKind = Literal["matched", "not matched", "not matched by source"]
Action = Literal["update", "delete", "insert"]


class TableOptions(TypedDict, total=False):
    """Options of every verb that writes.

    Args:
        storage_options: Options for the store.
        on_event: Receives an event for each step.

    Raises:
        StorageError: The store failed; the new files are deleted.
        UnsupportedFeatureError: The table uses a feature that this engine cannot write.
    """

    storage_options: Mapping[str, Any] | None
    on_event: OnEvent


class CommitOptions(TableOptions, total=False):
    """Options of every verb that commits.

    Args:
        txn: Application id and version. If the table already holds this version or a later one,
            the verb changes nothing.
        user_metadata: Any text, stored in the commit.
        hooks: Steps after the commit; by default they write a checksum and each due checkpoint.

    Raises:
        CommitConflictError: A concurrent commit invalidates this one; the new files are deleted.
        CommitStateUnknownError: The store did not report whether the commit exists; the new files
            stay.
    """

    txn: Txn | tuple[str, int] | None
    user_metadata: str | None
    hooks: Sequence[Hook]


class WriteOptions(CommitOptions, total=False):
    """Options of `write` in both engines, which also have `replace_where`.

    Args:
        mode: "append", "overwrite" (replaces all rows, or the rows that match `replace_where`),
            "error" or "ignore" (both create a table; if it exists, "error" raises and "ignore"
            does nothing).
        partition_by: Partition columns of a new table. For an existing table its own partition
            columns, or None.
        partition_overwrite_mode: "dynamic" replaces the partitions that occur in the data, or all
            rows if the table has no partitions.
        merge_schema: Add columns, and fields of structs, that only the data have. Columns of the
            table keep their types.
        overwrite_schema: The columns of the data replace the columns of the table, and
            `partition_by` its partitioning. Requires an overwrite of all rows.
        configuration: Table properties of a new table. An existing table keeps its own; the log
            has a warning for each property that differs.

    Raises:
        InvalidRequestError: The options contradict each other, or the data do not fit the table.
        TableExistsError: The table exists, and the mode is "error".
    """

    partition_overwrite_mode: PartitionOverwriteMode
    merge_schema: bool
    overwrite_schema: bool
    configuration: Mapping[str, str] | None


class MergeOptions(CommitOptions, total=False):
    """Options of `merge`.

    Args:
        source_alias: The name of the source in expressions; by default "source".
        target_alias: The name of the table in expressions; by default "target".
        merge_schema: Add columns, and fields of structs, that clauses take from the source and the
            table does not have.

    Raises:
        InvalidRequestError: An argument has a wrong type, or the predicate cannot be parsed.
    """

    source_alias: str
    target_alias: str
    merge_schema: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """The common part of all requests that commit."""

    options: ClassVar[tuple[type, ...]] = (TableOptions,)
    """Option sets of verbs with this request, the verb's own first."""

    target: Target
    txn: Txn | tuple[str, int] | None = None
    user_metadata: str | None = None
    storage_options: Mapping[str, Any] | None = None
    hooks: Sequence[Hook] = DEFAULT_HOOKS
    on_event: OnEvent = ignore


class RecordedOperation(NamedTuple):
    """An operation in the history of a table."""

    name: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One batch of a streaming query."""

    query_id: str
    """The id of the query; it stays the same while the query's checkpoint exists."""
    number: int
    output_mode: Literal["append", "complete", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest(CommitRequest):
    """Rows to write."""

    options: ClassVar[tuple[type, ...]] = (WriteOptions, CommitOptions, TableOptions)

    mode: Mode = "append"
    partition_by: Sequence[str] | None = None
    """Partition columns of a new table or an overwritten schema. None keeps the table's own."""
    replace_where: Predicate | None = None
    """The rows that an overwrite replaces; None: all."""
    partition_overwrite_mode: PartitionOverwriteMode = "static"
    """"dynamic": an overwrite replaces the partitions that occur in the data."""
    merge_schema: bool = False
    """Whether the table gets the columns that only the data have."""
    overwrite_schema: bool = False
    """Whether the columns of the data replace the columns of the table."""
    configuration: Mapping[str, str] | None = None
    """Table properties of a new table."""
    epoch: Epoch | None = None
    """The batch of a stream that is written."""
    source_rules: Sequence[SourceRule] = ()
    """Conditions that every row must meet."""
    recorded_as: RecordedOperation | None = None
    """How the history shows the commit; None: as a WRITE."""


def write_request(
    target: Target,
    mode: Mode,
    partition_by: Sequence[str] | None,
    replace_where: Predicate | Expression | str | None,
    options: WriteOptions,
) -> WriteRequest:
    """The request of a write with these options.

    Raises:
        InvalidRequestError: `replace_where` does more than compare columns with literals.
    """
    with naming_table(name_of(target)):
        rows = predicate_of(replace_where)
    return WriteRequest(
        target=target, mode=mode, partition_by=partition_by, replace_where=rows, **options
    )


def name_of(target: Target) -> str:
    """The place of a table, for errors."""
    match target:
        case Transaction():
            return target.log.uri
        case DeltaLog():
            return target.uri
    return redact(str(target))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest(CommitRequest):
    """Rows to delete."""

    options: ClassVar[tuple[type, ...]] = (CommitOptions, TableOptions)

    predicate: Any = None
    """The condition in a form that the engine accepts; None: all rows."""
    target_alias: str | None = None
    """The name of the table in the predicate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest(CommitRequest):
    """New values for columns of some rows."""

    options: ClassVar[tuple[type, ...]] = (CommitOptions, TableOptions)

    assignments: Mapping[str, Any]
    """New values by column."""
    predicate: Any = None
    """The condition in a form that the engine accepts; None: all rows."""
    target_alias: str | None = None
    """The name of the table in predicate and assignments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause of a merge."""

    kind: ClauseKind
    action: Action
    updates: Mapping[str, Any] | None = None
    """Values by column; None: all columns of the source."""
    predicate: Any = None
    """The condition, parsed by the engine; None: always true."""
    except_columns: Sequence[str] = ()

    @property
    def takes_all(self) -> bool:
        """Whether the clause takes all columns of the source."""
        return self.updates is None and self.action != "delete"

    @property
    def described(self) -> dict[str, str]:
        """The clause in `operationParameters`, as the reference implementation writes it."""
        parameters = {} if self.predicate is None else {"predicate": self.predicate.text}
        return {"actionType": self.action, **parameters}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest(CommitRequest):
    """Rows of a source to merge into a table."""

    options: ClassVar[tuple[type, ...]] = (MergeOptions, CommitOptions, TableOptions)

    source: Any
    predicate: Any
    """The condition that matches rows of table and source, parsed by the engine."""
    source_alias: str = "source"
    target_alias: str = "target"
    merge_schema: bool = False
    """Whether the table gets the columns that clauses take from the source."""
    clauses: Sequence[Clause] = ()
    """Clauses in order; the first clause with a true condition applies to a row."""
    source_rules: Sequence[SourceRule] = ()
    """Conditions that every row of the source must meet."""

    def __post_init__(self) -> None:
        if self.target_alias.lower() == self.source_alias.lower():
            raise InvalidRequestError(
                f"target and source are both called {self.target_alias}; give another "
                f"{option('source_alias')} or {option('target_alias')}"
            )
