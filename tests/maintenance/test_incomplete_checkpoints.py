"""Incomplete checkpoints: which of their files are deleted, when, and who is informed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.log.checkpoint.incomplete import delete_stale, stale_files
from delta_ops.log.segment import list_log, listing_from_files
from delta_ops.maintenance import (
    Finding,
    clean_up_log,
    create_checkpoint,
    health,
    maintain,
    maintain_fleet,
    plan_maintenance,
)
from delta_ops.protocol.file_names import checkpoint_name, commit_name
from delta_ops.storage import FileInfo, Storage
from tests.maintenance.aged_tables import Table
from tests.maintenance.unfinished import (
    HINT,
    LATEST,
    aged,
    append,
    append_and_checkpoint,
    checkpoint_files,
    leave,
    part,
)
from tests.support.counting_storage import CountingStorage
from tests.support.crash_states import crash_states
from tests.support.tables import rows_by_deltalake


@pytest.mark.parametrize(
    ("ours", "files"),
    [
        pytest.param(append_and_checkpoint, {checkpoint_name(LATEST + 1)}, id="checkpoint"),
        pytest.param(clean_up_log, set(), id="clean-up"),
    ],
)
def test_leftovers_of_another_engine_are_deleted(
    tmp_path: Path, ours: Callable[[DeltaLog], object], files: set[str]
) -> None:
    table = aged(tmp_path / "t")
    leave(table, 1, 3, days=2)
    ours(table.log)
    assert checkpoint_files(table.root) == files


def test_the_checkpoint_of_a_commit_deletes_it_too(tmp_path: Path) -> None:
    table = aged(tmp_path / "t", **{"delta.checkpointInterval": str(LATEST + 1)})
    leave(table, 1, 3, days=2)
    append(table.log)
    assert checkpoint_files(table.root) == {checkpoint_name(LATEST + 1)}


@pytest.mark.parametrize("is_enabled", ["true", "false"])
def test_maintenance_finds_it_due_once_and_deletes_it(tmp_path: Path, is_enabled: str) -> None:
    table = aged(tmp_path / "t", **{"delta.enableExpiredLogCleanup": is_enabled})
    create_checkpoint(table.log)
    append(table.log)
    append_and_checkpoint(table.log)
    leave(table, 2, days=2, version=LATEST + 1)
    plan = plan_maintenance(table.log)
    assert (plan.incomplete_checkpoint_files, "checkpoint" in plan.operations) == (1, True)
    result = maintain(table.log)
    assert result.figures["incomplete_checkpoint_files_deleted"] == 1
    assert part(2, version=LATEST + 1) not in checkpoint_files(table.root)
    assert "checkpoint" not in plan_maintenance(table.log).operations


def test_a_dry_run_deletes_nothing_and_says_what_would_go(tmp_path: Path) -> None:
    table = aged(tmp_path / "t")
    append(table.log)
    leave(table, 1, 2, days=2)
    before = table.files()
    of_checkpoint = create_checkpoint(table.log, dry_run=True).plan.stale
    of_clean_up = clean_up_log(table.log, dry_run=True).plan.files
    assert {each.path for each in of_checkpoint} == {f"_delta_log/{part(n)}" for n in (1, 2)}
    assert of_clean_up == of_checkpoint
    assert table.files() == before


def test_beside_the_checkpoint_of_its_version_it_stays_and_is_no_work(tmp_path: Path) -> None:
    table = aged(tmp_path / "t")
    leave(table, 1, days=2)
    result = create_checkpoint(table.log)
    assert (result.plan.stale, result.deleted_files) == ((), 0)
    assert checkpoint_files(table.root) == {part(1), checkpoint_name(LATEST)}
    assert not create_checkpoint(table.log).plan.has_work


def test_below_what_a_clean_up_keeps_it_goes_once(tmp_path: Path) -> None:
    table = aged(tmp_path / "t")
    leave(table, 1, 2, days=2, version=4)
    create_checkpoint(table.log, clock=lambda: 0)  # at this time no file is old
    result = clean_up_log(table.log)
    assert len(result.plan.incomplete) == 2
    assert result.deleted_files == len({each.path for each in result.plan.files})
    assert checkpoint_files(table.root) == {checkpoint_name(LATEST)}


class BehindStorage(CountingStorage):
    """A store whose clock is three days behind."""

    def stat(self, path: str) -> FileInfo:
        found = super().stat(path)
        return found._replace(modified_ms=found.modified_ms - 3 * DAY_MS)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "ours",
    [
        pytest.param(append, id="a commit"),
        pytest.param(create_checkpoint, id="a checkpoint"),
        pytest.param(clean_up_log, id="clean-up"),
        pytest.param(maintain, id="maintenance"),
    ],
)
def test_its_age_is_by_the_clock_of_the_store(
    tmp_path: Path, ours: Callable[[DeltaLog], object]
) -> None:
    table = aged(tmp_path / "t", **{"delta.checkpointInterval": str(LATEST + 2)})
    append(table.log)
    left = {part(1, version=4), part(2, version=4)}
    leave(table, 1, 2, days=2, version=4)
    ours(DeltaLog("", storage=BehindStorage(table.log.storage, lambda *_: None)))
    assert left <= checkpoint_files(table.root)
    append_and_checkpoint(table.log)
    assert not left & checkpoint_files(table.root)


def info(name: str, *, days: float = 2, size: int = 9) -> FileInfo:
    return FileInfo(f"_delta_log/{name}", size=size, modified_ms=int((100 - days) * DAY_MS))


COMMITS = [info(commit_name(version), days=50) for version in range(8)]


@pytest.mark.parametrize(
    ("files", "stale"),
    [
        pytest.param([info(part(2))], True, id="a part"),
        pytest.param([info(part(7))], True, id="a part of a number that there cannot be"),
        pytest.param([info(part(n), size=0) for n in (1, 2, 3)], True, id="empty parts"),
        pytest.param([info(checkpoint_name(5), size=0)], True, id="an empty file"),
        pytest.param([info(part(2), days=0.9)], False, id="a young part may be one of several"),
        pytest.param(
            [info(part(1)), info(part(2), days=0.9)], False, id="somebody has written the last part"
        ),
        pytest.param([info(part(n)) for n in (1, 2, 3)], False, id="all parts"),
        pytest.param(
            [info(part(n)) for n in (1, 2, 3, 7)], False, id="all parts, and one that cannot be"
        ),
        pytest.param(
            [info(part(1)), info(part(1, 2)), info(part(2, 2))], False, id="all parts of two"
        ),
        pytest.param(
            [info(part(1)), info(checkpoint_name(5))], False, id="a part beside a whole file"
        ),
    ],
)
def test_stale_files(files: list[FileInfo], stale: bool) -> None:
    listing = listing_from_files([*COMMITS, *files])
    assert stale_files(listing, 100 * DAY_MS) == (tuple(files) if stale else ())


def test_parts_of_a_version_that_cannot_be_read_without_them_stay() -> None:
    later = info(checkpoint_name(7))
    listing = listing_from_files([*COMMITS[5:], info(part(1)), info(part(3)), later])
    assert not stale_files(listing, 100 * DAY_MS)


def test_only_what_was_found_goes(tmp_path: Path) -> None:
    table = aged(tmp_path / "t")
    leave(table, 1, days=2, version=4)
    storage, directory = table.log.storage, table.log.log_directory
    stale = stale_files(list_log(storage, directory), system_clock())
    leave(table, 1, days=2)
    assert delete_stale(storage, directory, stale, system_clock()).files == stale
    assert checkpoint_files(table.root) == {part(1)}


def completing(table: Table, at: Callable[[str, str], bool]) -> Storage:
    """The table's storage; another engine completes its parts at the first such call."""
    done: list[bool] = []

    def on_call(_number: int, method: str, _path: str, when: str) -> None:
        if not done and at(method, when):
            done.append(True)
            leave(table, 1, 2, 3, days=0)
            (table.root / "_delta_log" / "_last_checkpoint").write_text(HINT)

    return CountingStorage(table.log.storage, on_call)


