"""Findings of the checks: operations that are broken on purpose, on real tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.errors import CommitConflictError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import plan_restore
from delta_ops.protocol.actions import Action
from delta_ops.transaction import CommitResult
from delta_ops.transaction.changes import tombstone
from tests.interleaving.operations import OPERATIONS, Effect, Operation
from tests.interleaving.scenes import Rows, Scene, rows_of
from tests.interleaving.schedule import Order
from tests.interleaving.search import Kind, Search, pair, searching

LATEST = "_delta_log/00000000000000000005.json"


@pytest.fixture(scope="module")
def search() -> Iterator[Search]:
    with searching() as search:
        yield search


def commit(log: DeltaLog, version: int, *actions: Action) -> CommitResult:
    """Commits without reading the table."""
    try:
        create_commit(log.storage, log.log_directory, version, actions)
    except FileExistsError as error:
        raise CommitConflictError(log.uri, version, "was there first") from error
    return CommitResult(version=version, already_committed=False, attempts=1)


def careless_restore(log: DeltaLog, scene: Scene, _role: int) -> CommitResult:
    """Lists the files, and commits."""
    latest, wanted = log.snapshot(), log.snapshot(scene.restored[0])
    plan = plan_restore(latest, wanted)
    for add in plan.adds:
        log.storage.stat(add.path)
    removes = (tombstone(add, scene.now_ms, data_change=True) for add in plan.removes)
    return commit(log, latest.version + 1, *removes, *plan.adds)


def careless_append(log: DeltaLog, scene: Scene, _role: int) -> CommitResult:
    """Commits changes for the table state that it read."""
    transaction = begin(log, clock=scene.clock)
    assert transaction.snapshot
    staged = da.stage_write(transaction, rows_of((10, "b")))
    return commit(log, transaction.snapshot.version + 1, *staged.adds)


def careless_overwrite(log: DeltaLog, scene: Scene, _role: int) -> CommitResult:
    """Removes the files that it read, even after later commits."""
    transaction = begin(log, clock=scene.clock)
    assert transaction.snapshot
    live = transaction.snapshot.add_files()
    staged = da.stage_write(transaction, rows_of((10, "b")))
    removes = [tombstone(add, scene.now_ms, data_change=True) for add in live]
    return commit(log, log.snapshot().version + 1, *removes, *staged.adds)


def append_without_txn(log: DeltaLog, scene: Scene, _role: int) -> CommitResult:
    return da.write(begin(log, clock=scene.clock), rows_of((10, "b")))


def delete_a_live_file(log: DeltaLog, scene: Scene, _role: int) -> None:
    log.storage.delete(min(scene.paths[-1]))


def delete_a_removed_file(log: DeltaLog, scene: Scene, _role: int) -> None:
    log.storage.delete(min(scene.paths[3] - scene.paths[-1]))


def raise_an_error_of_python(_log: DeltaLog, _scene: Scene, _role: int) -> None:
    raise KeyError("p")


def report_a_conflict(log: DeltaLog, _scene: Scene, _role: int) -> None:
    raise CommitConflictError(log.uri, 6, "was there first")


def name_another_version(log: DeltaLog, scene: Scene, role: int) -> CommitResult:
    return replace(append_without_txn(log, scene, role), version=99)


def write_a_wrong_checksum(log: DeltaLog, _scene: Scene, _role: int) -> None:
    recorded = json.loads(log.storage.read("_delta_log/00000000000000000004.crc"))
    del recorded["txnId"]  # with it, the checksum would be another commit's
    recorded["numFiles"] += 70
    log.storage.create("_delta_log/00000000000000000005.crc", json.dumps(recorded).encode())


def write_a_wrong_compaction(log: DeltaLog, scene: Scene, role: int) -> object:
    result = OPERATIONS["compact"].run(log, scene, role)
    name = "_delta_log/00000000000000000002.00000000000000000005.compacted.json"
    log.storage.replace(name, b"")
    return result


def change_the_latest_commit(log: DeltaLog, _scene: Scene, _role: int) -> None:
    lines = log.storage.read(LATEST).splitlines()
    log.storage.replace(LATEST, b"\n".join(line for line in lines if b'"add"' not in line))


def delete_the_latest_commit(log: DeltaLog, _scene: Scene, _role: int) -> None:
    log.storage.delete(LATEST)


def with_its_row(rows: Rows, _scene: Scene, _role: int) -> Rows | None:
    return None if (10, "b") in rows else (*rows, (10, "b"))


def restored(_rows: Rows, scene: Scene, _role: int) -> Rows:
    return scene.versions[scene.restored[0]]


def overwritten(_rows: Rows, _scene: Scene, _role: int) -> Rows:
    return ((10, "b"),)


def broken(
    run: Callable[[DeltaLog, Scene, int], object],
    effect: Effect = with_its_row,
    *,
    commits: bool = True,
) -> Operation:
    return Operation(name="broken", run=run, effect=effect, commits=commits)


@pytest.mark.some_cases(3)
@pytest.mark.parametrize(
    ("operation", "other", "order", "expected"),
    [
        pytest.param(
            broken(delete_a_live_file),
            "append",
            "broken[0:] append[0:]",
            "which does not exist",
            id="a file",
        ),
        pytest.param(
            broken(delete_a_removed_file),
            "append",
            "broken[0:] append[0:]",
            "version 3 is promised",
            id="a file of an old version",
        ),
        pytest.param(
            broken(append_without_txn, commits=False),
            "compact",
            "compact[0:] broken[0:]",
            "committed version 6",
            id="a commit of who has none to make",
        ),
        pytest.param(
            broken(raise_an_error_of_python),
            "append",
            "broken[0:] append[0:]",
            "raised KeyError",
            id="KeyError",
        ),
        pytest.param(
            broken(report_a_conflict),
            "checkpoint",
            "broken[0:] checkpoint[0:]",
            "raised CommitConflictError",
            id="a conflict with nobody",
        ),
        pytest.param(
            broken(name_another_version),
            "compact",
            "broken[0:] compact[0:]",
            "says that version 99 is its own",
            id="another version",
        ),
        pytest.param(
            broken(write_a_wrong_checksum),
            "compact",
            "broken[0:] compact[0:]",
            "reading the table raised LogCorruptError",
            id="a checksum",
        ),
        pytest.param(
            broken(write_a_wrong_compaction),
            "compact",
            "broken[0:] compact[0:]",
            "the compaction of 2 to 5",
            id="a compaction",
        ),
        pytest.param(
            broken(change_the_latest_commit),
            "compact",
            "broken[0:] compact[0:]",
            "after 6 versions there are commits [5]",
            id="a commit that is replaced",
        ),
        pytest.param(
            broken(delete_the_latest_commit),
            "compact",
            "broken[0:] compact[0:]",
            "the latest version is 4",
            id="a version",
        ),
    ],
)
def test_a_broken_operation_is_found(
    search: Search, operation: Operation, other: str, order: str, expected: str
) -> None:
    search.operations = {**OPERATIONS, "broken": operation}
    search.failures.clear()
    search.run(pair("broken", other), Order.from_text(order))
    (failure,) = search.failures
    assert any(expected in text for text in failure.complaints), str(failure)


@pytest.mark.full
@pytest.mark.parametrize(
    ("operation", "other", "kind", "complaint", "calls"),
    [
        pytest.param(
            broken(careless_restore, restored),
            "vacuum",
            "two changes of turn",
            "which does not exist",
            ("stat p=a/", "create _delta_log/00000000000000000007.json", "delete_many p=a/"),
            marks=pytest.mark.full,
            id="a restore that looks which files are there, and a vacuum",
        ),
        pytest.param(
            broken(careless_append),
            "drop-create",
            "two changes of turn",
            "broken began on the table that was deleted, and left _delta_log/0",
            ("list_from _delta_log", "delete_at_once", "create _delta_log/00000000000000000002"),
            id="an append to a table that is made again",
        ),
        pytest.param(
            broken(careless_overwrite, overwritten),
            "overwrite",
            "two changes of turn",
            "holds ((10, 'b'), (21, 'a')), not ",
            ("overwrite[0]", "create _delta_log/00000000000000000006", "create _delta_log/0"),
            id="an overwrite that does not see another one",
        ),
        pytest.param(
            broken(append_without_txn),
            "compact",
            "a kill",
            "not anything that the two can have come to",
            ("broken[0]", "create _delta_log/0", "broken again[0]", "create _delta_log/0"),
            marks=pytest.mark.full,
            id="an append that is run again",
        ),
    ],
)
def test_a_fault_in_some_orders_is_found_with_the_order_and_its_calls(
    search: Search,
    operation: Operation,
    other: str,
    kind: Kind,
    complaint: str,
    calls: tuple[str, ...],
) -> None:
    search.operations = {**OPERATIONS, "broken": operation}
    search.failures.clear()
    search.explore(pair("broken", other), kind)
    found = next(f for f in search.failures if any(complaint in text for text in f.complaints))
    assert str(found.order) in str(found)
    assert f"broken and {other}: " in search.verdict()
    assert f'tests.interleaving.search "{found.order}" broken {other}' in found.command
    assert "To repeat: " in search.verdict()
    rest = str(found)
    for call in calls:
        _, seen, rest = rest.partition(call)
        assert seen, f"{call} in {found}"
