"""Machines with clocks set back or ahead: commits keep their order, and none is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Transaction, begin
from delta_ops.clock import DAY_MS, HOUR_MS, MINUTE_MS, system_clock
from delta_ops.errors import CommitConflictError, LogCorruptError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import clean_up_log, create_checkpoint, vacuum
from delta_ops.protocol.actions import CommitInfo, SetTransaction
from delta_ops.protocol.file_names import commit_name
from delta_ops.transaction import Staged
from delta_ops.transaction.races.vacuum_runs import is_vacuum_open, run_app_id
from tests.support.tables import rows, rows_by_deltalake, write_log

NOW = 1_600_000_000_000
YEAR_10000 = 253_402_300_800_000
STEPS = [
    pytest.param(NOW - HOUR_MS, id="an hour back"),
    pytest.param(NOW - DAY_MS, id="a day back"),
    pytest.param(-DAY_MS, id="before the epoch"),
    pytest.param(YEAR_10000 + DAY_MS, id="beyond year 10000"),
]


def ids(*values: int) -> pa.Table:
    return pa.table({"id": list(values)})


def clock_of(times: Iterator[int], last: int) -> int:
    return next(times, last)


def append(root: Path, value: int, *, begun_ms: int, committed_ms: int) -> None:
    """An append whose clock was changed between its begin and its commit."""
    times = iter([begun_ms])
    txn = begin(DeltaLog(root), clock=lambda: clock_of(times, committed_ms))
    txn.stage(da.stage_write(txn, ids(value)))
    txn.commit(operation="WRITE")


def in_commit_times(log: DeltaLog) -> list[int]:
    return [entry.timestamp_ms for entry in log.history()][::-1]


@pytest.mark.parametrize("stepped_ms", STEPS)
def test_a_clock_that_steps_during_a_commit_changes_nothing_but_its_time(
    tmp_path: Path, stepped_ms: int
) -> None:
    da.write(tmp_path, ids(0))
    append(tmp_path, 1, begun_ms=NOW, committed_ms=stepped_ms)
    append(tmp_path, 2, begun_ms=stepped_ms, committed_ms=NOW)
    log = DeltaLog(tmp_path)
    assert [entry.version for entry in log.history()] == [2, 1, 0]
    assert rows(da.to_table(log.snapshot(1))) == [{"id": 0}, {"id": 1}]
    assert rows_by_deltalake(tmp_path) == [{"id": 0}, {"id": 1}, {"id": 2}]


@pytest.mark.parametrize("stepped_ms", STEPS)
def test_times_within_commits_grow_over_every_step(tmp_path: Path, stepped_ms: int) -> None:
    da.write(tmp_path, ids(0), configuration={"delta.enableInCommitTimestamps": "true"})
    for value, now_ms in enumerate([stepped_ms, NOW, -1], start=1):
        append(tmp_path, value, begun_ms=now_ms, committed_ms=now_ms)
    log = DeltaLog(tmp_path)
    times = in_commit_times(log)
    assert times == sorted(set(times))
    for version, time_ms in enumerate(times):
        if time_ms < YEAR_10000:
            at = datetime.fromtimestamp(time_ms / 1000, UTC)
            assert log.snapshot(timestamp=at).version == version


LAST_MS = 2**63 - 1


def of_the_last_time(root: Path, time_ms: int) -> DeltaLog:
    """A table whose newest commit has such a time."""
    da.write(root, ids(0), configuration={"delta.enableInCommitTimestamps": "true"})
    place = root / "_delta_log" / commit_name(0)
    first, *others = place.read_text().splitlines()
    info = json.loads(first)
    info["commitInfo"]["inCommitTimestamp"] = time_ms
    place.write_text("\n".join([json.dumps(info), *others]))
    for checksum in root.glob("_delta_log/*.crc"):
        checksum.unlink()
    return DeltaLog(root)


@pytest.mark.parametrize("time_ms", [LAST_MS, LAST_MS + 1, 2**70])
def test_a_commit_that_no_time_is_left_for_is_refused_and_leaves_nothing(
    tmp_path: Path, time_ms: int
) -> None:
    log = of_the_last_time(tmp_path, time_ms)
    before = sorted(tmp_path.rglob("*"))
    for mode in ("append", "overwrite"):
        with pytest.raises(
            LogCorruptError, match=r"no later commit is possible.*enableInCommitTimestamps"
        ):
            da.write(log, ids(1), mode)
    assert sorted(tmp_path.rglob("*")) == before
    assert rows(da.to_table(log.snapshot())) == rows_by_deltalake(tmp_path) == [{"id": 0}]
    assert in_commit_times(log) == [time_ms]


def test_the_last_time_of_all_is_taken(tmp_path: Path) -> None:
    log = of_the_last_time(tmp_path, LAST_MS - 1)
    da.write(log, ids(1))
    assert in_commit_times(log) == [LAST_MS - 1, LAST_MS]


def test_a_winner_that_takes_the_last_time_leaves_none(tmp_path: Path) -> None:
    log = of_the_last_time(tmp_path, LAST_MS - 1)
    slow = begin(log)
    slow.stage(da.stage_write(slow, ids(2)))
    da.write(log, ids(1))
    with pytest.raises(LogCorruptError, match="no later commit is possible"):
        slow.commit(operation="WRITE")
    assert not slow.may_be_committed
    assert log.snapshot().version == 1


def test_a_table_without_a_later_time_is_written_again_once_it_demands_none(
    tmp_path: Path,
) -> None:
    log = of_the_last_time(tmp_path, LAST_MS)
    txn = begin(log)
    txn.set_properties({"delta.enableInCommitTimestamps": "false"})
    txn.commit(operation="SET TBLPROPERTIES")
    da.write(log, ids(1))
    assert rows_by_deltalake(tmp_path) == [{"id": 0}, {"id": 1}]


def test_times_of_files_that_go_back_find_the_versions_in_their_order(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[], [], [], []])
    for version, time_ms in enumerate([NOW, NOW - DAY_MS, -DAY_MS, NOW + 1]):
        place = tmp_path / "_delta_log" / commit_name(version)
        os.utime(place, ns=(time_ms * 10**6, time_ms * 10**6))
    found = [
        log.snapshot(timestamp=datetime.fromtimestamp((NOW + ms) / 1000, UTC)).version
        for ms in range(4)
    ]
    assert found == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "step_ms",
    [
        pytest.param(-HOUR_MS, id="an hour back"),
        pytest.param(-NOW - DAY_MS, id="before the epoch"),
    ],
)
def test_a_clock_set_back_does_not_hide_that_the_log_was_cleaned_up(
    tmp_path: Path, step_ms: int
) -> None:
    """Otherwise a commit would be below a checkpoint that lacks it: written, and never read."""
    da.write(tmp_path, ids(0), configuration={"delta.logRetentionDuration": "interval 1 day"})
    times = iter([NOW])
    slow = begin(DeltaLog(tmp_path), clock=lambda: clock_of(times, NOW + step_ms))
    slow.stage(da.stage_write(slow, ids(9)))
    for value in (1, 2, 3):
        da.write(tmp_path, ids(value))
    log = DeltaLog(tmp_path)
    create_checkpoint(log)
    for version in range(4):
        os.utime(tmp_path / "_delta_log" / commit_name(version), (NOW / 1000, NOW / 1000))
    clean_up_log(log)
    assert not (tmp_path / "_delta_log" / commit_name(1)).exists()
    with pytest.raises(CommitConflictError, match="cleaned up"):
        slow.commit(operation="WRITE")
    assert rows(da.to_table(log.snapshot())) == [{"id": 0}, {"id": 1}, {"id": 2}, {"id": 3}]


@pytest.mark.parametrize("ahead_ms", [MINUTE_MS, 40 * DAY_MS, YEAR_10000])
def test_a_vacuum_that_began_in_the_future_is_open(tmp_path: Path, ahead_ms: int) -> None:
    log = write_log(tmp_path, [[]])
    begun = SetTransaction(
        app_id=run_app_id(log.snapshot(), "start"), version=0, last_updated=NOW + ahead_ms
    )
    create_commit(log.storage, log.log_directory, 1, [begun])
    assert is_vacuum_open(log.snapshot(), now_ms=NOW)


def test_a_vacuum_of_another_engine_that_began_in_the_future_is_open(tmp_path: Path) -> None:
    start = CommitInfo(values={"operation": "VACUUM START", "timestamp": 0})
    log = write_log(tmp_path, [[], [start]])
    assert is_vacuum_open(log.snapshot(), now_ms=NOW)


def staged_long_ago(txn: Transaction, value: int, days: int) -> Staged:
    """Files with an earlier store time: a store's clock is behind, or a writer is slow."""
    staged = da.stage_write(txn, ids(value))
    time_ms = system_clock() - days * DAY_MS
    for add in staged.adds:
        os.utime(Path(txn.log.uri) / add.path, (time_ms / 1000, time_ms / 1000))
    return replace(
        staged, adds=tuple(replace(add, modification_time=time_ms) for add in staged.adds)
    )


def test_staged_files_that_a_vacuum_took_for_leftovers_are_not_committed(
    tmp_path: Path,
) -> None:
    """Otherwise the table would name deleted files."""
    da.write(tmp_path, ids(0))
    txn = begin(DeltaLog(tmp_path))
    txn.stage(da.stage_write(txn, ids(1)))
    txn.stage(staged_long_ago(txn, 2, days=40))
    vacuum(DeltaLog(tmp_path))
    with pytest.raises(CommitConflictError, match="vacuum"):
        txn.commit(operation="WRITE")
    assert not txn.may_be_committed
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(DeltaLog(tmp_path))) == [{"id": 0}]


def test_staged_files_that_are_old_and_there_are_committed(tmp_path: Path) -> None:
    da.write(tmp_path, ids(0))
    txn = begin(DeltaLog(tmp_path))
    txn.stage(staged_long_ago(txn, 1, days=40))
    vacuum(DeltaLog(tmp_path), retention=timedelta(days=41))
    txn.commit(operation="WRITE")
    assert rows_by_deltalake(tmp_path) == [{"id": 0}, {"id": 1}]
