"""The maintenance job, its sensor, and the sensor for commits of other writers."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.rewrite.rewrite import rewrite
from delta_ops.maintenance import HealthThresholds, maintain
from delta_ops.orchestration import (
    DeltaIOManager,
    MaintenancePolicy,
    TableRef,
    build_commit_sensor,
    build_maintenance_job,
    build_maintenance_schedule,
    build_maintenance_sensor,
    build_table_checks,
    external_table,
    maintenance_config,
)
from delta_ops.orchestration.maintenance import jobs
from tests.orchestration.closed_store import closed_table
from tests.orchestration.jobs_of_processes import maintain_side_by_side
from tests.support.lost_commits import replace_commit
from tests.support.tables import rows_by_deltalake

ROWS = pa.table({"x": [1, 2, 3]})


def table_ref(root: Path, name: str) -> TableRef:
    return TableRef(asset_key=dg.AssetKey(name), uri=str(root / name))


def small_files(root: Path, name: str, count: int = 4) -> TableRef:
    """A table of `count` commits, each with a small file."""
    for _ in range(count):
        da.write(root / name, ROWS)
    return table_ref(root, name)


def requests(sensor: dg.SensorDefinition, instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    tick = sensor.evaluate_tick(dg.build_sensor_context(instance))
    return list(tick.run_requests or [])


def observed(result: dg.ExecuteInProcessResult) -> dg.AssetObservation:
    """The run's only observation."""
    (event,) = [event for event in result.all_events if event.is_asset_observation]
    return event.asset_observation_data.asset_observation


