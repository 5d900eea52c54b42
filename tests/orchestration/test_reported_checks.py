"""Checks that maintenance runs and the commit sensor evaluate, without the checks' own op."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.loader import LoadingContextForTest
from deltalake import write_deltalake

import delta_ops.arrow as da
from delta_ops.log import DeltaLog
from delta_ops.maintenance import create_checkpoint, optimize
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    dagster_compat,
    delta_ops_definitions,
    fleet_config,
    maintenance_config,
)
from delta_ops.orchestration.checks import table_checks
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation

ROWS = pa.table({"country": ["BE", "DE", "NL"], "amount": [10, 20, 30]})
RESTORE = {
    "ops": {"restore_table": {"config": {"table": "orders", "version": 0, "dry_run": False}}}
}


@dg.asset(metadata={"delta/mode": "append"})
def orders() -> pa.Table:
    return ROWS


@dg.asset_check(asset=orders)
def amounts_are_positive() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


@pytest.fixture
def location(tmp_path: Path) -> dg.Definitions:
    lake = DeltaLogResource(root=str(tmp_path))
    return dg.Definitions.merge(
        dg.Definitions(
            assets=[orders],
            asset_checks=[amounts_are_positive],
            resources={"io_manager": DeltaIOManager(lake=lake, checkpoint="scheduled")},
            executor=dg.in_process_executor,
        ),
        delta_ops_definitions(lake, [orders], with_checks=["health", "columns", "row_count"]),
    )


class JobOfLocation(InMemoryJob):
    """A job that knows its code location, as the job of a worker does."""

    def __init__(self, name: str, repository: dg.RepositoryDefinition) -> None:
        super().__init__(repository.get_job(name))
        self.repository = repository

    def get_repository_definition(self) -> dg.RepositoryDefinition:
        return self.repository


def run(
    location: dg.Definitions, instance: dg.DagsterInstance, name: str, config: dict[str, Any]
) -> str:
    """Run a job as a worker does; returns the id of the run."""
    job = JobOfLocation(name, location.get_repository_def())
    created = instance.create_run_for_job(job.get_definition(), run_config=config)
    assert execute_run(job, created, instance).success
    return created.run_id


def materialize(location: dg.Definitions, instance: dg.DagsterInstance, runs: int) -> None:
    job = location.resolve_implicit_global_asset_job_def()
    for _ in range(runs):
        assert job.execute_in_process(instance=instance).success


def shown(instance: dg.DagsterInstance) -> dict[str, bool | None]:
    """The results as the UI shows them: None if a check was not evaluated for the newest rows."""
    names = ("amounts_are_positive", "health", "columns_are_unchanged", "row_count_is_plausible")
    keys = [dg.AssetCheckKey(orders.key, name) for name in names]
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    found = {}
    for key, record in records.items():
        is_current = asyncio.run(
            record.targets_latest_materialization(LoadingContextForTest(instance))
        )
        evaluation = record.evaluation
        found[key.name] = evaluation.passed if evaluation is not None and is_current else None
    return found


def tick(
    location: dg.Definitions, instance: dg.DagsterInstance, name: str = "delta_commit_sensor"
) -> list[Any]:
    """A tick of a sensor; reports its events as Dagster's daemon does."""
    sensor = location.resolve_sensor_def(name)
    found = sensor.evaluate_tick(dg.build_sensor_context(instance, definitions=location))
    for event in found.asset_events:
        instance.report_runless_asset_event(event)
    return list(found.asset_events)


