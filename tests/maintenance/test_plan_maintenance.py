"""The maintenance plan: the due operations, and that they come to an end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, TableNotFoundError, UnsupportedFeatureError
from delta_ops.events import Committed, Event
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import (
    HealthThresholds,
    MaintenancePlan,
    clean_up_log,
    create_checkpoint,
    health,
    maintain,
    optimize,
    plan_maintenance,
    vacuum,
)
from delta_ops.protocol.actions import Protocol
from tests.maintenance.aged_tables import Table, fragmented, overwritten, reopened, undescribed
from tests.support.built_once import built_once
from tests.support.counting_storage import CountingStorage


def plan(table: Table) -> MaintenancePlan:
    return plan_maintenance(table.log, clock=table.clock)


def run_all(table: Table) -> None:
    """All operations in their order, due or not."""
    vacuum(table.log, clock=table.clock)
    optimize(table.log, clock=table.clock)
    table.date()
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    clean_up_log(table.log, clock=table.clock)


@built_once(reopened)
def busy_table(root: Path, /, interval: int = 1000) -> Table:
    """Appends and overwrites over 60 days, without any maintenance."""
    table = Table(root)
    for number in range(12):
        table.write(
            [number],
            "ab"[number % 2],
            "overwrite" if number % 5 == 4 else "append",
            partition_by=["p"] if number == 0 else None,
            configuration={"delta.checkpointInterval": str(interval)},
        )
        table.pass_time(days=5)
    return table


def test_a_new_table_has_no_work(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.write([1])
    assert plan(table).operations == ()
    assert not plan(table).has_work


def test_a_neglected_table_has_work_of_every_kind(tmp_path: Path) -> None:
    table = busy_table(tmp_path / "t", interval=3)
    for version in (9, 6):
        (table.root / "_delta_log" / f"{version:020d}.checkpoint.parquet").unlink()
    found = plan(table)
    assert found.operations == ("vacuum", "optimize", "checkpoint", "clean_up_log")
    assert (found.version, found.commits_since_checkpoint) == (11, 8)
    assert (found.small_files, found.expired_tombstones, found.deletable_log_files) == (2, 9, 6)


def test_after_all_operations_in_their_order_there_is_no_work(tmp_path: Path) -> None:
    table = busy_table(tmp_path / "t")
    before = table.rows()
    run_all(table)
    assert not plan(table).has_work
    assert table.rows() == before


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "interval",
    [
        pytest.param(1, id="with a checkpoint at every commit"),
        pytest.param(3, id="with a checkpoint now and then"),
        pytest.param(1000, id="without checkpoints"),
    ],
)
def test_running_what_is_due_comes_to_an_end(tmp_path: Path, interval: int) -> None:
    table = busy_table(tmp_path / "t", interval)
    for _ in range(3):
        maintain(table.log, clock=table.clock)
        table.date()
    version = table.log.snapshot().version
    assert not plan(table).has_work
    table.pass_time(days=3)
    assert plan(table).operations in ((), ("clean_up_log",))
    maintain(table.log, clock=table.clock)
    assert table.log.snapshot().version == version


def test_a_quiet_table_whose_files_expire_is_vacuumed_once(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.write([1], configuration={"delta.checkpointInterval": "1"})
    table.write([2], mode="overwrite")
    table.pass_time(days=8)
    assert plan(table).operations == ("vacuum",)
    vacuum(table.log, clock=table.clock, log_commits=False)
    found = plan(table)
    assert (found.expired_tombstones, found.operations) == (1, ())


def test_a_vacuum_that_was_killed_after_its_first_commit_is_due_again(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.write([1], configuration={"delta.checkpointInterval": "1"})
    table.write([2], mode="overwrite")
    table.pass_time(days=8)
    with pytest.raises(KeyboardInterrupt):
        vacuum(table.log, clock=table.clock, on_event=interrupting)
    assert table.log.snapshot().version == 2
    assert "vacuum" in plan(table).operations
    vacuum(table.log, clock=table.clock)
    assert plan(table).operations == ()


def interrupting(event: Event) -> None:
    if isinstance(event, Committed):
        raise KeyboardInterrupt


def many_removed(root: Path, count: int) -> Table:
    table = Table(root)
    table.write([0], configuration={"delta.checkpointInterval": "1000"})
    for number in range(count):
        table.write([number])
    table.write([1], mode="overwrite")
    table.pass_time(days=8)
    return table


def test_a_vacuum_that_was_killed_is_due_again(tmp_path: Path) -> None:
    table = many_removed(tmp_path / "t", 25)
    doomed = [info.path for info in vacuum(table.log, clock=table.clock, dry_run=True).plan.files]
    for path in doomed[:-1]:
        (table.root / path).unlink()
    assert plan(table).operations == ("vacuum",)
    (table.root / doomed[-1]).unlink()
    assert plan(table).operations == ()


@pytest.mark.parametrize(
    "spare",
    [
        pytest.param(lambda t, p: os.utime(p, None), id="was written again"),
        pytest.param(lambda t, p: p.unlink(), id="is gone"),
    ],
)
def test_a_removed_file_that_vacuum_would_not_delete_does_not_make_it_due(
    tmp_path: Path, spare: object
) -> None:
    table = many_removed(tmp_path / "t", 0)
    (place,) = [info.path for info in vacuum(table.log, clock=table.clock, dry_run=True).plan.files]
    assert callable(spare)
    spare(table, table.root / place)
    assert plan(table).operations == ()


def test_files_kept_on_request_do_not_make_vacuum_due(tmp_path: Path) -> None:
    table = many_removed(tmp_path / "t", 0)
    doomed = [info.path for info in vacuum(table.log, clock=table.clock, dry_run=True).plan.files]
    assert not plan_maintenance(table.log, clock=table.clock, keep=doomed).has_work


def test_clean_up_is_not_due_where_the_property_turns_it_off(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    properties = {"delta.enableExpiredLogCleanup": "false", "delta.checkpointInterval": "1"}
    table.write([1], configuration=properties)
    table.write([], mode="append")
    table.pass_time(days=60)
    found = plan(table)
    assert (found.deletable_log_files, found.operations) == (2, ())


def test_asking_is_cheap(tmp_path: Path) -> None:
    table = many_removed(tmp_path / "t", 24)
    calls: list[str] = []
    storage = CountingStorage(
        table.log.storage,
        lambda _n, method, path, when: calls.append(method) if when == "before" else None,
    )
    create_checkpoint(table.log, clock=lambda: 0)
    vacuum(table.log, clock=table.clock)
    plan_maintenance(DeltaLog("", storage=storage), clock=table.clock)
    assert "list_tree" not in calls
    # The log, the directory of the files, the tags, and the indexes.
    assert calls.count("list_from") == 4
    assert calls.count("stat") <= 16
    assert len(calls) <= 16 + 9


def test_a_snapshot_will_do(tmp_path: Path) -> None:
    table = busy_table(tmp_path / "t")
    assert plan_maintenance(table.log.snapshot(), clock=table.clock) == plan(table)


def test_refused_where_maintenance_would_be(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    with pytest.raises(TableNotFoundError):
        plan(table)
    table.write([1])
    table.put("_delta_ops/format.json", b'{"version": 2}')
    with pytest.raises(UnsupportedFeatureError, match="version 2"):
        plan(table)


@pytest.mark.parametrize("operations", [["checkpoint", "vaccum"], "vacuum"], ids=["typo", "text"])
def test_an_operation_that_there_is_not_is_refused_before_any_other(
    tmp_path: Path, operations: Any
) -> None:
    table = busy_table(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match=r"'?vacuum'?, '?optimize"):
        maintain(table.log, operations=operations)
    assert table.log.snapshot().checkpoint is None


@pytest.mark.parametrize("make", [busy_table, fragmented, overwritten, undescribed])
def test_health_with_the_thresholds_of_the_plan_has_the_same_due(
    tmp_path: Path, make: Callable[[Path], Table]
) -> None:
    table = make(tmp_path / "t")
    limits = HealthThresholds(
        small_files=1, commit_bytes_since_checkpoint=sys.maxsize, stats_coverage=0
    )
    found = plan(table)
    report = health(table.log, thresholds=limits, clock=table.clock)
    assert report.operations == found.operations
    assert report.figures.mergeable_files == found.small_files
    assert report.figures.expired_tombstones == found.expired_tombstones


def test_a_table_whose_rows_we_cannot_write_gets_what_needs_no_rows(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(12):
        table.write([number], hooks=())
    table.write([98], mode="overwrite", hooks=())
    table.write([99], hooks=())
    preview = Protocol(
        min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp-preview",)
    )
    create_commit(table.log.storage, table.log.log_directory, 14, [preview])
    table.pass_time(days=60)
    with pytest.raises(UnsupportedFeatureError, match="inCommitTimestamp-preview"):
        optimize(table.log)
    before = table.rows()
    found = plan(table)
    assert found.operations == ("vacuum", "checkpoint")
    assert found.refused == {"optimize": ("inCommitTimestamp-preview",)}
    result = maintain(table.log, clock=table.clock)
    assert result.figures["vacuumed_files"] == 12
    assert result.figures["checkpoints_written"] == 1
    assert table.rows() == before
    assert not plan(table).has_work
