"""A restore or a revert of a table with constant commits by others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from delta_ops import DeltaLog
from delta_ops.clock import system_clock
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import restore, revert
from delta_ops.protocol.actions import CommitInfo
from delta_ops.storage import open_storage
from tests.maintenance.restored_tables import history, ids, write
from tests.support.counting_storage import CountingStorage


def disturbed(log: DeltaLog, times: int, act: Callable[[], object]) -> DeltaLog:
    """The table; `act` runs before each of this many commits of its handle."""
    left = [times]

    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "create" and path.endswith(".json") and when == "before" and left[0]:
            left[0] -= 1
            act()

    return DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call))


def test_a_restore_that_lost_once_says_what_helps(tmp_path: Path) -> None:
    log = history(tmp_path)
    busy = disturbed(log, 1, lambda: write(log, [11]))

    with pytest.raises(CommitConflictError, match=r"\(timeout\), or .* \(hold_writers\)") as raised:
        restore(busy, version=1)

    assert raised.value.kind == "concurrent append"
    assert ids(log) == [9, 10, 11]


def test_a_restore_tries_again_until_its_time_is_over(tmp_path: Path) -> None:
    log = history(tmp_path)
    busy = disturbed(log, 3, lambda: write(log, [11]))

    result = restore(busy, version=1, timeout=timedelta(minutes=5))

    assert result.version == 8
    assert ids(log) == [0, 1]
    assert ids(log, 7) == [9, 10, 11, 11, 11]  # nothing is lost that a user may want back


def test_a_restore_that_never_wins_says_how_often_it_tried(tmp_path: Path) -> None:
    log = history(tmp_path)
    busy = disturbed(log, 1_000_000, lambda: write(log, [11]))

    with pytest.raises(CommitConflictError, match=r"the last of \d+ attempts that were overtaken"):
        restore(busy, version=1, timeout=timedelta(seconds=1))

    assert ids(log)[:2] == [9, 10]


def test_a_revert_tries_again_too(tmp_path: Path) -> None:
    log = history(tmp_path)
    versions = iter(range(5, 100, 2))

    def vacuumed() -> None:
        for version, operation in enumerate(["VACUUM START", "VACUUM END"], next(versions)):
            info = CommitInfo(values={"operation": operation, "timestamp": system_clock()})
            create_commit(log.storage, log.log_directory, version, [info])

    with pytest.raises(CommitConflictError, match="began to vacuum"):
        revert(disturbed(log, 1, vacuumed), 3)

    assert revert(disturbed(log, 1, vacuumed), 3, timeout=timedelta(minutes=5)).version == 9
    assert ids(log) == [0, 1, 7, 10]


def test_writers_wait_for_a_restore_that_holds_their_lock(tmp_path: Path) -> None:
    lock = threading.Lock()
    log = shared(history(tmp_path / "t"), lock)
    writer = threading.Thread(target=write, args=(shared(log, lock), [11]))
    begun: list[int] = []

    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "create" and path.endswith(f"{5:020d}.json") and when == "before":
            begun.append(1)
            writer.start()
            writer.join(0.5)
            assert writer.is_alive()  # it waits for the lock

    busy = DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call))
    result = restore(busy, version=1, hold_writers=True)
    writer.join()

    assert begun
    assert result.version == 5
    assert ids(log) == [0, 1, 11]


def test_a_commit_that_came_while_the_lock_was_waited_for_is_not_passed_over(
    tmp_path: Path,
) -> None:
    log = history(tmp_path / "t")
    taken: list[str] = []

    @contextmanager
    def late(path: str) -> Iterator[None]:
        taken.append(path)
        if len(taken) == 1:
            write(log, [11])
        yield

    busy = DeltaLog(log.uri, lock=late)
    with pytest.raises(CommitConflictError, match="was committed during the wait for the lock"):
        restore(busy, version=1, hold_writers=True)

    assert restore(busy, version=1, hold_writers=True, timeout=timedelta(minutes=1)).version == 6
    assert [Path(path).name for path in taken] == [f"{v:020d}.json" for v in (5, 6)]


def test_writers_are_not_held_back_without_a_lock(tmp_path: Path) -> None:
    log = history(tmp_path)

    with pytest.raises(InvalidRequestError, match="for a lock that all of them share"):
        restore(log, version=1, hold_writers=True)

    assert log.snapshot().version == 4


def test_a_timeout_below_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be negative"):
        restore(history(tmp_path), version=1, timeout=timedelta(seconds=-1))


def shared(log: DeltaLog, lock: threading.Lock) -> DeltaLog:
    """The table; all its writers commit under one shared lock."""
    return DeltaLog(log.uri, storage=open_storage(log.uri, lock=lambda _: lock))
