"""The tables below a prefix, as assets from state."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster.components.testing.utils import DefsFolderSandbox

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.components import DeltaLakeComponent
from delta_ops.components.lake_state import LakeTable, write_lake_state
from delta_ops.components.maintenance_policies import PolicyAttributes
from delta_ops.orchestration import DeltaIOManager
from tests.components.defs_files import loaded, specs_by_key
from tests.support.tables import add, write_log

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})


def lake_defs(component: DeltaLakeComponent, state: Path | None, **more: Any) -> dg.Definitions:
    """The component's definitions for a saved state, merged with other definitions."""
    context = dg.ComponentTree.for_test().load_context
    built = component.build_defs_from_state(context, state)
    return dg.Definitions.merge(built, dg.Definitions(**more)) if more else built


def refreshed(component: DeltaLakeComponent, folder: Path) -> Path:
    state = folder / "state"
    component.write_state_to_path(state)
    return state


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake of two tables; one needs maintenance."""
    root = tmp_path / "lake"
    for _ in range(12):
        da.write(root / "sales" / "orders", ROWS)
    da.write(root / "my table=1", ROWS)
    return root


def test_tables_are_assets_by_their_paths_with_columns_and_places(
    lake: Path, tmp_path: Path
) -> None:
    component = DeltaLakeComponent(root=str(lake), key_prefix="silver/eu")
    state = refreshed(component, tmp_path)
    shutil.rmtree(lake)
    specs = specs_by_key(lake_defs(component, state))
    assert sorted(specs) == ["silver/eu/my_table_1", "silver/eu/sales/orders"]
    orders = specs["silver/eu/sales/orders"]
    assert orders.kinds == {"deltalake"}
    assert orders.metadata["dagster/uri"].value == f"{lake}/sales/orders"
    columns = orders.metadata["dagster/column_schema"].columns
    assert [column.name for column in columns] == ["id", "day"]


def test_texts_of_a_table_are_no_markdown(tmp_path: Path) -> None:
    reported = "![x](http://tracker.example/a.png) <b>"
    write_lake_state(tmp_path / "state", [LakeTable(path="t", description=reported)])
    spec = specs_by_key(lake_defs(DeltaLakeComponent(root="/lake"), tmp_path / "state"))["t"]
    assert spec.description is not None
    assert r"\[x\]" in spec.description
    assert r"\<b>" in spec.description


def test_a_found_table_is_read_checked_and_followed(
    lake: Path, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    component = DeltaLakeComponent(root=str(lake), check_cron="0 6 * * *")

    @dg.asset(ins={"orders": dg.AssetIn(key=["sales", "orders"])})
    def sizes(orders: pa.Table) -> pa.Table:
        return pa.table({"rows": [orders.num_rows]})

    defs = lake_defs(
        component,
        refreshed(component, tmp_path),
        assets=[sizes],
        jobs=[dg.define_asset_job("read", selection=[sizes])],
        resources={"io_manager": DeltaIOManager(root=str(lake))},
    )
    assert defs.resolve_job_def("read").execute_in_process(instance=instance).success
    assert da.to_table(DeltaLog(lake / "sizes"))["rows"].to_pylist() == [24]

    shutil.rmtree(lake / "my table=1")
    result = defs.resolve_job_def("lake_checks").execute_in_process(instance=instance)
    found = {each.asset_key.path[-1]: each for each in result.get_asset_check_evaluations()}
    assert {name: (each.passed, each.severity.name) for name, each in found.items()} == {
        "orders": (False, "WARN"),
        "my_table_1": (False, "ERROR"),
    }
    assert "small" in (found["orders"].description or "")
    assert "not a Delta table" in (found["my_table_1"].description or "")

    sensor = defs.resolve_sensor_def("lake_commit_sensor")
    context = dg.build_sensor_context(instance, definitions=defs)
    first = sensor.evaluate_tick(context)
    da.write(lake / "sales" / "orders", ROWS)
    context = dg.build_sensor_context(instance, cursor=first.cursor, definitions=defs)
    event, health = sensor.evaluate_tick(context).asset_events
    assert event.asset_key == health.asset_key == dg.AssetKey(["sales", "orders"])
    assert event.metadata["delta/version"].value == 12
    assert isinstance(health, dg.AssetCheckEvaluation)
    assert (health.check_name, health.passed) == ("health", False)


@pytest.mark.filterwarnings("ignore:Parameter `owners`")  # Dagster's warning when it copies the job
def test_policies_bring_the_jobs_that_look_after_the_tables(
    lake: Path, sandbox: DefsFolderSandbox, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    policies = [
        {"tables": "*", "cron": None},
        {"tables": "sales/*", "thresholds": {"small_files": 5}, "name": "busy"},
    ]
    attributes = {"root": str(lake), "policies": policies, "name": "silver", "switched_on": True}
    with loaded(sandbox, "DeltaLakeComponent", attributes) as (component, _):
        defs = lake_defs(component, refreshed(component, tmp_path))
    sensors = {each.name: each.default_status for each in defs.sensors or ()}
    assert sensors == {
        "silver_commit_sensor": dg.DefaultSensorStatus.RUNNING,
        "silver_maintenance_sensor": dg.DefaultSensorStatus.RUNNING,
    }
    assert [each.name for each in defs.schedules or ()] == ["silver_maintenance_busy_schedule"]
    job = defs.resolve_job_def("silver_maintenance_busy")
    assert job.execute_in_process(instance=instance).success
    assert DeltaLog(lake / "sales" / "orders").snapshot().num_files < 5


def test_a_table_that_is_gone_does_not_keep_the_others_from_being_loaded(
    lake: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policies = [
        PolicyAttributes(tables=["sales/lost", "sales/orders"]),
        PolicyAttributes(tables="lost"),
    ]
    component = DeltaLakeComponent(root=str(lake), policies=policies)
    with caplog.at_level(logging.WARNING):
        defs = lake_defs(component, refreshed(component, tmp_path))
    assert "sales/orders" in specs_by_key(defs)
    jobs = {job.name for job in defs.jobs or ()}
    assert "lake_maintenance_sales_lost" in jobs
    assert "lake_maintenance_lost" not in jobs
    assert "a policy names 'sales/lost', which is not a table" in caplog.text
    assert "a policy names 'lost', which is not a table" in caplog.text


def test_without_state_there_are_no_assets_and_a_sentence_that_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        defs = lake_defs(DeltaLakeComponent(root="/nowhere"), None)
    assert specs_by_key(defs) == {}
    assert "dg utils refresh-defs-state" in caplog.text


def test_each_choice_of_tables_has_a_state_of_its_own() -> None:
    chosen = [
        DeltaLakeComponent(root="/lake"),
        DeltaLakeComponent(root="/lake", include=["a/*"]),
        DeltaLakeComponent(root="/lake", exclude=["a/*"]),
        DeltaLakeComponent(root="/other"),
    ]
    assert len({each.defs_state_config.key for each in chosen}) == 4
    assert chosen[0].defs_state_config.key == "DeltaLakeComponent[/lake]"


@pytest.mark.parametrize("num_tables", [50, pytest.param(1000, marks=pytest.mark.full)])
def test_many_tables_are_loaded_from_state_without_a_store(
    tmp_path: Path, report: Callable[[str], None], num_tables: int
) -> None:
    lake = tmp_path / "lake"
    for number in range(num_tables):
        write_log(lake / f"zone_{number % 10}" / f"table_{number}", [[add("a.parquet")]])
    policies = [{"tables": "*", "cron": "0 3 * * *"}]
    component = DeltaLakeComponent.from_attributes_dict(
        attributes={"root": str(lake), "policies": policies, "check_cron": "0 6 * * *"}
    )
    began = time.process_time()
    state = refreshed(component, tmp_path)
    refresh_s = time.process_time() - began
    shutil.rmtree(lake)
    began = time.process_time()
    repository = lake_defs(component, state).get_repository_def()
    load_s = time.process_time() - began
    assert len(repository.asset_graph.get_all_asset_keys()) == num_tables
    report(
        f"{num_tables} tables: found in {refresh_s:.1f} s, "
        f"loaded from state in {load_s:.1f} s of CPU"
    )
