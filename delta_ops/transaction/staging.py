"""Staged: data files that are written, durable and described, and that no version names yet."""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.identity import Counted
from delta_ops.protocol.row_rules import RowRule
from delta_ops.protocol.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What an engine hands to a transaction."""

    adds: tuple[AddFile, ...]
    schema: StructType
    """The columns of the rows written, partition columns included."""
    partition_columns: tuple[str, ...]
    num_rows: int
    row_rules: frozenset[RowRule] = frozenset()
    """The rules that the engine checked on every row."""

    counted: tuple[Counted, ...] = ()
    """The values that the rows have taken of identity columns."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(add.size for add in self.adds)
