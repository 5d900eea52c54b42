from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import IO

import pytest

from delta_ops.errors import StorageError
from delta_ops.storage import Storage, open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import Faults, FaultyStorage, Killed, MortalStorage, crashes
from tests.support.gate import PATIENCE_S


def paths(storage: Storage) -> list[str]:
    return sorted(info.path for info in storage.list_tree(""))


@pytest.mark.parametrize(
    ("faults", "at_once", "at_last"),
    [
        pytest.param(Faults(lost_requests=1), [], [], id="a request that is lost does nothing"),
        pytest.param(Faults(lost_answers=1), ["a"], ["a"], id="a lost answer leaves the file"),
        pytest.param(Faults(late_requests=1), [], ["a"], id="a late one comes to it"),
    ],
)
def test_state_after_a_fault(
    tmp_path: Path, faults: Faults, at_once: list[str], at_last: list[str]
) -> None:
    inner, is_seen = open_storage(tmp_path), threading.Event()

    def hold_late_request(_number: int, method: str, _path: str, moment: str) -> None:
        if threading.current_thread() is not caller and (method, moment) == ("create", "before"):
            assert is_seen.wait(PATIENCE_S)

    caller = threading.current_thread()
    storage = FaultyStorage(CountingStorage(inner, hold_late_request), faults, seed=2)
    with pytest.raises(StorageError):
        storage.create("a", b"one")
    assert paths(inner) == at_once
    is_seen.set()
    storage.settle()
    assert paths(inner) == at_last


def test_one_seed_gives_one_sequence_of_faults(tmp_path: Path) -> None:
    def faults(seed: int) -> list[bool]:
        storage = FaultyStorage(open_storage(tmp_path), Faults(lost_requests=0.5), seed)
        failed = []
        for _ in range(50):
            try:
                storage.delete("a")
            except StorageError:
                failed.append(True)
            else:
                failed.append(False)
        return failed

    assert faults(1) == faults(1) != faults(2)


def test_a_dead_process_calls_nothing(tmp_path: Path) -> None:
    storage = MortalStorage(open_storage(tmp_path), 1, "before")
    for _ in range(2):
        with pytest.raises(Killed):
            storage.create("a", b"one")
    assert paths(storage.inner) == []


def test_calls_of_other_threads_end_after_a_kill(tmp_path: Path) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def write(file: IO[bytes]) -> None:
        has_begun.set()
        may_end.wait()
        file.write(b"one")

    def run() -> None:
        with contextlib.suppress(Killed):
            storage.create_from_stream("a", write)

    storage = MortalStorage(open_storage(tmp_path), 2, "before")
    threading.Thread(target=run).start()
    has_begun.wait()
    with pytest.raises(Killed):
        storage.create("b", b"two")
    threading.Timer(0.2, may_end.set).start()
    storage.settle()
    assert paths(storage.inner) == ["a"]


def two_files(storage: Storage) -> None:
    storage.create("a", b"one")
    storage.create("b", b"two")


def test_every_call_is_a_point_of_a_crash(tmp_path: Path) -> None:
    roots = iter(range(100))
    found = [
        (where, paths(left))
        for where, left in crashes(lambda: open_storage(tmp_path / str(next(roots))), two_files)
    ]
    assert found == [
        ("before call 1", []),
        ("after call 1", ["a"]),
        ("before call 2", ["a"]),
        ("after call 2", ["a", "b"]),
    ]


def test_code_that_survives_its_kill_is_found_out(tmp_path: Path) -> None:
    def immortal(storage: Storage) -> None:
        with contextlib.suppress(BaseException):
            storage.create("a", b"one")

    with pytest.raises(AssertionError, match="the kill before call 1 was swallowed"):
        list(crashes(lambda: open_storage(tmp_path), immortal))
