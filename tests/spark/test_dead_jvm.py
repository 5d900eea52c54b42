"""A JVM that dies during a write: a clear error in the run, and no row in the table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from delta_ops import DeltaLog
from tests.support.tables import rows_by_deltalake

pytestmark = [pytest.mark.spark, pytest.mark.long]
PROJECT = Path(__file__).resolve().parents[2]


def materialize(lake: Path, how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.dead_jvm", str(lake), how],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_run_whose_jvm_died_says_so_and_the_next_one_writes(tmp_path: Path) -> None:
    reported = materialize(tmp_path, "kill")
    assert "Spark's JVM has ended before it was done, and nothing was committed" in reported
    assert DeltaLog(tmp_path / "numbers").snapshot_if_exists() is None
    assert materialize(tmp_path, "live") == ""
    assert sorted(row["id"] for row in rows_by_deltalake(tmp_path / "numbers")) == [0, 1, 2]
