"""The cache of file ranges on this machine: bounded, verified on read, and never an obstacle."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.range_cache import KeptRanges, RangeCache

PROJECT = Path(__file__).resolve().parents[2]
BLOCK = 4096
A_FILE: tuple[str | int, ...] = ("store", "a", 7, "etag 1")


def bytes_on_disk(directory: Path) -> int:
    """In whole blocks."""
    sizes = (path.stat().st_size for path in directory.iterdir())
    return sum(-(-size // BLOCK) * BLOCK for size in sizes)


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.range"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def kept(directory: Path) -> KeptRanges:
    return KeptRanges(RangeCache(directory, 1 << 20), A_FILE)


def test_a_cached_value_serves_equal_requests(kept: KeptRanges) -> None:
    kept.keep({(3, 7): b"data", (0, 0): b""})
    copy: KeptRanges = pickle.loads(pickle.dumps(kept))
    assert (copy.load(3, 7), copy.load(0, 0)) == (b"data", b"")


@pytest.mark.parametrize(
    "identity",
    [
        pytest.param(["another", "a", 7, "etag 1"], id="store"),
        pytest.param(["store", "b", 7, "etag 1"], id="path"),
        pytest.param(["store", "a", 8, "etag 1"], id="size"),
        pytest.param(["store", "a", 7, "etag 2"], id="etag"),
        pytest.param(["store", "a,7", "etag 1"], id="the same texts otherwise parted"),
    ],
)
def test_another_file_has_no_part_in_it(kept: KeptRanges, identity: list[str | int]) -> None:
    kept.keep({(3, 7): b"data"})
    assert KeptRanges(kept.cache, identity).load(3, 7) is None


@pytest.mark.parametrize("requested", [(3, 6), (2, 7), (4, 7), (0, 7)])
def test_another_range_is_not_there(kept: KeptRanges, requested: tuple[int, int]) -> None:
    kept.keep({(3, 7): b"data"})
    assert kept.load(*requested) is None


def test_it_is_the_owners_alone(kept: KeptRanges, directory: Path) -> None:
    kept.keep({(0, 4): b"data"})
    assert directory.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in entries(directory)] == [0o600]


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_directory_that_others_can_write_to_is_not_used(
    kept: KeptRanges, directory: Path, mode: int
) -> None:
    kept.keep({(0, 4): b"data"})
    directory.chmod(mode)
    kept.keep({(4, 8): b"more"})
    assert (kept.load(0, 4), len(entries(directory))) == (None, 1)
    directory.chmod(0o755)
    assert kept.load(0, 4) == b"data"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs to give a file away")
def test_another_owners_directory_is_not_used(kept: KeptRanges, directory: Path) -> None:
    kept.keep({(0, 4): b"data"})
    os.chown(directory, 12345, 12345)
    assert kept.load(0, 4) is None


damages = pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: content[:20], id="cut in its digest"),
        pytest.param(lambda content: content[:-1], id="cut at its end"),
        pytest.param(lambda content: content + b"x", id="longer"),
        pytest.param(lambda content: content[:-1] + b"x", id="another byte"),
        pytest.param(lambda content: bytes(len(content)), id="zeros, as after a power cut"),
    ],
)


@damages
def test_a_damaged_entry_is_removed_and_was_never_there(
    kept: KeptRanges, directory: Path, damage: Callable[[bytes], bytes]
) -> None:
    kept.keep({(3, 7): b"data"})
    (entry,) = entries(directory)
    entry.write_bytes(damage(entry.read_bytes()))
    assert kept.load(3, 7) is None
    assert entries(directory) == []
    kept.keep({(3, 7): b"data"})
    assert kept.load(3, 7) == b"data"


def test_an_entry_under_anothers_name_is_damage(kept: KeptRanges, directory: Path) -> None:
    kept.keep({(3, 7): b"data"})
    (entry,) = entries(directory)
    entry.rename(directory / entry.name.replace("-3-7", "-4-8"))
    assert (kept.load(4, 8), entries(directory)) == (None, [])


def test_nothing_is_kept_of_a_forgotten_file(kept: KeptRanges) -> None:
    other = KeptRanges(kept.cache, ["store", "b", 7, "etag 1"])
    kept.keep({(0, 4): b"data", (4, 6): b"da"})
    other.keep({(0, 4): b"data"})
    kept.forget()
    assert (kept.load(0, 4), kept.load(4, 6), other.load(0, 4)) == (None, None, b"data")


def test_the_bound_is_kept_and_what_was_used_last_stays(directory: Path) -> None:
    bound = 20 * BLOCK
    kept = KeptRanges(RangeCache(directory, bound), A_FILE)
    sizes = random.Random(0)
    kept.keep({(0, 9): b"dear data"})
    for start in range(1, 200):
        assert kept.load(0, 9) == b"dear data"
        data = sizes.randbytes(sizes.choice([1, BLOCK - 32, BLOCK, 4 * BLOCK]))
        kept.keep({(start, start + len(data)): data})
        assert bytes_on_disk(directory) <= bound
        assert kept.load(start, start + len(data)) == data
    assert bytes_on_disk(directory) > bound / 2


def test_several_at_once_do_not_exceed_the_bound_either(directory: Path) -> None:
    kept = KeptRanges(RangeCache(directory, 10 * BLOCK), A_FILE)
    kept.keep({(n, n + BLOCK): bytes([n]) * BLOCK for n in range(30)})
    assert bytes_on_disk(directory) <= 10 * BLOCK
    assert kept.load(29, 29 + BLOCK) == bytes([29]) * BLOCK


def test_room_is_made_for_more_than_one_since_it_takes_a_look_at_all(directory: Path) -> None:
    kept = KeptRanges(RangeCache(directory, 100 * BLOCK), A_FILE)
    for start in range(99):
        kept.keep({(start, start + 4): b"data"})
    assert len(entries(directory)) == 99
    kept.keep({(99, 103): b"data"})
    assert len(entries(directory)) == 89


def test_existing_checkpoints_are_not_written_again(kept: KeptRanges, directory: Path) -> None:
    kept.keep({(0, 4): b"data"})
    (before,) = (entry.stat() for entry in entries(directory))
    kept.keep({(0, 4): b"data"})
    (after,) = (entry.stat() for entry in entries(directory))
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_cache_entries_that_cannot_be_removed_count(directory: Path) -> None:
    for number in range(4):
        (directory / f"{'0' * 64}-{number}-9.range" / "in it").mkdir(parents=True)
    directory.chmod(0o700)
    kept = KeptRanges(RangeCache(directory, 4 * BLOCK), A_FILE)
    kept.keep({(0, 4): b"data"})
    assert kept.load(0, 4) is None


def test_values_above_the_bound_evict_nothing(directory: Path) -> None:
    kept = KeptRanges(RangeCache(directory, 4 * BLOCK), A_FILE)
    kept.keep({(0, 4): b"data"})
    kept.keep({(0, 4 * BLOCK): bytes(4 * BLOCK)})
    assert (kept.load(0, 4), len(entries(directory))) == (b"data", 1)


def test_a_cache_too_small_for_anything_holds_nothing(directory: Path) -> None:
    kept = KeptRanges(RangeCache(directory, 1), A_FILE)
    kept.keep({(0, 4): b"data"})
    assert (kept.load(0, 4), entries(directory)) == (None, [])


def test_files_of_others_are_left_alone(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    for name in ("notes.txt", "0-1.range", "x" * 64 + "-0-4.range"):
        (directory / name).write_bytes(bytes(10 * BLOCK))
    kept = KeptRanges(RangeCache(directory, 4 * BLOCK), A_FILE)
    for start in range(9):
        kept.keep({(start, start + 4): b"data"})
    assert kept.load(8, 12) == b"data"
    assert sum(path.stat().st_size == 10 * BLOCK for path in directory.iterdir()) == 3


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("text", [b"", b"17", b"x" * 20, b"9" * 20, b"0" * 30])
def test_a_ledger_that_is_wrong_is_made_anew(directory: Path, text: bytes) -> None:
    kept = KeptRanges(RangeCache(directory, 10 * BLOCK), A_FILE)
    for start in range(5):
        kept.keep({(start, start + 4): b"data"})
    (ledger,) = directory.glob("*.total")
    ledger.write_bytes(text)
    for start in range(5, 8):
        kept.keep({(start, start + 4): b"data"})
    assert [kept.load(start, start + 4) for start in range(8)] == [b"data"] * 8
    for start in range(100):
        kept.keep({(start, start + 4): b"data"})
        assert bytes_on_disk(directory) <= 10 * BLOCK


@pytest.fixture(params=["a file", "below a file", "a dangling link"])
def unusable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "there")
    places = {"a file": "file", "below a file": "file/cache", "a dangling link": "link"}
    return tmp_path / places[request.param]


def test_where_nothing_can_be_kept_nothing_is_and_nothing_is_raised(unusable: Path) -> None:
    kept = KeptRanges(RangeCache(unusable), A_FILE)
    kept.keep({(0, 4): b"data"})
    kept.forget()
    assert kept.load(0, 4) is None


def run(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    before = """
        import sys
        from delta_ops.storage.range_cache import KeptRanges, RangeCache
    """
    text = textwrap.dedent(before) + textwrap.dedent(program)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    return subprocess.Popen([sys.executable, "-c", text, *map(str, arguments)], env=environment)


def test_a_full_disk_is_no_error_and_leaves_nothing_half_written(directory: Path) -> None:
    # A limit on file sizes makes writes fail half-way, as a full disk does.
    program = """
        import pathlib, resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        kept = KeptRanges(RangeCache(sys.argv[1]), ["a"])
        kept.keep({(0, 4): b"data"})
        kept.keep({(0, 300_000): bytes(300_000)})
        assert not list(pathlib.Path(sys.argv[1]).glob("*.tmp"))
        kept.keep({(4, 8): b"more"})
        assert kept.load(0, 300_000) is None
        assert (kept.load(0, 4), kept.load(4, 8)) == (b"data", b"more")
    """
    assert run(program, directory).wait(60) == 0
    assert len(entries(directory)) == 2


def test_a_directory_that_can_only_be_read_is_read() -> None:
    program = """
        import filelock, os, tempfile
        with tempfile.TemporaryDirectory() as directory:
            if os.geteuid() == 0:  # who is denied nothing
                os.chown(directory, 12345, 12345)
                os.seteuid(12345)
            kept = KeptRanges(RangeCache(directory), ["a"])
            kept.keep({(0, 4): b"data"})
            os.chmod(directory, 0o500)
            kept.keep({(4, 8): b"more"})
            assert (kept.load(0, 4), kept.load(4, 8)) == (b"data", None)
            os.chmod(directory, 0o700)
            if os.getuid() == 0:
                os.seteuid(0)
    """
    assert run(program).wait(60) == 0


HAMMER = """
    import random
    kept = [KeptRanges(RangeCache(sys.argv[1], int(sys.argv[2])), ["f", i]) for i in range(4)]
    chance, found = random.Random(int(sys.argv[3])), 0
    for _ in range(int(sys.argv[4])):
        i, start, size = chance.randrange(4), chance.randrange(8), chance.choice([10, 6_000])
        data = kept[i].load(start, start + size)
        right = bytes([65 + 8 * i + start]) * size
        assert data in (None, right)
        found += data is not None
        if data is None:
            kept[i].keep({(start, start + size): right})
    assert found > 100
