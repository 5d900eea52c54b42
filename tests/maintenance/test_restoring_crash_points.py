"""Restore, revert and repair, killed around each of their storage calls, and run again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.maintenance import repair, restore, revert
from delta_ops.storage import Storage, open_storage
from tests.maintenance.restored_tables import commit, history, ids, make_with_vectors, write
from tests.support.crash_states import crash_states
from tests.support.tables import rows, rows_by_deltalake

Operation = Callable[[DeltaLog], Any]


def damaged(root: Path) -> DeltaLog:
    """One missing file, and two files without statistics."""
    log = history(root)
    write(log, [11])
    (lost,) = log.snapshot().add_files(col("id") == 11)
    (root / lost.path).unlink()
    live = [add for add in log.snapshot().add_files() if add != lost]
    commit(log, *(replace(add, stats=None, data_change=False) for add in live))
    return log


OPERATIONS: dict[str, tuple[Callable[[Path], DeltaLog], Operation, list[int]]] = {
    "restore": (history, lambda log: restore(log, version=2), [0, 1, 7]),
    "restore of a vector": (
        make_with_vectors,
        lambda log: restore(log, version=2),
        list(range(2, 10)),
    ),
    "restore by request": (
        history,
        lambda log: restore(log, version=2, request_id="1"),
        [0, 1, 7],
    ),
    "revert": (history, lambda log: revert(log, 3), [0, 1, 7, 10]),
    "repair": (damaged, lambda log: repair(log, remove_missing=True), [9, 10]),
}


def killed(
    template: DeltaLog, tmp_path: Path, operate: Operation
) -> Iterator[tuple[str, Path, DeltaLog]]:
    """Copies of a table with a killed operation: the place of the kill, the path, and the table."""
    numbers = count()
    places: list[Path] = []

    def fresh() -> Storage:
        places.append(tmp_path / str(next(numbers)))
        shutil.copytree(template.uri, places[-1])
        return open_storage(places[-1])

    for where, storage in crash_states(fresh, lambda s: operate(DeltaLog("", storage=s))):
        yield where, places[-1], DeltaLog("", storage=storage)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "name",
    [
        "restore",
        pytest.param("revert", marks=pytest.mark.full),
        pytest.param("repair", marks=pytest.mark.full),
        pytest.param("restore of a vector", marks=pytest.mark.full),
        pytest.param("restore by request", marks=pytest.mark.full),
    ],
)
def test_killed_anywhere_and_run_again_it_is_done_once(tmp_path: Path, name: str) -> None:
    build, operate, expected = OPERATIONS[name]
    template = build(tmp_path / "template")
    before = template.snapshot()
    unchanged = [add.path for add in before.add_files()]
    seen: set[int] = set()
    for where, place, log in killed(template, tmp_path, operate):
        version = log.snapshot().version
        seen.add(version - before.version)
        if version == before.version:
            assert [add.path for add in log.snapshot().add_files()] == unchanged, where
        else:
            assert ids(log) == expected, where
        operate(log)
        assert log.snapshot().version == before.version + 1, where
        assert ids(log) == expected, where
        if "vector" not in name:
            assert rows_by_deltalake(place) == rows(da.to_table(log)), where
        operate(log)
        assert log.snapshot().version == before.version + 1, where
    assert seen == {0, 1}


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "restore by request",
        pytest.param("revert", marks=pytest.mark.full),
        pytest.param("repair", marks=pytest.mark.full),
    ],
)
def test_writes_before_the_rerun_stay(tmp_path: Path, name: str) -> None:
    build, operate, expected = OPERATIONS[name]
    template = build(tmp_path / "template")
    for where, _, log in killed(template, tmp_path, operate):
        is_done = log.snapshot().version > template.snapshot().version
        write(log, [77])
        operate(log)
        kept = is_done or name != "restore by request"
        assert ids(log) == sorted([*expected, *([77] if kept else [])]), where
