"""A user's own lock, for stores that cannot create exclusively."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from delta_ops import DeltaLog
from delta_ops.errors import StorageError, UnsupportedStorageError
from delta_ops.storage import Storage, open_storage
from delta_ops.storage.exclusive_create import PART_BYTES
from tests.storage.disk_file_system import open_disk
from tests.support.file_lock import FileLock
from tests.support.servers.s3 import S3Server, kinds

PATHS = [f"_delta_log/{number:02}" for number in range(25)]
Open = Callable[[], Storage]


CALLERS = 2


def create_each(opened: Open, caller: int, started: Path) -> list[str]:
    storage, won = opened(), []
    (started / f"{caller}").touch()
    while len(os.listdir(started)) < CALLERS:
        time.sleep(0.001)
    for path in PATHS:
        try:
            storage.create(path, b"%d" % caller * 1000)
        except FileExistsError:
            continue
        won.append(path)
    return won


def raced(opened: Open, started: Path) -> list[list[str]]:
    """The paths that each of several concurrent processes created."""
    started.mkdir()
    with ProcessPoolExecutor(CALLERS, multiprocessing.get_context("spawn")) as pool:
        racing = [pool.submit(create_each, opened, each, started) for each in range(CALLERS)]
        return [race.result() for race in racing]


@pytest.fixture
def lock(tmp_path: Path) -> FileLock:
    return FileLock(str(tmp_path / "lock"))


def on_careless_s3(server: S3Server, lock: FileLock) -> Open:
    address = f"s3://{server.new_bucket('careless-')}/t"
    return partial(open_storage, address, server.storage_options, lock=lock)


@pytest.fixture(
    params=[
        pytest.param("a store that ignores conditions", marks=pytest.mark.full),
        "a store that can rename",
    ]
)
def opened(
    request: pytest.FixtureRequest, lock: FileLock, s3_server: S3Server, tmp_path: Path
) -> Open:
    if request.param == "a store that can rename":
        return partial(open_disk, str(tmp_path / "t"), lock)
    return on_careless_s3(s3_server, lock)


def test_exactly_one_of_several_processes_creates_within_the_lock(
    opened: Open, tmp_path: Path
) -> None:
    won_by = raced(opened, tmp_path / "started")
    storage = opened()
    assert sorted(path for won in won_by for path in won) == PATHS
    assert [info.path for info in storage.list_from("_delta_log", "0")] == PATHS
    for caller, won in enumerate(won_by):
        assert {storage.read(path) for path in won} <= {b"%d" % caller * 1000}


def test_without_the_lock_such_a_store_lets_two_create(s3_server: S3Server) -> None:
    """Control for the test above: without the lock the server accepts both writes."""
    bucket = s3_server.new_bucket("careless-")
    fs = fsspec.filesystem("s3", **s3_server.storage_options)
    for data in (b"1", b"2"):
        fs.pipe_file(f"{bucket}/a", data, mode="create")
    assert fs.cat_file(f"{bucket}/a") == b"2"


def test_a_file_that_is_there_is_not_changed_within_the_lock(opened: Open) -> None:
    storage = opened()
    storage.create("a", b"old")
    with pytest.raises(FileExistsError):
        storage.create("a", b"new")
    with pytest.raises(FileExistsError):
        storage.create_from_stream("a", write_large)
    assert storage.read("a") == b"old"
    assert [info.path for info in storage.list_tree("")] == ["a"]


def write_large(stream: IO[bytes]) -> None:
    stream.write(bytes(2 * PART_BYTES))


def test_a_stream_is_created_within_the_lock(opened: Open) -> None:
    storage = opened()
    assert storage.create_from_stream("d/a", write_large).size == 2 * PART_BYTES


def test_a_file_is_replaced(opened: Open) -> None:
    storage = opened()
    for data in (b"a long first text", b"second"):
        storage.replace("d/hint", data)
        assert storage.read("d/hint") == data
    assert [info.path for info in storage.list_tree("")] == ["d/hint"]


def test_a_store_that_honours_conditional_writes_gets_them_within_the_lock(
    s3_server: S3Server, lock: FileLock, tmp_path: Path
) -> None:
    address = f"s3://{s3_server.new_bucket()}/t"
    locked = open_storage(address, s3_server.storage_options, lock=lock)
    locked.create("first", b"")
    with s3_server.recording() as requests:
        locked.create("a", b"")
    assert kinds(requests) == {"HEAD": 1, "PUT": 1}
    locked.create_from_stream("b", write_large)
    bucket_and_root = address.removeprefix("s3://")
    taken_for = [f"{bucket_and_root}/{name}" for name in ("first", "a", "b")]
    assert (tmp_path / "lock").read_text().split() == taken_for


def test_a_store_that_can_neither_upload_nor_rename_at_once_is_refused_with_a_lock_too(
    lock: FileLock,
) -> None:
    class HeapFileSystem(MemoryFileSystem):  # type: ignore[misc]
        protocol = "heap"

    fsspec.register_implementation("heap", HeapFileSystem, clobber=True)
    with pytest.raises(UnsupportedStorageError, match=r"^heap://t .*even with a lock.*heap"):
        open_storage("heap://t", lock=lock).create("a", b"")


def test_a_rename_that_is_refused_with_success_is_no_success(
    lock: FileLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As WebHDFS answers for an existing name."""
    storage = open_disk(str(tmp_path / "t"), lock)
    monkeypatch.setattr("tests.storage.disk_file_system.DiskFileSystem.mv", lambda *_: None)
    with pytest.raises(FileExistsError):
        storage.create("a", b"")
    assert list(storage.list_tree("")) == []


