"""Engine: the one port through which an engine reads, writes and changes the rows of a table.

`arrow/engine.py` and `spark/engine.py` implement it. A public verb builds a request, `transaction`
decides the definition of the table and which files change, the engine writes data files, and
`transaction` commits. An engine never commits. A method that raises leaves no file behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.features import Engine as EngineName
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.row_rules import Check, NotNull
from delta_ops.protocol.schema import NO_COLUMNS, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import Storage
from delta_ops.transaction.requests import DeleteRequest, MergeRequest, UpdateRequest
from delta_ops.transaction.rewrite_group import RewriteGroup
from delta_ops.transaction.row_changes import Changed
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.staging import Staged
from delta_ops.transaction.transaction import Transaction

CheckRows = Callable[[Snapshot, TableDefinition, Sequence[Check | NotNull]], None]
"""`Engine.check_rows`, as public functions take it for their argument `engine`."""


class Condition(Protocol):
    """A condition as an engine parsed it."""

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


class Engine(Protocol):
    """Rows as data files, and data files as rows."""

    name: EngineName

    def attach(self, transaction: Transaction) -> None:
        """Prepare for reading and writing the files of a transaction's table.

        Sets the time zone of partition timestamps without one.
        """

    def schema_of(self, data: Any, known: StructType = NO_COLUMNS) -> StructType:
        """The schema of a table with these rows.

        Args:
            data: Rows as the engine takes them.
            known: Columns of an existing table. The schema may lack those among them that are
                neither nested nor numbers, since no data change them.
        """

    def write_rows(
        self, data: Any, transaction: Transaction, rules: Sequence[SourceRule] = ()
    ) -> Staged:
        """Write rows to new files.

        Args:
            data: Rows as the engine takes them.
            transaction: Decides the definition of the table.
            rules: Conditions that every row must keep.

        Raises:
            InvalidRequestError: The data do not fit the table, or a row breaks a rule.
        """

    def write_survivors(
        self, files: Sequence[AddFile], predicate: Predicate, transaction: Transaction
    ) -> Staged:
        """Write live files again, without the rows for which the predicate is true."""

    def write_replacement(
        self, replaced: Iterable[AddFile], predicate: Predicate, transaction: Transaction
    ) -> tuple[AddCdcFile, ...]:
        """Write change files of an overwrite.

        Args:
            replaced: Live files. Their rows for which the predicate is true are deleted.
            predicate: The rows that are replaced.
            transaction: The rows of its new files are inserted.
        """

    def parse_condition(self, given: Any) -> Condition:
        """Parse the condition of a merge or of one of its clauses.

        Args:
            given: SQL text, or what else the engine takes for a condition.

        Raises:
            InvalidRequestError: It is no condition.
        """

    def parse_own_condition(self, text: str) -> Condition:
        """Parse SQL text that delta_ops wrote; it has no variables of a session."""

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
        """Write the rows of a group of files again; `data_change` of the new files is False.

        Raises:
            InvalidRequestError: The engine cannot write the order; raised before a file is read.
            DataFileError: An input file is gone or cannot be read.
        """

    def check_rows(
        self, snapshot: Snapshot, definition: TableDefinition, rules: Sequence[Check | NotNull]
    ) -> None:
        """Validate that the rows of a snapshot keep new rules.

        Args:
            definition: The table with the rules.

        Raises:
            InvalidRequestError: A row breaks a rule, or the engine cannot evaluate a rule.
        """

    def discard(self, storage: Storage, files: Sequence[AddFile | AddCdcFile]) -> None:
        """Delete files that no version names or can come to name."""
