"""Twice the table takes at most twice the work: no step per file depends on all files.

Work is counted, not timed: calls and bytes at the store, and the bytes that Arrow allocates, which
reveal repeated joins or lookups of whole tables. Names and numbers have a fixed width, so each file
takes the same stored bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.maintenance import create_checkpoint
from delta_ops.protocol.actions import Action
from delta_ops.protocol.file_names import commit_name
from delta_ops.protocol.json.codec import encode_commit
from delta_ops.storage import FileInfo, Storage, open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.tables import PROTOCOL, add, metadata

FIRST = 1_000_000
ARROW = "bytes of Arrow"
ROW = pa.table({"id": [1], "p": ["a"]})
FULL = pytest.mark.full


class WeighingStorage(CountingStorage):
    """Counts the calls of each method, and their bytes in both directions."""

    def __init__(self, inner: Storage) -> None:
        self.work: Counter[str] = Counter()
        super().__init__(inner, self._count)

    def _count(self, _: int, method: str, path: str, moment: str) -> None:
        self.work[f"calls of {method}"] += moment == "before"

    @property
    def has_native_input(self) -> bool:
        return False  # so that every byte goes through `read_ranges`

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        listed = list(super().list_from(directory, start))
        self.work["names listed"] += len(listed)
        return iter(listed)

    def read(self, path: str) -> bytes:
        content = super().read(path)
        self.work["bytes read"] += len(content)
        return content

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.work["bytes read"] += sum(end - start for start, end in ranges)
        return super().read_ranges(path, ranges)

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:
        self.work["bytes written"] += len(data)
        super().create(path, data, is_durable=is_durable)

    def create_from_stream(
        self, path: str, write: Callable[[IO[bytes]], None], *, is_durable: bool = True
    ) -> FileInfo:
        info = super().create_from_stream(path, write, is_durable=is_durable)
        self.work["bytes written"] += info.size
        return info

    def persist(self, paths: Iterable[str]) -> None:
        named = list(paths)
        self.work["files made durable"] += len(named)
        super().persist(named)


def write_commits(root: Path, commits: Iterable[Sequence[Action]]) -> None:
    """A log without checkpoints and checksums."""
    directory = root / "_delta_log"
    directory.mkdir(parents=True)
    never = metadata(configuration={"delta.checkpointInterval": "1000000000"})
    for version, actions in enumerate(commits):
        first: Sequence[Action] = [PROTOCOL, never] if version == 0 else []
        (directory / commit_name(version)).write_bytes(encode_commit([*first, *actions]))


def write_partitions(root: Path, number: int) -> Callable[[DeltaLog], object]:
    values = range(FIRST, FIRST + number)
    data = pa.table({"p": values, "x": values})
    return lambda log: da.write(log, data, partition_by=["p"])


def append_to_partitions(root: Path, number: int) -> Callable[[DeltaLog], object]:
    write_partitions(root, number)(DeltaLog(root))
    data = pa.table({"p": [FIRST], "x": [FIRST]})
    return lambda log: da.write(log, data)


def read_partitions(root: Path, number: int) -> Callable[[DeltaLog], object]:
    write_partitions(root, number)(DeltaLog(root))
    return da.to_table


def open_commits(root: Path, number: int) -> Callable[[DeltaLog], object]:
    write_commits(root, ([add(str(FIRST + i))] for i in range(number)))
    return lambda log: log.snapshot().files(["path", "size"])


def read_history(root: Path, number: int) -> Callable[[DeltaLog], object]:
    open_commits(root, number)
    return lambda log: list(log.history())


def append_to_commits(root: Path, number: int) -> Callable[[DeltaLog], object]:
    open_commits(root, number)
    return lambda log: da.write(log, ROW)


def wide(number: int) -> pa.Table:
    return pa.table({f"c{FIRST + i}": [FIRST + i] for i in range(number)})


def write_columns(root: Path, number: int) -> Callable[[DeltaLog], object]:
    every = {"delta.dataSkippingNumIndexedCols": "-1"}
    return lambda log: da.write(log, wide(number), configuration=every)


def append_columns(root: Path, number: int) -> Callable[[DeltaLog], object]:
    write_columns(root, number)(DeltaLog(root))
    return lambda log: da.write(log, wide(number))


def filter_columns(root: Path, number: int) -> Callable[[DeltaLog], object]:
    write_columns(root, number)(DeltaLog(root))
    return lambda log: log.snapshot().files(["path"], col(f"c{FIRST}") == FIRST)


def read_columns(root: Path, number: int) -> Callable[[DeltaLog], object]:
    write_columns(root, number)(DeltaLog(root))
    return da.to_table


def overwrite(root: Path, number: int) -> Callable[[DeltaLog], object]:
    write_commits(root, [[add(str(FIRST + i)) for i in range(number)]])
    create_checkpoint(DeltaLog(root))
    return lambda log: da.write(log, ROW, "overwrite")


def open_removes(root: Path, number: int) -> Callable[[DeltaLog], object]:
    overwrite(root, number)(DeltaLog(root))
    return lambda log: log.snapshot().files(["path", "size"])


@pytest.mark.parametrize(
    ("prepare", "number"),
    [
        pytest.param(write_partitions, 100, id="partitions are written"),
        pytest.param(append_to_partitions, 100, id="a row is appended to one of many partitions"),
        pytest.param(read_partitions, 100, id="all partitions are read", marks=FULL),
        pytest.param(open_commits, 150, id="commits without a checkpoint are opened"),
        pytest.param(read_history, 150, id="commits are shown as history", marks=FULL),
        pytest.param(append_to_commits, 150, id="a row is appended behind commits", marks=FULL),
        pytest.param(write_columns, 400, id="columns are written"),
        pytest.param(append_columns, 400, id="columns are appended", marks=FULL),
        pytest.param(filter_columns, 400, id="files are found by one of many columns", marks=FULL),
        pytest.param(read_columns, 400, id="columns are read", marks=FULL),
        pytest.param(overwrite, 10_000, id="files are removed by an overwrite"),
        pytest.param(open_removes, 10_000, id="removes are opened", marks=FULL),
    ],
)
def test_twice_as_many_take_twice_the_work_at_most(
    tmp_path: Path, prepare: Callable[[Path, int], Callable[[DeltaLog], object]], number: int
) -> None:
    once = work(tmp_path / "once", prepare, number)
    twice = work(tmp_path / "twice", prepare, 2 * number)
    grown = {what: (once[what], twice[what]) for what in twice}
    assert {what: of for what, of in grown.items() if of[1] > _factor(what) * of[0]} == {}


def _factor(what: str) -> float:
    return 2.25 if what == ARROW else 2  # its buffers grow by doubling


def work(
    root: Path, prepare: Callable[[Path, int], Callable[[DeltaLog], object]], number: int
) -> Mapping[str, int]:
    act = prepare(root, number)
    storage = WeighingStorage(open_storage(root))
    pools = [pa.default_memory_pool(), pa.system_memory_pool()]
    before = sum(pool.total_bytes_allocated() for pool in pools)
    act(DeltaLog(root, storage=storage))
    allocated = sum(pool.total_bytes_allocated() for pool in pools) - before
    return {**storage.work, ARROW: allocated}