"""


@pytest.mark.full
def test_processes_at_once_never_exceed_the_bound_or_read_what_is_not_so(directory: Path) -> None:
    bound = 40 * BLOCK
    processes = [run(HAMMER, directory, bound, seed, 600) for seed in range(2)]
    most, are_running = 0, True
    while are_running:  # once more after they have ended
        are_running = any(process.poll() is None for process in processes)
        found = files_now(directory)
        if found == files_now(directory):  # so all of them existed at one moment
            most = max(most, sum(-(-size // BLOCK) * BLOCK for *_, size in found))
    assert [process.wait() for process in processes] == [0, 0]
    assert bound / 2 < most <= bound


def files_now(directory: Path) -> set[tuple[str, int, int, int]]:
    """Name, inode, time and size of files that others write and delete meanwhile."""
    found = set()
    for path in directory.iterdir() if directory.exists() else []:
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            found.add((path.name, status.st_ino, status.st_mtime_ns, status.st_size))
    return found


@pytest.mark.full
def test_processes_that_are_killed_leave_a_cache_that_works(directory: Path) -> None:
    bound = 40 * BLOCK
    for seed in range(3):
        process = run(HAMMER, directory, bound, seed, 1_000_000)
        while not (directory.exists() and entries(directory)):
            time.sleep(0.01)
        time.sleep(0.2 + seed / 100)
        process.kill()
        process.wait()
        assert bytes_on_disk(directory) <= bound
    assert run(HAMMER, directory, bound, 100, 600).wait(60) == 0
    assert bytes_on_disk(directory) <= bound


def test_threads_at_once_keep_everything(kept: KeptRanges, monkeypatch: pytest.MonkeyPatch) -> None:
    acquire = filelock.FileLock.acquire

    def at_once(lock: filelock.FileLock, timeout: float, poll_interval: float) -> object:
        return acquire(lock, timeout=0, poll_interval=poll_interval)

    monkeypatch.setattr(filelock.FileLock, "acquire", at_once)
    starts = range(64)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda start: kept.keep({(start, start + 4): b"data"}), starts))
    assert [kept.load(start, start + 4) for start in starts] == [b"data"] * 64


@pytest.mark.full
def test_a_stopped_lock_holder_blocks_nobody(kept: KeptRanges, directory: Path) -> None:
    kept.keep({(0, 4): b"data"})
    program = """
        import os, time
        from filelock import FileLock
        (lock,) = [name for name in os.listdir(sys.argv[1]) if name.endswith(".lock")]
        with FileLock(os.path.join(sys.argv[1], lock)):
            open(os.path.join(sys.argv[1], "held"), "x")
            time.sleep(600)
    """
    process = run(program, directory)
    try:
        while not (directory / "held").exists():
            assert process.poll() is None
            time.sleep(0.01)
        keeping = threading.Thread(target=kept.keep, args=[{(4, 8): b"more"}])
        keeping.start()
        keeping.join(30)
        assert not keeping.is_alive()
        assert (kept.load(0, 4), kept.load(4, 8)) == (b"data", None)
    finally:
        process.kill()
        process.wait()
    kept.keep({(4, 8): b"more"})
    assert kept.load(4, 8) == b"more"


def test_a_lock_that_is_not_released_is_waited_for_once(
    kept: KeptRanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire, waited = filelock.FileLock.acquire, []

    def noting(lock: filelock.FileLock, timeout: float, poll_interval: float) -> object:
        waited.append(timeout > 0)
        return acquire(lock, timeout=min(timeout, 0.05), poll_interval=poll_interval)

    monkeypatch.setattr(filelock.FileLock, "acquire", noting)
    kept.keep({(0, 1): b"a"})
    (lock,) = Path(kept.cache.directory).glob("*.lock")
    other = filelock.FileLock(lock)
    acquire(other)
    for start in range(1, 4):
        kept.keep({(start, start + 1): b"b"})
    other.release()
    for start in range(4, 6):
        kept.keep({(start, start + 1): b"c"})
    assert waited == [True, True, False, False, False, True]
    is_kept = [kept.load(start, start + 1) is not None for start in range(6)]
    assert is_kept == [True, False, False, False, True, True]


def test_where_there_are_no_locks_nothing_is_kept(
    kept: KeptRanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError("this file system has no flock")

    with monkeypatch.context() as patch:
        patch.setattr(filelock.FileLock, "acquire", refuse)
        kept.keep({(0, 4): b"data"})
    assert kept.load(0, 4) is None


@pytest.mark.parametrize(
    ("directory", "max_bytes"), [("", 1), ("s3://bucket/cache", 1), ("a\0b", 1), ("a", 0)]
)
def test_a_cache_that_cannot_be_is_refused(directory: str, max_bytes: int) -> None:
    with pytest.raises(InvalidRequestError, match="give"):
        RangeCache(directory, max_bytes)


def test_a_relative_directory_means_the_same_after_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cache = RangeCache("cache")
    monkeypatch.chdir("/")
    assert cache == RangeCache(tmp_path / "cache")