@pytest.mark.parametrize(
    ("at", "left"),
    [
        pytest.param(
            lambda method, when: (method, when) == ("list_from", "before"),
            {1, 2, 3},
            id="before the second look: all stay",
        ),
        pytest.param(
            lambda method, when: (method, when) == ("delete_many", "before"),
            {2},
            id="after it: those go that were stale",
        ),
        pytest.param(
            lambda method, when: (method, when) == ("delete_many", "after"),
            {1, 2, 3},
            id="after the deletion: all are new",
        ),
    ],
)
def test_a_writer_that_completes_the_parts_meanwhile_misleads_no_reader(
    tmp_path: Path, at: Callable[[str, str], bool], left: set[int]
) -> None:
    table = aged(tmp_path / "t")
    leave(table, 1, 3, days=2)
    expected = table.rows()
    storage, directory = table.log.storage, table.log.log_directory
    stale = stale_files(list_log(storage, directory), system_clock())
    assert len(stale) == 2
    delete_stale(completing(table, at), directory, stale, system_clock())
    assert checkpoint_files(table.root) == {part(number) for number in left}
    assert table.rows() == rows_by_deltalake(table.root) == expected


def test_a_removal_that_was_killed_is_ended_by_the_next_one(tmp_path: Path) -> None:
    table = aged(tmp_path / "t")
    append(table.log)
    create_checkpoint(table.log)
    leave(table, 1, 3, days=2)
    expected = table.rows()
    numbers = count()

    def fresh() -> Storage:
        return table.copy(tmp_path / str(next(numbers))).log.storage

    def run(storage: Storage) -> None:
        create_checkpoint(DeltaLog("", storage=storage))

    for where, storage in crash_states(fresh, run):
        root = Path(storage.uri)
        assert Table(root).rows() == rows_by_deltalake(root) == expected, where
        run(storage)
        assert checkpoint_files(root) == {checkpoint_name(LATEST + 1)}, where
        assert Table(root).rows() == rows_by_deltalake(root) == expected, where
    assert next(numbers) > 10


