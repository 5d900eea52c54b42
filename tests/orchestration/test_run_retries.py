"""Retries of runs by Dagster's own daemon, after killed steps."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from tests.orchestration.killed_reruns import AFTER, BETWEEN, WAYS
from tests.support.process_groups import end_group
from tests.support.tables import rows_by_deltalake

PROJECT = Path(__file__).resolve().parents[2]
LOCATION = ["-m", "tests.orchestration.daemon_location"]
SETTINGS = """
run_retries: {enabled: true, max_retries: 1}
run_coordinator: {module: dagster.core.run_coordinator, class: QueuedRunCoordinator}
telemetry: {enabled: false}
"""
PATIENCE_S = 300


@contextmanager
def daemon(home: Path) -> Iterator[None]:
    """Dagster's daemon and its code servers, which all end with the block."""
    with (home / "daemon.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dagster._daemon", "run", *LOCATION],
            cwd=PROJECT,
            env=environment(home),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield
        finally:
            end_group(process)


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "DAGSTER_HOME": str(home), "PYTHONPATH": str(PROJECT)}


def launch(home: Path, lake: Path, point: str) -> None:
    tags = {"test/lake": str(lake), "test/code": "first", "test/kill_at": point}
    config = {"resources": {"io_manager": {"config": {"root": str(lake)}}}}
    options = ["-j", "write_all", "--tags", json.dumps(tags), "--config-json", json.dumps(config)]
    command = [sys.executable, "-m", "dagster", "job", "launch", *LOCATION, *options]
    subprocess.run(command, cwd=PROJECT, env=environment(home), check=True)


def finished_retry(instance: dg.DagsterInstance) -> dg.DagsterRun:
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        for run in instance.get_runs(dg.RunsFilter(tags={"dagster/retry_number": "1"})):
            if run.is_finished:
                return run
        time.sleep(1)
    raise TimeoutError(f"no retry has finished in {PATIENCE_S} s")


@pytest.mark.long
@pytest.mark.parametrize("point", [BETWEEN, AFTER])
def test_a_retry_of_the_daemon_finds_what_the_killed_run_committed(
    tmp_path: Path, point: str
) -> None:
    home, lake = tmp_path / "home", tmp_path / "lake"
    home.mkdir()
    lake.mkdir()
    (home / "dagster.yaml").write_text(SETTINGS)
    with daemon(home), dg.DagsterInstance.from_config(str(home)) as instance:
        launch(home, lake, point)
        assert finished_retry(instance).is_success
        for way in WAYS:
            assert (lake / f"{way}.killed").exists()
            assert len(rows_by_deltalake(lake / way)) == 1
            assert len(data_versions(instance, way)) == 1


def data_versions(instance: dg.DagsterInstance, way: str) -> set[str]:
    """The data versions of an asset's materializations."""
    records = instance.fetch_materializations(dg.AssetKey(way), limit=9).records
    events = [record.asset_materialization for record in records]
    return {(e.tags or {})["dagster/data_version"] for e in events if e}