@pytest.mark.full
def test_a_table_that_the_config_names_twice_is_maintained_once(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    job = build_maintenance_job([small_files(tmp_path, "busy")])
    config = maintenance_config(["busy", "busy"], operations=["optimize"])
    result = job.execute_in_process(instance=instance, run_config=config)
    assert str(observed(result).description).startswith("Compacted 4 files")


def test_the_sensor_requests_a_run_only_if_there_is_work(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    busy, idle = small_files(tmp_path, "busy"), small_files(tmp_path, "idle", 1)
    tables = [busy, idle, table_ref(tmp_path, "absent")]
    job = build_maintenance_job(tables)
    sensor = build_maintenance_sensor(job, tables)
    (request,) = requests(sensor, instance)
    assert request.tags["delta_ops/table"] == "busy"
    result = job.execute_in_process(instance=instance, run_config=request.run_config)
    assert result.success
    assert observed(result).asset_key == busy.asset_key
    assert instance.get_latest_materialization_event(busy.asset_key) is None
    assert requests(sensor, instance) == []
    assert len(DeltaTable(busy.uri).file_uris()) == 1
    assert len(rows_by_deltalake(tmp_path / "busy")) == 12


def test_a_commit_that_was_lost_is_a_warning_of_the_next_maintenance(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = small_files(tmp_path, "busy")
    da.write(table.uri, ROWS)
    replace_commit(table.log(), 4)
    job = build_maintenance_job([table])
    result = job.execute_in_process(instance=instance, run_config=maintenance_config(["busy"]))
    entries = instance.all_logs(result.run_id)
    warnings = [entry.user_message for entry in entries if entry.level == logging.WARNING]
    assert "rerun the operation that committed version 4" in "".join(warnings)


def test_a_run_reports_that_another_run_is_at_work_on_its_table(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = small_files(tmp_path, "busy")
    job = build_maintenance_job([table])
    other = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    result = job.execute_in_process(instance=instance)
    entries = instance.all_logs(result.run_id)
    (warning,) = [entry.user_message for entry in entries if entry.level == logging.WARNING]
    assert f"busy is being maintained by run {other.run_id[:8]}" in warning
    assert "This is safe:" in warning
    assert result.success
    assert len(DeltaTable(table.uri).file_uris()) == 1


def test_a_table_that_needs_nothing_is_no_event_unless_it_was_requested(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    job = build_maintenance_job([small_files(tmp_path, "t", 1), small_files(tmp_path, "busy")])
    assert observed(job.execute_in_process(instance=instance)).asset_key == dg.AssetKey("busy")
    result = job.execute_in_process(instance=instance, run_config=maintenance_config(["t"]))
    assert observed(result).description == "Nothing was due."


@pytest.mark.parametrize(
    "config",
    [
        {"tables": ["*"], "operations": ["due"]},
        {"tables": [], "operations": []},
        {"tables": ["*", "busy"], "operations": []},
    ],
    ids=["the defaults by name", "empty lists", "all tables and one of them"],
)
def test_all_tables_and_due_operations_may_be_named_or_left_out(
    tmp_path: Path, instance: dg.DagsterInstance, config: dict[str, list[str]]
) -> None:
    job = build_maintenance_job([small_files(tmp_path, "t", 1), small_files(tmp_path, "busy")])
    result = job.execute_in_process(instance=instance, run_config=maintenance_config(**config))
    assert observed(result).asset_key == dg.AssetKey("busy")
    assert "Compacted 4 files" in (observed(result).description or "")


def test_an_operation_may_be_chosen_beside_the_due_operations(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    job = build_maintenance_job([small_files(tmp_path, "busy")])
    config = maintenance_config(["busy"], operations=["clean_up_log", "due"])
    result = job.execute_in_process(instance=instance, run_config=config)
    done = observed(result).metadata["delta/operations"].value
    assert done == "optimize, clean_up_log"


@pytest.mark.parametrize(
    "policy", [None, MaintenancePolicy(thresholds=HealthThresholds(small_files=2))]
)
def test_a_table_is_looked_at_once_before_it_is_maintained(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    policy: MaintenancePolicy | None,
) -> None:
    job = build_maintenance_job([small_files(tmp_path, "orders")], policy=policy)
    monkeypatch.setattr(sys.modules[maintain.__module__], "plan_maintenance", None)
    assert job.execute_in_process(run_config=maintenance_config([]), instance=instance).success
    assert DeltaLog(tmp_path / "orders").snapshot().num_files == 1


def test_a_run_sums_up_what_it_did(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    tables = [small_files(tmp_path, name) for name in ("a", "b")] + [table_ref(tmp_path, "not_yet")]
    result = build_maintenance_job(tables).execute_in_process(instance=instance)
    (output,) = [
        event.step_output_data for event in result.all_events if event.is_successful_output
    ]
    figures: dict[str, Any] = {name: value.value for name, value in output.metadata.items()}
    assert figures["delta/tables"] == 3
    assert figures["delta/tables_with_work"] == 2
    assert figures["delta/live_files_saved"] == 6
    assert figures["delta/seconds"] > 0


def test_after_its_budget_a_run_begins_no_further_table(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [small_files(tmp_path, name) for name in ("a", "b", "c")]
    seconds = [0.0]

    def slow(*args: Any, **kwargs: Any) -> Any:
        seconds[0] += 2
        return maintain(*args, **kwargs)

    monkeypatch.setattr(jobs, "maintain", slow)
    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    policy = MaintenancePolicy(
        budget_s=1, tables_at_once=1, thresholds=HealthThresholds(small_files=2)
    )
    job = build_maintenance_job(tables, policy=policy)
    result = job.execute_in_process(instance=instance)
    messages = str([entry.user_message for entry in instance.all_logs(result.run_id)])
    assert "1 seconds are over; 2 of 3 tables remain for the next run, from b on" in messages
    assert [len(DeltaTable(table.uri).file_uris()) for table in tables] == [1, 4, 4]


def test_a_dry_run_changes_nothing(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    table = small_files(tmp_path, "busy")
    before = sorted(tmp_path.rglob("*"))
    job = build_maintenance_job([table])
    result = job.execute_in_process(
        instance=instance, run_config=maintenance_config([], dry_run=True)
    )
    assert sorted(tmp_path.rglob("*")) == before
    observation = observed(result)
    assert observation.metadata["delta/dry_run"].value is True
    assert observation.metadata["delta/compaction_files_planned"].value == 4
    assert "delta/compacted_files" not in observation.metadata
    assert "would compact 4 files" in str(observation.description)


def test_a_vacuum_gets_the_settings_of_its_policy(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    for _ in range(4):
        da.write(tmp_path / "busy", ROWS, mode="overwrite")
    for commit in (tmp_path / "busy" / "_delta_log").glob("*.json"):
        removed_long_ago = re.sub(
            r'"deletionTimestamp":\d+', '"deletionTimestamp":1', commit.read_text()
        )
        commit.write_text(removed_long_ago)
    orphan = tmp_path / "busy" / "orphan.x"
    orphan.write_bytes(b"")
    for place in (tmp_path / "busy").rglob("*.*"):
        os.utime(place, (0, 0))
    config = maintenance_config(
        [],
        operations=["vacuum"],
        vacuum_mode="lite",
        vacuum_keep_last=2,
        vacuum_log_commits=False,
    )
    job = build_maintenance_job([table_ref(tmp_path, "busy")])
    result = job.execute_in_process(instance=instance, run_config=config)
    observation = observed(result)
    assert observation.metadata["delta/vacuumed_files"].value == 2
    assert orphan.exists()
    assert DeltaLog(tmp_path / "busy").snapshot().version == 3


def test_work_before_a_failed_operation_is_observed(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = small_files(tmp_path, "lost")
    next((tmp_path / "lost").glob("*.parquet")).unlink()
    config = maintenance_config([], operations=["checkpoint", "optimize", "clean_up_log"])
    job = build_maintenance_job([table])
    result = job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)
    assert not result.success
    (record,) = instance.fetch_observations(table.asset_key, limit=2).records
    observation = record.event_log_entry.asset_observation
    assert observation is not None
    assert observation.metadata["delta/checkpoints_written"].value == 1
    assert "Wrote a checkpoint. Failed: " in str(observation.description)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"tables": ["bussy"]}, id="to be maintained"),
        pytest.param({"tables": [], "keep_versions": {"bussy": [1]}}, id="to keep versions of"),
    ],
)
def test_an_unknown_table_in_the_config_is_an_error(
    tmp_path: Path, instance: dg.DagsterInstance, config: dict[str, Any]
) -> None:
    job = build_maintenance_job([small_files(tmp_path, "busy")])
    result = job.execute_in_process(
        instance=instance, run_config=maintenance_config(**config), raise_on_error=False
    )
    assert "there is no table 'bussy'; choose from busy" in str(
        [event.step_failure_data for event in result.all_events if event.is_step_failure]
    )


def test_the_schedule_runs_the_job_for_every_table(tmp_path: Path) -> None:
    schedule = build_maintenance_schedule(build_maintenance_job([table_ref(tmp_path, "t")]))
    tick = schedule.evaluate_tick(dg.build_schedule_context())
    assert [request.run_config for request in tick.run_requests or []] == [{}]


def reported(
    sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None
) -> tuple[Sequence[Any], str | None]:
    tick = sensor.evaluate_tick(dg.build_sensor_context(instance, cursor=cursor))
    return tick.asset_events, tick.cursor


def test_commits_of_other_writers_are_events(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    table = small_files(tmp_path, "shared", 1)
    sensor = build_commit_sensor([table])
    (state,), cursor = reported(sensor, instance, None)
    assert state.description == "The state of the table at version 0."
    instance.report_runless_asset_event(state)
    write_deltalake(table.uri, ROWS, mode="append")
    DeltaTable(table.uri).optimize.compact()
    events, cursor = reported(sensor, instance, cursor)
    assert [type(event) for event in events] == [dg.AssetMaterialization, dg.AssetObservation]
    table_id = DeltaLog(table.uri).snapshot().metadata.id[:8]
    assert [event.tags["dagster/data_version"] for event in events] == [
        f"{table_id}@1",
        f"{table_id}@1",
    ]
    assert reported(sensor, instance, cursor) == ([], cursor)


@pytest.mark.parametrize(
    ("damage", "passed"),
    [
        pytest.param(False, True, id="a table that can be read"),
        pytest.param(True, False, id="a log with a missing version"),
    ],
)
def test_checks_look_at_the_log(
    tmp_path: Path, instance: dg.DagsterInstance, damage: bool, passed: bool
) -> None:
    table = small_files(tmp_path, "t", 2)
    if damage:
        (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").unlink()
        (tmp_path / "t" / "_delta_log" / f"{2:020d}.json").write_text("")
    defs = dg.Definitions(assets=[external_table(table)], asset_checks=build_table_checks([table]))
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    evaluations = {e.check_name: e for e in result.get_asset_check_evaluations()}
    assert evaluations["log_is_readable"].passed is passed
    assert not evaluations["maintenance_is_not_overdue"].passed  # small files, or a broken log


def run_of(
    tables: Sequence[TableRef], instance: dg.DagsterInstance
) -> tuple[dg.ExecuteInProcessResult, dict[str, str]]:
    """A run of the job beside our IO manager, and the reason of failure by table."""
    defs = dg.Definitions(
        jobs=[build_maintenance_job(tables)], resources={"io_manager": DeltaIOManager(root="no")}
    )
    job = defs.resolve_job_def("delta_maintenance")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    failures = [event for event in result.all_events if event.is_step_failure]
    reported_values = [event.step_failure_data.user_failure_data for event in failures]
    return result, {
        name: str(v.value) for each in reported_values if each for name, v in each.metadata.items()
    }


def test_a_table_that_is_gone_a_broken_one_and_a_closed_one_are_a_sentence_each(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    gone, broken, whole = (small_files(tmp_path, name) for name in ("gone", "broken", "whole"))
    run_of([gone], instance)
    shutil.rmtree(gone.uri)
    (tmp_path / "broken" / "_delta_log" / f"{1:020d}.json").write_text("{")
    with closed_table("closed") as closed:
        tables = [gone, broken, closed, table_ref(tmp_path, "not_yet"), whole]
        result, failures = run_of(tables, instance)
        sensor = build_maintenance_sensor(build_maintenance_job(tables), tables)
        reason = sensor.evaluate_tick(dg.build_sensor_context(instance)).skip_message or ""
    assert not result.success
    assert sorted(failures) == ["broken", "closed", "gone"]
    assert "it is gone" in failures["gone"]
    assert "line 1" in failures["broken"]
    assert "s3cr3t" not in str(result.all_events)
    assert len(DeltaTable(whole.uri).file_uris()) == 1
    assert "access is denied" in failures["closed"]
    assert "gone: " in reason
    assert "broken: " in reason
    assert "closed: " in reason
    assert "not_yet does not exist yet" in reason


@pytest.mark.parametrize(
    "appended",
    [pytest.param(0, id="over the same files"), pytest.param(3, id="over those files and others")],
)
def test_two_concurrent_runs_report_their_outcome_and_no_row_is_lost(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    appended: int,
) -> None:
    table = small_files(tmp_path, "busy")
    inner: list[dict[str, str]] = []

    def overtaken(files: Any, *args: Any, **kwargs: Any) -> Any:
        """Rewrites files that another run has already rewritten."""
        if not inner:
            inner.append({})
            small_files(tmp_path, "busy", appended)
            _, inner[0] = run_of([table], instance)
        return rewrite(files, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "maintain", partial(maintain, engine=overtaken))
        result, failures = run_of([table], instance)
    assert (inner, failures) == ([{}], {})
    assert observed(result).description == "Left 4 files to other writers."
    assert len(rows_by_deltalake(tmp_path / "busy")) == 3 * (4 + appended)
    again, failures = run_of([table], instance)
    assert (again.success, failures) == (True, {})
    assert len(DeltaTable(table.uri).file_uris()) == 1


@pytest.mark.full
def test_two_runs_in_processes_at_once_each_end_well_and_no_row_is_lost(tmp_path: Path) -> None:
    tables = [small_files(tmp_path, f"t{number}", 12) for number in range(3)]
    reported_values = maintain_side_by_side([table.uri for table in tables])
    assert len(reported_values) == 6
    assert all(success for success, _ in reported_values)
    assert all(
        "Compacted 12 files" in text or "ompacted" not in text for _, text in reported_values
    )
    assert sum("Compacted 12 files" in text for _, text in reported_values) == 3
    for table in tables:
        assert len(rows_by_deltalake(Path(table.uri))) == 36
        assert len(DeltaTable(table.uri).file_uris()) == 1
