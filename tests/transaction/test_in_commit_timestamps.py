"""In-commit timestamps: each commit's own time, later than its predecessor's."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, ddl
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import CommitConflictError, LogCorruptError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import clean_up_log
from delta_ops.protocol.actions import CommitInfo
from delta_ops.transaction import Transaction
from tests.support.tables import rows, rows_by_deltalake

ENABLED = {"delta.enableInCommitTimestamps": "true"}


def ids(*values: int) -> pa.Table:
    return pa.table({"id": list(values)})


def first_lines(root: Path) -> list[dict[str, Any]]:
    files = sorted((root / "_delta_log").glob("*.json"))
    return [json.loads(each.read_text().splitlines()[0]) for each in files]


def times(root: Path) -> list[int]:
    return [line["commitInfo"]["inCommitTimestamp"] for line in first_lines(root)]


def append_at(log: DeltaLog, now_ms: int) -> None:
    txn = begin(log, clock=lambda: now_ms)
    txn.stage(da.stage_write(txn, ids(now_ms)))
    txn.commit(operation="WRITE")


def test_a_new_table_gets_the_feature_and_its_first_time(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1), configuration=ENABLED)
    protocol = DeltaLog(tmp_path).snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 7)
    assert "inCommitTimestamp" in (protocol.writer_features or ())
    (time,) = times(tmp_path)
    assert first_lines(tmp_path)[0]["commitInfo"]["timestamp"] == time
    assert rows_by_deltalake(tmp_path) == [{"id": 1}]


def test_times_grow_whatever_the_clock_says(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1), configuration=ENABLED)
    log = DeltaLog(tmp_path)
    for now_ms in (5, 7, 0):
        append_at(log, now_ms)
    (first, *later) = times(tmp_path)
    assert later == [first + 1, first + 2, first + 3]
    assert [entry.timestamp_ms for entry in log.history()] == [*reversed(later), first]


def slow_append(root: Path) -> tuple[Transaction, int]:
    """An append with a stopped clock to a table of one version, and that version's time."""
    da.write(root, ids(1), configuration=ENABLED)
    (first,) = times(root)
    slow = begin(DeltaLog(root), clock=lambda: 0)
    slow.stage(da.stage_write(slow, ids(2)))
    return slow, first


def test_the_loser_of_a_race_gets_a_time_after_the_winner(tmp_path: Path) -> None:
    slow, first = slow_append(tmp_path)
    append_at(slow.log, first + 1000)
    slow.commit(operation="WRITE")
    assert times(tmp_path) == [first, first + 1000, first + 1001]


def test_a_winner_without_its_time_does_not_turn_time_back(tmp_path: Path) -> None:
    slow, first = slow_append(tmp_path)
    foreign = CommitInfo(values={"operation": "none"})
    create_commit(slow.log.storage, slow.log.log_directory, 1, [foreign])
    slow.commit(operation="WRITE")
    assert first_lines(tmp_path)[2]["commitInfo"]["inCommitTimestamp"] == first + 1


def test_without_the_property_there_is_no_such_time(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1))
    assert "inCommitTimestamp" not in first_lines(tmp_path)[0]["commitInfo"]


def test_a_commit_before_ours_without_its_time_is_an_error(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1), configuration=ENABLED)
    path = tmp_path / "_delta_log" / f"{0:020d}.json"
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    with pytest.raises(LogCorruptError, match="no inCommitTimestamp"):
        da.write(tmp_path, ids(2))
    assert rows(da.to_table(DeltaLog(tmp_path))) == [{"id": 1}]


def switch(log: DeltaLog, value: str) -> None:
    txn = begin(log)
    txn.set_properties({"delta.enableInCommitTimestamps": value})
    txn.commit(operation="SET TBLPROPERTIES")


def checksum_of_first(log: DeltaLog) -> tuple[str, str]:
    recorded = log.snapshot().metadata.configuration
    names = ("EnablementVersion", "EnablementTimestamp")
    version, time = (recorded[f"delta.inCommitTimestamp{name}"] for name in names)
    return version, time


