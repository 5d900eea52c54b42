"""Existing rows: what an engine is asked before a table demands something new of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from delta_ops.log import Snapshot
from delta_ops.protocol.row_rules import Check, NotNull
from delta_ops.protocol.table_definition import TableDefinition


class RowChecker(Protocol):
    """How an engine holds rules against the rows that are there."""

    def __call__(
        self, snapshot: Snapshot, wanted: TableDefinition, rules: Sequence[Check | NotNull]
    ) -> None:
        """Read all rows that may break a rule.

        Args:
            snapshot: The rows.
            wanted: The table as it would be; the rules are among its own.

        Raises:
            InvalidRequestError: A row breaks a rule, with the rule and a row; or the engine cannot
                evaluate one.
        """
