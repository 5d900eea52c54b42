"""The fleet's job: batches of tables, and their metadata."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.maintenance import HealthThresholds
from delta_ops.orchestration import (
    FleetMaintenanceConfig,
    build_fleet_maintenance_job,
    fleet_config,
)

ROWS = pa.table({"x": [1, 2, 3]})


def table(root: Path, *, files: int = 4) -> Path:
    for _ in range(files):
        da.write(root, ROWS)
    return root


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Five tables; two of them have small files."""
    for number in range(5):
        table(tmp_path / f"t{number}", files=4 if number < 2 else 1)
    return tmp_path


def run(
    instance: dg.DagsterInstance, *tables: Path, **settings: Any
) -> tuple[dg.ExecuteInProcessResult, list[dict[str, Any]]]:
    """The run, and the metadata of each batch."""
    result = build_fleet_maintenance_job().execute_in_process(
        instance=instance,
        run_config=fleet_config([str(place) for place in tables], small_files=2, **settings),
        raise_on_error=False,
    )
    outputs = [
        event.step_output_data
        for event in result.all_events
        if event.is_successful_output and (event.step_key or "").startswith("maintain_batch")
    ]
    return result, [
        {name.removeprefix("delta/"): value.value for name, value in output.metadata.items()}
        for output in outputs
    ]


def test_batches_say_what_was_found_planned_done_skipped_and_saved(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    result, batches = run(instance, lake, batch_size=2)
    assert result.success
    assert [batch["tables"] for batch in batches] == [2, 2, 1]
    first = batches[0]
    busy = str(lake / "t0")
    assert first["found"][busy] == {"small_files": 4}
    assert first["planned"][busy] == ["optimize"]
    assert first["done"][busy]["compacted_files"] == 4
    assert first["saved"][busy] == {"live_files": 3}
    assert (first["skipped"], first["failed"]) == ({}, {})
    assert first["live_files_saved"] == 6
    assert batches[1]["done"] == {}
    assert DeltaLog(lake / "t0").snapshot().num_files == 1


def test_every_threshold_can_be_configured() -> None:
    names = {field.name for field in dataclasses.fields(HealthThresholds)}
    assert set(FleetMaintenanceConfig.model_fields) - {"dry_run", "at_once"} == names
    config = FleetMaintenanceConfig(promised_time_travel_ms=0, deleted_rows=0.5)
    assert config.thresholds() == HealthThresholds(promised_time_travel_ms=0, deleted_rows=0.5)


def test_credentials_of_an_address_are_not_shown(instance: dg.DagsterInstance) -> None:
    config = fleet_config(["s3://key:s3cr3t@bucket/t"])
    result = build_fleet_maintenance_job().execute_in_process(
        instance=instance, run_config=config, raise_on_error=False
    )
    outputs = [event for event in result.all_events if event.is_successful_output]
    assert "bucket/t" in str([event.step_output_data.metadata for event in outputs])
    assert "s3cr3t" not in str(result.all_events)


def test_a_fleet_without_tables_is_a_mistake(instance: dg.DagsterInstance) -> None:
    result, batches = run(instance)
    assert (result.success, batches) == (False, [])


def test_a_dry_run_changes_nothing(lake: Path, instance: dg.DagsterInstance) -> None:
    before = sorted(lake.rglob("*"))
    _, (batch,) = run(instance, lake, dry_run=True)
    assert batch["planned"][str(lake / "t0")] == ["optimize"]
    assert batch["planned_figures"][str(lake / "t0")]["compaction_files_planned"] == 4
    assert batch["done"] == {}
    assert sorted(lake.rglob("*")) == before


def test_a_broken_table_fails_the_run_at_its_end(lake: Path, instance: dg.DagsterInstance) -> None:
    (lake / "t0" / "_delta_log" / f"{1:020d}.json").unlink()
    result, batches = run(instance, lake, lake / "nowhere", batch_size=1)
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert failure.step_key == "report_fleet"
    reported = failure.step_failure_data.user_failure_data
    assert reported is not None
    assert reported.metadata["delta/tables_failed"].value == 2
    assert "version 1 is missing" in str(reported.metadata)
    assert "not a Delta table" in str(reported.metadata)
    assert [len(batch["failed"]) for batch in batches] == [1, 0, 0, 0, 0, 1]
    assert DeltaLog(lake / "t1").snapshot().num_files == 1


@pytest.mark.parametrize("tables", [["*"], []], ids=["a star", "an empty list"])
def test_all_tables_below_the_root_are_found_by(
    lake: Path, instance: dg.DagsterInstance, tables: list[str]
) -> None:
    job = build_fleet_maintenance_job(root=str(lake))
    config = fleet_config(tables, dry_run=True)
    result = job.execute_in_process(instance=instance, run_config=config)
    (found,) = result.output_for_node("find_tables").values()
    assert len(found) == 5


def test_a_job_without_a_root_needs_tables(instance: dg.DagsterInstance) -> None:
    with pytest.raises(dg.Failure, match="the job has no root; give tables"):
        build_fleet_maintenance_job().execute_in_process(instance=instance)
