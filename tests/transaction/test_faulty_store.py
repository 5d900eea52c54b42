"""Processes that race on a store with lost requests and answers; the long tests have more."""

from __future__ import annotations

from pathlib import Path

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.support.racing_writers import check, race
from tests.support.tables import rows, rows_by_deltalake


@pytest.mark.full
def test_every_acknowledged_commit_is_there_once_whatever_the_store_does(tmp_path: Path) -> None:
    ran = race(str(tmp_path / "t"), {}, writers=2, commits=30, seed=1)
    assert len(ran.writes) == 60
    assert ran.injected["lost request of create"]
    assert ran.injected["lost answer of create"]
    log = DeltaLog(tmp_path / "t")
    check(ran, log)
    assert rows_by_deltalake(tmp_path / "t") == rows(da.to_table(log))
