"""Local storage beyond the contract: Hadoop's checksums, other processes, durability."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import IO, NoReturn

import pytest

from delta_ops.errors import StorageError, UnsupportedStorageError
from delta_ops.storage import FileInfo, Storage, open_storage

LOG = "_delta_log"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    path.mkdir()
    return path


@pytest.fixture
def storage(root: Path) -> Storage:
    return open_storage(root)


def files_in(directory: Path) -> list[str]:
    """Every existing path, listed by the operating system."""
    return sorted(
        str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()
    )


def compete(uri: str, rounds: int, barrier: Barrier, caller: int, out: str) -> None:
    storage = open_storage(uri)
    won = []
    for number in range(rounds):
        barrier.wait(60)
        try:
            storage.create(f"{LOG}/{number}", b"%d" % caller)
        except FileExistsError:
            continue
        won.append(str(number))
    Path(out, str(caller)).write_text(" ".join(won))


@pytest.mark.full
def test_exactly_one_of_several_processes_creates(root: Path, tmp_path: Path) -> None:
    callers, rounds = 2, 100
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(callers)
    out = tmp_path / "won"
    out.mkdir()
    processes = [
        context.Process(target=compete, args=(str(root), rounds, barrier, caller, str(out)))
        for caller in range(callers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    won_by = {int(path.name): path.read_text().split() for path in out.iterdir()}
    assert sorted(number for won in won_by.values() for number in won) == sorted(
        str(number) for number in range(rounds)
    )
    assert all(
        (root / LOG / number).read_text() == str(caller)
        for caller, won in won_by.items()
        for number in won
    )
    assert len([won for won in won_by.values() if won]) > 1, "there was no race"


def test_files_of_another_process_are_in_the_next_listing(storage: Storage, root: Path) -> None:
    assert list(storage.list_from(LOG, "")) == []
    code = "import sys; from delta_ops.storage import open_storage as o; " + (
        f"o(sys.argv[1]).create('{LOG}/theirs', b'12345')"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)
    assert [(info.path, info.size) for info in storage.list_from(LOG, "")] == [(f"{LOG}/theirs", 5)]
    assert [info.path for info in storage.list_tree("")] == [f"{LOG}/theirs"]


def test_nothing_staged_is_left_behind(storage: Storage, root: Path) -> None:
    storage.create("a", b"")
    storage.replace("a", b"new")
    with pytest.raises(FileExistsError):
        storage.create("a", b"")
    storage.create_from_stream("b/c", lambda stream: stream.close())
    assert files_in(root) == ["a", "b/c"]


def test_the_stream_of_a_write_that_failed_is_closed(storage: Storage) -> None:
    """Its buffered bytes must not reach a file that later gets the same descriptor number."""
    streams: list[IO[bytes]] = []

    def write(stream: IO[bytes]) -> None:
        streams.append(stream)
        stream.write(b"half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        storage.create_from_stream("a", write)
    assert streams[0].closed


def test_files_are_as_readable_as_the_umask_says(storage: Storage, root: Path) -> None:
    (root / "plain").write_bytes(b"")
    storage.create("created", b"")
    storage.replace("replaced", b"")
    assert len({path.stat().st_mode for path in root.iterdir()}) == 1


@pytest.mark.parametrize(
    ("act", "left"),
    [
        pytest.param(
            lambda s: s.create("d/new", b""), ["d/.old.crc", "d/new", "d/old"], id="create"
        ),
        pytest.param(lambda s: s.replace("d/old", b""), ["d/.new.crc", "d/old"], id="replace"),
        pytest.param(lambda s: s.delete("d/old"), ["d/.new.crc"], id="delete"),
        pytest.param(lambda s: s.delete_many(["d/old"]), ["d/.new.crc"], id="delete_many"),
    ],
)
def test_the_checksum_of_the_file_before_goes(
    storage: Storage, root: Path, act: Callable[[Storage], object], left: list[str]
) -> None:
    (root / "d").mkdir()
    for name in ["old", ".old.crc", ".new.crc"]:
        (root / "d" / name).write_bytes(b"crc")
    act(storage)
    assert files_in(root) == left


def test_the_loser_of_a_create_leaves_the_checksum_of_the_winner(
    storage: Storage, root: Path
) -> None:
    (root / "a").write_bytes(b"theirs")
    (root / ".a.crc").write_bytes(b"crc")
    with pytest.raises(FileExistsError):
        storage.create("a", b"ours")
    assert files_in(root) == [".a.crc", "a"]


def test_a_checksum_is_gone_before_the_new_file_is_there(storage: Storage, root: Path) -> None:
    """Otherwise Spark, reading in between, would report the new file as damaged."""
    contradicted: list[str] = []
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            try:
                names = os.listdir(root)
            except FileNotFoundError:
                continue
            new = [name for name in names if name.startswith("new")]
            contradicted.extend(name for name in new if (root / f".{name}.crc").exists())

    for number in range(60):
        (root / f".new{number}.crc").write_bytes(b"crc")
    poller = threading.Thread(target=poll)
    poller.start()
    for number in range(60):
        storage.create(f"new{number}", b"")
    done.set()
    poller.join()
    assert contradicted == []


def test_a_name_too_long_to_have_a_checksum_is_fine(storage: Storage) -> None:
    storage.create("a" * 255, b"content")
    storage.replace("a" * 255, b"new content")
    storage.delete("a" * 255)
    assert list(storage.list_tree("")) == []


def test_names_that_no_log_can_contain_are_not_listed(storage: Storage, root: Path) -> None:
    for name in [b"\xff", b"c:d", b"a\\..\\b", b"fine"]:
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(b"")
    assert sorted(info.path for info in storage.list_tree("")) == ["c:d", "fine"]
    assert [info.path for info in storage.list_from("", "")] == ["c:d", "fine"]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str | int]:
    """Steps that write to the disk or create a name, in order; files are given by inode."""
    taken: list[str | int] = []
    real = {name: getattr(os, name) for name in ["fsync", "link", "replace", "mkdir"]}

    def fsync(descriptor: int) -> None:
        real["fsync"](descriptor)
        taken.append(os.fstat(descriptor).st_ino)

    def recorded(name: str) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            real[name](*arguments)
            taken.append(name)

        return call

    monkeypatch.setattr(os, "fsync", fsync)
    for name in ["link", "replace", "mkdir"]:
        monkeypatch.setattr(os, name, recorded(name))
    return taken


def inodes(*paths: Path) -> list[str | int]:
    return [path.stat().st_ino for path in paths]


def test_a_created_file_is_durable_before_its_name_and_its_name_before_the_return(
    storage: Storage, root: Path, steps: list[str | int]
) -> None:
    (root / LOG).mkdir()
    steps.clear()
    storage.create(f"{LOG}/a", b"content")
    assert steps == [*inodes(root / LOG / "a"), "link", *inodes(root / LOG, root)]


def test_a_file_that_may_be_lost_waits_for_no_disk_and_is_exclusive_all_the_same(
    storage: Storage, root: Path, steps: list[str | int]
) -> None:
    (root / LOG).mkdir()
    steps.clear()
    storage.create(f"{LOG}/a", b"content", is_durable=False)
    assert steps == ["link"]
    with pytest.raises(FileExistsError):
        storage.create(f"{LOG}/a", b"other", is_durable=False)
    assert (root / LOG / "a").read_bytes() == b"content"


def test_a_replaced_file_is_durable_before_its_name_and_its_name_before_the_return(
    storage: Storage, root: Path, steps: list[str | int]
) -> None:
    storage.replace("a", b"content")
    assert steps == [*inodes(root / "a"), "replace", *inodes(root)]


def test_new_directories_are_durable_in_their_parents(
    tmp_path: Path, steps: list[str | int]
) -> None:
    open_storage(tmp_path / "new" / "table").create("p=1/a", b"content")
    new = tmp_path / "new"
    table = new / "table"
    made = ["mkdir", *inodes(tmp_path), "mkdir", *inodes(new), "mkdir", *inodes(table)]
    written = [*inodes(table / "p=1" / "a"), "link", *inodes(table / "p=1", table)]
    assert steps == made + written


def test_a_removed_checksum_cannot_come_back_beside_the_new_file(
    storage: Storage, root: Path, steps: list[str | int]
) -> None:
    (root / ".a.crc").write_bytes(b"crc")
    storage.create("a", b"content")
    assert steps == [*inodes(root / "a", root), "link", *inodes(root)]


def test_persist_reaches_the_files_and_each_directory_up_to_the_root(
    storage: Storage, root: Path, steps: list[str | int]
) -> None:
    for path in ["p=1/q=2/a", "p=1/q=2/b", "c"]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"")
    steps.clear()
    storage.persist(["p=1/q=2/a", "p=1/q=2/b", "c"])
    reached = [root / "p=1/q=2/a", root / "p=1/q=2/b", root / "c", root / "p=1/q=2", root / "p=1"]
    assert set(steps) == set(inodes(*reached, root, root.parent))


def test_files_that_are_made_durable_together_wait_for_the_disk_only_then(
    tmp_path: Path, steps: list[str | int]
) -> None:
    table = tmp_path / "new" / "table"
    storage = open_storage(table)
    for path in ["p=1/a", "p=1/b", "p=2/c"]:
        storage.create_from_stream(path, lambda sink: None, is_durable=False)
    # Directories above the table are durable at once: `persist` goes up to the table's parent only.
    assert steps[:4] == ["mkdir", *inodes(tmp_path), "mkdir", *inodes(table.parent)]
    assert steps[4:] == ["mkdir", "mkdir"]
    steps.clear()
    storage.persist(["p=1/a", "p=1/b", "p=2/c"])
    reached = [table / path for path in ("p=1/a", "p=1/b", "p=2/c", "p=1", "p=2")]
    assert sorted(map(str, steps)) == sorted(map(str, inodes(*reached, table, table.parent)))


def create_not_yet_durable(storage: Storage, path: str, *parts: bytes) -> FileInfo:
    def write(sink: IO[bytes]) -> None:
        for part in parts:
            sink.write(part)

    return storage.create_from_stream(path, write, is_durable=False)


def test_a_file_that_is_not_durable_yet_is_exclusive(storage: Storage, root: Path) -> None:
    assert create_not_yet_durable(storage, "p=1/a", b"con", b"tent").size == 7
    (root / "p=1" / ".a.crc").write_bytes(b"crc")
    with pytest.raises(FileExistsError):
        create_not_yet_durable(storage, "p=1/a", b"other")
    there = {each.name: each.read_bytes() for each in (root / "p=1").iterdir()}
    assert there == {"a": b"content", ".a.crc": b"crc"}


def test_a_file_that_is_not_durable_yet_does_not_meet_the_checksum_of_another(
    storage: Storage, root: Path
) -> None:
    (root / "p=1").mkdir()
    (root / "p=1" / ".a.crc").write_bytes(b"crc")
    create_not_yet_durable(storage, "p=1/a", b"content")
    assert [each.name for each in (root / "p=1").iterdir()] == ["a"]


@pytest.mark.parametrize(
    "error",
    [pytest.param(ValueError, id="an error"), pytest.param(KeyboardInterrupt, id="an interrupt")],
)
def test_nothing_is_left_of_a_file_whose_writing_failed_before_it_was_durable(
    storage: Storage, root: Path, error: type[BaseException]
) -> None:
    def write(sink: IO[bytes]) -> None:
        sink.write(b"half")
        raise error

    with pytest.raises(error):
        storage.create_from_stream("p=1/a", write, is_durable=False)
    assert list((root / "p=1").iterdir()) == []


def test_persist_of_nothing_needs_no_table(tmp_path: Path) -> None:
    open_storage(tmp_path / "gone" / "table").persist([])
    assert not (tmp_path / "gone").exists()


def test_persist_misses_no_file(storage: Storage) -> None:
    storage.create("p=1/a", b"")
    with pytest.raises(StorageError, match=r"gone could not be made durable: .* deleted it after"):
        storage.persist(["p=1/a", "p=1/gone"])


def refuse_with(number: int) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize(
    "number", [errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK]
)
def test_a_file_system_without_hard_links_is_refused(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "link", refuse_with(number))
    with pytest.raises(UnsupportedStorageError, match=r"no hard links .*keep the table on"):
        storage.create("a", b"")
    assert files_in(root) == []


def test_a_link_whose_answer_was_lost_counts_as_made(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS repeats the request, and the repeated request finds the link of the first."""
    link = os.link

    def link_twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    storage.create("a", b"content")
    assert storage.read("a") == b"content"


