"""The contract of every storage, for every backend.

To add a backend, write a fixture `<name>_storage` that yields an empty storage, and add the name to
the parameters of `storage`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import IO

import pytest

from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.storage import FileInfo, Storage, open_storage
from delta_ops.storage.paths import is_hidden_staged, staged_name
from tests.support.gate import PATIENCE_S
from tests.support.servers.azure import AzureServer
from tests.support.servers.gcs import GcsServer
from tests.support.servers.s3 import S3Server

LOG = "_delta_log"
FIRST_VERSION = "0" * 20


@pytest.fixture
def local_storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "table")


@pytest.fixture
def memory_storage() -> Iterator[Storage]:
    storage = open_storage(f"memory://{uuid.uuid4().hex}/table")
    yield storage
    storage.delete_many([info.path for info in storage.list_tree("")])


@pytest.fixture
def s3_storage(s3_server: S3Server) -> Storage:
    return open_storage(f"s3://{s3_server.new_bucket()}/table", s3_server.storage_options)


@pytest.fixture
def gcs_storage(gcs_server: GcsServer) -> Storage:
    return open_storage(f"gs://{gcs_server.new_bucket()}/table", gcs_server.storage_options)


@pytest.fixture
def azure_storage(azure_server: AzureServer) -> Storage:
    return open_storage(f"az://{azure_server.new_container()}/table", azure_server.storage_options)


@pytest.fixture(params=["local", "memory", "s3", "gcs", "azure"])
def storage(request: pytest.FixtureRequest) -> Storage:
    found: Storage = request.getfixturevalue(f"{request.param}_storage")
    return found


on_few_stores = pytest.mark.parametrize(
    "storage",
    [
        *("local", "memory", "s3"),
        *(pytest.param(each, marks=pytest.mark.full) for each in ("gcs", "azure")),
    ],
    indirect=True,
)
with_directories = pytest.mark.parametrize("storage", ["local", "memory"], indirect=True)
"""Stores that do not allow a file and a directory of one name."""


def names(storage: Storage, directory: str = "") -> list[str]:
    return sorted(info.path for info in storage.list_tree(directory))


def writing(data: bytes) -> Callable[[IO[bytes]], None]:
    def write(stream: IO[bytes]) -> None:
        stream.write(data)

    return write


def create_whole(storage: Storage, path: str, data: bytes) -> None:
    storage.create(path, data)


def create_streamed(storage: Storage, path: str, data: bytes) -> None:
    storage.create_from_stream(path, writing(data))


both_ways_to_create = pytest.mark.parametrize(
    "create",
    [
        pytest.param(create_whole, id="create"),
        pytest.param(create_streamed, id="create_from_stream"),
    ],
)
Create = Callable[[Storage, str, bytes], None]


@pytest.mark.some_cases(5)
@both_ways_to_create
def test_exactly_one_of_64_concurrent_creates_succeeds(storage: Storage, create: Create) -> None:
    callers, rounds = 64, 1 if storage.uri.startswith(("s3:", "gs:", "az:")) else 12
    barrier = threading.Barrier(callers)

    def race(caller: int) -> list[int]:
        won = []
        for number in range(rounds):
            barrier.wait()
            try:
                create(storage, f"{LOG}/{number}", b"%d" % caller)
            except FileExistsError:
                continue
            won.append(number)
        return won

    with ThreadPoolExecutor(callers) as pool:
        won_by = list(pool.map(race, range(callers)))
    written = {number: int(storage.read(f"{LOG}/{number}")) for number in range(rounds)}
    assert sorted(number for won in won_by for number in won) == list(range(rounds))
    assert all(number in won_by[caller] for number, caller in written.items())
    assert names(storage) == sorted(f"{LOG}/{number}" for number in range(rounds))


def create_each(storage: Storage, caller: int, paths: list[str]) -> list[str]:
    """The paths that this caller created."""
    won = []
    for path in paths:
        with contextlib.suppress(FileExistsError):
            storage.create(path, b"%d" % caller)
            won.append(path)
    return won


@pytest.fixture(scope="module")
def two_processes() -> Iterator[ProcessPoolExecutor]:
    """Processes that begin each task together: the first waits until the second has a task, too."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    with ProcessPoolExecutor(2, context, initializer=set_barrier, initargs=(barrier,)) as pool:
        yield pool