def test_a_hint_that_names_a_checkpoint_with_a_part_lost_goes_with_the_rest(tmp_path: Path) -> None:
    table = aged(tmp_path / "t")
    leave(table, 1, 3, days=2)
    (table.root / "_delta_log" / "_last_checkpoint").write_text(HINT)
    expected = table.rows()
    with pytest.raises(Exception, match="_last_checkpoint hint"):
        DeltaTable(table.root)
    numbers = count()

    def fresh() -> Storage:
        return table.copy(tmp_path / str(next(numbers))).log.storage

    def run(storage: Storage) -> None:
        clean_up_log(DeltaLog("", storage=storage))

    for where, storage in crash_states(fresh, run):
        run(storage)
        root = Path(storage.uri)
        assert Table(root).rows() == rows_by_deltalake(root) == expected, where
        assert not checkpoint_files(root), where


def test_files_that_cannot_be_deleted_are_reported(tmp_path: Path) -> None:
    table = aged(tmp_path / "t")
    create_checkpoint(table.log)
    append(table.log)
    leave(table, 2, days=2, version=LATEST + 1)
    append(table.log)

    class Refusing(CountingStorage):
        def delete_many(self, paths: Any) -> list[str]:
            return list(paths)

    log = DeltaLog("", storage=Refusing(table.log.storage, lambda *_: None))
    result = maintain(log, operations=["checkpoint"])
    assert result.failures == {"checkpoint_failures": 1}
    again = clean_up_log(log)
    assert (again.failures, again.deleted_files) == (
        (f"_delta_log/{part(2, version=LATEST + 1)}",),
        0,
    )


def finding(root: Path) -> Finding:
    findings = health(DeltaLog(root)).findings
    return next(each for each in findings if each.measure == "incomplete_checkpoints")


def left_of(roots: Sequence[Path]) -> list[str]:
    rows = maintain_fleet([str(root) for root in roots])
    return [sentence for row in rows for sentence in row.left if "deltalake" in sentence]


def test_health_shows_it_as_dangerous_and_an_operation_cures_it(tmp_path: Path) -> None:
    table = aged(tmp_path / "t")
    create_checkpoint(table.log)
    append(table.log)
    well = finding(table.root)
    assert (well.verdict, well.value, well.advice) == ("ok", 0, "")
    leave(table, 1, 2, days=2, version=LATEST + 1)
    found = finding(table.root)
    assert (found.verdict, found.value, found.operation) == ("due", 2, "checkpoint")
    assert "deltalake's log cleanup" in found.advice
    assert not left_of([table.root])
    assert finding(table.root).verdict == "ok"


def test_files_of_possible_writers_are_left_to_a_person(tmp_path: Path) -> None:
    table = aged(tmp_path / "t")
    create_checkpoint(table.log)
    append(table.log)
    leave(table, 1, 2, days=0, version=LATEST + 1)
    found = finding(table.root)
    assert (found.verdict, found.value) == ("look", 2)
    before = checkpoint_files(table.root)
    (sentence,) = left_of([table.root])
    assert sentence.startswith("incomplete_checkpoints: ")
    assert checkpoint_files(table.root) == before
