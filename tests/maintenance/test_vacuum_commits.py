"""The commits of a vacuum: one START and one END for each run with work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.events import ignore
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import vacuum
from delta_ops.maintenance.vacuum.commits import VacuumCommits
from delta_ops.protocol.actions import Protocol
from delta_ops.transaction.races.vacuum_runs import LoggedVacuum, open_runs
from tests.maintenance.aged_tables import NOW, Table, overwritten
from tests.maintenance.test_vacuum_cases import file, gone, with_vectors
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import Killed
from tests.support.tables import rows_by_deltalake

WEEK_MS = 7 * 24 * 3_600_000


def vacuums(table: Table) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Operation, parameters and metrics of the commits of vacuums, oldest first."""
    entries = [(e.operation or "", e) for e in table.log.history()]
    return [
        (name, dict(e.operation_parameters), dict(e.operation_metrics))
        for name, e in reversed(entries)
        if name.startswith("VACUUM")
    ]


def test_a_vacuum_with_work_commits_its_start_and_its_end(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    rows = table.rows()
    result = vacuum(table.log, clock=table.clock)
    start, end = vacuums(table)
    assert start == (
        "VACUUM START",
        {"retentionCheckEnabled": True, "defaultRetentionMillis": WEEK_MS},
        {"numFilesToDelete": "2", "sizeOfDataToDelete": str(result.plan.size_bytes)},
    )
    assert end == (
        "VACUUM END",
        {"status": "COMPLETED"},
        {"numDeletedFiles": "2", "numVacuumedDirectories": "4"},
    )
    assert table.rows() == rows_by_deltalake(table.root) == rows
    operations = [entry["operation"] for entry in DeltaTable(str(table.root)).history(2)]
    assert operations == ["VACUUM END", "VACUUM START"]


def test_the_commit_records_the_requested_settings(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    hour = timedelta(hours=1)
    vacuum(table.log, clock=table.clock, retention=hour, enforce_retention=False)
    assert vacuums(table)[0][1] == {
        "retentionCheckEnabled": False,
        "specifiedRetentionMillis": 3_600_000,
        "defaultRetentionMillis": WEEK_MS,
    }


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda t: vacuum(t.log, clock=t.clock, dry_run=True), id="a dry run"),
        pytest.param(lambda t: vacuum(t.log, clock=lambda: NOW), id="a run without work"),
        pytest.param(
            lambda t: vacuum(t.log, clock=t.clock, log_commits=False), id="when switched off"
        ),
    ],
)
def test_nothing_is_committed_by(tmp_path: Path, run: Callable[[Table], object]) -> None:
    table = overwritten(tmp_path / "t")
    run(table)
    assert table.log.snapshot().version == 2


def with_property(root: Path, value: str) -> Table:
    table = Table(root)
    table.write([1], configuration={"delta_ops.vacuum.logging": value})
    table.put("orphan")
    table.pass_time(days=8)
    return table


@pytest.mark.parametrize(
    ("value", "argument", "commits"),
    [("false", None, 0), ("TRUE", None, 2), ("false", True, 2), ("true", False, 0)],
)
def test_a_property_of_the_table_decides_unless_the_caller_does(
    tmp_path: Path, value: str, argument: bool | None, commits: int
) -> None:
    table = with_property(tmp_path / "t", value)
    vacuum(table.log, clock=table.clock, log_commits=argument)
    assert len(vacuums(table)) == commits


def test_a_property_that_cannot_be_understood_is_an_error(tmp_path: Path) -> None:
    table = with_property(tmp_path / "t", "true")
    of_another_writer = DeltaTable(str(tmp_path / "t")).alter
    of_another_writer.set_table_properties({"delta_ops.vacuum.logging": "perhaps"}, False)
    with pytest.raises(InvalidRequestError, match=r"/t: .*'perhaps': it must be true or false\."):
        vacuum(table.log, clock=table.clock)
    assert "orphan" in table.files()


