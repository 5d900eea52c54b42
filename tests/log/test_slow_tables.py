"""A table whose store does not answer never blocks another table of the process."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.maintenance import create_checkpoint, health
from delta_ops.protocol.actions import CommitInfo
from delta_ops.protocol.file_names import LAST_CHECKPOINT
from delta_ops.storage import Storage, open_storage
from delta_ops.storage.concurrency import MAX_CONCURRENCY
from tests.support.counting_storage import CountingStorage
from tests.support.gate import PATIENCE_S, Gate, call_in_thread
from tests.support.tables import add, write_log


class RemoteStorage(CountingStorage):
    """The read pattern of a store: by ranges, many requests at a time."""

    @property
    def has_native_input(self) -> bool:
        return False


class SlowFile(io.FileIO):
    """A file whose reads wait for the gate, from any thread."""

    def __init__(self, path: str, gate: Gate) -> None:
        super().__init__(path)
        self._gate = gate

    def read(self, size: int | None = -1) -> bytes:
        self._gate.pass_by()
        return super().read(-1 if size is None else size)


class SlowDisk(CountingStorage):
    """A disk whose files can be listed and opened, and whose reads block, also in Arrow."""

    def __init__(self, inner: Storage, gate: Gate) -> None:
        super().__init__(inner, gate.on_call)
        self._gate = gate

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(SlowFile(self.locate(path), self._gate), mode="r")


def opened(folder: Path, gate: Gate, kind: type[CountingStorage]) -> DeltaLog:
    def on_call(number: int, method: str, path: str, moment: Literal["before", "after"]) -> None:
        if not path.endswith(LAST_CHECKPOINT):  # which is read alone, before the others
            gate.on_call(number, method, path, moment)

    return DeltaLog(folder, storage=kind(open_storage(folder), on_call))


def threads_of_the_pool(number: int) -> Callable[[list[str]], bool]:
    return lambda held: sum(name.startswith("delta_ops") for name in held) == number


@pytest.mark.parametrize(
    ("kind", "commits", "commit_bytes", "num_threads"),
    [
        pytest.param(CountingStorage, 8, 1 << 20, 2, id="on a disk"),
        pytest.param(RemoteStorage, 2 * MAX_CONCURRENCY, 0, MAX_CONCURRENCY, id="in a store"),
    ],
)
def test_reads_that_never_end_hold_up_no_other_table(
    tmp_path: Path,
    kind: type[CountingStorage],
    commits: int,
    commit_bytes: int,
    num_threads: int,
) -> None:
    info = CommitInfo(values={"userMetadata": "x" * commit_bytes})
    for name in ("slow", "alike"):
        write_log(tmp_path / name, [[info, add(f"{number}")] for number in range(commits)])
    for number in range(3):
        da.write(tmp_path / "other", pa.table({"id": [number]}))
    gate = Gate()
    slow = opened(tmp_path / "slow", gate, kind)
    other = opened(tmp_path / "other", Gate(), kind)

    alike = opened(tmp_path / "alike", Gate(), kind)

    def use() -> tuple[int, int, int, int]:
        num_rows = da.to_table(other).num_rows
        create_checkpoint(other)
        da.write(other, pa.table({"id": [3]}))
        health(other)
        num_versions = len(list(other.history()))
        return num_rows, other.snapshot().num_files, num_versions, alike.snapshot().num_files

    found: list[int] = []
    read = [lambda: found.append(slow.snapshot().num_files)] * 3
    with gate.holding(read, threads_of_the_pool(num_threads)):
        assert call_in_thread(use).result(PATIENCE_S / 2) == (3, 4, 4, commits)
    assert found == [commits] * 3


@pytest.mark.full
def test_a_checkpoint_on_a_disk_that_is_never_read_holds_up_no_other_table(tmp_path: Path) -> None:
    num_files, readers = 20_000, 2 * pa.io_thread_count()
    for name in ("slow", "other"):
        log = write_log(tmp_path / name, [[add(uuid.uuid4().hex) for _ in range(num_files)]])
        create_checkpoint(log)
    gate = Gate()
    storage = SlowDisk(open_storage(tmp_path / "slow"), gate)
    slow = DeltaLog(tmp_path / "slow", storage=storage).snapshot()
    other = DeltaLog(tmp_path / "other")
    found: list[int] = []
    read = [lambda: found.append(slow.num_files)] * readers
    with gate.holding(read, until=lambda held: len(held) >= pa.io_thread_count()):
        listed = call_in_thread(lambda: other.snapshot().files().num_rows)
        assert listed.result(PATIENCE_S / 2) == num_files
    assert found == [num_files] * readers
