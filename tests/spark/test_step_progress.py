"""A step that writes by Spark: its messages in Dagster's log, and the state after termination."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.orchestration import DeltaIOManager
from tests.spark.frames import files_under
from tests.support.instances import new_instance

pytestmark = pytest.mark.spark

LONGEST_START_S = 600
"""Longer than any busy machine needs: a limit for hangs."""


@pytest.mark.full
def test_the_log_says_how_far_a_write_is(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delta_ops.orchestration.io_manager.delta_io_manager.PROGRESS_S", 0.1)

    @dg.asset
    def slow() -> DataFrame:
        slowly = sf.udf(lambda x: (threading.Event().wait(1), x)[1], "long", useArrow=False)
        return spark.range(0, 4, 1, 4).select(slowly("id").alias("id"))

    with new_instance() as instance:
        resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
        result = dg.materialize([slow], instance=instance, resources=resources)
        messages = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert any("of 4 tasks done" in each for each in messages)


@pytest.mark.full
def test_a_terminated_step_ends_its_jobs_and_leaves_nothing(tmp_path: Path) -> None:
    lake, home = tmp_path / "lake", tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-m", "tests.spark.endless_step"]
    environment = {**os.environ, "LAKE": str(lake), "DAGSTER_HOME": str(home)}
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + LONGEST_START_S
        while not files_under(lake):
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        started = _descendants(run.pid)
        assert any("java" in _command(pid) for pid in started)
        run.send_signal(signal.SIGTERM)
        reported, _ = run.communicate(timeout=LONGEST_START_S)
    finally:
        for pid in (*_descendants(run.pid), run.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert "success: False" in reported
    assert files_under(lake) == set()
    assert [pid for pid in started if _command(pid)] == []


def _descendants(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, check=True)
    parents = {
        int(pid): int(parent) for pid, parent in map(bytes.split, listed.stdout.splitlines())
    }
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def _command(pid: int) -> str:
    """The command line of a process; "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