BARRIER: list[Barrier] = []
"""The barrier of a process of `two_processes`."""


def set_barrier(barrier: Barrier) -> None:
    BARRIER.append(barrier)


def create_each_together(storage: Storage, caller: int, paths: list[str]) -> list[str]:
    BARRIER[0].wait(PATIENCE_S)
    return create_each(storage, caller, paths)


# `test_local_storage.py` has the same test for local storage.
@pytest.mark.some_cases(2)
@pytest.mark.parametrize("storage", ["s3", "gcs", "azure"], indirect=True)
def test_exactly_one_of_several_processes_succeeds_and_the_next_listing_shows_it(
    storage: Storage, two_processes: ProcessPoolExecutor
) -> None:
    paths = [f"{LOG}/{number:02}" for number in range(12)]
    racing = [
        two_processes.submit(create_each_together, storage, caller, paths) for caller in range(2)
    ]
    won_by = [race.result() for race in racing]
    assert sorted(path for won in won_by for path in won) == paths
    assert [info.path for info in storage.list_from(LOG, "")] == paths
    assert all(path in won_by[int(storage.read(path))] for path in paths)


@pytest.mark.some_cases(3)
@on_few_stores
def test_a_file_of_many_parts_is_created_once_and_whole(storage: Storage) -> None:
    whole = b"".join(bytes([number]) * 1_000_003 for number in range(36))

    def write(stream: IO[bytes]) -> None:
        for start in range(0, len(whole), 700_001):
            stream.write(memoryview(whole)[start : start + 700_001])

    info = storage.create_from_stream("large", write)
    assert (info, info.size) == (storage.stat("large"), len(whole))
    with pytest.raises(FileExistsError):
        storage.create_from_stream("large", writing(whole[1:]))
    assert storage.read("large") == whole
    assert names(storage) == ["large"]


@both_ways_to_create
def test_created_files_can_be_read(storage: Storage, create: Create) -> None:
    for name, content in (("full", b"content"), ("empty", b"")):
        create(storage, f"{LOG}/{name}", content)
        assert storage.read(f"{LOG}/{name}") == content
        assert storage.stat(f"{LOG}/{name}").size == len(content)


@both_ways_to_create
def test_a_file_that_is_there_is_not_created_and_not_changed(
    storage: Storage, create: Create
) -> None:
    storage.create("a", b"old")
    with pytest.raises(FileExistsError):
        create(storage, "a", b"new")
    assert (storage.read("a"), names(storage)) == (b"old", ["a"])


@with_directories
@both_ways_to_create
def test_a_directory_of_that_name_is_not_replaced(storage: Storage, create: Create) -> None:
    storage.create("a/b", b"old")
    with pytest.raises(FileExistsError):
        create(storage, "a", b"new")
    assert names(storage) == ["a/b"]


@with_directories
@both_ways_to_create
def test_a_file_is_no_directory_to_create_in(storage: Storage, create: Create) -> None:
    storage.create("a", b"old")
    with pytest.raises(StorageError, match="a part of the path is a file"):
        create(storage, "a/b", b"new")
    assert names(storage) == ["a"]


@pytest.mark.some_cases(3)
def test_no_part_of_a_file_is_visible_while_it_is_written(storage: Storage) -> None:
    storage.create(f"{LOG}/other", b"")
    num_chunks, chunk = 40, bytes(100_000)
    seen: set[int | None] = set()
    polled, done = threading.Event(), threading.Event()

    def poll() -> None:
        while not done.is_set():
            seen.update(info.size for info in storage.list_from(LOG, "whole"))
            try:
                seen.add(len(storage.read(f"{LOG}/whole")))
            except FileNotFoundError:
                seen.add(None)
            polled.set()

    def write(stream: IO[bytes]) -> None:
        for number in range(num_chunks):
            stream.write(chunk)
            if number % 10 == 9:  # the first poll may have begun before the write
                polled.clear()
                assert polled.wait(PATIENCE_S)

    poller = threading.Thread(target=poll)
    poller.start()
    try:
        storage.create_from_stream(f"{LOG}/whole", write)
        while num_chunks * len(chunk) not in seen and poller.is_alive():
            time.sleep(0.001)
    finally:
        done.set()
        poller.join()
    assert seen == {None, num_chunks * len(chunk)}


