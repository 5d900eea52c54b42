"""Spark Connect: reads and writes on a client of a real server, in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

CHECKS = Path(__file__).with_name("connect_checks.py")


@pytest.mark.parametrize(
    "checks",
    [
        pytest.param("not full", id="what is different on a client"),
        pytest.param("full", id="all others", marks=pytest.mark.full),
    ],
)
def test_checks_hold_on_a_session_of_connect(tmp_path: Path, checks: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-m", checks]
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'checks'}", str(CHECKS)],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "SPARK_TESTING": "1"},  # PySpark's server then takes any free port
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
