"""fsspec storage beyond the contract: stores that cache, fail, or do not support commits.

The stores are file systems of fsspec, made for the test and registered under their own schemes.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.asyn import get_lock
from fsspec.implementations.memory import MemoryFileSystem

from delta_ops.errors import StorageError, UnsupportedStorageError
from delta_ops.storage import Storage, open_storage
from tests.support.forked import call_in_child, needs_fork
from tests.support.gate import Gate
from tests.support.servers.azure import AzureServer
from tests.support.servers.s3 import S3Server

SECRET = "sig-0123456789"


class ShelfFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A store without known exclusive creates and atomic uploads."""

    protocol = "shelf"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix(f"{cls.protocol}://")))


class StaleFileSystem(ShelfFileSystem):
    """Keeps each listing until its cache is cleared, whatever its options say."""

    protocol = "stale"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kept: dict[str, Any] = {}

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if path not in self.kept:
            self.kept[path] = super().ls(path, detail, **options)
        return self.kept[path]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.kept.clear()


class ObedientFileSystem(StaleFileSystem):
    """Keeps each listing forever, unless it is opened without a cache."""

    protocol = "obedient"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if not self.storage_options.get("use_listings_cache", True):
            self.kept.clear()
        return super().ls(path, detail, **options)

    def invalidate_cache(self, path: str | None = None) -> None:
        pass


class SlowFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """An in-memory store whose listings wait for its gate."""

    protocol = ("slow", "memory")
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    gate = Gate()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("slow://")))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self.gate.pass_by()
        return super().ls(path, detail, **options)


class BrokenFileSystem(ShelfFileSystem):
    """Raises one error for every call."""

    protocol = "broken"

    def __init__(self, error: Callable[[str], Exception], token: str = "", **options: Any) -> None:
        super().__init__(**options)
        if "account" in options:
            raise TypeError(f"no {options['account']} for {token}")
        self.error, self.token = error, token

    def fail(self, *_: Any, **__: Any) -> Any:
        raise self.error(f"denied for {self.token} at https://store/t?{self.token}=1\nmore")

    ls = info = cat_file = rm_file = open = fail


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    for fs in (ShelfFileSystem, StaleFileSystem, ObedientFileSystem, BrokenFileSystem):
        fsspec.register_implementation(fs.protocol, fs, clobber=True)
    fsspec.register_implementation("slow", SlowFileSystem, clobber=True)
    yield
    ShelfFileSystem.store.clear()
    StaleFileSystem.store.clear()
    ObedientFileSystem.store.clear()


@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param("stale", id="by a file system that ignores how it is opened"),
        pytest.param("obedient", id="by a file system without a request to drop it"),
    ],
)
def test_a_listing_is_not_kept(scheme: str) -> None:
    storage = open_storage(f"{scheme}://t", {"use_listings_cache": True})
    seen = []
    for name in ["a", "b"]:
        fsspec.filesystem(scheme).pipe_file(f"/t/d/{name}", b"")
        seen.append([info.path for info in storage.list_from("d", "")])
        seen.append([info.path for info in storage.list_tree("")])
    assert seen == [["d/a"], ["d/a"], ["d/a", "d/b"], ["d/a", "d/b"]]


def test_a_store_without_an_exclusive_create_can_be_read_and_deleted_from() -> None:
    fsspec.filesystem("shelf").pipe_file("/t/p=1/q=2/a", b"0123")
    storage = open_storage("shelf://t")
    assert [(info.path, info.size) for info in storage.list_tree("")] == [("p=1/q=2/a", 4)]
    assert (storage.read("p=1/q=2/a"), storage.stat("p=1/q=2/a").size) == (b"0123", 4)
    assert storage.read_ranges("p=1/q=2/a", [(1, 3)]) == [b"12"]
    with storage.open_input("p=1/q=2/a") as file:
        assert file.read() == b"0123"
    storage.delete("p=1/q=2/a")
    assert list(storage.list_tree("")) == []


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda s: s.create("a", b""), id="create"),
        pytest.param(lambda s: s.create_from_stream("a", pytest.fail), id="create_from_stream"),
        pytest.param(lambda s: s.replace("a", b""), id="replace"),
    ],
)
def test_a_store_without_an_exclusive_create_is_not_written_to(
    write: Callable[[Storage], object],
) -> None:
    with pytest.raises(UnsupportedStorageError, match=r"shelf.*[Rr]eading"):
        write(open_storage("shelf://t"))
    assert ShelfFileSystem.store == {}


