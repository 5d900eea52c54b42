"""Hooks after a commit: checksums and checkpoints, and no failure that undoes the commit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Transaction, begin
from delta_ops.errors import StorageError
from delta_ops.events import Committed, Event, HookFailed
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.file_names import checkpoint_name, checksum_name
from delta_ops.storage import open_storage
from delta_ops.transaction import DEFAULT_HOOKS, Hook, checkpoint_if_due, write_checksum
from delta_ops.transaction.commit.hooks import CommittedVersion
from tests.support.counting_storage import CountingStorage
from tests.support.tables import (
    add,
    live_paths,
    metadata,
    rows,
    rows_by_deltalake,
    stage_files,
    write_log,
)

INTERVAL = 3
FUTURE = 2**42
"""Milliseconds: later than any checkpoint of a test."""


class Calls(list[tuple[str, str]]):
    """Method and file of each storage call, and an action at one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.at: tuple[int, str] | None = None
        self.act: Callable[[str], None] = lambda path: None

    def log(self, root: Path) -> DeltaLog:
        return DeltaLog("", storage=CountingStorage(open_storage(root), self.on_call))

    def on_call(
        self, number: int, method: str, path: str, moment: Literal["before", "after"]
    ) -> None:
        if moment == "before":
            self.append((method, path.rpartition("/")[2]))
        if self.at == (number, moment):
            self.act(path)

    def of(self, name: str) -> list[str]:
        return [method for method, path in self if path == name]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table whose next version is due for its second checkpoint."""
    configuration = {"delta.checkpointInterval": str(INTERVAL)}
    log = write_log(tmp_path, [[metadata(configuration=configuration), add("0")]])
    for version in range(1, 2 * INTERVAL):
        append(log, str(version))
    return tmp_path


def prepared(log: DeltaLog, path: str, **options: Any) -> Transaction:
    txn = begin(log, **options)
    txn.stage(stage_files(add(path, modification_time=FUTURE)))
    return txn


def append(log: DeltaLog, path: str, **options: Any) -> None:
    result = prepared(log, path).commit(operation="WRITE", **options)
    assert result.failed_hooks == ()


def said(log: DeltaLog, version: int) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(log.storage.read(f"_delta_log/{checksum_name(version)}"))
    return read


def test_every_version_gets_a_checksum_that_agrees_with_it(root: Path) -> None:
    log = DeltaLog(root)
    append(log, "last")
    for version in range(1, 2 * INTERVAL + 1):
        assert validate_checksum(log.snapshot(version)), version


def test_it_carries_the_id_of_its_commit(root: Path) -> None:
    log = DeltaLog(root)
    assert said(log, 5)["txnId"] == log.snapshot().txn_id is not None


def test_a_checkpoint_is_due_at_multiples_of_the_interval_but_zero(tmp_path: Path) -> None:
    configuration = {"delta.checkpointInterval": str(INTERVAL)}
    log = write_log(tmp_path, [[metadata(configuration=configuration)]])
    for version in range(1, 3 * INTERVAL + 1):
        append(log, str(version))
        written = {path.name for path in (tmp_path / "_delta_log").glob("*.checkpoint.parquet")}
        assert written == {checkpoint_name(n) for n in range(INTERVAL, version + 1, INTERVAL)}


def test_an_append_costs_one_more_call_than_it_did_and_reads_no_checkpoint(root: Path) -> None:
    calls = Calls()
    log = calls.log(root)
    append(log, "6")
    calls.clear()
    append(log, "7")
    assert [call for call in calls if call[1].endswith((".crc", ".parquet"))] == [
        ("read", checksum_name(6)),  # when the table is opened, instead of the checkpoint
        ("create", checksum_name(7)),
    ]
    before, create_of_commit, create_of_checksum, after = calls[-4:]
    assert before == after == ("stat", f"{6:020d}.json")  # a check that the table is still the same
    assert create_of_commit == ("create", f"{7:020d}.json")
    assert create_of_checksum[0] == "create"


def test_a_checkpoint_that_is_there_is_not_written_again(root: Path) -> None:
    calls = Calls()
    log = calls.log(root)

    def another_was_faster(_committed: object) -> None:
        write_checkpoint(DeltaLog(root).snapshot(), now_ms=0)

    append(log, "6", hooks=[another_was_faster, checkpoint_if_due])
    assert "create_from_stream" not in calls.of(checkpoint_name(6))
    assert (root / "_delta_log" / checkpoint_name(6)).exists()


def test_where_a_checkpoint_is_due_files_are_counted_anew(root: Path) -> None:
    log = DeltaLog(root)
    wrong = {**said(log, 5), "numFiles": 60, "fileSizeHistogram": None}
    (root / "_delta_log" / checksum_name(5)).write_text(json.dumps(wrong))
    append(log, "6")
    assert validate_checksum(log.snapshot())


def test_a_checksum_that_is_there_is_kept_in_silence(root: Path) -> None:
    place = root / "_delta_log" / checksum_name(6)
    place.write_text("another's")
    append(DeltaLog(root), "6")
    assert place.read_text() == "another's"


def test_hooks_in_two_processes_at_once_write_one_checkpoint_and_checksum(root: Path) -> None:
    log = DeltaLog(root)
    append(log, "6", hooks=())
    late: list[Any] = []
    append(log, "7", hooks=[late.append])
    committed = late[0]
    twins = [type(committed)(**_fields(committed), log=DeltaLog(root)) for _ in range(2)]
    for hook in DEFAULT_HOOKS:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(hook, twins))
    assert validate_checksum(log.snapshot())
    assert len(by_deltalake_paths(root)) == 8


def _fields(committed: Any) -> dict[str, Any]:
    names = ("version", "properties", "clock", "actions", "read_snapshot", "winners")
    return {name: getattr(committed, name) for name in names}


def by_deltalake_paths(root: Path) -> set[str]:
    from deltalake import DeltaTable

    return {path.rpartition("/")[2] for path in DeltaTable(str(root)).file_uris()}


@pytest.mark.some_cases(1)
@pytest.mark.parametrize(
    ("error", "moment"),
    [
        pytest.param(
            StorageError("x", "read", "the connection was reset"), "before", id="a failing store"
        ),
        pytest.param(
            OSError("broken"), "after", id="an error of the system", marks=pytest.mark.full
        ),
        pytest.param(MemoryError(), "before", id="no memory", marks=pytest.mark.full),
    ],
)
def test_no_storage_call_of_a_hook_that_fails_fails_the_commit(
    root: Path, error: Exception, moment: Literal["before", "after"]
) -> None:
    for call, table in hook_calls(root):

        def act(_path: str) -> None:
            raise error

        calls = Calls()
        calls.at, calls.act = (call, moment), act
        events: list[Event] = []
        txn = prepared(calls.log(table), "6", on_event=events.append)
        result = txn.commit(operation="WRITE")
        assert result.version == 6
        # The failure has no remedy, and needs none.
        reported_events = [event.hook for event in events if isinstance(event, HookFailed)]
        assert len(reported_events) == len(result.failed_hooks) <= 1
        assert_whole(table)


@pytest.mark.parametrize("moment", ["before", pytest.param("after", marks=pytest.mark.full)])
def test_an_interrupt_in_a_hook_says_that_the_commit_succeeded(
    root: Path, moment: Literal["before", "after"]
) -> None:
    for call, table in hook_calls(root):

        def act(_path: str) -> None:
            raise KeyboardInterrupt

        calls = Calls()
        calls.at, calls.act = (call, moment), act
        events: list[Event] = []
        txn = prepared(calls.log(table), "6", on_event=events.append)
        with pytest.raises(KeyboardInterrupt) as caught:
            txn.commit(operation="WRITE")
        assert "version 6 was committed" in "".join(caught.value.__notes__)
        assert txn.may_be_committed
        assert isinstance(events[-1], Committed)
        assert_whole(table)


def hook_calls(root: Path) -> list[tuple[int, Path]]:
    """The numbers of the storage calls of an append's hooks, each with a table for it."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(root, root.parent / f"{root.name}-{name}"))

    calls = Calls()
    append(calls.log(copy("whole")), "6")
    first = calls.index(("create", f"{6:020d}.json")) + 2
    assert len(calls) > first + 5
    return [(call, copy(str(call))) for call in range(first, len(calls) + 1)]


