"""Clocks that are set back or ahead: no needed file is deleted, and nothing breaks."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, HOUR_MS
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.maintenance import clean_up_log, create_checkpoint, health, vacuum
from delta_ops.maintenance.plan import plan_maintenance
from delta_ops.protocol.actions import SetTransaction
from tests.maintenance.aged_tables import NOW, Table, overwritten
from tests.support.tables import add, metadata, remove, rows_by_deltalake, write_log

YEAR_10000 = 253_402_300_800_000
STEPS = [
    pytest.param(NOW + 8 * DAY_MS - HOUR_MS, id="an hour back"),
    pytest.param(NOW + 7 * DAY_MS, id="a day back"),
    pytest.param(-DAY_MS, id="before the epoch"),
    pytest.param(YEAR_10000 + DAY_MS, id="beyond year 10000"),
]


@pytest.mark.parametrize("stepped_ms", STEPS)
def test_a_clock_that_steps_after_a_vacuum_looked_changes_nothing_that_goes(
    tmp_path: Path, stepped_ms: int
) -> None:
    table, model = overwritten(tmp_path / "t"), overwritten(tmp_path / "m")
    rows = table.rows()
    times = iter([table.now_ms])
    stepping = vacuum(table.log, clock=lambda: next(times, stepped_ms))
    steady = vacuum(model.log, clock=model.clock)
    assert stepping.deleted_files == steady.deleted_files == 2
    assert table.rows() == rows_by_deltalake(table.root) == rows


@pytest.mark.parametrize(
    "now_ms",
    [
        pytest.param(NOW - HOUR_MS, id="an hour before the first commit"),
        pytest.param(-DAY_MS, id="before the epoch"),
    ],
)
def test_by_a_clock_that_is_behind_nothing_goes(tmp_path: Path, now_ms: int) -> None:
    table = overwritten(tmp_path / "t")
    before = table.files()
    create_checkpoint(table.log, clock=lambda: now_ms)
    vacuum(table.log, clock=lambda: now_ms)
    clean_up_log(table.log, clock=lambda: now_ms)
    assert before <= table.files()
    assert table.rows(0) == [{"id": 1, "p": "a"}]


@pytest.mark.parametrize("behind_ms", [40 * DAY_MS, NOW + DAY_MS])
def test_files_removed_with_a_late_clock_stay_for_the_retention(
    tmp_path: Path, behind_ms: int
) -> None:
    """Its tombstones seem to have expired long ago; the store has the real commit times."""
    table = Table(tmp_path / "t")
    table.write([1])
    os_clock = table.clock
    table.pass_time(days=20)
    table.clock = lambda: table.now_ms - behind_ms  # type: ignore[method-assign]
    table.write([2], mode="overwrite")
    table.clock = os_clock  # type: ignore[method-assign]
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    table.pass_time(days=6)
    vacuum(table.log, clock=table.clock)
    assert table.rows(0) == [{"id": 1, "p": "a"}]
    table.pass_time(days=2)
    assert vacuum(table.log, clock=table.clock).deleted_files == 1


FUTURE_MS = [
    pytest.param(NOW + DAY_MS, id="tomorrow"),
    pytest.param(YEAR_10000 + DAY_MS, id="beyond year 10000"),
    pytest.param(2**63 - 1, id="the last of all times"),
]


def table_from_the_future(root: Path, time_ms: int) -> DeltaLog:
    """Its writer's clock was ahead when it removed a file and committed a txn."""
    configuration = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    txn = SetTransaction(app_id="a", version=1, last_updated=time_ms)
    of_table = metadata(configuration=configuration)
    gone = remove("x", deletion_timestamp=time_ms)
    return write_log(root, [[of_table, add("x"), add("y")], [gone, txn]])


@pytest.mark.parametrize("time_ms", FUTURE_MS)
def test_a_checkpoint_keeps_what_expires_in_the_future(tmp_path: Path, time_ms: int) -> None:
    log = table_from_the_future(tmp_path, time_ms)
    write_checkpoint(log.snapshot(), now_ms=NOW)
    (place,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    stored = pq.read_table(place)
    assert [r["deletionTimestamp"] for r in stored["remove"].to_pylist() if r] == [time_ms]
    assert [t["lastUpdated"] for t in stored["txn"].to_pylist() if t] == [time_ms]
    assert DeltaLog(tmp_path).snapshot().transactions()["a"].version == 1


@pytest.mark.parametrize(
    ("time_ms", "now_ms"),
    [
        pytest.param(NOW + DAY_MS, NOW, id="tomorrow, today"),
        pytest.param(YEAR_10000 + DAY_MS, YEAR_10000 + 2 * DAY_MS, id="both beyond year 10000"),
        pytest.param(2**63 - 1, -DAY_MS, id="the last of all times, before the epoch"),
        pytest.param(2**63 - 1, NOW, id="the last of all times, today"),
    ],
)
def test_maintenance_takes_every_time_that_a_log_can_have(
    tmp_path: Path, time_ms: int, now_ms: int
) -> None:
    log = table_from_the_future(tmp_path, time_ms)
    health(log, clock=lambda: now_ms)
    plan_maintenance(log, clock=lambda: now_ms)
    vacuum(log, clock=lambda: now_ms, dry_run=True)
    clean_up_log(log, clock=lambda: now_ms, dry_run=True)
    assert create_checkpoint(log, clock=lambda: now_ms)


def test_a_clean_up_by_a_clock_that_went_back_keeps_what_its_clock_promises(
    tmp_path: Path,
) -> None:
    table = Table(tmp_path / "t")
    for number in range(6):
        table.write([number], configuration={"delta.checkpointInterval": "2"})
        table.pass_time(days=10)
    rows = table.rows()
    ahead_ms = table.now_ms
    behind = clean_up_log(table.log, clock=lambda: ahead_ms - 25 * DAY_MS)
    right = clean_up_log(table.log, clock=lambda: ahead_ms)
    assert behind.plan.boundary_version is None
    assert right.plan.boundary_version == 2
    assert not clean_up_log(table.log, clock=lambda: ahead_ms - 25 * DAY_MS).plan.has_work
    assert table.rows() == rows_by_deltalake(table.root) == rows
