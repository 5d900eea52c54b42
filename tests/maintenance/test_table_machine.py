"""A state machine: our two writers and a foreign writer on one table, against a model of its rows.

Each writer may begin a transaction at one step and commit it at a later step, after other commits.
The rows of the latest version are read after each step, and the rows of every version after some
steps and at the end, by us and by deltalake. They must match the model.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import delta_ops.arrow as da
from delta_ops import DeltaLog, Transaction, begin, col
from delta_ops.errors import CommitConflictError
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import create_checkpoint, optimize
from tests.support.tables import rows_by_deltalake
from tests.transaction.row_changes import (
    Append,
    ChangeProperty,
    Operation,
    Rearrange,
    Replace,
    Row,
    State,
    Summarise,
    rows_in,
    table_of,
)

PARTITIONS = ("a", "b", "c")
STEPS_BETWEEN_ALL_VERSIONS = 4


def of_partition(partition: str, numbers: tuple[int, ...]) -> Replace:
    new = tuple((number, partition) for number in numbers)
    return Replace(col("p") == partition, lambda row: row[1] == partition, new)


def of_ids_from(least: int, partition: str, numbers: tuple[int, ...]) -> Replace:
    new = tuple((least + number, partition) for number in numbers)
    return Replace(col("id") >= least, lambda row: row[0] >= least, new)


partitions = st.sampled_from(PARTITIONS)
ids = st.integers(0, 9)
least_ids = st.sampled_from([0, 3, 7])  # the least of all, or of some
few_ids = st.lists(ids, max_size=3).map(tuple)
some_rows = st.lists(st.tuples(ids, partitions), min_size=1, max_size=4).map(tuple)
replacements = st.builds(of_partition, partitions, few_ids) | st.builds(
    of_ids_from, least_ids, partitions, few_ids
)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Append, some_rows),
    replacements,
    st.builds(Rearrange, partitions),
    st.builds(Summarise, partitions, partitions),
    st.builds(ChangeProperty, st.sampled_from(["3", "4", "100"])),
)
writers = st.sampled_from([0, 1])


class Pending(NamedTuple):
    operation: Operation
    transaction: Transaction
    version: int
    """The version that the transaction began on."""


class Written(NamedTuple):
    """An acknowledged write that may run again."""

    txn: tuple[str, int]
    rows: tuple[Row, ...]
    version: int


class TableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.logs = [DeltaLog(self.root / "t"), DeltaLog(self.root / "t")]
        self.pending: dict[int, Pending] = {}
        self.states: list[State] = []
        self.causes: list[Operation | None] = []
        """The operation of each version; None for foreign commits and rearrangements."""
        self.written: list[Written] = []
        self.num_steps = 0

    def teardown(self) -> None:
        if self.states:
            self.check_all_versions()
        shutil.rmtree(self.root)

    @property
    def table(self) -> Path:
        return self.root / "t"

    @initialize(rows=some_rows)
    def create(self, rows: tuple[Row, ...]) -> None:
        properties = {"delta.checkpointInterval": "3"}
        da.write(self.logs[0], table_of(rows), partition_by=["p"], configuration=properties)
        self.states.append(State(rows=tuple(sorted(rows)), interval="3"))
        self.causes.append(Append(rows))
        self.foreign = DeltaTable(self.table)

    @rule(both=st.lists(operations, min_size=1, max_size=2))
    def begin(self, both: list[Operation]) -> None:
        for writer, operation in enumerate(both):
            self.prepare(writer, operation)

    def prepare(self, writer: int, operation: Operation) -> bool:
        """Whether there is anything to commit."""
        transaction = begin(self.logs[writer])
        assert transaction.snapshot
        if isinstance(operation, Rearrange) and not transaction.snapshot.add_files(
            col("p") == operation.partition
        ):
            return False
        operation.stage(transaction)
        self.pending[writer] = Pending(operation, transaction, len(self.states) - 1)
        return True

    @rule(first=operations, second=operations)
    def race(self, first: Operation, second: Operation) -> None:
        for writer, operation in enumerate((first, second)):
            self.prepare(writer, operation)
        for writer in sorted(self.pending):
            self.commit_pending(*self.pending.pop(writer))

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        waiting = st.sampled_from(sorted(self.pending))
        for writer in data.draw(st.lists(waiting, min_size=1, unique=True)):
            self.commit_pending(*self.pending.pop(writer))

    def commit_pending(self, operation: Operation, transaction: Transaction, version: int) -> None:
        since = self.causes[version + 1 :]
        try:
            transaction.commit(operation="WRITE")
        except CommitConflictError:
            is_blind = isinstance(operation, Append | ChangeProperty)
            assert any(isinstance(cause, ChangeProperty) or not is_blind for cause in since)
        else:
            self.committed(operation)

    @rule(writer=writers, operation=operations)
    def do(self, writer: int, operation: Operation) -> None:
        """Begin and commit at once, with another handle than a waiting transaction."""
        waiting = dict(self.pending)
        if self.prepare(writer, operation):
            assert self.pending[writer].transaction.commit(operation="WRITE").attempts == 1
            self.committed(operation)
        self.pending = waiting

    @rule(writer=writers, rows=some_rows)
    def append(self, writer: int, rows: tuple[Row, ...]) -> None:
        txn = (f"writer {writer}", len(self.states))
        result = da.write(self.logs[writer], table_of(rows), txn=txn)
        assert result.version == len(self.states)
        self.written.append(Written(txn, rows, result.version))
        self.committed(Append(rows))

    @precondition(lambda self: self.written)
    @rule(data=st.data(), writer=writers)
    def append_again(self, data: st.DataObject, writer: int) -> None:
        txn, rows, version = data.draw(st.sampled_from(self.written))
        result = da.write(self.logs[writer], table_of(rows), txn=txn)
        assert result.already_committed
        last = max(w.version for w in self.written if w.txn[0] == txn[0])
        assert result.version == last >= version

    @rule(writer=writers, operation=replacements)
    def overwrite(self, writer: int, operation: Replace) -> None:
        rows = table_of(operation.rows)
        da.write(self.logs[writer], rows, "overwrite", replace_where=operation.predicate)
        self.committed(operation)

    @rule(is_foreign=st.booleans())
    def optimize(self, is_foreign: bool) -> None:
        before = DeltaTable(self.table).version()
        if is_foreign:
            DeltaTable(self.table).optimize.compact()
        else:
            optimize(self.logs[0])
        if DeltaTable(self.table).version() > before:
            self.committed(None)

    @rule(is_foreign=st.booleans())
    def checkpoint(self, is_foreign: bool) -> None:
        if is_foreign:
            DeltaTable(self.table).create_checkpoint()
        else:
            create_checkpoint(self.logs[1])

    @rule(rows=some_rows, is_stale=st.booleans())
    def foreign_append(self, rows: tuple[Row, ...], is_stale: bool) -> None:
        """Append with an older handle, or with a new handle."""
        if not is_stale:
            self.foreign = DeltaTable(self.table)
        try:
            write_deltalake(self.foreign, table_of(rows), mode="append")
        except CommitFailedError:  # it treats concurrent deletes as conflicts of an append
            assert is_stale
            self.foreign = DeltaTable(self.table)
        else:
            self.committed(Append(rows))

    @rule(least=least_ids)
    def foreign_delete(self, least: int) -> None:
        table = DeltaTable(self.table)
        before = table.version()
        table.delete(f"id >= {least}")
        if table.version() > before:
            self.committed(of_ids_from(least, "a", ()))

    def committed(self, operation: Operation | None) -> None:
        state = self.states[-1]
        self.states.append(state if operation is None else operation.apply(state))
        self.causes.append(operation)

    @invariant()
    def versions_hold_the_rows_of_the_model(self) -> None:
        self.num_steps += 1
        latest = self.logs[0].snapshot()
        assert latest.version == len(self.states) - 1
        validate_checksum(latest)
        if self.num_steps % STEPS_BETWEEN_ALL_VERSIONS == 0:
            self.check_all_versions()
        else:
            self.check_version(latest.version)

    def check_all_versions(self) -> None:
        for version, state in enumerate(self.states):
            self.check_version(version)
            found = rows_by_deltalake(self.table, version)
            assert tuple(sorted((r["id"], r["p"]) for r in found)) == state.rows, version

    def check_version(self, version: int) -> None:
        snapshot = self.logs[version % 2].snapshot(version)
        assert tuple(sorted(rows_in(da.to_table(snapshot)))) == self.states[version].rows, version


TestTableMachine = TableMachine.TestCase
TestTableMachine.settings = settings(
    max_examples=3, stateful_step_count=12, deadline=None, derandomize=True
)
