"""Restore and revert bring back removed files, and a vacuum may delete them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import (
    CommitConflictError,
    DataFileError,
    DeletedMeanwhileError,
    InvalidRequestError,
)
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import restore, revert, vacuum
from delta_ops.protocol.actions import CommitInfo
from tests.maintenance.restored_tables import ids, reopened, write
from tests.support.built_once import built_once
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import Killed, MortalStorage
from tests.support.tables import rows_by_deltalake

BringBack = Callable[..., object]


def bring_back_by_restore(log: DeltaLog, **options: bool | timedelta) -> object:
    return restore(log, version=1, **options)  # type: ignore[arg-type]


def bring_back_by_revert(log: DeltaLog, **options: bool | timedelta) -> object:
    return revert(log, 2, **options)  # type: ignore[arg-type]


both_ways = pytest.mark.parametrize("bring_back", [bring_back_by_restore, bring_back_by_revert])


@built_once(reopened)
def _fresh(root: Path) -> DeltaLog:
    """Version 2 has replaced the rows 0 and 1 of version 1 by 9."""
    log = DeltaLog(root)
    write(log, [0])
    write(log, [1])
    write(log, [9], mode="overwrite")
    return log


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    return _fresh(tmp_path / "t")


def _vacuum(log: DeltaLog, *, log_commits: bool | None = None) -> object:
    return vacuum(log, retention=timedelta(0), enforce_retention=False, log_commits=log_commits)


def _during(log: DeltaLog, call: int, act: Callable[[], object]) -> tuple[DeltaLog, list[str]]:
    """The table; `act` runs before the storage call of this number."""
    done: list[str] = []

    def on_call(number: int, method: str, _path: str, when: Literal["before", "after"]) -> None:
        if number == call and when == "before":
            done.append(method)
            act()

    return DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call)), done


def _assert_whole(log: DeltaLog, restored: bool, place: str) -> None:
    expected = [0, 1] if restored else [9]
    assert ids(log) == expected, place
    assert [row["id"] for row in rows_by_deltalake(Path(log.uri))] == expected, place


@pytest.mark.parametrize(
    "bring_back",
    [bring_back_by_restore, pytest.param(bring_back_by_revert, marks=pytest.mark.full)],
)
def test_no_call_of_a_vacuum_lets_a_file_be_brought_back_that_it_deletes(
    tmp_path: Path, bring_back: BringBack
) -> None:
    call, refused = 0, 0
    while True:
        call += 1
        log = _fresh(tmp_path / str(call))
        restored: list[bool] = []

        def act(log: DeltaLog = log, restored: list[bool] = restored) -> None:
            try:
                bring_back(log)
            except (CommitConflictError, DataFileError):
                restored.append(False)
            else:
                restored.append(True)

        handle, done = _during(log, call, act)
        _vacuum(handle)
        if not done:
            break
        refused += not restored[0]
        _assert_whole(log, restored[0], f"before call {call} of the vacuum, {done[0]}")
    assert refused


@pytest.mark.parametrize(
    "bring_back",
    [pytest.param(bring_back_by_restore, marks=pytest.mark.full), bring_back_by_revert],
)
def test_no_call_of_a_restore_lets_a_vacuum_delete_what_it_brings_back(
    tmp_path: Path, bring_back: BringBack
) -> None:
    call = 0
    while True:
        call += 1
        log = _fresh(tmp_path / str(call))
        handle, done = _during(log, call, lambda log=log: _vacuum(log))  # type: ignore[misc]
        restored = True
        try:
            bring_back(handle)
        except (CommitConflictError, DataFileError):
            restored = False
        if not done:
            break
        _assert_whole(log, restored, f"before call {call} of the restore, {done[0]}")


@both_ways
def test_a_vacuum_that_was_killed_holds_up_a_restore_until_that_is_said(
    log: DeltaLog, bring_back: BringBack
) -> None:
    _kill_vacuum(log)

    with pytest.raises(CommitConflictError, match="vacuum_was_killed") as raised:
        bring_back(log)
    with pytest.raises(CommitConflictError, match="a vacuum without its end"):
        bring_back(log, dry_run=True)
    bring_back(log, vacuum_was_killed=True)

    assert raised.value.kind == "vacuum"
    assert ids(log) == [0, 1]


def test_a_vacuum_that_began_a_day_ago_holds_up_nobody(log: DeltaLog) -> None:
    _kill_vacuum(log)

    assert restore(log, version=1, clock=lambda: system_clock() + DAY_MS).version == 4


def test_a_restore_waits_for_the_end_of_a_vacuum_as_long_as_it_may(log: DeltaLog) -> None:
    _kill_vacuum(log)
    looks: list[str] = []

    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "read" and path.endswith("_last_checkpoint") and when == "before":
            looks.append(path)
            if len(looks) == 5:  # in the second attempt
                (Path(log.uri) / "_delta_log" / f"{3:020d}.json").rename(log.uri + "-start")

    handle = DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call))
    with pytest.raises(CommitConflictError, match="a vacuum without its end"):
        restore(handle, version=1)
    assert len(looks) < 5

    assert restore(handle, version=1, timeout=timedelta(minutes=1)).version == 3
    assert ids(log) == [0, 1]


@both_ways
def test_a_vacuum_of_another_engine_that_has_not_ended_holds_up_a_restore(
    log: DeltaLog, bring_back: BringBack
) -> None:
    _commit_info(log, 3, "VACUUM START")
    with pytest.raises(CommitConflictError, match="a vacuum without its end"):
        bring_back(log)

    _commit_info(log, 4, "VACUUM END")
    bring_back(log)

    assert ids(log) == [0, 1]


@both_ways
def test_a_vacuum_that_begins_while_a_restore_commits_wins(
    log: DeltaLog, bring_back: BringBack
) -> None:
    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "create" and path.endswith("3.json") and when == "before":
            _commit_info(log, 3, "VACUUM START")

    handle = DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call))

    with pytest.raises(CommitConflictError, match="began to vacuum") as raised:
        bring_back(handle)

    assert raised.value.kind == "vacuum"
    assert log.snapshot().version == 3


def _during_commit(
    log: DeltaLog, act: Callable[[], object], *after: Callable[[], object]
) -> DeltaLog:
    """The table; `act` runs before version 3 is created, and `after` just after it."""

    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "create" and path.endswith("3.json"):
            for each in (act,) if when == "before" else after:
                each()

    return DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call))


def _vacuum_without_a_sign(log: DeltaLog) -> Callable[[], object]:
    return lambda: _vacuum(log, log_commits=False)


@both_ways
def test_files_that_a_vacuum_without_a_sign_deleted_are_taken_out_at_once(
    log: DeltaLog, bring_back: BringBack
) -> None:
    handle = _during_commit(log, _vacuum_without_a_sign(log))

    with pytest.raises(DeletedMeanwhileError, match="Version 4 has undone version 3") as raised:
        bring_back(handle)

    assert (raised.value.version, raised.value.undone_by) == (3, 4)
    _assert_whole(log, restored=False, place="after the undo")
    lost = r"is missing|cannot be reverted"
    with pytest.raises((DataFileError, InvalidRequestError), match=lost):
        bring_back(log)  # it does not count as done
    assert log.snapshot().version == 4


@both_ways
def test_concurrent_commits_stay(log: DeltaLog, bring_back: BringBack) -> None:
    handle = _during_commit(log, _vacuum_without_a_sign(log), lambda: write(log, [20]))

    with pytest.raises(DeletedMeanwhileError, match="Version 5 has undone version 3"):
        bring_back(handle)

    assert ids(log) == [9, 20]


def test_metadata_go_back_too_and_so_does_the_request(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    write(log, [0])
    write(log, [1])
    da.write(log, pa.table({"other": [9]}), "overwrite", overwrite_schema=True)
    handle = _during_commit(log, _vacuum_without_a_sign(log))

    with pytest.raises(DeletedMeanwhileError, match="Version 4 has undone version 3"):
        restore(handle, version=1, request_id="mine")

    assert da.to_table(log).to_pydict() == {"other": [9]}
    left = restore(log, version=1, request_id="mine", ignore_missing_files=True)
    assert (left.version, left.already_committed) == (5, False)


def test_commits_that_cannot_be_undone_are_reported(log: DeltaLog) -> None:
    def delete_all() -> None:
        for path in Path(log.uri).rglob("*.parquet"):
            path.unlink()

    with pytest.raises(
        DeletedMeanwhileError, match=r"It could not be undone: .* is missing"
    ) as raised:
        restore(_during_commit(log, delete_all), version=1)

    assert (raised.value.version, raised.value.undone_by) == (3, None)
    assert pickle.loads(pickle.dumps(raised.value)).undone_by is None


def test_a_vacuum_by_deltalake_leaves_a_history_that_restores_go_by(log: DeltaLog) -> None:
    DeltaTable(log.uri).vacuum(
        retention_hours=0,
        enforce_retention_duration=False,
        dry_run=False,
        commit_properties=CommitProperties(),
    )

    with pytest.raises(DataFileError, match="cannot be restored completely"):
        restore(log, version=1)


def _kill_vacuum(log: DeltaLog) -> None:
    """A vacuum that committed its START and died before any deletion."""
    for call in range(1, 1000):
        try:
            _vacuum(DeltaLog(log.uri, storage=MortalStorage(log.storage, call, "before")))
        except Killed:
            if log.snapshot().version == 3:
                return
    raise AssertionError("the vacuum was not killed")


def _commit_info(log: DeltaLog, version: int, operation: str) -> None:
    info = CommitInfo(values={"operation": operation, "timestamp": system_clock()})
    create_commit(log.storage, log.log_directory, version, [info])
