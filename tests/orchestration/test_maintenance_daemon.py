"""Maintenance by Dagster's own daemon: a queue that nobody empties loses nothing, and the sensor
asks for the runs that are missing, and for no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.orchestration import maintenance_config

ROWS = pa.table({"x": [1, 2, 3]})
DEFINITIONS = """
import os
import dagster as dg
from delta_ops.orchestration import (
    DeltaIOManager, DeltaLogResource, MaintenancePolicy, delta_ops_definitions
)

lake = DeltaLogResource(root=os.environ["DELTA_OPS_TEST_LAKE"])
tables = [dg.AssetSpec(name) for name in ("files", "log", "fine")]
defs = dg.Definitions.merge(
    dg.Definitions(assets=tables, resources={"io_manager": DeltaIOManager(lake=lake)}),
    delta_ops_definitions(lake, tables, [MaintenancePolicy(cron=None)], switched_on=True),
)
"""
SETTINGS = """
telemetry:
  enabled: false
run_coordinator:
  module: dagster.core.run_coordinator
  class: QueuedRunCoordinator
"""
PATIENCE_S = 300


class Home:
    """A home of Dagster, with the code of a location."""

    def __init__(self, root: Path) -> None:
        self.root, self.lake = root / "home", root / "lake"
        self.root.mkdir()
        self.code = self.root / "location.py"
        self.code.write_text(DEFINITIONS)
        (self.root / "dagster.yaml").write_text(SETTINGS)
        variables = {"DAGSTER_HOME": str(self.root), "DELTA_OPS_TEST_LAKE": str(self.lake)}
        self.environment = {**os.environ, **variables}

    def command(self, program: str, *arguments: str) -> list[str]:
        return [str(Path(sys.executable).parent / program), *arguments, "-f", str(self.code)]

    def launch(self, job: str, config: dict[str, Any]) -> None:
        """Hand a run of a job to the queue."""
        command = self.command("dagster", "job", "launch", "-j", job)
        command += ["--config-json", json.dumps(config)]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """A daemon that runs within it, with its code server and runs in a group of its own."""
        with (self.root / "daemon.log").open("a") as output:
            process = subprocess.Popen(
                self.command("dagster-daemon", "run"),
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(PATIENCE_S)

    def wait_until(self, is_so: Callable[[], object]) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < ends, (self.root / "daemon.log").read_text()[-5000:]
            time.sleep(0.2)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Tables with ten small files, with a log without a checkpoint, and one that needs nothing."""
    made = Home(tmp_path)
    for _ in range(10):
        da.write(made.lake / "files", ROWS)
    for _ in range(3):
        interval = {"delta.checkpointInterval": "2"}
        da.write(made.lake / "log", ROWS, "overwrite", configuration=interval, hooks=())
    da.write(made.lake / "fine", ROWS)
    return made


def test_the_daemon_does_what_waits_and_what_is_due(home: Home) -> None:
    files, log = DeltaLog(home.lake / "files"), DeltaLog(home.lake / "log")
    home.launch("delta_maintenance", maintenance_config(["files"]))
    with dg.DagsterInstance.from_config(str(home.root)) as instance:

        def runs() -> list[tuple[str, str]]:
            return sorted((run.job_name, run.status.value) for run in instance.get_runs())

        assert runs() == [("delta_maintenance", "QUEUED")]
        assert files.snapshot().num_files == 10
        done = [("delta_log_maintenance", "SUCCESS"), ("delta_maintenance", "SUCCESS")]
        with home.daemon():
            home.wait_until(lambda: runs() == done)
        events = {
            name: len(instance.fetch_observations(dg.AssetKey(name), limit=9).records)
            for name in ("files", "log", "fine")
        }
    assert events == {"files": 1, "log": 1, "fine": 0}
    assert files.snapshot().num_files == 1
    assert log.snapshot().commits_since_checkpoint == 0
    assert da.to_table(files).num_rows == 30
