"""Vacuum with lost tombstones or wrong removal times: the commits know the removed files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from delta_ops import begin
from delta_ops.clock import DAY_MS, Clock
from delta_ops.errors import InvalidRequestError
from delta_ops.events import Event, Progress
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import create_checkpoint, vacuum
from delta_ops.protocol.file_names import commit_name
from tests.maintenance.aged_tables import NOW, Table
from tests.support.tables import add, remove, write_log

RETENTION = "delta.deletedFileRetentionDuration"


def replaced(root: Path, retention: str | None, *, days_ago: int = 20) -> Table:
    """A table whose first version was replaced this many days ago."""
    configuration = {} if retention is None else {RETENTION: retention}
    table = Table(root)
    table.write([1], configuration=configuration)
    table.pass_time(days=1)
    table.write([2], mode="overwrite")
    table.pass_time(days=days_ago)
    table.write([3])
    return table


def test_a_retention_that_the_writer_of_the_checkpoint_took_for_the_default(
    tmp_path: Path,
) -> None:
    table = replaced(tmp_path, "30 days")  # which deltalake reads as a week
    DeltaTable(str(tmp_path)).create_checkpoint()
    table.date()
    rows = table.rows(0)
    assert len(table.log.snapshot().tombstones()) == 0
    assert vacuum(table.log, clock=table.clock).deleted_files == 0
    assert table.rows(0) == rows
    table.pass_time(days=11)
    assert vacuum(table.log, clock=table.clock).deleted_files == 1


def test_a_retention_that_was_raised_since_the_checkpoint(tmp_path: Path) -> None:
    table = replaced(tmp_path, None)
    create_checkpoint(table.log, clock=table.clock)
    raised = begin(table.log, clock=table.clock)
    raised.set_properties({RETENTION: "30 days"})
    raised.commit(operation="SET TBLPROPERTIES")
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    rows = table.rows(0)
    assert vacuum(table.log, clock=table.clock).deleted_files == 0
    assert table.rows(0) == rows


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize(
    "clock",
    [
        pytest.param(lambda: NOW - 30 * DAY_MS, id="of a clock that is behind"),
        pytest.param(None, id="without a time"),
    ],
)
def test_files_removed_this_week_stay_whatever_the_deletion_timestamp(
    tmp_path: Path, clock: Clock | None, has_checkpoint: bool
) -> None:
    table = Table(tmp_path)
    table.write([1])
    table.pass_time(days=20)
    (old,) = table.log.snapshot().add_files()
    removed = remove(old.path, deletion_timestamp=clock() if clock else None)
    create_commit(table.log.storage, table.log.log_directory, 1, [removed])
    if has_checkpoint:
        create_checkpoint(table.log, clock=table.clock)
    table.date()
    rows = table.rows(0)
    table.pass_time(days=6)
    assert vacuum(table.log, clock=table.clock).deleted_files == 0
    assert table.rows(0) == rows
    table.pass_time(days=2)
    assert vacuum(table.log, clock=table.clock).deleted_files == 1


def test_a_lite_vacuum_goes_by_the_commits_too(tmp_path: Path) -> None:
    table = replaced(tmp_path, "30 days")
    DeltaTable(str(tmp_path)).create_checkpoint()
    table.date()
    vacuum(table.log, mode="lite", clock=table.clock)
    assert len(table.rows(0)) == 1


def test_a_log_that_was_cleaned_up_is_vacuumed_by_its_checkpoint(tmp_path: Path) -> None:
    table = replaced(tmp_path, None)
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    for version in (0, 1):
        (tmp_path / "_delta_log" / commit_name(version)).unlink()
    assert vacuum(table.log, clock=table.clock).deleted_files == 1


@pytest.mark.parametrize(
    ("retention", "hours"),
    [(None, "168"), ("interval 40 minutes", "0.666"), ("interval 30 seconds", "0.008")],
)
def test_a_longer_retention_is_refused_where_the_log_has_a_hole(
    tmp_path: Path, retention: str | None, hours: str
) -> None:
    table = replaced(tmp_path, retention)
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    # A clean-up by file times may leave the oldest commits.
    (tmp_path / "_delta_log" / commit_name(1)).unlink()
    before = table.data_files()
    with pytest.raises(InvalidRequestError, match=f"removed files for only {hours} hours; vacuum"):
        vacuum(table.log, retention=timedelta(days=30), clock=table.clock)
    assert table.data_files() == before


def test_reading_many_commits_reports_progress(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[add(str(number))] for number in range(2)])
    for version in range(2, 1001):
        copied = tmp_path / "_delta_log" / commit_name(version)
        copied.write_bytes((tmp_path / "_delta_log" / commit_name(1)).read_bytes())
    create_checkpoint(log)
    events: list[Event] = []
    vacuum(log, dry_run=True, on_event=events.append)
    assert Progress(table=log.uri, operation="read commits", done=1000, total=1001) in events
