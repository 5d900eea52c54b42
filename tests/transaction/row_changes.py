"""A model of transactions as changes of rows, with the possible results of concurrent transactions.

Every operation has three forms: its effect on any rows (`apply`), its reads, removes and adds on
the first rows (`footprint`), and its execution in a transaction (`stage`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import Transaction, col
from delta_ops.arrow.read.scan import read_files
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction import RewriteGroup
from delta_ops.transaction.replacement import plan_replacement

Row = tuple[int, str]
"""Rows of id and p."""
File = frozenset[Row]
"""Files are compared by rows: no two files of the model have the same rows."""
Matches = Callable[[Row], bool]

FIRST: tuple[File, ...] = tuple(
    frozenset((number, partition) for number in numbers)
    for partition, numbers in (
        ("a", (0, 1)),
        ("a", (2, 3)),
        ("b", (10, 11)),
        ("b", (12,)),
        ("c", (20,)),
    )
)
"""The initial files of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The visible state of a table."""

    rows: tuple[Row, ...]
    """In order."""
    interval: str
    """The property that is changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The effect of an operation on the first files."""

    reads: Matches | None = None
    removed: frozenset[File] = frozenset()
    added: tuple[Row, ...] = ()
    rearranges: bool = False
    changes_metadata: bool = False

    @property
    def is_blind(self) -> bool:
        return self.reads is None and not self.removed


@dataclass(frozen=True, slots=True)
class Append:
    rows: tuple[Row, ...]

    def apply(self, state: State) -> State:
        return replace_rows(state, [*state.rows, *self.rows])

    def footprint(self) -> Footprint:
        return Footprint(added=self.rows)

    def stage(self, transaction: Transaction) -> None:
        stage_rows(transaction, self.rows)


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace the matching rows; without new rows a delete."""

    predicate: Predicate
    matches: Matches
    rows: tuple[Row, ...] = ()

    def apply(self, state: State) -> State:
        return replace_rows(state, [*(r for r in state.rows if not self.matches(r)), *self.rows])

    def footprint(self) -> Footprint:
        removed = frozenset(file for file in FIRST if any(map(self.matches, file)))
        survivors = [row for file in removed for row in file if not self.matches(row)]
        return Footprint(reads=self.matches, removed=removed, added=(*survivors, *self.rows))

    def stage(self, transaction: Transaction) -> None:
        assert transaction.snapshot
        transaction.read(self.predicate)
        plan = plan_replacement(transaction.snapshot, self.predicate)
        transaction.remove_rows(plan.matched)
        transaction.remove(plan.mixed)
        mixed = read_files(transaction.snapshot, plan.mixed, ["id", "p"])
        survivors = [row for table in mixed for row in rows_in(table) if not self.matches(row)]
        stage_rows(transaction, (*survivors, *self.rows))


@dataclass(frozen=True, slots=True)
class Rearrange:
    """Combine the files of a partition."""

    partition: str

    def apply(self, state: State) -> State:
        return state

    def footprint(self) -> Footprint:
        removed = frozenset(file for file in FIRST if (self.partition in {p for _, p in file}))
        return Footprint(removed=removed, rearranges=True)

    def stage(self, transaction: Transaction) -> None:
        assert transaction.snapshot
        files = tuple(transaction.snapshot.add_files(col("p") == self.partition))
        group = RewriteGroup(files=files, target_size_bytes=1 << 20)
        staged = da.rewrite(transaction.snapshot, group)
        adds = tuple(replace(add, data_change=False) for add in staged.adds)
        transaction.stage(replace(staged, adds=adds))
        transaction.remove(files, data_change=False)


@dataclass(frozen=True, slots=True)
class Summarise:
    """Append one partition's sum to another: a write that depends on its reads."""

    source: str
    target: str

    def apply(self, state: State) -> State:
        return replace_rows(state, [*state.rows, self._sum(state.rows)])

    def footprint(self) -> Footprint:
        rows = [row for file in FIRST for row in file]
        return Footprint(reads=lambda row: row[1] == self.source, added=(self._sum(rows),))

    def stage(self, transaction: Transaction) -> None:
        assert transaction.snapshot
        of_source = col("p") == self.source
        transaction.read(of_source)
        rows = rows_in(da.to_table(transaction.snapshot, predicate=of_source))
        stage_rows(transaction, (self._sum(rows),))

    def _sum(self, rows: tuple[Row, ...] | list[Row]) -> Row:
        return 1000 + sum(number for number, p in rows if p == self.source), self.target


@dataclass(frozen=True, slots=True)
class ChangeProperty:
    interval: str

    def apply(self, state: State) -> State:
        return replace(state, interval=self.interval)

    def footprint(self) -> Footprint:
        return Footprint(changes_metadata=True)

    def stage(self, transaction: Transaction) -> None:
        transaction.set_properties({"delta.checkpointInterval": self.interval})


Operation = Append | Replace | Rearrange | Summarise | ChangeProperty


def overlaps(winner: Operation, ours: Operation, level: str) -> bool:
    """Whether the winner, prepared on the same rows, may invalidate our transaction.

    By the docs, changes of metadata conflict with everything that follows them.
    """
    won, own = winner.footprint(), ours.footprint()
    if won.changes_metadata or won.removed & own.removed:
        return True
    if own.reads is None or won.rearranges:
        return False
    if any(own.reads(row) for file in won.removed for row in file):
        return True
    may_come_after = level == "WriteSerializable" and won.is_blind
    return not may_come_after and any(map(own.reads, won.added))


def replace_rows(state: State, rows: list[Row]) -> State:
    return replace(state, rows=tuple(sorted(rows)))


def rows_in(table: pa.Table) -> list[Row]:
    return list(zip(table["id"].to_pylist(), table["p"].to_pylist(), strict=True))


def table_of(rows: tuple[Row, ...] | list[Row] | File) -> pa.Table:
    ordered = sorted(rows)
    return pa.table(
        {
            "id": pa.array([i for i, _ in ordered], pa.int64()),
            "p": pa.array([p for _, p in ordered], pa.string()),
        }
    )


def stage_rows(transaction: Transaction, rows: tuple[Row, ...]) -> None:
    if rows:
        transaction.stage(da.stage_write(transaction, table_of(rows)))