def test_hdfs_is_not_written_to_and_the_cure_is_named() -> None:
    storage = open_storage("webhdfs://host:9870/t")
    with pytest.raises(UnsupportedStorageError, match=r"^webhdfs://.* webhdfs .*lock=\.\.\."):
        storage.create("_delta_log/a", b"")


def test_options_that_a_file_system_cannot_use_are_an_error_without_their_values() -> None:
    with pytest.raises(StorageError) as caught:
        open_storage("broken://t", {"error": OSError, "token": SECRET, "account": SECRET})
    assert str(caught.value).startswith("broken://t could not be opened: ")
    assert "no *** for ***" in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


class StrangeError(Exception):
    pass


errors = pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(PermissionError, "access is denied", id="no permission"),
        pytest.param(OSError, "the store failed", id="an error of the system"),
        pytest.param(StrangeError, "the store failed", id="an error of its library"),
    ],
)


@errors
@pytest.mark.parametrize(
    ("call", "action"),
    [
        pytest.param(lambda s: s.read("a"), "read", id="read"),
        pytest.param(lambda s: s.stat("a"), "read", id="stat"),
        pytest.param(lambda s: s.read_ranges("a", [(0, 1)]), "read", id="read_ranges"),
        pytest.param(lambda s: s.open_input("a"), "read", id="open_input"),
        pytest.param(lambda s: s.delete("a"), "deleted", id="delete"),
        pytest.param(lambda s: s.list_from("a", ""), "listed", id="list_from"),
        pytest.param(lambda s: list(s.list_tree("a")), "listed", id="list_tree"),
    ],
)
def test_any_error_of_a_store_is_a_storage_error_without_credentials(
    error: type[Exception], message: str, call: Callable[[Storage], object], action: str
) -> None:
    storage = open_storage("broken://t", {"error": error, "token": SECRET})
    with pytest.raises(StorageError) as caught:
        call(storage)
    shown = "".join(traceback.format_exception(caught.value))
    assert str(caught.value).startswith(f"broken://t/a could not be {action}: {message} (")
    assert "denied for *** at https://store/t?***)" in str(caught.value)
    assert SECRET not in shown
    assert SECRET not in repr(storage)
    assert SECRET not in storage.locate("a")


def test_the_endpoint_of_a_store_is_no_secret_but_its_user_is() -> None:
    endpoint = "https://me:hush@store:9000"

    def error(_text: str) -> Exception:
        return StrangeError(f"no connection to {endpoint}/t")

    with pytest.raises(StorageError) as caught:
        open_storage(
            "broken://t", {"error": error, "client_kwargs": {"endpoint_url": endpoint}}
        ).read("a")
    assert "no connection to https://store:9000/t)" in str(caught.value)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_a_credential_in_the_cause_of_an_error_is_not_shown_either() -> None:
    def error(text: str) -> Exception:
        translated = StrangeError("translated")
        translated.__cause__ = StrangeError(text)
        return translated

    with pytest.raises(StorageError) as caught:
        open_storage("broken://t", {"error": error, "token": SECRET}).read("a")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_an_error_that_holds_no_credential_is_kept_as_the_cause() -> None:
    def error(_text: str) -> Exception:
        return StrangeError("no connection")

    with pytest.raises(StorageError) as caught:
        open_storage("broken://t", {"error": error, "token": SECRET}).read("a")
    assert isinstance(caught.value.__cause__, StrangeError)