def test_a_write_that_fails_leaves_nothing_and_its_error_passes(storage: Storage) -> None:
    def write(stream: IO[bytes]) -> None:
        stream.write(b"half")
        raise PermissionError("of the writer's own")

    with pytest.raises(PermissionError, match="of the writer's own"):
        storage.create_from_stream("a", write)
    assert names(storage) == []


def test_a_writer_may_close_its_stream(storage: Storage) -> None:
    def write(stream: IO[bytes]) -> None:
        stream.write(b"whole")
        stream.close()

    info = storage.create_from_stream("a", write)
    assert (storage.read("a"), info.size) == (b"whole", 5)


def test_create_from_stream_describes_what_it_created(storage: Storage) -> None:
    assert storage.create_from_stream("p=1/a", writing(b"12345")) == storage.stat("p=1/a")


def test_a_file_has_its_size_and_the_time_of_its_creation(storage: Storage) -> None:
    before_ms = time.time_ns() // 1_000_000
    storage.replace("p=1/a", b"12345")
    info = storage.stat("p=1/a")
    assert (info.path, info.size) == ("p=1/a", 5)
    a_second = 1_000  # more is not guaranteed: S3 omits the rest
    assert before_ms - a_second <= info.modified_ms <= time.time_ns() // 1_000_000 + a_second


def test_listings_and_stat_agree(storage: Storage) -> None:
    storage.replace("p=1/a", b"12345")
    info = storage.stat("p=1/a")
    assert [*storage.list_from("p=1", ""), *storage.list_tree("")] == [info, info]


@pytest.mark.parametrize("storage", ["s3", "gcs", "azure"], indirect=True)
def test_another_content_has_another_etag(storage: Storage) -> None:
    etags = []
    for content in (b"12345", b"54321", b""):
        storage.replace("a", content)
        (info,) = storage.list_from("", "")
        etags.append(info.etag)
    assert len({*etags, None}) == 4
    assert not any('"' in etag for etag in etags if etag)


def test_list_from_is_ordered_by_name_from_start(storage: Storage) -> None:
    for name in ["9", "é", "a", "10", "A", "0", "-"]:
        storage.replace(f"{LOG}/{name}", b"")

    def listed(start: str) -> list[str]:
        return [info.path.removeprefix(f"{LOG}/") for info in storage.list_from(LOG, start)]

    assert listed("") == ["-", "0", "10", "9", "A", "a", "é"]
    assert listed("10") == listed("1") == ["10", "9", "A", "a", "é"]
    assert listed("é~") == []


def test_list_from_lists_files_directly_in_the_directory(storage: Storage) -> None:
    for path in [f"{LOG}/b", f"{LOG}/sidecars/c", f"{LOG}x", "a"]:
        storage.replace(path, b"")
    assert [info.path for info in storage.list_from(LOG, "")] == [f"{LOG}/b"]
    assert [info.path for info in storage.list_from("", "")] == [f"{LOG}x", "a"]


def test_list_tree_lists_files_in_the_directory_and_below(storage: Storage) -> None:
    for path in ["p=1/a", "p=1/q=2/b", "p=11/c", "d"]:
        storage.replace(path, b"")
    assert names(storage, "p=1") == ["p=1/a", "p=1/q=2/b"]
    assert names(storage) == ["d", "p=1/a", "p=1/q=2/b", "p=11/c"]


def test_a_directory_that_is_not_there_lists_empty(storage: Storage) -> None:
    def listed(directory: str) -> list[FileInfo]:
        return [*storage.list_from(directory, ""), *storage.list_tree(directory)]

    assert listed("") == []
    storage.replace("file", b"")
    for directory in ("missing", "a/b", "file", "file/below"):
        assert listed(directory) == []


def test_a_new_file_is_in_the_next_listing_and_a_deleted_one_is_not(storage: Storage) -> None:
    seen = []
    for number in range(3):
        storage.replace(f"{LOG}/{number}", b"")
        seen.append([info.path[-1] for info in storage.list_from(LOG, "")])
        seen.append([path[-1] for path in names(storage)])
    storage.delete(f"{LOG}/1")
    seen.append([info.path[-1] for info in storage.list_from(LOG, "")])
    seen.append([path[-1] for path in names(storage)])
    assert seen == [[*"0"], [*"0"], [*"01"], [*"01"], [*"012"], [*"012"], [*"02"], [*"02"]]


