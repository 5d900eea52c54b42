"""Staged files: written and durable data files that no version names yet."""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.identity import Counted
from delta_ops.protocol.row_rules import RowRule
from delta_ops.protocol.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Files that an engine has written, for a transaction to commit."""

    adds: tuple[AddFile, ...]
    schema: StructType
    """The columns of the written rows, partition columns included."""
    partition_columns: tuple[str, ...]
    num_rows: int
    row_rules: frozenset[RowRule] = frozenset()
    """The rules that the engine checked on every row."""

    counted: tuple[Counted, ...] = ()
    """The values that the rows took of identity columns."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(add.size for add in self.adds)