def test_delete_many_reports_what_it_could_not_delete() -> None:
    storage = open_storage("broken://t", {"error": OSError})
    assert storage.delete_many(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize(
    "time",
    [
        pytest.param({"mtime": 1_700_000_000.123}, id="seconds"),
        pytest.param(
            {"LastModified": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)}, id="a date"
        ),
        pytest.param(
            {"last_modified": datetime(2023, 11, 14, 22, 13, 20, 123_000)}, id="a date without zone"
        ),
        pytest.param({"updated": "2023-11-14T22:13:20.123Z"}, id="text"),
        pytest.param(
            {"created": 1.0, "mtime": None, "updated": "2023-11-14T23:13:20.123+01:00"},
            id="a change counts before the creation",
        ),
    ],
)
def test_the_time_of_a_file_is_read_as_each_store_gives_it(
    time: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"name": "/t/a", "size": 1, "type": "file", **time}
    monkeypatch.setattr(ShelfFileSystem, "info", lambda self, path: entry)
    assert open_storage("shelf://t").stat("a").modified_ms == 1_700_000_000_123


def test_a_directory_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"name": "/t/a", "size": 0, "type": "directory", "mtime": 1}
    monkeypatch.setattr(ShelfFileSystem, "info", lambda self, path: entry)
    with pytest.raises(FileNotFoundError):
        open_storage("shelf://t").stat("a")


def test_only_files_below_the_root_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = [
        {"name": "t", "size": 0, "type": "directory"},
        {"name": "t/", "size": 0, "type": "file", "mtime": 1},
        {"name": "t//a", "size": 0, "type": "file", "mtime": 1},
        {"name": "t/../a", "size": 0, "type": "file", "mtime": 1},
        {"name": "tt/a", "size": 0, "type": "file", "mtime": 1},
        {"name": "t/a", "size": 1, "type": "file", "mtime": 1},
    ]
    monkeypatch.setattr(ShelfFileSystem, "ls", lambda self, path, detail: listing)
    storage = open_storage("shelf://t")
    assert [info.path for info in storage.list_from("", "")] == ["a"]
    assert [info.path for info in storage.list_tree("")] == ["a"]


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads switch at nearly every instruction, so that a race shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("busy_threads")
def test_exactly_one_of_many_creates_in_memory_succeeds() -> None:
    """fsspec itself checks first and creates then."""
    storage, callers, rounds = open_storage("memory://race"), 8, 100
    barrier = threading.Barrier(callers)

    def race(caller: int) -> int:
        won = 0
        for number in range(rounds):
            barrier.wait()
            with contextlib.suppress(FileExistsError):
                storage.create(f"{number}", b"%d" % caller)
                won += 1
        return won

    with ThreadPoolExecutor(callers) as pool:
        assert sum(pool.map(race, range(callers))) == rounds
    assert storage.delete_many([f"{number}" for number in range(rounds)]) == []


@pytest.mark.usefixtures("busy_threads")
def test_listing_memory_while_others_delete_raises_nothing() -> None:
    """fsspec itself looks up each listed name, and some names are gone."""
    storage = open_storage("memory://vanishing")
    paths = [f"{number}" for number in range(300)]
    for _ in range(15):
        for path in paths:
            storage.replace(path, b"")
        with ThreadPoolExecutor(1) as pool:
            deleting = pool.submit(storage.delete_many, paths)
            while not deleting.done():
                assert len(list(storage.list_from("", ""))) <= len(paths)
        assert deleting.result() == []


def test_a_storage_keeps_its_options_when_it_pickles() -> None:
    storage = open_storage("broken://t", {"error": OSError, "token": SECRET})
    copy: Storage = pickle.loads(pickle.dumps(storage))
    with pytest.raises(StorageError, match=r"denied for \*\*\*"):
        copy.read("a")


