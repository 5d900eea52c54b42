"""A step of the multiprocess executor, killed once before, during or after its commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.test_killed_steps import check_kills

pytestmark = pytest.mark.long


@pytest.mark.parametrize("point", ["WriteStarted", "DataFilesStaged", "Committed"])
def test_a_step_killed_once_leaves_the_rows_of_an_unharmed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv("LAKE", str(tmp_path))
    monkeypatch.setenv("KILL_AT", point)
    check_kills(tmp_path, [point])
