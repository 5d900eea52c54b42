"""Losses by deltalake's clean-up of the log when a checkpoint is incomplete.

It treats any file of a checkpoint as a whole checkpoint, and deletes the commits below it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.maintenance import clean_up_log, create_checkpoint, maintain
from delta_ops.protocol.file_names import checkpoint_name
from delta_ops.storage import Storage
from tests.maintenance.aged_tables import Table
from tests.maintenance.unfinished import (
    LATEST,
    aged,
    append_and_checkpoint,
    checkpoint_files,
    leave,
    make_old,
    part,
)
from tests.support.crash_states import crash_states
from tests.support.tables import rows_by_deltalake


def deltalake_cleans_up(root: Path) -> None:
    DeltaTable(root).cleanup_metadata()


def deltalake_appends(root: Path) -> None:
    """With its hooks, which clean up the log."""
    data = DeltaTable(root).to_pyarrow_table().slice(0, 0)
    write_deltalake(root, data, mode="append")


OURS = pytest.mark.parametrize(
    "ours",
    [
        pytest.param(create_checkpoint, id="a checkpoint of this version"),
        pytest.param(append_and_checkpoint, id="the next checkpoint"),
        pytest.param(clean_up_log, id="clean-up"),
        pytest.param(maintain, id="maintenance"),
    ],
)
THEIRS = pytest.mark.parametrize(
    "theirs",
    [
        pytest.param(deltalake_cleans_up, id="cleanup_metadata"),
        pytest.param(deltalake_appends, id="its hook"),
    ],
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return aged(tmp_path_factory.mktemp("made") / "t")


@pytest.fixture
def table(made: Table, tmp_path: Path) -> Table:
    return made.copy(tmp_path / "t")


@pytest.fixture(scope="module")
def crashed(made: Table) -> list[tuple[str, Table]]:
    """The kill of our multi-part checkpoint, and the files that it left."""
    numbers = count()

    def fresh() -> Storage:
        return made.copy(made.root.parent / str(next(numbers))).log.storage

    def run(storage: Storage) -> None:
        snapshot = DeltaLog("", storage=storage).snapshot()
        write_checkpoint(snapshot, now_ms=0, part_rows=2)

    return [(where, Table(Path(storage.uri))) for where, storage in crash_states(fresh, run)]


@THEIRS
def test_our_kill_leaves_nothing_that_makes_another_cleanup_lose_the_table(
    tmp_path: Path,
    made: Table,
    crashed: list[tuple[str, Table]],
    theirs: Callable[[Path], None],
) -> None:
    expected = made.rows()
    seen: set[frozenset[str]] = set()
    for number, (where, left) in enumerate(crashed):
        root = left.copy(tmp_path / str(number)).root
        seen.add(frozenset(checkpoint_files(root)))
        theirs(root)
        assert Table(root).rows() == expected, where
        assert rows_by_deltalake(root) == expected, where
    assert {len(files) for files in seen} == {0, 1, 2, 3, 4}
    assert {part(1), part(2), part(3)} in seen  # and the whole file is deleted


@pytest.mark.some_cases(2)
@OURS
def test_nor_does_it_after_whatever_we_do_next(
    tmp_path: Path,
    made: Table,
    crashed: list[tuple[str, Table]],
    ours: Callable[[DeltaLog], object],
) -> None:
    expected = made.rows()
    seen: set[frozenset[str]] = set()
    for where, left in crashed:
        files = frozenset(checkpoint_files(left.root))
        if files in seen:
            continue
        root = left.copy(tmp_path / str(len(seen))).root
        seen.add(files)
        ours(DeltaLog(root))
        deltalake_cleans_up(root)
        assert Table(root).rows() == expected, where
        assert rows_by_deltalake(root) == expected, where
    assert len(seen) == 6


@pytest.mark.parametrize("left", [(1,), (1, 3)], ids=str)
def test_without_us_another_clean_up_loses_the_table(table: Table, left: tuple[int, ...]) -> None:
    """The reason for these precautions; if this test fails, deltalake has fixed the fault."""
    leave(table, *left, days=0)
    deltalake_cleans_up(table.root)
    assert rows_by_deltalake(table.root) == [
        {"id": LATEST, "p": "b"}
    ]  # of six; the checksum misleads
    with pytest.raises(LogCorruptError):
        table.rows()


def test_nor_an_empty_file_misleads_it_once_we_have_cleaned_up(table: Table) -> None:
    expected = table.rows()
    place = table.root / "_delta_log" / checkpoint_name(LATEST)
    place.touch()
    make_old(place, 2)
    clean_up_log(table.log)
    deltalake_cleans_up(table.root)
    assert table.rows() == rows_by_deltalake(table.root) == expected


@pytest.mark.parametrize(
    ("ours", "left"),
    [
        pytest.param(create_checkpoint, (1,), id="a checkpoint of this version, the first part"),
        pytest.param(append_and_checkpoint, (3,), id="the next checkpoint, the last part"),
        pytest.param(clean_up_log, (1, 3), id="clean-up, two of three parts"),
        pytest.param(maintain, (1, 3), id="maintenance, two of three parts"),
        pytest.param(create_checkpoint, (1, 3), marks=pytest.mark.full, id="a checkpoint of two"),
        pytest.param(clean_up_log, (1,), marks=pytest.mark.full, id="clean-up, the first part"),
    ],
)
def test_leftovers_of_another_engine_become_harmless(
    table: Table, ours: Callable[[DeltaLog], object], left: tuple[int, ...]
) -> None:
    leave(table, *left, days=2)
    expected = table.rows()
    ours(table.log)
    has_whole = (table.root / "_delta_log" / checkpoint_name(LATEST)).exists()
    assert has_whole or not {part(number) for number in left} & checkpoint_files(table.root)
    deltalake_cleans_up(table.root)
    assert table.rows() == rows_by_deltalake(table.root) == expected