def test_a_writer_whose_file_is_replaced_before_it_is_durable_learns_that_one_exists(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a writer does that checks whether a name is free, and then renames over it."""
    link = os.link

    def link_and_be_late(source: str, target: str) -> None:
        link(source, target)
        (root / "theirs").write_bytes(b"theirs")
        os.replace(root / "theirs", target)

    monkeypatch.setattr(os, "link", link_and_be_late)
    with pytest.raises(FileExistsError):
        storage.create("a", b"ours")
    assert storage.read("a") == b"theirs"
    assert files_in(root) == ["a"]


def test_a_writer_whose_file_is_deleted_before_it_is_durable_has_created_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_and_lose(source: str, target: str) -> None:
        link(source, target)
        os.unlink(target)

    monkeypatch.setattr(os, "link", link_and_lose)
    storage.create("a", b"ours")


def test_a_directory_that_cannot_be_listed_is_an_error(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it were skipped, its files would look missing."""
    list_place = os.scandir

    def listed(path: str) -> object:
        return refuse_with(errno.EACCES)() if path.endswith("closed/") else list_place(path)

    storage.create("closed/a", b"")
    storage.create("open/a", b"")
    monkeypatch.setattr(os, "scandir", listed)
    with pytest.raises(StorageError, match="closed could not be listed: permission is denied"):
        list(storage.list_tree(""))
