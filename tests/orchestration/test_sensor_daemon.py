"""The commit sensor in Dagster's own daemon: commits of others become events, also those that were
made while it was off, and each once; those that changed rows start a run of what follows them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

KEY = dg.AssetKey("orders")
ROWS = pa.table({"x": [1, 2, 3]})
DEFINITIONS = """
import os
import dagster as dg
from delta_ops.orchestration import (
    TableRef,
    build_commit_sensor,
    external_table,
    on_new_table_version,
)

table = TableRef(asset_key=dg.AssetKey("orders"), uri=os.environ["DELTA_OPS_TEST_TABLE"])
sensor = build_commit_sensor([table], minimum_interval_seconds=1)
automation = dg.AutomationConditionSensorDefinition(
    "automation", target=dg.AssetSelection.all(), minimum_interval_seconds=1
)

@dg.asset(deps=["orders"], automation_condition=on_new_table_version())
def follower():
    pass

defs = dg.Definitions(
    assets=[external_table(table), follower],
    sensors=[sensor, automation],
    executor=dg.in_process_executor,
)
"""
PATIENCE_S = 300


class Home:
    """A home of Dagster with the sensor's code, and the table that it watches."""

    def __init__(self, root: Path) -> None:
        self.root, self.table = root, root / "orders"
        self.code = root / "watched.py"
        self.code.write_text(DEFINITIONS)
        (root / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
        self.environment = {
            **os.environ,
            "DAGSTER_HOME": str(root),
            "DELTA_OPS_TEST_TABLE": str(self.table),
        }

    def command(self, program: str, *arguments: str) -> list[str]:
        return [str(Path(sys.executable).parent / program), *arguments, "-f", str(self.code)]

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """A daemon that runs within it, with its code server in a group of its own."""
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
    made = Home(tmp_path)
    write_deltalake(made.table, ROWS)
    for sensor in ("delta_commit_sensor", "automation"):
        start = made.command("dagster", "sensor", "start", sensor)
        subprocess.run(start, env=made.environment, check=True, capture_output=True)
    return made


def test_commits_of_others_become_events_and_runs(home: Home) -> None:
    with dg.DagsterInstance.from_config(str(home.root)) as instance:

        def told() -> list[int]:
            records = [
                record
                for fetch in (instance.fetch_materializations, instance.fetch_observations)
                for record in fetch(KEY, limit=100).records
            ]
            entries = [r.event_log_entry for r in sorted(records, key=lambda r: r.storage_id)]
            events = [e.asset_materialization or e.asset_observation for e in entries]
            return [int(str(e.metadata["delta/version"].value)) for e in events if e]

        def num_runs() -> int:
            return len(instance.get_runs())

        def all_have_ended() -> bool:
            return all(run.is_finished for run in instance.get_runs())

        def num_evaluations() -> int:
            (state,) = [
                each
                for each in instance.all_instigator_state()
                if each.instigator_name == "automation"
            ]
            return len(instance.get_ticks(state.instigator_origin_id, state.selector_id))

        def wait_for_evaluations() -> None:
            before = num_evaluations()
            home.wait_until(lambda: num_evaluations() >= before + 3)

        with home.daemon():
            home.wait_until(lambda: told() == [0])
            wait_for_evaluations()
            home.wait_until(all_have_ended)
            before = num_runs()  # one, if the automation looked before the sensor had told of 0
            write_deltalake(home.table, ROWS, mode="append")
            home.wait_until(lambda: told() == [0, 1])
            home.wait_until(lambda: num_runs() == before + 1 and all_have_ended())
            DeltaTable(home.table).optimize.compact()
            home.wait_until(lambda: told() == [0, 1, 2])
            wait_for_evaluations()
            assert num_runs() == before + 1
        write_deltalake(home.table, ROWS, mode="append")
        DeltaTable(home.table).optimize.compact()
        assert told() == [0, 1, 2]
        with home.daemon():
            home.wait_until(lambda: told()[-1] == 4)
            home.wait_until(lambda: num_runs() == before + 2 and all_have_ended())
        assert told() == [0, 1, 2, 3, 4]
        assert all(run.is_success for run in instance.get_runs())
        latest = instance.get_latest_materialization_event(KEY)
    assert latest is not None
    assert latest.asset_materialization is not None
    tag = latest.asset_materialization.tags
    assert tag is not None
    assert tag["dagster/data_version"].endswith("@3")