def test_a_file_system_is_opened_again_in_a_forked_process() -> None:
    """The parent keeps its connections and threads."""
    program = """
import os
import fsspec
from fsspec.implementations.memory import MemoryFileSystem
from delta_ops.storage import open_storage

class BornFileSystem(MemoryFileSystem):
    protocol = "born"
    def __init__(self, token, **options):
        super().__init__(**options)
        self.pid, self.token = os.getpid(), token
    def cat_file(self, path, **options):
        return f"{self.pid} {self.token}".encode()

fsspec.register_implementation("born", BornFileSystem)
storage = open_storage("born://t", {"token": "kept"})
assert storage.read("a") == f"{os.getpid()} kept".encode()
child = os.fork()
if not child:
    os._exit(storage.read("a") != f"{os.getpid()} kept".encode())
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr


@needs_fork
def test_a_child_forked_while_the_store_in_memory_is_used_can_use_it() -> None:
    storage = open_storage("slow://t")

    def use() -> list[str]:
        storage.create("a", b"")
        return [info.path for info in storage.list_from("", "")]

    with SlowFileSystem.gate.holding([lambda: storage.list_from("", "")]):
        assert call_in_child(use) == ["a"]


@needs_fork
def test_a_child_forked_while_the_event_loop_is_started_starts_its_own(
    s3_server: S3Server,
) -> None:
    bucket = s3_server.new_bucket()
    s3_server.put(bucket, {"t/a": b"data"})

    def read() -> bytes:
        return open_storage(f"s3://{bucket}/t", s3_server.storage_options).read("a")

    gate, opening = Gate(), get_lock()

    def start() -> None:
        with opening:
            gate.pass_by()

    read()
    with gate.holding([start]):
        assert call_in_child(read) == b"data"


@needs_fork
def test_a_child_closes_nothing_that_its_parent_has_open() -> None:
    """A client that closes its connections waits for the event loop, which the child lacks."""
    closed: list[str] = []
    gc.freeze()  # the child collects the garbage of this test, not of the whole process
    storage = open_storage("shelf://t", {"name": "of the parent"})
    fs = fsspec.filesystem("shelf", name="of the parent", use_listings_cache=False)
    weakref.finalize(fs, closed.append, "closed")
    del fs

    def use() -> list[str]:
        assert list(storage.list_tree("")) == []
        gc.collect()
        return closed

    try:
        assert call_in_child(use) == []
    finally:
        gc.unfreeze()


def test_a_directory_that_cannot_be_listed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec's own walk would silently omit its files."""
    list_of_fs = ShelfFileSystem.ls

    def ls(self: ShelfFileSystem, path: str, **options: Any) -> Any:
        if path.endswith("closed"):
            raise PermissionError(path)
        return list_of_fs(self, path, **options)

    for path in ["/t/open/a", "/t/inner/closed/b"]:
        fsspec.filesystem("shelf").pipe_file(path, b"")
    monkeypatch.setattr(ShelfFileSystem, "ls", ls)
    with pytest.raises(StorageError, match="access is denied"):
        list(open_storage("shelf://t").list_tree(""))


def test_a_directory_of_azure_with_a_marker_object_is_listed_once(
    azure_server: AzureServer,
) -> None:
    from azure.storage.blob import BlobServiceClient

    options = azure_server.storage_options
    container = azure_server.new_container()
    storage = open_storage(f"az://{container}/t", options)
    with BlobServiceClient.from_connection_string(options["connection_string"]) as client:
        for directory in ("t", "t/a", "t/a/b"):  # as Hadoop's connector creates them
            client.get_container_client(container).upload_blob(
                directory, b"", metadata={"hdi_isfolder": "true"}
            )
    storage.create("a/b/c", b"c")
    for directory in ("", "a", "a/b"):
        assert [file.path for file in storage.list_tree(directory)] == ["a/b/c"]