def test_they_can_be_switched_on_later_on(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, ids(1))
    switch(log, "true")
    da.write(log, ids(2))
    infos = [line["commitInfo"] for line in first_lines(tmp_path)]
    assert ["inCommitTimestamp" in info for info in infos] == [False, True, True]
    assert checksum_of_first(log) == ("1", str(infos[1]["inCommitTimestamp"]))
    assert infos[1]["inCommitTimestamp"] < infos[2]["inCommitTimestamp"]
    times = [entry.timestamp_ms for entry in log.history()]
    assert times == sorted(times, reverse=True)


def test_they_count_from_where_they_were_switched_on_last(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1), configuration=ENABLED)
    log = DeltaLog(tmp_path)
    switch(log, "false")
    da.write(log, ids(2))
    switch(log, "true")
    assert checksum_of_first(log)[0] == "3"


def test_the_version_is_right_where_a_race_was_lost(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, ids(1))
    txn = begin(log)
    txn.set_properties(ENABLED)
    da.write(log, ids(2))
    assert txn.commit(operation="SET TBLPROPERTIES").version == 2
    assert checksum_of_first(log)[0] == "2"


def test_the_first_time_is_after_the_commit_before(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, ids(1))
    file = tmp_path / "_delta_log" / f"{0:020d}.json"
    later = system_clock() + DAY_MS
    os.utime(file, ns=(later * 1_000_000, later * 1_000_000))
    switch(log, "true")
    assert int(checksum_of_first(log)[1]) == later + 1


def test_a_commit_before_ours_that_is_gone_is_an_error(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1), configuration=ENABLED)
    slow = begin(DeltaLog(tmp_path))
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(LogCorruptError, match="version 0: its commit file is missing"):
        da.write(slow, ids(2))


def test_a_commit_before_ours_that_was_cleaned_up_is_a_lost_race(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1), configuration=ENABLED)
    log = DeltaLog(tmp_path)
    slow = begin(log)
    for value in range(10):
        da.write(log, ids(value))
    clean_up_log(log, clock=lambda: system_clock() + 60 * DAY_MS)
    with pytest.raises(CommitConflictError, match="cleaned up"):
        da.write(slow, ids(2))


def test_the_first_commit_with_a_time_comes_after_the_files_of_winners(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1))
    slow = begin(tmp_path, clock=lambda: 0)
    slow.set_properties(ENABLED)
    da.write(tmp_path, ids(2))
    winner = tmp_path / "_delta_log" / f"{1:020d}.json"
    later_s = winner.stat().st_mtime + 60
    os.utime(winner, (later_s, later_s))
    slow.commit(operation="SET TBLPROPERTIES")
    time = first_lines(tmp_path)[-1]["commitInfo"]["inCommitTimestamp"]
    assert time == winner.stat().st_mtime_ns // 1_000_000 + 1
    between = datetime.fromtimestamp(later_s - 30, UTC)
    assert da.to_table(tmp_path, timestamp=between) == ids(1)


def test_a_table_that_is_replaced_keeps_since_when_commits_carry_their_time(
    tmp_path: Path,
) -> None:
    da.write(tmp_path, ids(1))
    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    earlier_s = first.stat().st_mtime - 60
    os.utime(first, (earlier_s, earlier_s))
    at = datetime.fromtimestamp(earlier_s + 30, UTC)
    ddl.set_properties(tmp_path, ENABLED)
    schema = pa.schema([("id", pa.int64())])
    ddl.create_table(tmp_path, schema, if_exists="replace", properties=ENABLED)
    assert da.to_table(tmp_path, timestamp=at) == ids(1)
    ddl.create_table(tmp_path, schema, if_exists="replace")
    kept = DeltaLog(tmp_path).snapshot().metadata.configuration
    assert not [name for name in kept if "inCommitTimestamp" in name]
