"""Maintenance by policies in YAML."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from dagster.components.testing.utils import DefsFolderSandbox

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.components.attributes import AttributeRefusedError
from delta_ops.components.maintenance_policies import (
    PolicyAttributes,
    ThresholdAttributes,
    policies_from,
)
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import HealthThresholds
from delta_ops.orchestration import MaintenancePolicy
from tests.components.defs_files import loaded

ROWS = pa.table({"id": [1, 2]})
ASSETS = """
import dagster as dg


@dg.asset(key_prefix="sales")
def returns() -> None: ...
"""


@pytest.mark.filterwarnings("ignore:Parameter `owners`")  # Dagster's warning when it copies the job
def test_policies_become_jobs_schedules_sensors_and_checks_of_the_assets(
    sandbox: DefsFolderSandbox, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    for _ in range(6):
        da.write(tmp_path / "sales" / "orders", ROWS)
    (sandbox.defs_folder_path / "assets.py").write_text(ASSETS)
    attributes = {
        "root": str(tmp_path),
        "tables": ["sales/orders"],
        "assets_from": ["assets.py"],
        "policies": [
            {"tables": "*", "cron": None, "operations": ["checkpoint", "vacuum"]},
            {"tables": "sales/orders", "thresholds": {"small_files": 5}, "name": "orders"},
        ],
    }
    with loaded(sandbox, "DeltaMaintenanceComponent", attributes) as (_, defs):
        jobs = {job.name for job in defs.jobs or ()}
        assert {"delta_maintenance", "delta_maintenance_orders", "delta_restore"} <= jobs
        assert [each.name for each in defs.schedules or ()] == ["delta_maintenance_orders_schedule"]
        assert {each.name for each in defs.sensors or ()} == {
            "delta_commit_sensor",
            "delta_maintenance_sensor",
        }
        checked = {key.asset_key for each in defs.asset_checks or () for key in each.check_keys}
        assert checked == {dg.AssetKey(["sales", name]) for name in ("orders", "returns")}
        assert not defs.assets
        assert sorted(defs.resources or {}) == ["delta_log"]
        job = defs.resolve_job_def("delta_maintenance_orders")
        assert job.execute_in_process(instance=instance).success
    assert DeltaLog(tmp_path / "sales" / "orders").snapshot().num_files == 1


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        pytest.param("DeltaTableComponent", {"uri": "{root}/a", "asset": {"key": "a"}}, id="table"),
        pytest.param("DeltaLakeComponent", {"root": "{root}"}, id="lake"),
    ],
)
def test_a_table_of_another_component_keeps_one_check_of_its_health(
    sandbox: DefsFolderSandbox, tmp_path: Path, kind: str, attributes: dict[str, Any]
) -> None:
    da.write(tmp_path / "a", ROWS)
    text = yaml.safe_dump({"type": f"delta_ops.components.{kind}", "attributes": attributes})
    folder = sandbox.defs_folder_path / "other"
    folder.mkdir()
    (folder / "defs.yaml").write_text(text.replace("{root}", str(tmp_path)))
    attributes = {"root": str(tmp_path), "tables": ["a"], "assets_from": []}
    with loaded(sandbox, "DeltaMaintenanceComponent", attributes) as (_, defs):
        assert list(defs.asset_checks or ()) == []
    attributes["with_checks"] = ["columns"]
    with loaded(sandbox, "DeltaMaintenanceComponent", attributes) as (_, defs):
        (checks,) = defs.asset_checks or ()
        assert [key.name for key in checks.check_keys] == ["columns_are_unchanged"]
    attributes["with_checks"] = ["health", "columns"]
    with (
        pytest.raises(Exception, match="Error while building definitions") as raised,
        loaded(sandbox, "DeltaMaintenanceComponent", attributes),
    ):
        pass
    assert isinstance(raised.value.__cause__, AttributeRefusedError)
    assert "a has the check health from another component" in str(raised.value.__cause__)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"tables": []}, "tables: there is no table to maintain", id="no table"),
        pytest.param({"name": "my lake"}, "name: 'my lake' is the prefix", id="a name"),
        pytest.param(
            {"policies": [{}, {"cron": "at noon"}]},
            "policies.1.cron: 'at noon' in the zone 'UTC' is not a cron schedule",
            id="a time that is none",
        ),
        pytest.param(
            {"policies": [{"tables": "sales*"}]},
            r"policies.0: a policy cannot be for 'sales\*'",
            id="a pattern that is none",
        ),
        pytest.param(
            {"policies": [{"tables": "sales/order"}]},
            "policies: a policy names 'sales/order', which is not a table",
            id="a table that there is not",
        ),
    ],
)
def test_a_mistake_names_file_and_attribute(
    sandbox: DefsFolderSandbox, changes: dict[str, Any], message: str
) -> None:
    attributes = {"root": "/lake", "tables": ["sales/orders"], **changes}
    with (
        pytest.raises(Exception, match="Error while") as caught,
        loaded(sandbox, "DeltaMaintenanceComponent", attributes),
    ):
        pass
    error = caught.value.__cause__
    assert isinstance(error, InvalidRequestError)
    with pytest.raises(InvalidRequestError, match=rf"defs/lake\S*: {message}"):
        raise error


def test_policies_have_the_fields_and_defaults_of_the_python_class() -> None:
    assert policies_from([PolicyAttributes()]) == [
        MaintenancePolicy(owners=[])  # a list, as YAML has it
    ]
    assert set(PolicyAttributes.model_fields) == {f.name for f in fields(MaintenancePolicy)}
    assert set(ThresholdAttributes.model_fields) == {f.name for f in fields(HealthThresholds)}
    data = PolicyAttributes(thresholds=ThresholdAttributes(small_files=50))
    assert data.policy().thresholds == HealthThresholds(small_files=50)
