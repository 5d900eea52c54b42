"""Existing rows: what an engine is asked before a table demands something new of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from delta_ops.log import Snapshot
from delta_ops.protocol.row_rules import Check, NotNull
from delta_ops.protocol.table_definition import TableDefinition

RowChecker = Callable[[Snapshot, TableDefinition, Sequence[Check | NotNull]], None]
"""An engine's way to hold rules against the rows of a snapshot, by the table as it would be.

It raises `InvalidRequestError`, with the rule and a row, where a row breaks one, and where it
cannot evaluate one.
"""
