"""Commits killed before and after each of their storage calls: nothing is lost, doubled or torn.

Each state after a kill meets a reader, a rerun, a foreign writer before a rerun, and a vacuum;
equal states are tested once.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import optimize, vacuum
from delta_ops.storage import Storage, open_storage
from delta_ops.storage.paths import is_hidden_staged
from tests.support.faulty_storage import crashes
from tests.support.tables import rows, rows_by_deltalake

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")

Rows = list[tuple[int, str]]
"""Rows of id and p, in order."""

TXN = ("crash", 1)
FOREIGN = (99, "b")
RIVAL = (77, "a")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """An operation to kill and rerun, and its effect on the rows."""

    operate: Callable[[DeltaLog], object]
    """Idempotent by its txn, or because a rerun finds no work."""
    change: Callable[[Rows], Rows]
    commits: int = 2
    """Before the operation, the rows of two files, two rows each."""
    by_others: tuple[tuple[int, str], ...] = ()
    """Rows that appear during the operation."""


def data(values: Iterable[tuple[int, str]]) -> pa.Table:
    pairs = list(values)
    return pa.table({"id": pa.array([i for i, _ in pairs], pa.int64()), "p": [p for _, p in pairs]})


NEW: Rows = [(10, "a"), (11, "b"), (12, "b")]


def append(log: DeltaLog) -> None:
    da.write(log, data(NEW), txn=TXN, partition_by=["p"])


def overwrite(log: DeltaLog) -> None:
    da.write(log, data(NEW), "overwrite", txn=TXN)


def overwrite_partition(log: DeltaLog) -> None:
    da.write(log, data(NEW[1:]), "overwrite", replace_where=col("p") == "b", txn=TXN)


def overwrite_rows(log: DeltaLog) -> None:
    da.write(log, data(NEW), "overwrite", replace_where=col("id") >= 5, txn=TXN)


def delete(log: DeltaLog) -> None:
    da.delete(log, col("id") >= 5, txn=TXN)


def update(log: DeltaLog) -> None:
    da.update(log, {"p": "'c'"}, col("id") >= 5, txn=TXN)


def merge(log: DeltaLog) -> None:
    source = data([(5, "z"), *NEW])
    merging = da.merge(log, source, "target.id = source.id", txn=TXN).when_matched_update_all()
    merging.when_not_matched_insert_all().execute()


def append_after_a_rival(log: DeltaLog) -> None:
    transaction = begin(log)
    da.write(outside(log), data([RIVAL]), txn=("rival", 1))
    da.write(transaction, data(NEW), txn=TXN)


def outside(log: DeltaLog) -> DeltaLog:
    """The table, for a process that is not killed."""
    return DeltaLog("", storage=log.storage.inner if hasattr(log.storage, "inner") else log.storage)


def replaced(matches: Callable[[int, str], bool], new: Rows) -> Callable[[Rows], Rows]:
    return lambda old: sorted([*(row for row in old if not matches(*row)), *new])


SCENARIOS = {
    "the append that creates the table": Scenario(
        operate=append, change=lambda old: sorted(old + NEW), commits=0
    ),
    "an append": Scenario(operate=append, change=lambda old: sorted(old + NEW)),
    "an append that makes a checkpoint due": Scenario(
        operate=append, change=lambda old: sorted(old + NEW), commits=3
    ),
    "an append that loses a race": Scenario(
        operate=append_after_a_rival,
        change=lambda old: sorted(old + NEW),
        by_others=(RIVAL,),
    ),
    "an overwrite": Scenario(operate=overwrite, change=replaced(lambda _i, _p: True, NEW)),
    "an overwrite of a partition": Scenario(
        operate=overwrite_partition, change=replaced(lambda _, p: p == "b", NEW[1:]), commits=3
    ),
    "an overwrite by predicate that writes rows again": Scenario(
        operate=overwrite_rows, change=replaced(lambda i, _: i >= 5, NEW)
    ),
    "a delete": Scenario(operate=delete, change=replaced(lambda i, _: i >= 5, [])),
    "an update": Scenario(
        operate=update, change=lambda old: sorted((i, "c" if i >= 5 else p) for i, p in old)
    ),
    "a merge": Scenario(operate=merge, change=replaced(lambda i, _: i == 5, [(5, "z"), *NEW])),
    "optimize": Scenario(operate=optimize, change=lambda old: old, commits=3),
}


class Places:
    """The places of copies of a table: folders of a disk, or roots in memory."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind, self._numbers = folder, kind, count()

    def new(self) -> str:
        name = f"t{next(self._numbers)}"
        return str(self.folder / name) if self.kind == "disk" else f"memory://{uuid.uuid4()}/{name}"

    def copy(self, storage: Storage) -> Storage:
        copied = self.new()
        if self.kind == "disk":
            shutil.copytree(storage.uri, copied, dirs_exist_ok=True)
        else:
            target = open_storage(copied)
            for info in storage.list_tree(""):
                target.create(info.path, storage.read(info.path))
        return open_storage(copied)

    def on_disk(self, storage: Storage) -> Path:
        """A copy for a foreign engine."""
        root = self.folder / f"disk{next(self._numbers)}"
        if self.kind == "disk":
            shutil.copytree(storage.uri, root, dirs_exist_ok=True)
        for info in () if self.kind == "disk" else storage.list_tree(""):
            place = root / info.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(storage.read(info.path))
        return root


