"""Check evaluations that the maintenance sensor reports without runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.maintenance import HealthThresholds, health, optimize
from delta_ops.orchestration import (
    DeltaLogResource,
    MaintenancePolicy,
    TableRef,
    delta_ops_definitions,
)
from delta_ops.orchestration.checks.check_results import AssessedTable, changed_evaluations
from delta_ops.orchestration.dagster_compat import latest_check_states
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation
from tests.support.lost_commits import replace_commit

ROWS = pa.table({"x": [1, 2, 3]})
POLICY = MaintenancePolicy(thresholds=HealthThresholds(small_files=2))


@pytest.fixture
def table(tmp_path: Path) -> TableRef:
    da.write(tmp_path / "t", ROWS)
    return TableRef(asset_key=dg.AssetKey("t"), uri=str(tmp_path / "t"))


def definitions(table: TableRef, **settings: Any) -> dg.Definitions:
    root = str(Path(table.uri).parent)
    return dg.Definitions.merge(
        delta_ops_definitions(DeltaLogResource(root=root), [table], [POLICY], **settings),
        dg.Definitions(
            jobs=[dg.define_asset_job("look", selection=dg.AssetSelection.all_asset_checks())]
        ),
    )


def tick(table: TableRef, instance: dg.DagsterInstance, **settings: Any) -> dict[str, bool]:
    """Evaluate the sensor, and report the evaluations to Dagster as its daemon does."""
    defs = definitions(table, **settings)
    sensor = defs.resolve_sensor_def("delta_maintenance_sensor")
    found = sensor.evaluate_tick(dg.build_sensor_context(instance, definitions=defs))
    recorded = {}
    for event in found.asset_events:
        assert isinstance(event, AssetCheckEvaluation)
        instance.report_runless_asset_event(event)
        recorded[event.check_name] = event.passed
    return recorded


def test_health_fails_and_passes_again_without_a_run(
    table: TableRef, instance: dg.DagsterInstance
) -> None:
    assert tick(table, instance) == {"health": True}
    assert tick(table, instance) == {}
    da.write(table.uri, ROWS)
    assert tick(table, instance) == {"health": False}
    assert tick(table, instance) == {}
    optimize(table.log())
    assert tick(table, instance) == {"health": True}
    assert tick(table, instance) == {}


def test_checks_of_single_measures_change_alone(
    table: TableRef, instance: dg.DagsterInstance
) -> None:
    assert tick(table, instance, with_checks=["measures"]) == {}
    da.write(table.uri, ROWS)
    assert tick(table, instance, with_checks=["measures"]) == {"small_files": False}
    optimize(table.log())
    assert tick(table, instance, with_checks=["measures"]) == {"small_files": True}


def test_a_second_fault_is_reported_while_health_fails(
    table: TableRef, instance: dg.DagsterInstance
) -> None:
    da.write(table.uri, ROWS)
    assert tick(table, instance) == {"health": False}
    replace_commit(table.log(), 1)
    assert tick(table, instance) == {"health": False}
    key = dg.AssetCheckKey(table.asset_key, "health")
    state = latest_check_states(instance, [key])[key]
    assert state is not None
    assert state.severity is dg.AssetCheckSeverity.ERROR


def test_a_result_of_a_run_of_the_checks_is_not_reported_again(
    table: TableRef, instance: dg.DagsterInstance
) -> None:
    da.write(table.uri, ROWS)
    assert definitions(table).resolve_job_def("look").execute_in_process(instance=instance).success
    assert tick(table, instance) == {}
    optimize(table.log())
    assert tick(table, instance) == {"health": True}


def test_a_failure_links_to_the_launchpad(table: TableRef, instance: dg.DagsterInstance) -> None:
    da.write(table.uri, ROWS)
    (found,) = changed_evaluations(
        instance,
        [AssessedTable(table, "care", health(table.log(), thresholds=POLICY.thresholds))],
        ("place", "repository"),
    )
    assert found.severity is dg.AssetCheckSeverity.WARN
    assert "](/locations/repository@place/jobs/care/playground" in str(found.description)


def test_checks_of_a_broken_log_fail_until_it_is_mended(
    table: TableRef, instance: dg.DagsterInstance
) -> None:
    commit = Path(table.uri) / "_delta_log" / f"{0:020}.json"
    text = commit.read_text()
    commit.write_text("{")
    (commit.parent / f"{0:020}.crc").unlink()
    kinds = ["health", "measures", "columns"]
    reported = tick(table, instance, with_checks=kinds)
    assert set(reported.values()) == {False}
    assert {"health", "small_files", "lost_commits"} <= reported.keys()
    assert "columns_are_unchanged" not in reported  # the sensor does not compare columns
    commit.write_text(text)
    assert set(tick(table, instance, with_checks=kinds).values()) == {True}


def test_nothing_is_said_of_a_table_that_is_not_there_yet(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    absent = TableRef(asset_key=dg.AssetKey("t"), uri=str(tmp_path / "t"))
    assert tick(absent, instance) == {}


def test_nothing_is_said_where_there_are_no_checks(
    table: TableRef, instance: dg.DagsterInstance
) -> None:
    da.write(table.uri, ROWS)
    assert tick(table, instance, with_checks=False) == {}


def test_the_state_of_a_check_is_its_latest_evaluation(
    table: TableRef, instance: dg.DagsterInstance
) -> None:
    key = dg.AssetCheckKey(table.asset_key, "small_files")
    assert latest_check_states(instance, [key]) == {}
    for passed in (True, False):
        instance.report_runless_asset_event(
            AssetCheckEvaluation(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=passed,
                metadata={},
                severity=dg.AssetCheckSeverity.WARN,
            )
        )
        state = latest_check_states(instance, [key])[key]
        assert state is not None
        assert (state.passed, state.severity) == (passed, dg.AssetCheckSeverity.WARN)