@pytest.mark.some_cases(2)
@on_few_stores
def test_listing_while_others_delete_raises_nothing(storage: Storage) -> None:
    paths = [f"{LOG}/{number}" for number in range(60)]
    for path in paths:
        storage.replace(path, b"x")
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(storage.delete_many, paths)
        while not deleting.done():
            assert all(info.size == 1 for info in storage.list_from(LOG, ""))
            assert all(info.size == 1 for info in storage.list_tree(""))
    assert deleting.result() == []


READS: dict[str, Callable[[Storage, str], object]] = {
    "stat": lambda storage, path: storage.stat(path),
    "read": lambda storage, path: storage.read(path),
    "read_ranges": lambda storage, path: storage.read_ranges(path, [(0, 1)]),
    "open_input": lambda storage, path: storage.open_input(path),
}
IS_NOT_THERE = {
    "gone": "a missing file",
    "a/gone": "a missing file beside another",
    "gone/gone": "a missing directory",
    "a": "a directory",
    "a/b/gone": "something below a file",
}


def test_reading_what_is_not_there_raises_file_not_found(storage: Storage) -> None:
    storage.replace("a/b", b"content")
    for path in IS_NOT_THERE:
        for read in READS.values():
            with pytest.raises(FileNotFoundError, match=re.escape(storage.locate(path))):
                read(storage, path)


RANGES_OF_DIGITS: list[tuple[list[tuple[int, int]], list[bytes]]] = [
    ([], []),
    ([(0, 10)], [b"0123456789"]),
    ([(7, 9), (0, 3)], [b"78", b"012"]),  # in the order of the request
    ([(2, 6), (4, 8)], [b"2345", b"4567"]),  # ranges overlap
    ([(3, 3), (3, 4), (10, 10)], [b"", b"3", b""]),  # ranges are empty
]


def test_ranges_are_read(storage: Storage) -> None:
    storage.replace("a", b"0123456789")
    for ranges, parts in RANGES_OF_DIGITS:
        assert storage.read_ranges("a", ranges) == parts


def test_a_range_past_the_end_is_an_error_and_not_a_short_answer(storage: Storage) -> None:
    storage.replace("a", b"0123456789")
    for data in ((8, 11), (20, 30)):
        with pytest.raises(StorageError, match="could not be read"):
            storage.read_ranges("a", [data])


def test_a_negative_or_backward_range_is_refused(storage: Storage) -> None:
    storage.replace("a", b"0123456789")
    for data in ((-1, 3), (5, 4)):
        with pytest.raises(InvalidRequestError):
            storage.read_ranges("a", [data])


def test_open_input_reads_at_random_and_from_several_handles(storage: Storage) -> None:
    storage.replace("a", b"0123456789")
    with storage.open_input("a") as first, storage.open_input("a") as second:
        first.seek(4)
        assert (second.read(2), first.read(3), second.read(2), first.size()) == (
            b"01",
            b"456",
            b"23",
            10,
        )


def test_replace_creates_and_replaces(storage: Storage) -> None:
    storage.replace(f"{LOG}/hint", b"a long first text")
    storage.replace(f"{LOG}/hint", b"second")
    assert (storage.read(f"{LOG}/hint"), names(storage)) == (b"second", [f"{LOG}/hint"])


@pytest.mark.some_cases(3)
@on_few_stores
def test_readers_of_a_replaced_file_see_one_or_the_other(storage: Storage) -> None:
    versions = [b"a" * 50_000, b"b" * 90_000]
    storage.replace("hint", versions[0])
    done = threading.Event()

    def read() -> set[bytes]:
        seen = set()
        while not done.is_set():
            seen.add(storage.read("hint"))
        return seen

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for number in range(50):
            storage.replace("hint", versions[number % 2])
        done.set()
    assert set().union(*(reader.result() for reader in readers)) <= set(versions)


