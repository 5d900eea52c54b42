"""Local storage when the disk is full, access is denied, or the process is killed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from delta_ops.errors import StorageError
from delta_ops.storage import Storage, open_storage

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits and signals of POSIX")


def run(program: str, *arguments: object, within: list[str] | None = None) -> Any:
    """The parsed JSON output of `program`, run in its own process, where it may set limits."""
    command = [*(within or []), sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TRY_ALL_WRITES = """
import json, os, sys
from delta_ops.errors import StorageError
from delta_ops.storage import open_storage

def attempt(call):
    try:
        call()
    except StorageError as error:
        return [error.path, error.action, error.reason]

def try_all(root, data):
    storage = open_storage(root)
    said = [
        attempt(lambda: storage.create("log/new", data)),
        attempt(lambda: storage.create_from_stream("log/new", lambda file: file.write(data))),
        attempt(lambda: storage.create_from_stream(
            "log/new", lambda file: file.write(data), is_durable=False
        )),
        attempt(lambda: storage.replace("log/old", data)),
    ]
    there = {info.path: info.size for info in storage.list_tree("")}
    return {"said": said, "there": there, "old": storage.read("log/old").decode()}
"""

ACTIONS = [*[("log/new", "created")] * 3, ("log/old", "replaced")]


def said_of(root: Path, reason: str) -> list[list[str]]:
    return [[str(root / path), action, reason] for path, action in ACTIONS]


def test_a_file_past_the_size_limit_is_an_error_and_nothing_is_half_written(
    tmp_path: Path,
) -> None:
    """During the write, and when the last buffer is written."""
    open_storage(tmp_path).create("log/old", b"old")
    results = run(
        TRY_ALL_WRITES
        + """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
print(json.dumps([try_all(sys.argv[1], bytes(size)) for size in (3_000_000, 300_000)]))
""",
        tmp_path,
    )
    reason = (
        "the file is larger than the file system or this process may write; "
        "raise the limit (ulimit -f) and run again"
    )
    expected = {"said": said_of(tmp_path, reason), "there": {"log/old": 3}, "old": "old"}
    assert results == [expected, expected]


def in_a_mount_namespace() -> list[str] | None:
    """A command prefix that allows a program to mount file systems; None where that is denied."""
    if not shutil.which("unshare"):
        return None
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = [*command, "mount", "-t", "tmpfs", "tmpfs", "/tmp"]
    permitted = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    return command if permitted else None


# Some machines do not allow a private file system. There the limit on file sizes above and the
# injected errors below cover the same cases.
NAMESPACE = in_a_mount_namespace()

ON_SMALL_DISKS = (
    TRY_ALL_WRITES
    + """
import subprocess
results = []
for size, then, root in json.loads(sys.argv[1]):
    os.mkdir(root)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "tmpfs", root], check=True)
    open_storage(root).create("log/old", b"old")
    if then:
        subprocess.run(["mount", "-o", "remount," + then, root], check=True)
    results.append(try_all(root, bytes(3_000_000)))
print(json.dumps(results))
"""
)


if NAMESPACE is not None:

    def test_a_disk_that_takes_no_more_is_an_error_and_nothing_is_half_written(
        tmp_path: Path,
    ) -> None:
        full = "no space is left on the device; free some and run again"
        read_only = "the file system is mounted read-only; mount it for writing and run again"
        disks = [
            ("1m", "", tmp_path / "full", full),
            ("1m,nr_inodes=4", "", tmp_path / "out of inodes", full),
            ("8m", "ro", tmp_path / "read-only", read_only),
        ]
        mounts = json.dumps([(size, then, str(root)) for size, then, root, _ in disks])
        assert run(ON_SMALL_DISKS, mounts, within=NAMESPACE) == [
            {"said": said_of(root, reason), "there": {"log/old": 3}, "old": "old"}
            for _, _, root, reason in disks
        ]


def fail_with(number: int) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = open_storage(tmp_path / "table")
    storage.create("log/old", b"old")
    return storage


@pytest.mark.parametrize("function", ["open", "fsync", "mkdir", "link", "replace", "unlink"])
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        pytest.param(errno.ENOSPC, "no space is left", id="no space"),
        pytest.param(errno.EACCES, "permission is denied", id="no permission"),
        pytest.param(errno.EROFS, "mounted read-only", id="read-only"),
        pytest.param(errno.EIO, "input/output error", id="a broken device"),
        pytest.param(errno.EBUSY, "check the file system", id="an error without words of ours"),
    ],
)
def test_each_step_that_fails_is_a_storage_error(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, function: str, number: int, reason: str
) -> None:
    def create_not_yet_durable(path: str) -> object:
        return storage.create_from_stream(path, lambda stream: None, is_durable=False)

    calls: dict[str, list[Callable[[], object]]] = {
        "mkdir": [lambda: storage.create("new/a", b""), lambda: create_not_yet_durable("new/a")],
        "link": [lambda: storage.create("log/a", b"")],
        "unlink": [lambda: storage.delete("log/old")],
        "replace": [lambda: storage.replace("log/old", b"")],
        "open": [
            lambda: storage.create("log/a", b""),
            lambda: create_not_yet_durable("log/a"),
            lambda: storage.replace("log/old", b""),
            lambda: storage.persist(["log/old"]),
        ],
        "fsync": [
            lambda: storage.create("log/a", b""),
            lambda: storage.replace("log/old", b""),
            lambda: storage.persist(["log/old"]),
        ],
    }
    monkeypatch.setattr(os, function, fail_with(number))
    for call in calls[function]:
        with pytest.raises(StorageError, match=reason):
            call()
    monkeypatch.undo()
    assert [(info.path, storage.read(info.path)) for info in storage.list_tree("")] == [
        ("log/old", b"old")
    ]


AS_NOBODY = """
import json, os, sys
from delta_ops.errors import StorageError
from delta_ops.storage import open_storage
import pyarrow

