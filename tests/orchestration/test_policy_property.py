"""Policies that tables name by their property `delta_ops.policy`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import HealthThresholds
from delta_ops.orchestration import (
    DeltaLogResource,
    MaintenancePolicy,
    TableRef,
    delta_ops_definitions,
)
from delta_ops.orchestration.maintenance.fleet_job import fleet_config
from delta_ops.orchestration.policies.choice import POLICY_PROPERTY, due_operations
from delta_ops.orchestration.policies.maintenance_config import maintenance_config
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage

ROWS = pa.table({"x": [1, 2, 3]})
HOT = MaintenancePolicy(tables=(), name="hot", thresholds=HealthThresholds(small_files=2))
LAZY = MaintenancePolicy(thresholds=HealthThresholds(small_files=1000))


def written(root: Path, name: str, policy: str | None = None, files: int = 3) -> TableRef:
    data = {} if policy is None else {POLICY_PROPERTY: policy}
    for _ in range(files):
        da.write(root / name, ROWS, configuration=data or None, hooks=())
    return TableRef(asset_key=dg.AssetKey(name.split("/")), uri=str(root / name))


def definitions(root: Path, tables: list[TableRef], *policies: MaintenancePolicy) -> dg.Definitions:
    return delta_ops_definitions(DeltaLogResource(root=str(root)), tables, policies)


def tick(defs: dg.Definitions, instance: dg.DagsterInstance) -> Any:
    sensor = defs.resolve_sensor_def("delta_maintenance_sensor")
    return sensor.evaluate_tick(dg.build_sensor_context(instance))


def access_to(found: Any) -> dict[str, str]:
    return {
        name: request.job_name
        for request in found.run_requests or ()
        for name in request.run_config["ops"]["maintain_tables"]["config"]["tables"]
    }


def num_files(table: TableRef) -> int:
    return table.log().snapshot().num_files


def test_the_sensor_requests_the_job_of_the_policy_that_a_table_names(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [written(tmp_path, "hot", "hot"), written(tmp_path, "cold")]
    found = tick(definitions(tmp_path, tables, LAZY, HOT), instance)
    assert access_to(found) == {"hot": "delta_maintenance_hot"}


def test_a_policy_for_the_very_key_comes_before_the_property(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [written(tmp_path, name, "hot") for name in ("sales/a", "sales/b")]
    never = MaintenancePolicy(tables="sales/a", name="never", operations=())
    below = MaintenancePolicy(tables="sales/*", operations=["vacuum"])
    found = tick(definitions(tmp_path, tables, never, below, HOT), instance)
    assert access_to(found) == {"sales/b": "delta_maintenance_hot"}


def test_a_table_can_name_a_policy_that_runs_nothing(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [written(tmp_path, "still", "still"), written(tmp_path, "other")]
    eager = MaintenancePolicy(thresholds=HealthThresholds(small_files=2))
    still = MaintenancePolicy(tables=(), name="still", operations=())
    found = tick(definitions(tmp_path, tables, eager, still), instance)
    assert access_to(found) == {"other": "delta_maintenance"}


def test_a_name_of_no_policy_is_reported_and_the_next_policy_counts(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = written(tmp_path, "t", "hit", files=1)
    found = tick(definitions(tmp_path, [table], LAZY, HOT), instance)
    assert not found.run_requests
    assert (
        "t: its property delta_ops.policy names 'hit', which is not a policy; the closest name "
        "is 'hot'"
    ) in found.skip_message


def test_a_scheduled_run_looks_after_the_tables_whose_policy_is_its_own(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    hot, cold = written(tmp_path, "hot", "hot"), written(tmp_path, "cold")
    eager = MaintenancePolicy(thresholds=HealthThresholds(small_files=2))
    defs = definitions(tmp_path, [hot, cold], eager, HOT)
    assert defs.resolve_job_def("delta_maintenance").execute_in_process(instance=instance).success
    assert (num_files(hot), num_files(cold)) == (3, 1)
    done = defs.resolve_job_def("delta_maintenance_hot").execute_in_process(instance=instance)
    assert (num_files(hot), num_files(cold)) == (1, 1)
    (step,) = [event for event in done.all_events if event.is_step_success]
    assert step.step_key == "maintain_tables"
    observed = [event.asset_key for event in done.get_asset_observation_events()]
    assert [None if key is None else key.to_user_string() for key in observed] == ["hot"]


@pytest.mark.parametrize("operations", [[], ["optimize"]])
def test_a_run_for_a_table_by_name_is_by_the_policy_of_its_job(
    tmp_path: Path, instance: dg.DagsterInstance, operations: list[str]
) -> None:
    table = written(tmp_path, "t", "hot")
    eager = MaintenancePolicy(thresholds=HealthThresholds(small_files=2))
    lazy = MaintenancePolicy(tables=(), name="hot", operations=())
    job = definitions(tmp_path, [table], eager, lazy).resolve_job_def("delta_maintenance")
    config = maintenance_config(["t"], operations=operations)
    assert job.execute_in_process(run_config=config, instance=instance).success
    assert num_files(table) == 1


def test_checks_warn_by_the_policy_that_a_table_names(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [written(tmp_path, "hot", "hot"), written(tmp_path, "cold")]
    defs = definitions(tmp_path, tables, LAZY, HOT)
    checks = dg.AssetSelection.all_asset_checks()
    job = dg.Definitions.merge(
        defs, dg.Definitions(jobs=[dg.define_asset_job("look", selection=checks)])
    ).resolve_job_def("look")
    done = job.execute_in_process(instance=instance)
    found = {
        each.asset_key.to_user_string(): each
        for each in done.get_asset_check_evaluations()
        if each.check_name == "health"
    }
    assert {name: each.passed for name, each in found.items()} == {"hot": False, "cold": True}
    assert "/delta_maintenance_hot/" in str(found["hot"].description)


def test_a_fleet_is_looked_after_by_the_policies_of_its_tables(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    asset = written(tmp_path, "asset")
    below, named = written(tmp_path, "below/raw"), written(tmp_path, "named", "hot")
    other = written(tmp_path, "other")
    lake = [
        MaintenancePolicy(tables="asset", thresholds=HealthThresholds(small_files=2)),
        MaintenancePolicy(tables="below/*", thresholds=HealthThresholds(small_files=2)),
        LAZY,
        HOT,
    ]
    job = definitions(tmp_path, [asset], *lake).resolve_job_def("delta_fleet_maintenance")
    assert job.execute_in_process(instance=instance).success
    assert [num_files(table) for table in (asset, below, named, other)] == [1, 1, 1, 3]


def test_a_fleet_runs_only_what_a_policy_allows(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = written(tmp_path, "t")
    never = MaintenancePolicy(thresholds=HealthThresholds(small_files=2), operations=["vacuum"])
    job = definitions(tmp_path, [table], never).resolve_job_def("delta_fleet_maintenance")
    data = job.execute_in_process(
        run_config=fleet_config([str(tmp_path)], small_files=1), instance=instance
    )
    assert data.success
    assert num_files(table) == 3


def test_the_choice_takes_no_call_of_the_storage(tmp_path: Path) -> None:
    table = written(tmp_path, "t", "hot")

    def note(made: list[str], number: int, call: str, path: str, moment: str) -> None:
        made.append(f"{call} {moment}")

    calls: list[list[str]] = []
    for others in ((), (LAZY, HOT)):
        made: list[str] = []
        storage = CountingStorage(open_storage(table.uri), partial(note, made))
        due = due_operations(DeltaLog("", storage=storage), LAZY, name="t", others=others)
        assert due.policy is (HOT if others else LAZY)
        calls.append(made)
    assert calls[0] == calls[1] != []


@pytest.mark.parametrize("tables", [(), []])
def test_a_policy_for_no_key_needs_a_name(tables: Any) -> None:
    with pytest.raises(InvalidRequestError, match="a policy cannot be for ''"):
        MaintenancePolicy(tables=tables)