@with_directories
def test_replace_does_not_take_the_place_of_a_directory(storage: Storage) -> None:
    storage.replace("a/b/c", b"")
    with pytest.raises(StorageError):
        storage.replace("a/b/c/d", b"")
    assert names(storage) == ["a/b/c"]


def test_delete_removes_the_file_and_is_idempotent(storage: Storage) -> None:
    storage.replace("a", b"")
    storage.replace("b", b"")
    storage.delete("a")
    storage.delete("a")
    assert names(storage) == ["b"]


def test_deleting_what_is_no_file_changes_nothing(storage: Storage) -> None:
    storage.replace("file", b"")
    storage.replace("directory/file", b"")
    for path in ("gone", "gone/gone", "file/below", "directory"):
        storage.delete(path)
        assert storage.delete_many([path]) == []
        assert names(storage) == ["directory/file", "file"]


@on_few_stores
def test_delete_many_deletes_what_is_there(storage: Storage) -> None:
    # One request deletes 1,000 files on S3, 256 on Azure, 100 on GCS.
    num_paths = 300 if storage.uri.startswith(("az:", "gs:")) else 1_050
    paths = [f"p={number % 3}/{number}" for number in range(num_paths)]
    for path in paths[:50]:
        storage.replace(path, b"")
    storage.replace("kept", b"")
    assert storage.delete_many(iter(paths)) == []
    assert names(storage) == ["kept"]


def test_persist_takes_files_of_others(storage: Storage) -> None:
    storage.replace("p=1/a", b"")
    storage.replace("b", b"")
    storage.persist(iter(["p=1/a", "b"]))
    assert names(storage) == ["b", "p=1/a"]


NAMES = [
    "a b",
    "a%20b",
    "ä漢",
    "a+b",
    "a#b",
    "a&b",
    "a'b",
    "p=x:y",
    "a;b",
    "~a",
    "a*",
    "[ab]",
    "{a}",
]


def test_a_name_means_itself(storage: Storage) -> None:
    # Azure's client treats the part after a question mark as a query.
    named = NAMES if storage.uri.startswith("az:") else [*NAMES, "a?"]
    storage.replace("d/ab", b"")
    for name in named:
        storage.replace(f"d/{name}", name.encode())
    assert names(storage) == sorted(["d/ab", *(f"d/{name}" for name in named)])
    assert [storage.read(f"d/{name}") for name in named] == [name.encode() for name in named]
    for number, name in enumerate(named, 1):
        assert storage.delete_many([f"d/{name}"]) == []
        assert names(storage) == sorted(["d/ab", *(f"d/{left}" for left in named[number:])])


@pytest.mark.parametrize(
    ("storage", "name"),
    [("azure", "a?"), ("azure", "a?b"), ("s3", "a?versionId=1")],
    indirect=["storage"],
)
def test_a_name_that_a_client_takes_for_another_is_refused(storage: Storage, name: str) -> None:
    storage.replace("d/a", b"content")
    for call in (storage.read, storage.stat, storage.open_input, storage.delete):
        with pytest.raises(StorageError, match="would access another object"):
            call(f"d/{name}")
    with pytest.raises(StorageError, match="would access another object"):
        storage.replace(f"d/{name}", b"")
    assert storage.delete_many([f"d/{name}"]) == [f"d/{name}"]
    assert storage.read("d/a") == b"content"


TAKE_PATHS: dict[str, Callable[[Storage, str], object]] = {
    "stat": lambda storage, path: storage.stat(path),
    "read": lambda storage, path: storage.read(path),
    "read_ranges": lambda storage, path: storage.read_ranges(path, []),
    "open_input": lambda storage, path: storage.open_input(path),
    "create": lambda storage, path: storage.create(path, b""),
    "create_from_stream": lambda storage, path: storage.create_from_stream(path, writing(b"")),
    "replace": lambda storage, path: storage.replace(path, b""),
    "persist": lambda storage, path: storage.persist([path]),
    "delete": lambda storage, path: storage.delete(path),
    "delete_many": lambda storage, path: storage.delete_many([path]),
    "find": lambda storage, path: list(storage.find([path])),
    "list_from": lambda storage, path: list(storage.list_from(path, "")),
    "list_tree": lambda storage, path: list(storage.list_tree(path)),
}
"""Calls of a storage with a valid path. `test_storage_paths.py` has the rejected paths."""


