"""Runs of Dagster's daemon whose steps are killed: sessions, releases and reproductions.

The multiprocess executor runs each step in a process, one step dies by SIGKILL at a named point,
and the daemon itself executes the run again from its failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.versioning import list_branches, list_releases, list_sessions
from tests.orchestration import killed_releases, killed_reproductions
from tests.orchestration.daemon_home import DaemonHome
from tests.orchestration.session_jobs import (
    AFTER_COMMIT,
    AFTER_ROWS,
    BEFORE_COMMIT,
    BEFORE_ROWS,
)
from tests.orchestration.test_killed_releases import codes_of_release
from tests.support.tables import rows_by_deltalake

pytestmark = pytest.mark.long

PROJECT = Path(__file__).resolve().parents[2]
SETTINGS = """
run_retries: {enabled: true, max_retries: 1}
run_coordinator: {module: dagster.core.run_coordinator, class: QueuedRunCoordinator}
telemetry: {enabled: false}
"""
SESSIONS = """
import dagster as dg
from tests.orchestration.session_jobs import load_orders

defs = dg.Definitions(jobs=[load_orders()])
"""
RELEASES = """
import os
from tests.orchestration.killed_releases import definitions

defs = definitions(os.environ["LAKE"] + "/releases")
"""
REPRODUCTIONS = "from tests.orchestration.killed_reproductions import defs"
IN_PROCESSES = {
    "multiprocess": {
        "max_concurrent": 2,
        "start_method": {"forkserver": {"preload_modules": ["delta_ops.orchestration"]}},
    }
}
LAUNCHED, RETRIED = 1, 2
"""How many runs a launch makes, without and with a retry."""


@dataclass(frozen=True, slots=True)
class Lake:
    """Tables, and a daemon that runs a job over them."""

    root: Path
    home: DaemonHome
    instance: dg.DagsterInstance
    resource: str
    """The resource that has the folder of the tables."""

    def launch(self, job: str, num_runs: int, **tags: str) -> dg.DagsterRun:
        """Launch a run; return the last of the runs that the daemon makes of it."""
        known = {run.run_id for run in self.instance.get_runs()}
        config = {
            "execution": {"config": IN_PROCESSES},
            "resources": {self.resource: {"config": {"root": str(self.root)}}},
        }
        given = {"test/lake": str(self.root)} | {f"test/{name}": tag for name, tag in tags.items()}
        reproduced = given.pop("test/reproduce", None)
        given |= {} if reproduced is None else {"delta_ops/reproduce": reproduced}
        options = ["--tags", json.dumps(given), "--config-json", json.dumps(config)]
        self.home.run("job", "launch", "-j", job, *options)

        def runs() -> list[dg.DagsterRun]:
            return [run for run in self.instance.get_runs() if run.run_id not in known]

        self.home.wait_until(
            lambda: len(runs()) == num_runs and all(run.is_finished for run in runs())
        )
        newest, *killed = runs()
        assert newest.is_success
        assert [run.status for run in killed] == [dg.DagsterRunStatus.FAILURE] * (num_runs - 1)
        return newest


@contextmanager
def lake_of(root: Path, location: str, resource: str) -> Iterator[Lake]:
    lake = root / "lake"
    lake.mkdir()
    variables = {"LAKE": str(lake), "PYTHONPATH": str(PROJECT)}
    home = DaemonHome(root / "home", location, SETTINGS, variables)
    with dg.DagsterInstance.from_config(str(home.root)) as instance, home.daemon():
        yield Lake(lake, home, instance, resource)


@pytest.mark.parametrize(
    ("point", "num_runs"),
    [
        *((point, RETRIED) for point in (BEFORE_ROWS, AFTER_ROWS, BEFORE_COMMIT, AFTER_COMMIT)),
        ("when the rows are on main", LAUNCHED),  # killed once, and the op has a retry
    ],
)
def test_the_daemon_completes_a_session_whose_step_was_killed(
    tmp_path: Path, point: str, num_runs: int
) -> None:
    with lake_of(tmp_path, SESSIONS, "lake") as lake:
        log = DeltaLog(lake.root / "orders")
        da.write(log, pa.table({"id": pa.array([0], pa.int64())}))
        lake.launch("load_orders", num_runs, fail_at=point, failures="2")
        assert len(list(lake.root.glob(f"{point} *.failed"))) == num_runs
        assert sorted(row["id"] for row in rows_by_deltalake(lake.root / "orders")) == [0, 1, 2, 3]
        assert (log.snapshot().version, list_sessions(log)) == (1, [])


@pytest.mark.parametrize("point", killed_releases.POINTS)
def test_the_daemon_completes_a_release_whose_step_was_killed(tmp_path: Path, point: str) -> None:
    with lake_of(tmp_path, RELEASES, "io_manager") as lake:
        lake.launch("write_shop", LAUNCHED, code="first")
        lake.launch("write_shop", RETRIED, code="second", kill_at=point)
        assert (lake.root / "orders.killed").exists()
        assert codes_of_release(lake.root) == ["second", "second"]
        assert [each.number for each in list_releases(lake.root / "releases")] == [1, 2]


@pytest.mark.parametrize("point", killed_reproductions.POINTS)
def test_the_daemon_completes_a_reproduction_whose_step_was_killed(
    tmp_path: Path, point: str
) -> None:
    with lake_of(tmp_path, REPRODUCTIONS, "io_manager") as lake:
        named = lake.launch("write_totals", LAUNCHED, code="first")
        lake.launch("write_totals", LAUNCHED, code="second")
        tags: dict[str, Any] = {"code": "first", "reproduce": named.run_id}
        last = lake.launch("write_totals", RETRIED, kill_at=point, **tags)
        assert (lake.root / "orders.killed").exists()
        (record,) = lake.instance.fetch_materializations(dg.AssetKey("totals"), limit=1).records
        event = record.asset_materialization
        assert event is not None
        assert event.metadata["delta/reproduction"].value == "equal"
        codes = sorted(row["code"] for row in rows_by_deltalake(lake.root / "totals"))
        assert codes == ["first", "second"]
        names = {each.name for each in list_branches(lake.root / "totals")}
        assert f"reproduce/totals/{last.run_id}" in names
