"""RewriteGroup: files to be replaced by others with the same rows, fewer or better laid out.

Maintenance plans them, an engine executes them; neither knows the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.stats.indexed_columns import StatsSettings
from delta_ops.transaction.staging import Staged

Curve = Literal["zorder", "hilbert"]
"""How a line goes through all combinations of values: both keep neighbours near each other, and
Hilbert's makes no jumps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveOrder:
    """Rows by the place of their values on a curve; by one column, plainly by its values.

    On each axis stand the ranks of the column's values, not the values: an engine may take them
    from a sample, and so may cut files at other rows than another one. Nulls come first and NaN
    last, as Spark sorts. Rows of equal ranks are in one file, unless that would be far too large.
    """

    columns: tuple[ColumnPath, ...]
    """Up to `MAX_ORDER_COLUMNS`, by the names that users see, down to a field of structs."""
    curve: Curve = "zorder"


MAX_ORDER_COLUMNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroup:
    """Input files of one partition, in the order in which their rows are written again."""

    files: tuple[AddFile, ...]
    target_size_bytes: int
    """About how large each output file should be."""
    order: CurveOrder | None = None
    """The order of the rows over all output files; None: that of the input."""

    apart: Predicate | None = None
    """Rows for which it is true are in files of their own: of an order by one column the last ones,
    so that what continues the table and what lies beside older data do not share a file."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the input files."""
        return sum(add.size for add in self.files)


Rewriter = Callable[[Snapshot, RewriteGroup], Staged]
"""`Engine.rewrite`, as public functions take it for their argument `engine`."""


class Together(Protocol):
    """Groups that are under way beside each other."""

    def rewriter(self) -> Rewriter:
        """What executes one group in whatever thread; asked for in that which waits for all."""

    def cancel(self) -> None:
        """Have what is under way end soon; raises nothing."""


@runtime_checkable
class ParallelRewriter(Protocol):
    """A `Rewriter` that executes several groups at once."""

    @property
    def num_at_once(self) -> int:
        """How many groups without an order are best under way."""

    def __call__(self, snapshot: Snapshot, group: RewriteGroup) -> Staged:
        """Execute a group."""

    def together(self) -> AbstractContextManager[Together]:
        """For groups in several threads."""


Describer = Callable[[Snapshot, Sequence[AddFile], StatsSettings], Sequence[str | None]]
"""Makes the statistics of live files from their rows; None of a file that has none."""
