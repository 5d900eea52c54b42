"""Maintenance by Dagster's own daemon: an unprocessed queue loses nothing. The sensor requests only
the missing runs, and reports its findings to the checks."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.orchestration import maintenance_config
from delta_ops.orchestration.dagster_compat import latest_check_states
from tests.orchestration.daemon_home import DaemonHome

ROWS = pa.table({"x": [1, 2, 3]})
DEFINITIONS = """
import os
import dagster as dg
from delta_ops.maintenance import HealthThresholds
from delta_ops.orchestration import (
    DeltaIOManager, DeltaLogResource, MaintenancePolicy, delta_ops_definitions
)

lake = DeltaLogResource(root=os.environ["DELTA_OPS_TEST_LAKE"])
tables = [dg.AssetSpec(name) for name in ("files", "log", "fine", "named")]
policies = [
    MaintenancePolicy(cron=None),
    MaintenancePolicy(
        tables=(), name="hot", thresholds=HealthThresholds(small_files=2), cron=None
    ),
]
defs = dg.Definitions.merge(
    dg.Definitions(assets=tables, resources={"io_manager": DeltaIOManager(lake=lake)}),
    delta_ops_definitions(lake, tables, policies, switched_on=True),
)
"""
SETTINGS = """
telemetry:
  enabled: false
run_coordinator:
  module: dagster.core.run_coordinator
  class: QueuedRunCoordinator
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Tables with ten small files, with a log without a checkpoint, without need of maintenance,
    and with a policy of its own."""
    for _ in range(10):
        da.write(tmp_path / "files", ROWS)
    for _ in range(3):
        interval = {"delta.checkpointInterval": "2"}
        da.write(tmp_path / "log", ROWS, "overwrite", configuration=interval, hooks=())
    da.write(tmp_path / "fine", ROWS)
    for _ in range(2):
        da.write(tmp_path / "named", ROWS, configuration={"delta_ops.policy": "hot"})
    return tmp_path


def test_the_daemon_does_what_waits_and_what_is_due(lake: Path) -> None:
    home = DaemonHome(lake / "home", DEFINITIONS, SETTINGS, {"DELTA_OPS_TEST_LAKE": str(lake)})
    files, log = DeltaLog(lake / "files"), DeltaLog(lake / "log")
    config = json.dumps(maintenance_config(["files"]))
    home.run("job", "launch", "-j", "delta_maintenance", "--config-json", config)
    with dg.DagsterInstance.from_config(str(home.root)) as instance:

        def runs() -> list[tuple[str, str]]:
            return sorted((run.job_name, run.status.value) for run in instance.get_runs())

        assert runs() == [("delta_maintenance", "QUEUED")]
        assert files.snapshot().num_files == 10
        jobs = ("delta_log_maintenance", "delta_maintenance", "delta_maintenance_hot")
        done = [(job, "SUCCESS") for job in jobs]
        with home.daemon():
            home.wait_until(lambda: runs() == done)
        events = {
            name: len(instance.fetch_observations(dg.AssetKey(name), limit=9).records)
            for name in ("files", "log", "fine", "named")
        }
        keys = [dg.AssetCheckKey(dg.AssetKey(name), "health") for name in ("files", "log", "fine")]
        states = latest_check_states(instance, keys)
        assert [state and state.passed for state in states.values()] == [True, True, True]
    assert events == {"files": 1, "log": 1, "fine": 0, "named": 1}
    assert files.snapshot().num_files == 1
    assert DeltaLog(lake / "named").snapshot().num_files == 1
    assert log.snapshot().commits_since_checkpoint == 0
    assert da.to_table(files).num_rows == 30