def test_a_vacuum_that_fails_says_so(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")

    def fail(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("delete_many", "before"):
            raise StorageError(path, "deleted", "the store is gone")

    with pytest.raises(StorageError, match="the store is gone"):
        vacuum(DeltaLog("", storage=CountingStorage(table.log.storage, fail)), clock=table.clock)
    assert [(name, p.get("status")) for name, p, _ in vacuums(table)] == [
        ("VACUUM START", None),
        ("VACUUM END", "FAILED"),
    ]
    vacuum(table.log, clock=table.clock)
    assert [name for name, *_ in vacuums(table)] == ["VACUUM START", "VACUUM END"] * 2


def runs_open_in(table: Table) -> list[LoggedVacuum]:
    return open_runs(table.log.snapshot(), now_ms=table.clock())


def test_two_concurrent_vacuums_each_record_their_run(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    seen: list[list[LoggedVacuum]] = []
    others: list[int] = []

    def meddle(_number: int, method: str, _path: str, when: str) -> None:
        if (method, when) == ("delete_many", "before"):
            seen.append(runs_open_in(table))
            others.append(vacuum(table.log, clock=table.clock).deleted_files)
            seen.append(runs_open_in(table))

    log = DeltaLog("", storage=CountingStorage(table.log.storage, meddle))
    assert vacuum(log, clock=table.clock).failures == ()
    assert others == [2]
    assert [name for name, *_ in vacuums(table)] == [*["VACUUM START"] * 2, *["VACUUM END"] * 2]
    # The END of the second vacuum does not end the first, which is about to delete.
    assert seen == [[LoggedVacuum(0, 2)]] * 2
    assert runs_open_in(table) == []


def test_two_vacuums_that_begin_at_once_take_a_slot_each(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    plan = vacuum(table.log, clock=table.clock, dry_run=True).plan
    seen: list[list[LoggedVacuum]] = []

    def meddle(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("create", "before") and path.endswith("3.json"):
            VacuumCommits(
                table.log,
                is_enforced=True,
                specified_ms=None,
                user_metadata=None,
                clock=table.clock,
                on_event=ignore,
            ).begin(table.log.snapshot(), plan)
        if (method, when) == ("delete_many", "before"):
            seen.append(runs_open_in(table))

    log = DeltaLog("", storage=CountingStorage(table.log.storage, meddle))
    vacuum(log, clock=table.clock)
    assert seen == [[LoggedVacuum(0, 2), LoggedVacuum(1, 3)]]
    assert runs_open_in(table) == [LoggedVacuum(0, 2)]


def test_a_killed_run_keeps_its_slot_for_a_day(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")

    def kill(_number: int, method: str, _path: str, when: str) -> None:
        if (method, when) == ("delete_many", "before"):
            raise Killed

    with pytest.raises(Killed):
        vacuum(DeltaLog("", storage=CountingStorage(table.log.storage, kill)), clock=table.clock)
    dead = LoggedVacuum(0, 2)
    assert runs_open_in(table) == [dead]
    vacuum(table.log, clock=table.clock)
    assert runs_open_in(table) == [dead]
    table.put("orphan")
    table.pass_time(days=9)
    assert runs_open_in(table) == []
    vacuum(table.log, clock=table.clock)
    assert not (table.root / "orphan").exists()
    slots = [id_ for id_ in table.log.snapshot().transactions() if id_.startswith("delta_ops:v")]
    assert len(slots) == 4  # two slots, each begun and ended


def test_a_vacuum_of_many_hours_is_respected_to_its_end(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    late_ms = 0
    seen: list[int] = []

    def pass_hours(_number: int, method: str, _path: str, when: str) -> None:
        nonlocal late_ms
        if (method, when) == ("delete_many", "before"):
            seen.append(len(open_runs(table.log.snapshot(), now_ms=table.clock() + late_ms)))
            late_ms += 20 * 3_600_000

    table.put("orphan")
    log = DeltaLog("", storage=CountingStorage(table.log.storage, pass_hours))
    vacuum(log, clock=lambda: table.clock() + late_ms, batch_files=1)
    assert seen == [1, 1]
    assert runs_open_in(table) == []


def test_a_change_of_the_metadata_between_start_and_end_is_no_obstacle(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")

    def meddle(_number: int, method: str, _path: str, when: str) -> None:
        if (method, when) == ("delete_many", "after"):
            metadata = table.log.snapshot().metadata
            create_commit(table.log.storage, table.log.log_directory, 4, [metadata])

    vacuum(DeltaLog("", storage=CountingStorage(table.log.storage, meddle)), clock=table.clock)
    assert [name for name, *_ in vacuums(table)] == ["VACUUM START", "VACUUM END"]


def test_a_table_that_we_cannot_write_rows_to_has_a_history_too(tmp_path: Path) -> None:
    table, _ = with_vectors(tmp_path / "t", [file("x", 0)], [gone("x", 0, 8)])
    vacuum(table.log, clock=table.clock)
    assert [name for name, *_ in vacuums(table)] == ["VACUUM START", "VACUUM END"]
    assert DeltaTable(str(table.root)).version() == 4


def test_no_commit_goes_to_a_table_of_an_unknown_feature(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    unknown = Protocol(
        min_reader_version=1, min_writer_version=7, writer_features=("coordinatedCommits-preview",)
    )
    create_commit(table.log.storage, table.log.log_directory, 3, [unknown])
    before = table.files()
    with pytest.raises(Exception, match="cannot be vacuumed: it uses coordinatedCommits-preview"):
        vacuum(table.log, clock=table.clock)
    assert table.files() == before