def assert_whole(table: Path) -> None:
    """Assert that all readers see the version, and that a next commit succeeds."""
    log = DeltaLog(table)
    expected = {str(n) for n in range(7)}
    assert live_paths(log) == expected
    validate_checksum(log.snapshot())
    assert by_deltalake_paths(table) == expected
    append(log, "7")
    assert live_paths(log) == expected | {"7"}
    validate_checksum(log.snapshot())


@pytest.mark.parametrize("with_checksum", [True, False], ids=["with", "without"])
@pytest.mark.parametrize("num_winners", [1, 3])
def test_after_lost_races_the_checksum_follows_from_the_winners(
    root: Path, num_winners: int, with_checksum: bool
) -> None:
    log = DeltaLog(root)
    slow = prepared(log, "slow")
    hooks: tuple[Hook, ...] = (write_checksum,) if with_checksum else ()
    for number in range(num_winners):
        append(log, f"fast {number}", hooks=hooks)
    assert slow.commit(operation="WRITE", hooks=[write_checksum]).failed_hooks == ()
    assert validate_checksum(log.snapshot(6 + num_winners))


def test_a_file_that_a_winner_has_added_is_counted_once(root: Path) -> None:
    log = DeltaLog(root)
    twins = [prepared(log, "twin"), prepared(log, "twin")]
    for twin in twins:
        twin.commit(operation="WRITE")
    assert validate_checksum(log.snapshot(7))
    assert log.snapshot().num_files == 7


def test_foreign_commits_without_checksums_are_counted(root: Path) -> None:
    log = DeltaLog(root)
    create_commit(log.storage, log.log_directory, 6, [add("foreign", size=9)])
    append(log, "7")
    assert validate_checksum(log.snapshot())


def test_the_rows_are_what_other_engines_read(tmp_path: Path) -> None:
    import pyarrow as pa

    import delta_ops.arrow as da

    for number in range(12):
        da.write(tmp_path, pa.table({"id": [number]}))
    assert len(rows_by_deltalake(tmp_path)) == 12
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(DeltaLog(tmp_path)))


@pytest.mark.parametrize("of", [Committed, HookFailed])
def test_an_error_of_a_listener_after_the_commit_says_that_it_succeeded(
    tmp_path: Path, of: type[Committed] | type[HookFailed]
) -> None:
    def failing_hook(_committed: CommittedVersion) -> None:
        raise RuntimeError("out of order")

    def listener(event: Event) -> None:
        if isinstance(event, of):
            raise ValueError("the listener's own")

    with pytest.raises(ValueError, match="the listener's own") as raised:
        da.write(tmp_path, pa.table({"id": [1]}), hooks=[failing_hook], on_event=listener)
    assert raised.value.__notes__ == [f"{tmp_path}: version 0 was committed before this"]
    assert rows(da.to_table(DeltaLog(tmp_path))) == [{"id": 1}]
