"""Checkpoints on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.events import Progress
from delta_ops.maintenance import checkpoint_due, create_checkpoint, plan_checkpoint
from tests.maintenance.aged_tables import Table
from tests.support.tables import rows_by_deltalake


def commits(root: Path, count: int, interval: int = 100) -> Table:
    table = Table(root)
    for number in range(count):
        table.write([number], configuration={"delta.checkpointInterval": str(interval)})
    return table


def test_the_latest_version_gets_its_checkpoint_and_others_read_it(tmp_path: Path) -> None:
    table = commits(tmp_path / "t", 3)
    result = create_checkpoint(table.log, clock=table.clock)
    assert result.written is not None
    assert (result.written.version, result.written.num_add_files) == (2, 3)
    hint = json.loads((table.root / "_delta_log" / "_last_checkpoint").read_text())
    assert hint["version"] == 2
    for version in range(2):
        (table.root / "_delta_log" / f"{version:020d}.json").unlink()
    assert rows_by_deltalake(table.root) == table.rows() != []


def test_a_version_that_has_one_gets_no_other(tmp_path: Path) -> None:
    table = commits(tmp_path / "t", 3)
    create_checkpoint(table.log, clock=table.clock)
    again = create_checkpoint(table.log, clock=table.clock)
    assert (again.plan.has_work, again.written) == (False, None)


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    table = commits(tmp_path / "t", 3)
    before = table.files()
    result = create_checkpoint(table.log, clock=table.clock, dry_run=True)
    assert (result.plan.has_work, result.written, table.files()) == (True, None, before)


def test_expired_tombstones_stay_out(tmp_path: Path) -> None:
    table = commits(tmp_path / "t", 3)
    table.write([9], mode="overwrite")
    table.pass_time(days=6)
    table.write([10], mode="overwrite")
    table.pass_time(days=2)
    result = create_checkpoint(table.log, clock=table.clock)
    assert result.written is not None
    assert result.written.expired_tombstones == 3
    assert len(table.log.snapshot().tombstones()) == 1


@pytest.mark.parametrize(
    ("count", "due"),
    [
        pytest.param(3, False, id="less than the interval"),
        pytest.param(4, True, id="as many as the interval"),
    ],
)
def test_due_by_the_commits_since_the_last_one(tmp_path: Path, count: int, due: bool) -> None:
    table = commits(tmp_path / "t", count, interval=4)
    assert checkpoint_due(table.log.snapshot()) is due


def test_without_a_table_there_is_nothing_to_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        create_checkpoint(Table(tmp_path / "t").log)


def test_the_hook_and_the_request_write_the_checkpoint_kind_of_the_table(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    properties = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "3"}
    for number in range(5):
        table.write([number], configuration=properties)
    assert plan_checkpoint(table.log.snapshot()).kind == "v2"
    events: list[object] = []
    result = create_checkpoint(table.log, clock=table.clock, on_event=events.append)
    assert result.written is not None
    assert (result.written.kind, result.written.num_add_files) == ("v2", 5)
    log = tmp_path / "t" / "_delta_log"
    assert {path.name[:20] for path in log.glob("*.checkpoint.*.json")} == {
        f"{3:020d}",
        f"{4:020d}",
    }
    assert not list(log.glob("*.checkpoint*.parquet"))
    assert [event.done for event in events if isinstance(event, Progress)][-1] == 5
    assert [row["id"] for row in table.rows()] == [0, 1, 2, 3, 4]


def test_parts_are_refused_where_the_table_must_not_have_them(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.write([1], configuration={"delta.checkpointPolicy": "v2"})
    with pytest.raises(InvalidRequestError, match="leave part_rows out"):
        create_checkpoint(table.log, part_rows=1)
