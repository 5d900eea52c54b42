"""Engine: the port for an engine that reads, writes and changes the rows of a table.

`arrow/engine.py` and `spark/engine.py` implement it. A public verb builds a request, `transaction`
decides the definition of the table and which files change, the engine writes data files, and
`transaction` commits. An engine never commits. A method that raises leaves no file behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.features import Engine as EngineName
from delta_ops.protocol.row_rules import Check, NotNull
from delta_ops.protocol.schema import NO_COLUMNS, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import Storage
from delta_ops.transaction.replacement import ReplacedRows
from delta_ops.transaction.requests import DeleteRequest, MergeRequest, UpdateRequest
from delta_ops.transaction.rewrite_group import RewriteGroup
from delta_ops.transaction.row_changes import Changed
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.staging import Staged, WriteTarget
from delta_ops.transaction.transaction import Transaction

P = ParamSpec("P")
R = TypeVar("R")

CheckRows = Callable[[Snapshot, TableDefinition, Sequence[Check | NotNull]], None]
"""`Engine.check_rows`, or a function around it: valid where a public function takes an engine."""
RewriteFiles = Callable[[Snapshot, RewriteGroup], Staged]
"""`Engine.rewrite`, or a function around it: valid where a public function takes an engine."""


class Condition(Protocol):
    """A condition that an engine has parsed."""

    @property
    def text(self) -> str:
        """The condition in SQL."""


class PlannedChange(Protocol):
    """A delete, update or merge on one table."""

    @property
    def text(self) -> str:
        """The condition in SQL; "true" for all rows."""

    def change_rows(self, changed: Changed) -> Mapping[str, int]:
        """Write and remove files.

        Runs again, with another transaction, if a compaction committed first.

        Args:
            changed: Collects the files.

        Returns:
            The `operationMetrics`.

        Raises:
            InvalidRequestError: A value does not fit its column, or a row breaks a rule.
        """


class Together(Protocol):
    """Calls of an engine in several threads."""

    def bind(self, call: Callable[P, R]) -> Callable[P, R]:
        """Prepare a call for one use in any thread; the waiting thread prepares it."""

    def cancel(self) -> None:
        """Make running calls end soon; raises nothing."""


@runtime_checkable
class Engine(Protocol):
    """Reads rows from data files, and writes rows to data files."""

    name: EngineName

    def attach(self, transaction: Transaction) -> None:
        """Prepare for reading and writing the files of a transaction's table.

        Sets the time zone of partition timestamps without one.
        """

    def schema_of(self, data: Any, known: StructType = NO_COLUMNS) -> StructType:
        """The schema of a table with these rows.

        Args:
            data: Rows in a form that the engine accepts.
            known: Columns of an existing table. The schema may omit known columns, except nested
                and numeric columns, because data cannot change the type of other columns.
        """

    def write_rows(
        self, data: Any, target: WriteTarget, rules: Sequence[SourceRule] = ()
    ) -> Staged:
        """Write rows to new files.

        Args:
            data: Rows in a form that the engine accepts.
            target: The table.
            rules: Conditions that every row must meet.

        Raises:
            InvalidRequestError: The data do not fit the table, or a row breaks a rule.
        """

    def write_survivors(self, replaced: ReplacedRows, target: WriteTarget) -> Staged:
        """Write the other rows of the files with replaced rows."""

    def write_replacement(
        self, replaced: ReplacedRows, added: Sequence[AddFile], target: WriteTarget
    ) -> tuple[AddCdcFile, ...]:
        """Write change files of an overwrite.

        Args:
            replaced: Rows to record as deleted.
            added: New files of the commit; their rows are recorded as inserted.
            target: The table.
        """

    def parse_condition(self, condition: Any) -> Condition:
        """Parse the condition of a merge or of one of its clauses.

        Args:
            condition: SQL text, an expression, or another form that the engine accepts. Text may
                use variables of the engine's session; an expression may not.

        Raises:
            InvalidRequestError: The value is not a condition.
        """

    def join_conditions(self, conditions: Sequence[Any]) -> Condition:
        """Join parsed SQL texts by AND."""

    def plan_change(
        self, request: DeleteRequest | UpdateRequest | MergeRequest, transaction: Transaction
    ) -> PlannedChange:
        """Resolve the names of a request; reads no row of the table.

        Raises:
            InvalidRequestError: An argument does not fit the table.
        """

    def rewrite(self, snapshot: Snapshot, group: RewriteGroup) -> Staged:
        """Rewrite the rows of a group of files; `data_change` of the new files is False.

        Raises:
            InvalidRequestError: The engine cannot write the order; raised before a file is read.
            DataFileError: An input file is missing or cannot be read.
        """

    def num_rewrites_at_once(self) -> int:
        """How many groups are best rewritten at the same time, if their rows need no sorting."""

    def together(self) -> AbstractContextManager[Together | None]:
        """Context for calls in several threads.

        None: the engine holds the rows in this process, and threads need no preparation.
        """

    def check_rows(
        self, snapshot: Snapshot, definition: TableDefinition, rules: Sequence[Check | NotNull]
    ) -> None:
        """Validate that the rows of a snapshot meet new rules.

        Args:
            definition: The table with the rules.

        Raises:
            InvalidRequestError: A row breaks a rule, or the engine cannot evaluate a rule.
        """

    def discard(self, storage: Storage, files: Sequence[AddFile | AddCdcFile]) -> None:
        """Delete files that no present or later version names."""
