"""Sessions whose processes are killed, lose the answers of the store, or run at the same time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    SessionConflictError,
    SessionEndedError,
    TableBusyError,
    VersionNotFoundError,
)
from delta_ops.maintenance import vacuum
from delta_ops.storage import open_storage
from delta_ops.versioning import WriteSession, begin_session, list_sessions, open_session
from tests.maintenance.aged_tables import Table
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import copies_of, crashes

Act = Callable[[WriteSession], object]


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids_of(source: Any, **options: Any) -> list[int]:
    return sorted(da.to_table(source, **options)["id"].to_pylist())


def made(root: Path) -> WriteSession:
    """A session with row 2, of a table with row 1."""
    da.write(root, rows_of(1))
    session = begin_session(root)
    da.write(session.fork("load"), rows_of(2))
    return session


def of(log: DeltaLog) -> WriteSession:
    """The only session of a table."""
    return open_session(log, list_sessions(log)[0].id)


# --- killed processes -------------------------------------------------------------------------


def test_a_killed_commit_is_finished_by_the_next(tmp_path: Path) -> None:
    token = made(tmp_path / "t").token
    fresh = copies_of(tmp_path / "t", tmp_path / "copies")
    found = set()
    commit = lambda s: open_session(DeltaLog("", storage=s), token).commit()  # noqa: E731
    for place, storage in crashes(fresh, commit):
        copy = DeltaLog("", storage=storage)
        found.add(tuple(ids_of(copy)))
        result = open_session(copy, token).commit()
        assert (result.version, copy.snapshot().version) == (1, 1), place
        assert (ids_of(copy), list_sessions(copy)) == ([1, 2], []), place
    assert found == {(1,), (1, 2)}


def test_a_killed_writer_leaves_its_rows_or_nothing_and_is_repeated(tmp_path: Path) -> None:
    da.write(tmp_path / "t", rows_of(1))
    token = begin_session(tmp_path / "t").token
    fresh = copies_of(tmp_path / "t", tmp_path / "copies")

    def load(storage: Any) -> None:
        log = DeltaLog("", storage=storage)
        da.write(open_session(log, token).fork("load"), rows_of(2))

    found = set()
    for place, storage in crashes(fresh, load):
        copy = DeltaLog("", storage=storage)
        session = open_session(copy, token)
        found.add(tuple(ids_of(session.snapshot())))
        load(storage)
        session.commit()
        assert ids_of(copy) == [1, 2], place
    assert found == {(1,), (1, 2)}


def test_a_table_that_is_deleted_during_a_commit_is_a_typed_error(tmp_path: Path) -> None:
    token = made(tmp_path / "t").token
    fresh = copies_of(tmp_path / "t", tmp_path / "copies")
    for last in count(1):
        copy = fresh()

        def delete_all(number: int, _method: str, _path: str, moment: str) -> None:
            if (number, moment) == (last, "before"):  # noqa: B023  # called within this turn
                for file in list(copy.list_tree("")):  # noqa: B023
                    copy.delete(file.path)  # noqa: B023

        storage = CountingStorage(copy, delete_all)
        with suppress(DeltaOpsError):
            result = open_session(DeltaLog("", storage=storage), token).commit()
            assert result.version == 1
        if storage.num_calls < last:
            break
    assert last > 20


@pytest.mark.full
def test_a_killed_rebase_is_finished_by_the_next(tmp_path: Path) -> None:
    token = made(tmp_path / "t").token
    da.write(tmp_path / "t", rows_of(3))
    fresh = copies_of(tmp_path / "t", tmp_path / "copies")
    rebase = lambda s: open_session(DeltaLog("", storage=s), token).rebase()  # noqa: E731
    for place, storage in crashes(fresh, rebase):
        copy = DeltaLog("", storage=storage)
        session = open_session(copy, token)
        session.rebase()
        da.write(session.fork("more"), rows_of(4))
        session.commit()
        assert ids_of(copy) == [1, 2, 3, 4], place


@pytest.mark.full
def test_a_killed_abandonment_is_finished_by_the_next(tmp_path: Path) -> None:
    token = made(tmp_path / "t").token
    fresh = copies_of(tmp_path / "t", tmp_path / "copies")
    abandon = lambda s: open_session(DeltaLog("", storage=s), token).abandon()  # noqa: E731
    for place, storage in crashes(fresh, abandon):
        copy = DeltaLog("", storage=storage)
        open_session(copy, token).abandon()
        assert (ids_of(copy), list_sessions(copy)) == ([1], []), place


@pytest.mark.full
def test_a_killed_begin_leaves_a_session_or_nothing(tmp_path: Path) -> None:
    da.write(tmp_path / "t", rows_of(1))
    fresh = copies_of(tmp_path / "t", tmp_path / "copies")
    numbers = set()
    for _, storage in crashes(fresh, lambda s: begin_session(DeltaLog("", storage=s))):
        copy = DeltaLog("", storage=storage)
        numbers.add(len(list_sessions(copy)))
        for each in list_sessions(copy):
            open_session(copy, each.id).commit()
        assert ids_of(copy) == [1]
    assert numbers == {0, 1}


# --- lost answers -----------------------------------------------------------------------------


def losing(root: Path) -> tuple[DeltaLog, list[str]]:
    """A table whose store creates each file, and reports once that the file exists."""
    lost: list[str] = []

    def lose(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("create", "after") and path not in lost:
            lost.append(path)
            raise FileExistsError(path)

    return DeltaLog(root, storage=CountingStorage(open_storage(root), lose)), lost


def test_lost_answers_are_recognized(tmp_path: Path) -> None:
    da.write(tmp_path / "t", rows_of(1))
    log, lost = losing(tmp_path / "t")
    session = begin_session(log)
    da.write(session.fork("load"), rows_of(2))
    da.write(tmp_path / "t", rows_of(3))
    session.rebase()
    da.write(session.fork("load"), rows_of(4))
    assert session.commit().version == 2
    assert ids_of(log) == [1, 3, 4]
    names = {path.rpartition("/")[2] for path in lost}
    assert {"end.json", "sealed.json"} <= names
    assert sum(name.endswith(".fork.json") for name in names) == 2


# --- other processes at each call -------------------------------------------------------------


def at_each_call(
    root: Path,
    run: Act,
    act: Act,
    make: Callable[[Path], WriteSession] = made,
) -> Iterator[tuple[DeltaLog, DeltaOpsError | None]]:
    """Run a call on a session, with another action before each of its requests to the store."""
    for call in count(1):
        session = make(root / str(call))
        seen = 0

        def interrupt(number: int, _method: str, _path: str, when: str) -> None:
            nonlocal seen
            seen = number
            if (number, when) == (call, "before"):  # noqa: B023  # called within the turn
                act(session)  # noqa: B023

        storage = CountingStorage(open_storage(root / str(call)), interrupt)
        log = DeltaLog(root / str(call), storage=storage)
        error: DeltaOpsError | None = None
        try:
            run(open_session(log, session.id))
        except DeltaOpsError as raised:
            error = raised
        yield DeltaLog(root / str(call)), error
        if call > seen:
            return


def commit(session: WriteSession) -> None:
    session.commit()


def test_a_writer_at_any_call_of_a_commit_is_committed_or_gets_an_error(tmp_path: Path) -> None:
    refused: list[bool] = []

    def append(session: WriteSession) -> None:
        try:
            da.write(session.fork("late"), rows_of(3))
            refused.append(False)
        except SessionEndedError:
            refused.append(True)

    outcomes = set()
    for log, error in at_each_call(tmp_path, commit, append):
        assert error is None
        is_refused = refused.pop() if refused else True
        assert ids_of(log) == ([1, 2] if is_refused else [1, 2, 3])
        outcomes.add(is_refused)
    assert outcomes == {True, False}


@pytest.mark.full
def test_a_commit_at_any_call_of_a_writer_has_its_rows_or_the_writer_an_error(
    tmp_path: Path,
) -> None:
    outcomes = set()
    write = lambda session: da.write(session.fork("late"), rows_of(3))  # noqa: E731
    for log, error in at_each_call(tmp_path, write, commit):
        if list_sessions(log):  # the writer sent no further request
            open_session(log, list_sessions(log)[0].id).commit()
        assert error is None or isinstance(error, SessionEndedError | VersionNotFoundError)
        assert ids_of(log) == ([1, 2, 3] if error is None else [1, 2])
        outcomes.add(error is None)
    assert outcomes == {True, False}


@pytest.mark.full
def test_a_second_attempt_at_any_call_of_the_first_counts_alone(tmp_path: Path) -> None:
    first = lambda session: da.write(session.fork("load"), rows_of(3))  # noqa: E731
    second = lambda session: da.write(session.fork("load"), rows_of(4))  # noqa: E731
    found = set()
    for log, error in at_each_call(tmp_path, first, second):
        assert error is None or isinstance(error, SessionEndedError)
        of(log).commit()
        ids = ids_of(log)
        assert ids in ([1, 3], [1, 4])
        found.add((ids[-1], error is None))
    assert (4, False) in found


@pytest.mark.full
def test_a_second_commit_at_any_call_of_the_first_changes_nothing(tmp_path: Path) -> None:
    versions = []
    act: Act = lambda session: versions.append(session.commit().version)  # noqa: E731
    for log, error in at_each_call(tmp_path, commit, act):
        assert error is None or isinstance(error, VersionNotFoundError)
        assert (ids_of(log), log.snapshot().version) == ([1, 2], 1)
    assert set(versions) == {1}


@pytest.mark.full
def test_a_commit_to_main_at_any_call_comes_before_or_after_or_is_a_conflict(
    tmp_path: Path,
) -> None:
    def with_a_deletion(root: Path) -> WriteSession:
        session = made(root)
        da.delete(session.fork("clean"), "id < 5")
        return session

    append: Act = lambda session: da.write(session._log, rows_of(4))  # noqa: E731
    found = set()
    for log, error in at_each_call(tmp_path, commit, append, with_a_deletion):
        assert error is None or isinstance(error, SessionConflictError)
        ids = ids_of(log)
        assert (1 in ids) is (error is not None)
        if error is not None:
            session = of(log)
            session.rebase(drop_steps=["clean"])
            da.delete(session.fork("clean"), "id < 5")
            session.commit()
            assert ids_of(log) == []
        found.add(tuple(ids))
    assert found == {(1, 4), (4,), ()}  # nothing is added after the last call


@pytest.mark.full
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda session: session.abandon(), id="abandon"),
        pytest.param(lambda session: session.rebase(), id="rebase"),
    ],
)
def test_another_end_at_any_call_of_a_commit_decides_or_is_rejected(
    tmp_path: Path, other: Act
) -> None:
    ended: list[bool] = []

    def end(session: WriteSession) -> None:
        try:
            other(session)
            ended.append(True)
        except (SessionEndedError, TableBusyError):
            ended.append(False)

    outcomes = set()
    for log, error in at_each_call(tmp_path, commit, end):
        has_ended = ended.pop() if ended else False
        assert error is None or isinstance(error, SessionEndedError | VersionNotFoundError)
        ids = ids_of(log)
        assert (ids == [1, 2]) is (error is None)
        outcomes.add((has_ended, error is None))
        for each in list_sessions(log):
            with suppress(SessionEndedError):
                open_session(log, each.id).commit()
        assert ids_of(log) in ([1], [1, 2])
        assert log.snapshot().version <= 1
    assert {(True, False), (False, True)} <= outcomes


def test_a_clean_up_at_any_call_of_a_commit_loses_no_committed_row(tmp_path: Path) -> None:
    """Also where the clocks say that the session expired long ago."""
    clock = [0]

    def old(root: Path) -> WriteSession:
        table = Table(root)
        table.write([1], configuration={"delta.deletedFileRetentionDuration": "interval 30 days"})
        session = begin_session(table.log)
        data = pa.table({"id": pa.array([2], pa.int64()), "p": ["a"]})
        da.write(session.fork("load"), data)
        table.date()
        clock[0] = system_clock() + 60 * DAY_MS
        return session

    clean: Act = lambda session: vacuum(session._log, clock=lambda: clock[0])  # noqa: E731
    found = set()
    for log, error in at_each_call(tmp_path, commit, clean, old):
        assert error is None or isinstance(error, SessionEndedError | VersionNotFoundError)
        assert ids_of(log) == ([1, 2] if error is None else [1])
        found.add(error is None)
        vacuum(log, clock=lambda: clock[0] + 60 * DAY_MS)
        assert ids_of(log) == ([1, 2] if error is None else [1])
        assert list_sessions(log) == []
    assert found == {True, False}


@pytest.mark.full
def test_a_commit_at_any_call_of_a_clean_up_loses_no_committed_row(tmp_path: Path) -> None:
    clock = [0]
    committed: list[bool] = []

    def old(root: Path) -> WriteSession:
        table = Table(root)
        table.write([1])
        session = begin_session(table.log)
        data = pa.table({"id": pa.array([2], pa.int64()), "p": ["a"]})
        da.write(session.fork("load"), data)
        table.date()
        clock[0] = system_clock() + 60 * DAY_MS
        return session

    def try_commit(session: WriteSession) -> None:
        try:
            session.commit()
            committed.append(True)
        except SessionEndedError:
            committed.append(False)

    clean: Act = lambda session: vacuum(session._log, clock=lambda: clock[0])  # noqa: E731
    found = set()
    for log, error in at_each_call(tmp_path, clean, try_commit, old):
        assert error is None or isinstance(error, VersionNotFoundError)
        is_committed = committed.pop() if committed else False
        assert ids_of(log) == ([1, 2] if is_committed else [1])
        found.add(is_committed)
    assert found == {True, False}


# --- real processes ---------------------------------------------------------------------------


def work(root: str, token: str, number: int, outcomes: Any) -> None:
    """Write as a step of its own, then compete for the commit."""
    session = open_session(root, token)
    try:
        da.write(session.fork(f"part {number}"), rows_of(number))
        outcomes.put((number, True))
    except SessionEndedError:
        outcomes.put((number, False))
    with suppress(SessionEndedError, InvalidRequestError):
        session.commit()


def test_two_processes_write_and_commit_one_session(tmp_path: Path) -> None:
    root = tmp_path / "t"
    da.write(root, rows_of(1))
    session = begin_session(root)
    context = multiprocessing.get_context("spawn")
    outcomes = context.Queue()
    processes = [
        context.Process(target=work, args=(str(root), session.token, number, outcomes))
        for number in (10, 11)
    ]
    for process in processes:
        process.start()
    found = dict(outcomes.get(timeout=300) for _ in processes)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert ids_of(root) == [1, *(number for number, written in sorted(found.items()) if written)]
    assert DeltaLog(root).snapshot().version == 1
    assert list_sessions(root) == []