root = sys.argv[1]
storage = open_storage(root)
storage.create("log/old", b"old")
os.chmod(root, 0o755)
if os.geteuid() == 0:
    os.chmod(root + "/log/old", 0o600)
    os.setgid(65534)
    os.setuid(65534)
else:
    os.chmod(root + "/log/old", 0)
    os.chmod(root + "/log", 0o555)

CALLS = [
    lambda: storage.create("log/new", b""),
    lambda: storage.replace("log/old", b""),
    lambda: storage.delete("log/old"),
    lambda: storage.read("log/old"),
    lambda: storage.read_ranges("log/old", [(0, 1)]),
    lambda: storage.open_input("log/old"),
    lambda: storage.persist(["log/old"]),
    lambda: storage.delete_many(["log/old"]),
]

def said_by(call):
    try:
        return call()
    except StorageError as error:
        return error.reason.partition(";")[0]

print(json.dumps([said_by(call) for call in CALLS]))
"""


def test_access_denied_is_a_storage_error() -> None:
    with tempfile.TemporaryDirectory() as root:  # pytest's own folder is closed to other users
        result = run(AS_NOBODY, root)
        assert result == [*["permission is denied"] * 7, ["log/old"]]
        assert (Path(root) / "log" / "old").stat().st_size == 3


KILL_AT_EACH_STEP = """
import json, os, signal, sys
from delta_ops.storage import open_storage
from delta_ops.storage.paths import is_hidden_staged

DATA = bytes(range(256)) * 20_000

def write(file):
    for start in range(0, len(DATA), 1_000_000):
        file.write(DATA[start:start + 1_000_000])
        sys.audit("written")

WAYS = {
    "create": lambda storage: storage.create("log/a", DATA),
    "create_from_stream": lambda storage: storage.create_from_stream("log/a", write),
    "replace": lambda storage: storage.replace("log/a", DATA),
}

def run_until(step, way, root):
    steps = 0
    def count(*_):
        nonlocal steps
        steps += 1
        if steps == step:
            os.kill(os.getpid(), signal.SIGKILL)
    storage = open_storage(root)
    sys.addaudithook(count)
    WAYS[way](storage)
    os._exit(0)

def kill_at_each_step(way, root, old):
    outcomes = []
    while True:
        here = os.path.join(root, str(len(outcomes)))
        storage = open_storage(here)
        if old:
            storage.create("log/a", old)
        child = os.fork()
        if not child:
            run_until(len(outcomes) + 1, way, here)
        _, status = os.waitpid(child, 0)
        try:
            content = storage.read("log/a")
        except FileNotFoundError:
            content = b""
        seen = "whole" if content == DATA else "as before" if content == old else "torn"
        names = [info.path.rpartition("/")[2] for info in storage.list_tree("")]
        stray = [name for name in names if name != "a" and not is_hidden_staged(name)]
        outcomes.append([seen, stray, "a" in names or seen == "as before"])
        if not os.WIFSIGNALED(status):
            return outcomes

print(json.dumps(kill_at_each_step(sys.argv[1], sys.argv[2], sys.argv[3].encode())))
"""


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("way", "old", "least_steps"),
    [
        pytest.param("create", "", 8, id="create"),
        pytest.param("create_from_stream", "", 12, id="create_from_stream"),
        pytest.param("replace", "old", 6, id="replace"),
    ],
)
def test_a_write_killed_at_any_step_is_there_whole_or_not_at_all(
    tmp_path: Path, way: str, old: str, least_steps: int
) -> None:
    """Steps are calls that Python's audit hooks report, such as open, link or remove."""
    outcomes = run(KILL_AT_EACH_STEP, way, tmp_path, old)
    seen = [outcome for outcome, _, _ in outcomes]
    first_whole = seen.index("whole")
    assert len(seen) >= least_steps
    assert seen == ["as before"] * first_whole + ["whole"] * (len(seen) - first_whole)
    assert 0 < first_whole < len(seen) - 1, "no step was hit on one side of the naming"
    assert all(not stray and listed for _, stray, listed in outcomes)


@pytest.mark.full
def test_writers_killed_at_any_moment_leave_whole_files_and_others_go_on(tmp_path: Path) -> None:
    result = run(
        """
        import json, os, signal, sys, time
        from delta_ops.storage import open_storage
        storage = open_storage(sys.argv[1])
        DATA = os.urandom(400_000)
        created = 0
        for round in range(25):
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                for number in range(1_000):
                    storage.create(f"log/{round}-{number}", DATA)
                    os.write(writer, b".")
                os._exit(0)
            os.close(writer)
            os.read(reader, 1)
            time.sleep(0.0005 * round)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
        torn = [i.path for i in storage.list_from("log", "0") if storage.read(i.path) != DATA]
        whole = len(list(storage.list_from("log", "0")))
        storage.create("log/after", DATA)
        print(json.dumps([torn, whole >= 25]))
        """,
        tmp_path,
    )
    assert result == [[], True]
