"""Transactions that begin together and commit in sequence, against a model of their rows.

The result is that of some serial order of the committed transactions (under `Serializable`, the
order of their commits), and each rejected transaction overlaps with a committed one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import permutations, product

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Transaction, begin, col
from delta_ops.errors import CommitConflictError
from delta_ops.storage import open_storage
from tests.support.tiers import seeded
from tests.transaction.row_changes import (
    FIRST,
    Append,
    ChangeProperty,
    Operation,
    Rearrange,
    Replace,
    State,
    Summarise,
    overlaps,
    rows_in,
    table_of,
)

LEVELS = ["Serializable", "WriteSerializable"]

OPERATIONS: dict[str, Operation] = {
    "append to a": Append(((4, "a"),)),
    "append to a and b": Append(((5, "a"), (13, "b"))),
    "append to a new partition": Append(((30, "d"),)),
    "overwrite a": Replace(col("p") == "a", lambda row: row[1] == "a", ((6, "a"),)),
    "overwrite b": Replace(col("p") == "b", lambda row: row[1] == "b", ((14, "b"),)),
    "delete some of a": Replace(col("id") <= 2, lambda row: row[0] <= 2),
    "delete some of everything": Replace(col("id") >= 3, lambda row: row[0] >= 3),
    "delete one of b": Replace(
        (col("p") == "b") & (col("id") >= 12), lambda row: row[1] == "b" and row[0] >= 12
    ),
    "rearrange a": Rearrange("a"),
    "rearrange b": Rearrange("b"),
    "sum of a to b": Summarise("a", "b"),
    "sum of b to a": Summarise("b", "a"),
    "change a property": ChangeProperty("77"),
}
KINDS = (
    "append to a and b",
    "overwrite a",
    "delete some of everything",
    "rearrange a",
    "sum of a to b",
    "sum of b to a",
    "change a property",
)
"""One operation of each kind; two sums, because two of them can form a cycle."""


@pytest.fixture(scope="module", params=LEVELS)
def template(request: pytest.FixtureRequest) -> DeltaLog:
    log = DeltaLog(f"memory://{uuid.uuid4()}/t")
    properties = {"delta.isolationLevel": request.param}
    da.write(log, table_of(FIRST[0]), partition_by=["p"], configuration=properties)
    others = begin(log)
    for file in FIRST[1:]:
        others.stage(da.stage_write(others, table_of(file)))
    others.commit(operation="WRITE")
    return log


BEFORE = State(rows=tuple(sorted(row for file in FIRST for row in file)), interval="")


def copy(log: DeltaLog) -> DeltaLog:
    copied = open_storage(f"memory://{uuid.uuid4()}/t")
    for info in log.storage.list_tree(""):
        copied.create(info.path, log.storage.read(info.path))
    return DeltaLog("", storage=copied)


def state_of(log: DeltaLog) -> State:
    snapshot = log.snapshot()
    interval = snapshot.metadata.configuration.get("delta.checkpointInterval", "")
    return State(rows=tuple(sorted(rows_in(da.to_table(snapshot)))), interval=interval)


def after(state: State, operations: Sequence[Operation]) -> State:
    for operation in operations:
        state = operation.apply(state)
    return state


def commits(transaction: Transaction) -> bool:
    try:
        transaction.commit(operation="WRITE", hooks=())
    except CommitConflictError:
        return False
    return True


def check(template: DeltaLog, names: Sequence[str]) -> int:
    """Commit these together; return the number of rejected transactions."""
    log = copy(template)
    level = log.snapshot().properties.isolation_level
    operations = [OPERATIONS[name] for name in names]
    transactions = [begin(log) for _ in operations]
    for operation, transaction in zip(operations, transactions, strict=True):
        operation.stage(transaction)
    committed: list[Operation] = []
    for operation, transaction in zip(operations, transactions, strict=True):
        if commits(transaction):
            committed.append(operation)
        else:
            assert any(overlaps(each, operation, level) for each in committed), names
    found = state_of(log)
    log.storage.delete_many(info.path for info in list(log.storage.list_tree("")))
    if level == "Serializable":
        assert found == after(BEFORE, committed), names
    else:
        assert found in [after(BEFORE, order) for order in permutations(committed)], names
    return len(operations) - len(committed)


PAIRS = list(product(KINDS, repeat=2))
OTHER_PAIRS = [pair for pair in product(OPERATIONS, repeat=2) if pair not in PAIRS]


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
    refused = sum(check(template, pair) for pair in pairs)
    assert 0 < refused < len(pairs)


def check_triples(template: DeltaLog, number: int, seed: int) -> None:
    triples = list(product(OPERATIONS, repeat=3))
    for triple in seeded(seed).sample(triples, number):
        check(template, triple)


@pytest.mark.full
def test_triples_come_to_what_a_serial_order_gives(template: DeltaLog) -> None:
    check_triples(template, 12, seed=5)


def check_overtaken(template: DeltaLog, late: str, others: Sequence[str]) -> bool:
    """Commit a transaction after later transactions that each build on the previous commit."""
    log = copy(template)
    transaction = begin(log)
    OPERATIONS[late].stage(transaction)
    for name in others:
        other = begin(log)
        OPERATIONS[name].stage(other)
        other.commit(operation="WRITE", hooks=())
    is_committed = commits(transaction)
    found = state_of(log)
    log.storage.delete_many(info.path for info in list(log.storage.list_tree("")))
    earlier = [OPERATIONS[name] for name in others]
    orders = [[*earlier, OPERATIONS[late]] if is_committed else earlier]
    if is_committed and template.snapshot().properties.isolation_level == "WriteSerializable":
        orders += [[OPERATIONS[late], *earlier], [earlier[0], OPERATIONS[late], *earlier[1:]]]
    assert found in [after(BEFORE, order) for order in orders], (late, others)
    return is_committed


@pytest.mark.full
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(KINDS, id="kinds"),
        pytest.param(tuple(OPERATIONS), id="all", marks=pytest.mark.full),
    ],
)
def test_a_commit_that_several_commits_overtake_comes_after_them(
    template: DeltaLog, names: Sequence[str]
) -> None:
    # If a transaction builds on a blind append that ours does not see, WriteSerializable has no
    # order.
    is_strict = template.snapshot().properties.isolation_level == "Serializable"
    between = ["rearrange a", "append to a and b"] if is_strict else ["rearrange a"]
    one_by_one = list(product(names, between, names))
    outcomes = {check_overtaken(template, a, (b, c)) for a, b, c in one_by_one[::3]}
    assert outcomes == {True, False}


def test_rows_that_were_moved_and_then_removed_are_missed(template: DeltaLog) -> None:
    moved_and_removed = ("rearrange a", "overwrite a")
    assert not check_overtaken(template, "sum of a to b", moved_and_removed)
    assert check_overtaken(template, "sum of b to a", moved_and_removed)
