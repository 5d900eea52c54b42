"""The maintenance sensor: the runs that it requests, and its cursor from tick to tick."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import HOUR_MS, system_clock
from delta_ops.orchestration import (
    MaintenancePolicy,
    TableRef,
    build_log_maintenance_job,
    build_maintenance_job,
    maintenance_config,
)
from delta_ops.orchestration.maintenance import sensor
from delta_ops.orchestration.maintenance.sensor import Sweep, TickLimits, build_sweep_sensor
from delta_ops.orchestration.policies.choice import PolicyJobs, due_operations
from delta_ops.orchestration.policies.maintenance_config import MAINTENANCE_OP

ROWS = pa.table({"x": [1, 2, 3]})
NOW_MS = system_clock()
WAITING, STARTED = dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED


def table_ref(root: Path, name: str) -> TableRef:
    return TableRef(asset_key=dg.AssetKey(name), uri=str(root / name))


def fine(root: Path, name: str) -> TableRef:
    """A table that needs nothing."""
    da.write(root / name, ROWS)
    return table_ref(root, name)


def scattered(root: Path, name: str) -> TableRef:
    """A table of ten small files."""
    for _ in range(10):
        da.write(root / name, ROWS, configuration={"delta.checkpointInterval": "99"}, hooks=())
    return table_ref(root, name)


def behind(root: Path, name: str) -> TableRef:
    """A table of one file, with more commits than its checkpoint interval."""
    for _ in range(3):
        configuration = {"delta.checkpointInterval": "2"}
        da.write(root / name, ROWS, "overwrite", configuration=configuration, hooks=())
    return table_ref(root, name)


def jobs_of(tables: Sequence[TableRef]) -> PolicyJobs:
    policy = MaintenancePolicy()
    job, log_job = build_maintenance_job(tables), build_log_maintenance_job(tables)
    return PolicyJobs(policy=policy, tables=tables, job=job, log_job=log_job)


def tick(
    tables: Sequence[TableRef],
    instance: dg.DagsterInstance,
    cursor: str | None = None,
    clock: Callable[[], int] = lambda: NOW_MS,
    **limits: int,
) -> Any:
    sweep = Sweep(policies=[jobs_of(tables)], clock=clock, limits=TickLimits(**limits))
    sensor = build_sweep_sensor(sweep)
    context = dg.build_sensor_context(instance, cursor=cursor)
    return sensor.evaluate_tick(context)


def tables_in(request: dg.RunRequest) -> list[str]:
    found: list[str] = request.run_config["ops"][MAINTENANCE_OP]["config"]["tables"]
    return found


def test_logs_share_a_run_and_rewrites_have_one_each(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [
        behind(tmp_path, "log_a"),
        scattered(tmp_path, "files_a"),
        fine(tmp_path, "fine"),
        scattered(tmp_path, "files_b"),
        behind(tmp_path, "log_b"),
        table_ref(tmp_path, "not_yet"),
    ]
    found = tick(tables, instance)
    assert [(each.job_name, tables_in(each)) for each in found.run_requests] == [
        ("delta_maintenance", ["files_a"]),
        ("delta_maintenance", ["files_b"]),
        ("delta_log_maintenance", ["log_a", "log_b"]),
    ]
    assert [each.tags.get("delta_ops/table") for each in found.run_requests] == [
        "files_a",
        "files_b",
        None,
    ]
    jobs = {each.name: each for each in (jobs_of(tables).job, jobs_of(tables).log_job) if each}
    for each in found.run_requests:
        job = jobs[str(each.job_name)]
        assert job.execute_in_process(instance=instance, run_config=each.run_config).success
    again = tick(tables, instance)
    assert again.run_requests == []
    assert again.skip_message == "not_yet does not exist yet; nothing to do for 5 tables"


def test_a_batch_has_so_many_tables_at_most(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    tables = [behind(tmp_path, f"t{number}") for number in range(5)]
    found = tick(tables, instance, batch_size=2)
    assert [tables_in(each) for each in found.run_requests] == [["t0", "t1"], ["t2", "t3"], ["t4"]]


def test_a_request_is_made_once_an_hour(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    tables = [behind(tmp_path, "log"), scattered(tmp_path, "files")]

    def run_keys(now_ms: int) -> list[str]:
        return [each.run_key for each in tick(tables, instance, clock=lambda: now_ms).run_requests]

    first, second, later = map(run_keys, (NOW_MS, NOW_MS + 1, NOW_MS + HOUR_MS))
    assert first == second
    assert not set(first) & set(later)


def test_a_tick_without_time_leaves_the_rest_to_the_next(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [behind(tmp_path, f"t{number}") for number in range(5)]
    seconds = count()

    def slow_clock() -> int:
        return NOW_MS + 10_000 * next(seconds)

    cursor, requests = None, list[list[str]]()
    for _ in range(5):
        found = tick(tables, instance, cursor, slow_clock, seconds=40)
        requests.append([name for each in found.run_requests for name in tables_in(each)])
        cursor = found.cursor
    in_order = [name for names in requests for name in names]
    assert in_order[:6] == ["t0", "t1", "t2", "t3", "t4", "t0"]
    assert all(0 < len(names) < 5 for names in requests)
    assert cursor in {table.name for table in tables}


def test_a_tick_requests_a_limited_number_of_runs(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [scattered(tmp_path, f"t{number}") for number in range(3)]
    first = tick(tables, instance, max_runs=2)
    assert [tables_in(each) for each in first.run_requests] == [["t0"], ["t1"]]
    assert first.cursor == "t2"
    second = tick(tables[:2], instance, first.cursor, max_runs=2)
    assert len(second.run_requests) == 2  # the first table no longer exists


@pytest.mark.parametrize(
    ("settings", "status", "message"),
    [
        pytest.param(
            {"tags": {"delta_ops/table": "busy"}},
            STARTED,
            "is being maintained by run {} since",
            id="by its tag, under way",
        ),
        pytest.param(
            {"run_config": maintenance_config(["other", "busy"])},
            WAITING,
            "waits for run {}, in the queue since",
            id="by its config, in a queue",
        ),
        pytest.param(
            {}, STARTED, "is being maintained by run {} since", id="of all tables of the job"
        ),
        pytest.param(
            {"run_config": maintenance_config(["*"])},
            STARTED,
            "is being maintained by run {} since",
            id="of all tables by its config",
        ),
    ],
)
def test_a_table_that_has_a_run_is_left_out(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    settings: dict[str, Any],
    status: dg.DagsterRunStatus,
    message: str,
) -> None:
    tables = [scattered(tmp_path, "busy"), fine(tmp_path, "other")]
    run = instance.create_run_for_job(jobs_of(tables).job, status=status, **settings)
    found = tick(tables, instance)
    assert found.run_requests == []
    assert f"busy {message.format(run.run_id[:8])}" in str(found.skip_message)
    assert ("daemon" in str(found.skip_message)) is (status is WAITING)


@pytest.mark.parametrize("status", [STARTED, WAITING])
def test_a_run_that_never_ends_does_not_keep_a_table_for_ever(
    tmp_path: Path, instance: dg.DagsterInstance, status: dg.DagsterRunStatus
) -> None:
    tables = [scattered(tmp_path, "busy")]
    instance.create_run_for_job(jobs_of(tables).job, status=status)
    two_days = 48 * HOUR_MS
    found = tick(tables, instance, clock=lambda: system_clock() + two_days)
    assert len(found.run_requests) == 1


def test_a_table_that_cannot_be_looked_at_in_time_is_passed_over(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [fine(tmp_path, "huge"), scattered(tmp_path, "small")]
    other_was_seen = threading.Event()

    def look_slowly(log: DeltaLog, *args: Any, **settings: Any) -> Any:
        if log.uri.endswith("huge"):
            other_was_seen.wait(300)
            return due_operations(log, *args, **settings)
        due = due_operations(log, *args, **settings)
        other_was_seen.set()
        return due

    monkeypatch.setattr(sensor, "due_operations", look_slowly)
    first = tick(tables, instance, clock=system_clock, seconds=1)
    assert "huge: checking it takes longer than a tick" in str(first.skip_message)
    second = tick(tables, instance, first.cursor, clock=system_clock, seconds=300)
    assert len(second.run_requests) == 1


def test_a_run_for_another_table_is_no_reason_to_wait(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [scattered(tmp_path, "busy"), fine(tmp_path, "other")]
    config = maintenance_config(["other"])
    instance.create_run_for_job(jobs_of(tables).job, status=STARTED, run_config=config)
    instance.create_run_for_job(jobs_of(tables).job, status=dg.DagsterRunStatus.FAILURE)
    assert len(tick(tables, instance).run_requests) == 1


def test_reasons_are_short_however_many_tables_are_broken(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [fine(tmp_path, f"t{number}") for number in range(30)]
    for table in tables[:25]:
        (Path(table.uri) / "_delta_log" / f"{0:020d}.json").write_text("{")
    reason = str(tick(tables, instance).skip_message)
    assert "t0: " in reason
    assert "5 more sentences in the log of the tick; nothing to do for 5 tables" in reason