def test_a_maintained_table_is_healthy_at_once(
    location: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    materialize(location, instance, 10)
    assert shown(instance)["health"] is False
    run(location, instance, "delta_maintenance", maintenance_config(["orders"], dry_run=True))
    assert shown(instance)["health"] is False
    run(location, instance, "delta_maintenance", maintenance_config(["orders"]))
    assert set(shown(instance).values()) == {True}


def test_before_dagster_1_11_a_result_of_the_maintenance_sensor_has_a_target(
    tmp_path: Path,
    location: dg.Definitions,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dagster_compat, "COMPARES_TARGETS", True)
    materialize(location, instance, 10)
    optimize(tmp_path / "orders")
    create_checkpoint(tmp_path / "orders")
    (evaluation,) = tick(location, instance, "delta_maintenance_sensor")
    assert (evaluation.check_name, evaluation.passed) == ("health", True)
    assert shown(instance)["health"] is True


@pytest.mark.full
def test_a_table_that_the_fleet_job_maintained_is_healthy_at_once(
    tmp_path: Path, location: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    materialize(location, instance, 10)
    assert shown(instance)["health"] is False
    run(location, instance, "delta_fleet_maintenance", fleet_config([str(tmp_path)]))
    assert set(shown(instance).values()) == {True}


def test_a_commit_of_another_writer_leaves_our_checks_evaluated(
    tmp_path: Path, location: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    materialize(location, instance, 1)
    assert tick(location, instance) == []
    write_deltalake(tmp_path / "orders", ROWS, mode="append")
    event, *evaluations = tick(location, instance)
    assert isinstance(event, dg.AssetMaterialization)
    assert len(evaluations) == 3
    assert shown(instance) == {
        "amounts_are_positive": None,  # only the user's code knows
        "health": True,
        "columns_are_unchanged": True,
        "row_count_is_plausible": True,
    }


@pytest.mark.full
@pytest.mark.parametrize(
    "error",
    [
        OSError("the store is away"),
        pytest.param(ValueError("a fault of ours"), marks=pytest.mark.full),
    ],
)
def test_a_check_that_raises_an_error_fails_and_stops_neither_a_tick_nor_a_run(
    tmp_path: Path,
    location: dg.Definitions,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def load(_log: DeltaLog) -> None:
        raise error

    materialize(location, instance, 10)
    write_deltalake(tmp_path / "orders", ROWS, mode="append")
    monkeypatch.setattr(table_checks, "load_figures", load)
    event, *_ = tick(location, instance)
    assert isinstance(event, dg.AssetMaterialization)
    assert (shown(instance)["health"], shown(instance)["columns_are_unchanged"]) == (False, True)
    run(location, instance, "delta_maintenance", maintenance_config(["orders"]))
    assert shown(instance)["health"] is False


def test_rows_that_only_data_files_can_count_are_not_counted_in_a_tick(
    tmp_path: Path, location: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path / "orders", ROWS, configuration={"delta.dataSkippingNumIndexedCols": "0"})
    for path in (tmp_path / "orders" / "_delta_log").glob("*.json"):
        text = path.read_text()
        path.write_text(text.replace('\\"numRecords\\":3', ""))
    (tmp_path / "orders" / "_delta_log" / f"{0:020}.crc").unlink(missing_ok=True)
    names = [e.check_name for e in tick(location, instance) if isinstance(e, AssetCheckEvaluation)]
    assert sorted(names) == ["columns_are_unchanged", "health"]


def test_a_restore_evaluates_all_checks_of_ours(
    location: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    materialize(location, instance, 2)
    run(location, instance, "delta_restore", RESTORE)
    found = shown(instance)
    assert found.pop("amounts_are_positive") is None
    assert None not in found.values()


def test_a_check_of_the_same_name_that_is_not_ours_is_left_alone(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset_check(asset=orders, name="health")
    def own_health() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=False)

    lake = DeltaLogResource(root=str(tmp_path))
    location = dg.Definitions.merge(
        dg.Definitions(assets=[orders], asset_checks=[own_health]),
        delta_ops_definitions(lake, [orders], with_checks=False),
    )
    da.write(tmp_path / "orders", ROWS)
    run(location, instance, "delta_maintenance", maintenance_config(["orders"]))
    assert len(tick(location, instance)) == 1
    assert shown(instance) == {}
