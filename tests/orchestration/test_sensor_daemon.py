"""The commit sensor in Dagster's own daemon: each foreign commit becomes one event, even a commit
from before the start; commits that changed rows start a run of the downstream assets."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.orchestration.daemon_home import DaemonHome

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
on = dg.DefaultSensorStatus.RUNNING
sensor = build_commit_sensor([table], minimum_interval_seconds=1, default_status=on)
automation = dg.AutomationConditionSensorDefinition(
    "automation",
    target=dg.AssetSelection.all(),
    minimum_interval_seconds=1,
    default_status=on,
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
SETTINGS = "telemetry:\n  enabled: false\n"


@pytest.mark.parametrize(
    "is_restarted",
    [
        pytest.param(False, id="a daemon that goes on", marks=pytest.mark.full),
        pytest.param(True, id="and one that was off for a while", marks=pytest.mark.full),
    ],
)
def test_commits_of_others_become_events_and_runs(tmp_path: Path, is_restarted: bool) -> None:
    table = tmp_path / "orders"
    write_deltalake(table, ROWS)
    home = DaemonHome(
        tmp_path / "home", DEFINITIONS, SETTINGS, {"DELTA_OPS_TEST_TABLE": str(table)}
    )
    with dg.DagsterInstance.from_config(str(home.root)) as instance:

        def reported() -> list[int]:
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
            states = [
                each
                for each in instance.all_instigator_state()
                if each.instigator_name == "automation"
            ]
            return sum(
                len(instance.get_ticks(each.instigator_origin_id, each.selector_id))
                for each in states
            )

        def wait_for_evaluations() -> None:
            before = num_evaluations()
            home.wait_until(lambda: num_evaluations() >= before + 3)

        with home.daemon():
            home.wait_until(lambda: reported() == [0])
            wait_for_evaluations()
            home.wait_until(all_have_ended)
            before = num_runs()  # 1 if the automation ran before the sensor reported version 0
            write_deltalake(table, ROWS, mode="append")
            home.wait_until(lambda: reported() == [0, 1])
            home.wait_until(lambda: num_runs() == before + 1 and all_have_ended())
            DeltaTable(table).optimize.compact()
            home.wait_until(lambda: reported() == [0, 1, 2])
            wait_for_evaluations()
            assert num_runs() == before + 1
        changed = 1
        if is_restarted:
            write_deltalake(table, ROWS, mode="append")
            DeltaTable(table).optimize.compact()
            assert reported() == [0, 1, 2]
            with home.daemon():
                home.wait_until(lambda: reported()[-1] == 4)
                home.wait_until(lambda: num_runs() == before + 2 and all_have_ended())
            assert reported() == [0, 1, 2, 3, 4]
            changed = 3
        assert all(run.is_success for run in instance.get_runs())
        latest = instance.get_latest_materialization_event(KEY)
    assert latest is not None
    assert latest.asset_materialization is not None
    tag = latest.asset_materialization.tags
    assert tag is not None
    assert tag["dagster/data_version"].endswith(f"@{changed}")
