"""Deletes and updates by deletion vectors among other concurrent transactions.

The committed transactions give the result of a serial order; two transactions that change different
rows of a file by vectors both commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import permutations, product

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Transaction, begin, col, lit
from delta_ops.errors import CommitConflictError
from delta_ops.protocol.predicate import Predicate
from delta_ops.storage import open_storage
from tests.support.tiers import seeded
from tests.transaction.row_changes import FIRST, Matches, Row, rows_in, table_of

Rows = tuple[Row, ...]
ENABLED = {"delta.enableDeletionVectors": "true"}


class Delete:
    """Delete the matching rows."""

    def __init__(self, predicate: Predicate, matches: Matches) -> None:
        self.predicate, self.matches = predicate, matches

    def apply(self, rows: Rows) -> Rows:
        return tuple(row for row in rows if not self.matches(row))

    def commit(self, transaction: Transaction) -> None:
        da.delete(transaction, self.predicate, hooks=())


class Update:
    """Move the matching rows to another partition."""

    def __init__(self, predicate: Predicate, matches: Matches, partition: str) -> None:
        self.predicate, self.matches, self.partition = predicate, matches, partition

    def apply(self, rows: Rows) -> Rows:
        return tuple((row[0], self.partition) if self.matches(row) else row for row in rows)

    def commit(self, transaction: Transaction) -> None:
        da.update(transaction, {"p": lit(self.partition)}, self.predicate, hooks=())


class Write:
    """Append rows, or overwrite a partition with them."""

    def __init__(self, rows: Rows, partition: str | None = None) -> None:
        self.rows, self.partition = rows, partition

    def apply(self, rows: Rows) -> Rows:
        return (*(row for row in rows if row[1] != self.partition), *self.rows)

    def commit(self, transaction: Transaction) -> None:
        mode, data = ("overwrite" if self.partition else "append"), table_of(self.rows)
        where = None if self.partition is None else col("p") == self.partition
        da.write(transaction, data, mode, replace_where=where, hooks=())  # type: ignore[arg-type]


Operation = Delete | Update | Write

OPERATIONS: dict[str, Operation] = {
    "delete 0": Delete(col("id") == 0, lambda row: row[0] == 0),
    "delete 1": Delete(col("id") == 1, lambda row: row[0] == 1),
    "delete 1 to 10": Delete((col("id") >= 1) & (col("id") <= 10), lambda row: 1 <= row[0] <= 10),
    "delete all of b": Delete(col("p") == "b", lambda row: row[1] == "b"),
    "move 0 to b": Update(col("id") == 0, lambda row: row[0] == 0, "b"),
    "move 11 to a": Update(col("id") == 11, lambda row: row[0] == 11, "a"),
    "move some of a to c": Update(
        (col("p") == "a") & (col("id") >= 1), lambda row: row[1] == "a" and row[0] >= 1, "c"
    ),
    "append to a": Write(((4, "a"),)),
    "overwrite a": Write(((6, "a"),), "a"),
}
BEFORE: Rows = tuple(row for file in FIRST for row in file)
KINDS = ("delete 0", "delete 1 to 10", "move some of a to c", "append to a", "overwrite a")
PAIRS = list(product(KINDS, repeat=2))
OTHER_PAIRS = [pair for pair in product(OPERATIONS, repeat=2) if pair not in PAIRS]


@pytest.fixture(
    scope="module",
    params=["Serializable", pytest.param("WriteSerializable", marks=pytest.mark.full)],
)
def template(request: pytest.FixtureRequest) -> DeltaLog:
    log = DeltaLog(f"memory://{uuid.uuid4()}/t")
    properties = {"delta.isolationLevel": request.param, **ENABLED}
    for file in FIRST:
        da.write(log, table_of(file), partition_by=["p"], configuration=properties)
    return log


def copy(log: DeltaLog) -> DeltaLog:
    copied = open_storage(f"memory://{uuid.uuid4()}/t")
    for info in log.storage.list_tree(""):
        copied.create(info.path, log.storage.read(info.path))
    return DeltaLog("", storage=copied)


def rows_of(log: DeltaLog) -> Rows:
    return tuple(sorted(rows_in(da.to_table(log))))


def after(rows: Rows, operations: Sequence[Operation]) -> Rows:
    for operation in operations:
        rows = operation.apply(rows)
    return tuple(sorted(rows))


def commits(operation: Operation, transaction: Transaction) -> bool:
    try:
        operation.commit(transaction)
    except CommitConflictError:
        return False
    return True


def run(template: DeltaLog, names: Sequence[str]) -> list[str]:
    """Commit these together; return the committed transactions."""
    log = copy(template)
    transactions = [begin(log) for _ in names]
    committed = [
        name
        for name, transaction in zip(names, transactions, strict=True)
        if commits(OPERATIONS[name], transaction)
    ]
    found = rows_of(log)
    log.storage.delete_many(info.path for info in list(log.storage.list_tree("")))
    done = [OPERATIONS[name] for name in committed]
    if template.snapshot().properties.isolation_level == "Serializable":
        assert found == after(BEFORE, done), names
    else:
        assert found in [after(BEFORE, order) for order in permutations(done)], names
    return committed


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param(PAIRS, id="kinds"),
        pytest.param(OTHER_PAIRS, id="all others", marks=pytest.mark.full),
    ],
)
def test_pairs_come_to_what_a_serial_order_gives(
    template: DeltaLog, pairs: Sequence[tuple[str, str]]
) -> None:
    outcomes = {len(run(template, pair)) for pair in pairs}
    assert outcomes == {1, 2}


@pytest.mark.full
def test_triples_come_to_what_a_serial_order_gives(template: DeltaLog) -> None:
    triples = list(product(OPERATIONS, repeat=3))
    for triple in seeded(7).sample(triples, 12):
        run(template, triple)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("delete 0", "delete 1"), id="two deletes"),
        pytest.param(("delete 0", "move some of a to c"), id="a delete and an update"),
        pytest.param(("delete 1", "move 0 to b", "move 11 to a"), id="two files, three of them"),
        pytest.param(
            ("delete 0", "delete 1 to 10", "move 11 to a"), id="many files", marks=pytest.mark.full
        ),
    ],
)
def test_a_change_of_other_rows_is_not_refused(template: DeltaLog, names: tuple[str, ...]) -> None:
    for order in permutations(names):
        assert run(template, order) == list(order)


@pytest.mark.parametrize(
    "names", [("delete 1", "delete 1 to 10"), ("delete 0", "move 0 to b"), ("delete 0",) * 2]
)
def test_one_of_two_changes_of_a_row_is_refused(template: DeltaLog, names: tuple[str, str]) -> None:
    for order in permutations(names):
        assert run(template, order) == [order[0]]
