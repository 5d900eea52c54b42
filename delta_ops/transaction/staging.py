"""Staging: the table that an engine writes files for, and the files that it has written."""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.events import OnEvent
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.identity import Counted
from delta_ops.protocol.row_rules import RowRule
from delta_ops.protocol.schema import ColumnPath, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The table that an engine writes files for, after the commit."""

    storage: Storage
    """Rooted at the table."""
    definition: TableDefinition
    clustered_by: tuple[ColumnPath, ...]
    """The clustering columns, by physical names."""
    now_ms: int
    """Time of the write, in milliseconds since the Unix epoch."""
    on_event: OnEvent

    @property
    def table(self) -> str:
        """The table's root, for messages."""
        return self.storage.uri


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Durable data files that an engine has written, and that no version names yet."""

    adds: tuple[AddFile, ...]
    schema: StructType
    """The columns of the written rows, partition columns included."""
    partition_columns: tuple[str, ...]
    num_rows: int
    row_rules: frozenset[RowRule] = frozenset()
    """The rules that the engine checked on every row."""

    counted: tuple[Counted, ...] = ()
    """The values of identity columns that the rows use."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(add.size for add in self.adds)