def test_a_disk_without_hard_links_is_committed_to_within_the_lock(
    lock: FileLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), target)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UnsupportedStorageError, match=r"no hard links.*lock=\.\.\."):
        open_storage(tmp_path / "t").create("a", b"old")
    storage = open_storage(tmp_path / "t", lock=lock)
    storage.create("a", b"old")
    with pytest.raises(FileExistsError):
        storage.create("a", b"new")
    assert storage.read("a") == b"old"
    assert [info.path for info in storage.list_tree("")] == ["a"]


@contextmanager
def broken(path: str) -> Iterator[None]:
    raise TimeoutError(f"nobody gave {path}")
    yield


@contextmanager
def held_too_long(path: str) -> Iterator[None]:
    yield
    raise TimeoutError(f"{path} was taken away")


def test_a_lock_that_cannot_be_taken_is_a_storage_error_and_nothing_is_written(
    s3_server: S3Server, tmp_path: Path
) -> None:
    on_s3 = open_storage(
        f"s3://{s3_server.new_bucket('careless-')}/t", s3_server.storage_options, lock=broken
    )
    for storage in (on_s3, open_storage(tmp_path / "t", lock=broken)):
        with pytest.raises(StorageError, match=r"could not be locked.*TimeoutError"):
            storage.create("a", b"")
        assert list(storage.list_tree("")) == []


def test_a_lock_that_cannot_be_released_leaves_the_outcome_to_be_read(
    s3_server: S3Server,
) -> None:
    storage = open_storage(
        f"s3://{s3_server.new_bucket('careless-')}/t", s3_server.storage_options, lock=held_too_long
    )
    with pytest.raises(StorageError, match=r"could not be unlocked.*TimeoutError"):
        storage.create("a", b"ours")
    assert storage.read("a") == b"ours"


def test_a_handle_with_a_lock_pickles_and_does_not_show_it(
    s3_server: S3Server, lock: FileLock
) -> None:
    address = f"s3://{s3_server.new_bucket('careless-')}/t"
    log = DeltaLog(address, s3_server.storage_options, lock=lock)
    copy: DeltaLog = pickle.loads(pickle.dumps(log))
    copy.storage.create("a", b"")
    with pytest.raises(FileExistsError):
        log.storage.create("a", b"")
    assert repr(copy) == f"DeltaLog({address!r})"
    assert repr(copy.storage) == f"FsspecStorage({address!r})"
