"""Commits and sweeps of arrays that are killed at each call of the storage."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

pytest.importorskip("zarr")

from zarr.core.buffer import cpu

from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.maintenance import vacuum
from delta_ops.storage import Storage
from delta_ops.versioning import list_sessions
from tests.support.faulty_storage import copies_of, crashes

LONG = bytes(100_000)


def write(store: DeltaStore, keys: Mapping[str, bytes]) -> None:
    for key, data in keys.items():
        store.set_sync(key, cpu.Buffer.from_bytes(data))


def commit(log: DeltaLog, keys: Mapping[str, bytes]) -> None:
    store = DeltaStore.begin(log)
    write(store, keys)
    store.commit()


def content(log: DeltaLog) -> dict[str, bytes]:
    store = DeltaStore(log)
    found = {f"a/c/{number}": store.get_sync(f"a/c/{number}") for number in range(4)}
    return {key: each.to_bytes() for key, each in found.items() if each is not None}


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    log = DeltaLog(tmp_path / "t")
    create_array_table(log)
    commit(log, {"a/zarr.json": b"{}", "a/c/0": b"0", "a/c/1": b"1"})
    return log


def staged(log: DeltaLog, keys: Mapping[str, bytes]) -> str:
    """The token of a session with changes."""
    store = DeltaStore.begin(log)
    write(store, keys)
    store.flush()
    assert store.session
    return store.session


@pytest.mark.full
def test_a_killed_commit_is_finished_by_the_next(log: DeltaLog, tmp_path: Path) -> None:
    token = staged(log, {"a/c/1": b"ours", "a/c/2": LONG})
    before = content(log)
    after = {"a/c/0": b"0", "a/c/1": b"ours", "a/c/2": LONG}
    found = []

    def run(storage: Storage) -> None:
        DeltaStore(DeltaLog("", storage=storage), session=token).commit()

    for place, storage in crashes(copies_of(Path(log.uri), tmp_path / "copies"), run):
        copy = DeltaLog("", storage=storage)
        found.append(content(copy))
        assert DeltaStore(copy, session=token).commit() == 2, place
        assert (content(copy), copy.snapshot().version) == (after, 2), place
        assert list_sessions(copy) == [], place
    assert before in found
    assert after in found
    assert all(each in (before, after) for each in found)


@pytest.mark.long
@pytest.mark.parametrize("on_conflict", ["fail", "theirs", "ours"])
def test_a_killed_commit_beside_another_session_loses_no_key(
    log: DeltaLog, tmp_path: Path, on_conflict: Literal["fail", "ours", "theirs"]
) -> None:
    ours = {"a/c/2": b"ours"} if on_conflict == "fail" else {"a/c/1": b"ours", "a/c/2": b"ours"}
    token = staged(log, ours)
    commit(log, {"a/c/1": b"theirs", "a/c/3": b"theirs"})
    middle = b"ours" if on_conflict == "ours" else b"theirs"
    after = {"a/c/0": b"0", "a/c/1": middle, "a/c/2": b"ours", "a/c/3": b"theirs"}

    def run(storage: Storage) -> None:
        store = DeltaStore(DeltaLog("", storage=storage), session=token)
        store.commit(on_conflict=on_conflict)

    for place, storage in crashes(copies_of(Path(log.uri), tmp_path / "copies"), run):
        copy = DeltaLog("", storage=storage)
        store = DeltaStore(copy, session=token)
        assert store.commit(on_conflict=on_conflict) == 3, place
        assert (content(copy), copy.snapshot().version) == (after, 3), place


@pytest.mark.full
def test_a_killed_vacuum_leaves_every_key_readable(log: DeltaLog, tmp_path: Path) -> None:
    commit(log, {"a/c/1": LONG, "a/c/2": LONG + b"2"})
    commit(log, {"a/c/2": LONG + b"3"})
    after = content(log)

    def run(storage: Storage) -> int:
        copy = DeltaLog("", storage=storage)
        now = {"retention": timedelta(0), "enforce_retention": False, "log_commits": False}
        return vacuum(copy, clock=lambda: 10**13, **now).chunks.num_chunks  # type: ignore[arg-type]

    for place, storage in crashes(copies_of(Path(log.uri), tmp_path / "copies"), run):
        copy = DeltaLog("", storage=storage)
        assert content(copy) == after, place
        run(storage)
        assert content(copy) == after, place
        chunks = list(storage.list_tree("_delta_ops/chunks/sha256"))
        assert len(chunks) == 2, place
