"""Rewrite groups: files to replace by fewer or better sorted files with the same rows.

Maintenance plans the groups and an engine executes them; the two do not know each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.mapping import logical_path, physical_path
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.stats.indexed_columns import StatsSettings
from delta_ops.protocol.table_definition import TableDefinition

Curve = Literal["zorder", "hilbert"]
"""A curve through all combinations of values. Both keep close values close; Hilbert has no jumps.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveOrder:
    """Sort rows along a curve through several columns; a single column is sorted by its values.

    Each axis holds the ranks of a column's values, not the values. An engine may take the ranks
    from a sample, so two engines may split files at different rows. Nulls come first and NaN last,
    as Spark sorts. Rows with equal ranks share a file, unless the file would be far too large.
    """

    columns: tuple[ColumnPath, ...]
    """Up to `MAX_ORDER_COLUMNS` columns or struct fields, by logical names."""
    curve: Curve = "zorder"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOrder:
    """Sort rows by the columns of the sort key, one after the other: merge sorted files.

    Nulls come first, as Spark sorts.
    """

    columns: tuple[ColumnPath, ...]
    """The sort key of the table, by logical names."""


RowOrder = CurveOrder | KeyOrder
MAX_ORDER_COLUMNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroup:
    """Input files of one partition, in the order of rewriting."""

    files: tuple[AddFile, ...]
    target_size_bytes: int
    """Approximate size of each output file."""
    order: RowOrder | None = None
    """The order of the rows over all output files; None keeps the input order."""

    separate: Predicate | None = None
    """Matching rows get their own files, in a `CurveOrder`. With an order by one column these are
    the last files, so rows that continue the table do not share a file with rows that overlap older
    data."""
    definition: TableDefinition | None = None
    """The definition that the new files follow, with the same columns; None for the snapshot's."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the input files."""
        return sum(add.size for add in self.files)

    def clustering_columns(self, snapshot: Snapshot) -> tuple[ColumnPath, ...]:
        """The clustering columns under their names in the new files."""
        columns = snapshot.clustering_columns
        if self.definition is None:
            return columns
        after = self.definition.schema
        return tuple(physical_path(logical_path(each, snapshot.schema), after) for each in columns)


Describer = Callable[[Snapshot, Sequence[AddFile], StatsSettings], Sequence[str | None]]
"""Computes the statistics of live files from their rows; None for a file without statistics."""
