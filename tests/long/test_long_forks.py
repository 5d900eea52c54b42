"""Many children of a process whose threads constantly read and commit."""

from __future__ import annotations

from pathlib import Path

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.support.busy_table import BusyTable
from tests.support.forked import call_in_child, needs_fork
from tests.support.servers.s3 import S3Server

pytestmark = [pytest.mark.long, needs_fork]
ROUNDS = 8
CHILDREN = 25


@pytest.mark.parametrize(("place", "rounds"), [("on a disk", ROUNDS), ("on S3", ROUNDS // 5)])
def test_no_child_hangs_and_no_row_is_lost(
    tmp_path: Path, s3_server: S3Server, place: str, rounds: int
) -> None:
    for number in range(rounds):
        log = (
            DeltaLog(tmp_path / f"{number}")
            if place == "on a disk"
            else DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
        )
        table = BusyTable(log)
        with table.used():
            assert all(call_in_child(table.use) for _ in range(CHILDREN))
        assert da.to_table(log).num_rows == 1 + CHILDREN + table.num_commits