def prepared(storage: Storage, commits: int) -> Storage:
    """Two partitions of small files; version 3 is due for a checkpoint."""
    log = DeltaLog("", storage=storage)
    for number in range(commits):
        da.write(
            log,
            data((4 * number + i, "aabb"[i]) for i in range(4)),
            partition_by=["p"],
            configuration={"delta.checkpointInterval": "3"},
        )
    if not commits and storage.uri.startswith("/"):
        Path(storage.uri).mkdir()
    return storage


def rows_of(storage: Storage, version: int | None = None) -> Rows:
    log = DeltaLog("", storage=storage)
    if not log.exists():
        return []
    return pairs(rows(da.to_table(log.snapshot(version))))


def pairs(found: Sequence[dict[str, object]]) -> Rows:
    return sorted((row["id"], row["p"]) for row in found)  # type: ignore[misc]


def versions(storage: Storage) -> list[int]:
    """The contents of the commit files; each file is whole."""
    names = [info.path for info in storage.list_from("_delta_log", "0")]
    commits = [name for name in names if name.endswith(".json")]
    for name in commits:
        assert [json.loads(line) for line in storage.read(name).splitlines()]
    return [int(name.rpartition("/")[2].removesuffix(".json")) for name in commits]


def check_contiguous(storage: Storage) -> None:
    """Assert that no version is missing and each checksum belongs to its version."""
    found = versions(storage)
    assert found == list(range(len(found)))
    for version in found:
        validate_checksum(DeltaLog("", storage=storage).snapshot(version))


def check_swept(storage: Storage) -> None:
    """Assert that vacuum keeps the live files and the log, whatever was killed."""
    log = DeltaLog("", storage=storage)
    vacuum(log, clock=lambda: system_clock() + 10 * DAY_MS)
    paths = [info.path for info in storage.list_tree("")]
    live = set(log.snapshot().files(["path"])["path"].to_pylist())
    not_data = ("_delta_log/", "_delta_ops/refs/")
    assert {path for path in paths if not path.startswith(not_data)} == live
    assert not [path for path in paths if is_hidden_staged(path.rpartition("/")[2])]


def check_crash(places: Places, scenario: Scenario, before: list[Rows], left: Storage) -> bool:
    """Whether the operation was committed at the time of the crash."""
    old = before[-1] if before else []
    with_others = sorted([*old, *scenario.by_others])
    new = scenario.change(with_others)
    found = rows_of(left)
    assert found in (old, with_others, new)
    check_contiguous(left)
    for version, rows_then in enumerate(before):
        assert rows_of(left, version) == rows_then

    # A foreign writer commits, and then the operation runs again.
    foreign_root = places.on_disk(left)
    if found or before:
        assert pairs(rows_by_deltalake(foreign_root)) == found
    write_deltalake(foreign_root, data([FOREIGN]), mode="append", partition_by=["p"])
    assert pairs(rows_by_deltalake(foreign_root)) == sorted([*found, FOREIGN])
    foreign = open_storage(foreign_root)
    is_committed = carries_txn(left) or len(versions(left)) > len(before) + bool(scenario.by_others)
    scenario.operate(DeltaLog("", storage=foreign))
    others = [row for row in scenario.by_others if row not in found]
    expected = (
        sorted([*new, FOREIGN])
        if is_committed
        else scenario.change(sorted([*found, FOREIGN, *others]))
    )
    assert rows_of(foreign) == expected
    assert pairs(rows_by_deltalake(foreign_root)) == expected
    check_contiguous(foreign)

    # No other writer commits, and the operation runs again, twice.
    scenario.operate(DeltaLog("", storage=left))
    count_before = len(versions(left))
    scenario.operate(DeltaLog("", storage=left))
    assert len(versions(left)) == count_before
    assert rows_of(left) == new
    check_contiguous(left)
    check_swept(left)
    assert rows_of(left) == new
    return is_committed


def carries_txn(storage: Storage) -> bool:
    log = DeltaLog("", storage=storage)
    return log.exists() and TXN[0] in log.snapshot().transactions()


def files_of(storage: Storage) -> tuple[tuple[str, int], ...]:
    """Names without UUIDs, and sizes."""
    return tuple(sorted((_UUID.sub("*", info.path), info.size) for info in storage.list_tree("")))


CASES = {
    ("disk", "the append that creates the table"),
    ("disk", "an overwrite"),
    ("memory", "an append that loses a race"),
}
"""Places and scenarios in `make test`: each place, and each kind of commit."""
IN_MEMORY_TOO = ("the append that creates the table", "an overwrite of a partition", "optimize")
"""Scenarios that also run in memory, where the store has no staged files."""


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=() if (kind, name) in CASES else pytest.mark.full)
        for kind, name in product(("disk", "memory"), SCENARIOS)
        if kind == "disk" or name in IN_MEMORY_TOO or (kind, name) in CASES
    ],
)
def test_a_commit_killed_anywhere_leaves_the_old_rows_or_the_new(
    tmp_path: Path, kind: str, name: str
) -> None:
    places, scenario = Places(tmp_path, kind), SCENARIOS[name]
    template = prepared(open_storage(places.new()), scenario.commits)
    before = [rows_of(template, version) for version in range(scenario.commits)]
    outcomes: dict[tuple[tuple[str, int], ...], bool] = {}
    for where, left in crashes(
        lambda: places.copy(template), lambda s: scenario.operate(DeltaLog("", storage=s))
    ):
        files = files_of(left)
        if files not in outcomes:
            try:
                outcomes[files] = check_crash(places, scenario, before, left)
            except BaseException as error:
                error.add_note(f"killed {where}")
                raise
    assert set(outcomes.values()) == {False, True}
