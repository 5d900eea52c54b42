"""Eight processes with fifty commits each, on stores where every tenth call fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from delta_ops import DeltaLog
from tests.support.racing_writers import check, race
from tests.support.servers.s3 import S3Server
from tests.support.tables import rows_by_deltalake

pytestmark = pytest.mark.long


def test_on_a_disk_every_acknowledged_commit_is_there_once(
    tmp_path: Path, report: Callable[[str], None]
) -> None:
    table = tmp_path / "t"
    ran = race(str(table), {}, writers=8, commits=50, seed=2)
    report(f"8 writers on a faulty disk: {ran}")
    check(ran, DeltaLog(table))
    assert len(ran.writes) == 400
    acknowledged = sum(write.is_acknowledged for write in ran.writes)
    assert len(rows_by_deltalake(table)) >= 3 * acknowledged


def test_on_an_object_store_every_acknowledged_commit_is_there_once(
    s3_server: S3Server, report: Callable[[str], None]
) -> None:
    uri = f"s3://{s3_server.new_bucket()}/t"
    ran = race(uri, s3_server.storage_options, writers=8, commits=50, seed=3)
    report(f"8 writers on a faulty S3 server: {ran}")
    check(ran, DeltaLog(uri, s3_server.storage_options))
    assert len(ran.writes) == 400