def test_a_path_that_could_leave_the_root_is_refused(storage: Storage) -> None:
    for call in TAKE_PATHS.values():
        with pytest.raises(InvalidRequestError, match="invalid because it"):
            call(storage, "a/../../b")


def test_directories_are_listed_without_files_and_deeper_directories(storage: Storage) -> None:
    for path in ("file", "b/inner/file", "a/file", "_log/file", "a b%20/file"):
        storage.replace(path, b"content")
    assert storage.list_directories("") == ["_log", "a", "a b%20", "b"]
    assert storage.list_directories("b") == ["b/inner"]
    assert storage.list_directories("a") == []
    assert storage.list_directories("absent") == []


def test_a_directory_is_distinguished_from_a_file_and_from_nothing(storage: Storage) -> None:
    storage.replace("a/b/file", b"content")
    assert [storage.is_directory(path) for path in ("a", "a/b")] == [True, True]
    assert [storage.is_directory(path) for path in ("a/b/file", "a/c", "b", "a/b/file/c")] == [
        False
    ] * 4


def test_files_of_a_killed_write_are_hidden_but_can_be_deleted(storage: Storage) -> None:
    leftover = f"{LOG}/{staged_name()}"
    storage.replace(leftover, b"half of a commit")
    storage.replace(f"{LOG}/{FIRST_VERSION}.json", b"{}")
    assert [info.path for info in storage.list_from(LOG, FIRST_VERSION)] == [
        f"{LOG}/{FIRST_VERSION}.json"
    ]
    staged = [path for path in names(storage) if is_hidden_staged(path.rpartition("/")[2])]
    assert staged == [leftover]
    assert storage.delete_many(staged) == []
    assert names(storage) == [f"{LOG}/{FIRST_VERSION}.json"]


def test_locate_extends_the_uri(storage: Storage) -> None:
    assert storage.locate("p=1/a") == f"{storage.uri}/p=1/a"
    assert storage.locate("") == storage.uri


def test_a_storage_pickles(storage: Storage) -> None:
    storage.replace("a", b"content")
    copy: Storage = pickle.loads(pickle.dumps(storage))
    assert (copy.uri, copy.read("a"), repr(copy)) == (storage.uri, b"content", repr(storage))


def test_only_wanted_parts_of_a_tree_are_listed(storage: Storage) -> None:
    for path in ("a", "p=1/a", "p=1/b", "p=1/q=2/b", "p=2/a"):
        storage.replace(path, b"1")
    requests: list[list[str]] = []

    def wanted(paths: Sequence[str]) -> list[str]:
        requests.append(sorted(paths))
        return [path for path in paths if path.endswith("/a")]

    assert sorted(info.path for info in storage.list_tree("", wanted)) == ["p=1/a", "p=2/a"]
    assert sorted(requests) == [["a"], ["p=1/a", "p=1/b"], ["p=1/q=2/b"], ["p=2/a"]]


@pytest.mark.some_cases(2)
@on_few_stores
def test_a_tree_of_many_directories_is_listed_whole(storage: Storage) -> None:
    paths = [f"a{n:02d}/b/c" for n in range(20)] + ["a00/b/d", "a00/e", "f"]
    for path in paths:
        storage.replace(path, b"1")
    assert names(storage) == sorted(paths)
    assert names(storage, "a00") == ["a00/b/c", "a00/b/d", "a00/e"]


def test_files_are_found_where_they_are_there(storage: Storage) -> None:
    storage.replace("p=1/a b%20ü", b"12")
    storage.replace("z", b"1")
    requested = ["z", "absent", "p=1", "p=1/absent/x", "p=1/a b%20ü"]
    found = list(storage.find(requested))
    assert [(info.path, info.size) for info in found] == [("z", 1), ("p=1/a b%20ü", 2)]
    assert found[0].modified_ms == storage.stat("z").modified_ms


@pytest.mark.some_cases(2)
def test_no_directory_with_something_in_it_is_deleted(storage: Storage) -> None:
    storage.replace("p=1/a", b"1")
    assert storage.delete_empty(["p=1/", "absent/"], 2**60) == []
    assert names(storage) == ["p=1/a"]
