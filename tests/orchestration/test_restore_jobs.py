"""Restore, revert and repair as jobs: each is an event of the table's asset."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pydantic import ValidationError

from delta_ops import DeltaLog
from delta_ops.clock import system_clock
from delta_ops.log.commit_file import create_commit
from delta_ops.orchestration import (
    TableRef,
    build_repair_job,
    build_restore_job,
    build_revert_job,
)
from delta_ops.orchestration.commits.commit_cursor import TableCursor
from delta_ops.orchestration.commits.unreported_commits import find_unreported_commits
from delta_ops.orchestration.maintenance.restore_jobs import (
    REPAIR_OP,
    RESTORE_OP,
    REVERT_OP,
    RestoreConfig,
)
from delta_ops.protocol.actions import CommitInfo
from tests.maintenance.restored_tables import commit, history, ids, write

Build = Callable[[Sequence[TableRef]], dg.JobDefinition]


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    return history(tmp_path / "t")


def run(
    log: DeltaLog, build: Build, op: str, instance: dg.DagsterInstance, **config: Any
) -> list[Any]:
    """The asset events of a run."""
    table = TableRef(asset_key=dg.AssetKey("t"), uri=log.uri)
    settings = {"table": "t", "dry_run": False, **config}
    result = build([table]).execute_in_process(
        instance=instance, run_config={"ops": {op: {"config": settings}}}
    )
    return [
        event.event_specific_data
        for event in result.all_events
        if event.is_asset_observation or event.is_step_materialization
    ]


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_a_timeout_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValidationError, match="timeout_s"):
        RestoreConfig(table="t", version=0, timeout_s=seconds)


def test_a_restore_materializes_the_table(log: DeltaLog, instance: dg.DagsterInstance) -> None:
    (event,) = run(log, build_restore_job, RESTORE_OP, instance, version=2)
    materialization = event.materialization
    assert ids(log) == [0, 1, 7]
    assert materialization.metadata["delta/added_files"].value == 3
    assert materialization.metadata["delta/restored_version"].value == 2
    assert materialization.description == "Committed as version 5."
    assert materialization.tags["dagster/data_version"].endswith("@5")
    table = TableRef(asset_key=dg.AssetKey("t"), uri=log.uri)
    seen = TableCursor(table_id=log.snapshot().metadata.id, version=4)
    unreported = find_unreported_commits(
        table, seen, instance, may_go_on=lambda _: True, clock=system_clock
    )
    assert (unreported.events, unreported.cursor.version) == ((), 5)


def test_nothing_is_done_unless_requested(log: DeltaLog, instance: dg.DagsterInstance) -> None:
    table = TableRef(asset_key=dg.AssetKey("t"), uri=log.uri)
    config = {"ops": {RESTORE_OP: {"config": {"table": "t", "version": 2}}}}
    result = build_restore_job([table]).execute_in_process(instance=instance, run_config=config)
    assert result.success
    assert log.snapshot().version == 4


def test_a_dry_run_says_what_would_change(log: DeltaLog, instance: dg.DagsterInstance) -> None:
    (event,) = run(log, build_restore_job, RESTORE_OP, instance, version=2, dry_run=True)
    reported = event.asset_observation
    assert re.fullmatch(
        r"Dry run: would restore version 2: adds 3 files and removes \d files?\.",
        reported.description,
    )
    assert reported.metadata["delta/added_files"].value == 3
    assert reported.metadata["delta/rows_changed"].value is False


def test_a_second_restore_has_nothing_to_do(log: DeltaLog, instance: dg.DagsterInstance) -> None:
    run(log, build_restore_job, RESTORE_OP, instance, version=2)
    (event,) = run(log, build_restore_job, RESTORE_OP, instance, version=2)
    reported = event.asset_observation.description
    assert reported == "Nothing to do; version 6 records the request."
    assert ids(log) == [0, 1, 7]


def test_a_repair_fails_if_files_are_gone(log: DeltaLog, instance: dg.DagsterInstance) -> None:
    path, *_ = log.snapshot().files(["path"])["path"].to_pylist()
    (Path(log.uri) / path).unlink()
    with pytest.raises(dg.Failure, match="restore them from a backup"):
        run(log, build_repair_job, REPAIR_OP, instance)
    (event,) = run(log, build_repair_job, REPAIR_OP, instance, dry_run=True)
    assert event.asset_observation.metadata["delta/missing"].value == 1
    (event,) = run(log, build_repair_job, REPAIR_OP, instance, remove_missing=True)
    assert event.materialization.metadata["delta/removed_files"].value == 1


@pytest.mark.parametrize("is_deleted", [False, True], ids=["failed", "deleted"])
def test_a_retry_is_the_same_request(
    log: DeltaLog, instance: dg.DagsterInstance, is_deleted: bool
) -> None:
    table = TableRef(asset_key=dg.AssetKey("t"), uri=log.uri)
    config = {"ops": {RESTORE_OP: {"config": {"table": "t", "version": 2, "dry_run": False}}}}
    job = build_restore_job([table])
    first = job.execute_in_process(instance=instance, run_config=config)
    instance.report_run_failed(first.dagster_run)
    if is_deleted:
        instance.delete_run(first.run_id)
    write(log, [99])
    tags = {"dagster/parent_run_id": first.run_id, "dagster/root_run_id": first.run_id}
    again = job.execute_in_process(instance=instance, run_config=config, tags=tags)
    assert ids(log) == [0, 1, 7, 99]
    # The first run may have been killed between its commit and its event.
    events: list[Any] = [e for e in again.all_events if e.is_step_materialization]
    (description,) = [e.event_specific_data.materialization.description for e in events]
    assert description.startswith("Done before")


def _lose_a_file(log: DeltaLog) -> None:
    (Path(log.uri) / log.snapshot().files(["path"])["path"][0].as_py()).unlink()


def _lose_statistics(log: DeltaLog) -> None:
    commit(log, *(replace(add, stats=None) for add in log.snapshot().add_files()))


@pytest.mark.parametrize(
    ("damage", "rows_changed"),
    [
        pytest.param((_lose_a_file,), True, id="lost rows"),
        pytest.param((_lose_statistics,), False, id="statistics"),
        pytest.param((_lose_a_file, _lose_statistics), True, id="then statistics are lost"),
    ],
)
def test_a_repair_that_was_killed_before_its_event_is_reported_by_its_rerun(
    log: DeltaLog,
    instance: dg.DagsterInstance,
    damage: Sequence[Callable[[DeltaLog], None]],
    rows_changed: bool,
) -> None:
    table = TableRef(asset_key=dg.AssetKey("t"), uri=log.uri)
    settings = {"table": "t", "dry_run": False, "remove_missing": True}
    config = {"ops": {REPAIR_OP: {"config": settings}}}
    job = build_repair_job([table])
    first, *since = damage
    first(log)
    killed = job.execute_in_process(instance=instance, run_config=config)
    instance.report_run_failed(killed.dagster_run)
    committed = log.snapshot().version
    for each in since:
        each(log)

    tags = {"dagster/parent_run_id": killed.run_id, "dagster/root_run_id": killed.run_id}
    again = job.execute_in_process(instance=instance, run_config=config, tags=tags)

    events: list[Any] = [
        event.event_specific_data
        for event in again.all_events
        if event.is_asset_observation or event.is_step_materialization
    ]
    (event,) = events
    changes = event.materialization if rows_changed else event.asset_observation
    assert changes.metadata["delta/earlier_version"].value == committed
    assert changes.metadata["delta/rows_changed"].value is rows_changed
    if not since:
        assert changes.description == f"Done before, as version {committed}; nothing was changed."


def test_a_repeated_repair_does_not_report_the_first_repair(
    log: DeltaLog, instance: dg.DagsterInstance
) -> None:
    _lose_a_file(log)
    run(log, build_repair_job, REPAIR_OP, instance, remove_missing=True)
    (event,) = run(log, build_repair_job, REPAIR_OP, instance, remove_missing=True)
    assert event.asset_observation.description == "Nothing to do."


def test_a_repair_that_leaves_faults_says_what_they_are(
    log: DeltaLog, instance: dg.DagsterInstance
) -> None:
    _lose_a_file(log)
    unknown = Path(log.uri) / "unknown.parquet"
    unknown.touch()
    os.utime(unknown, (0, 0))
    table = TableRef(asset_key=dg.AssetKey("t"), uri=log.uri)
    config = {"ops": {REPAIR_OP: {"config": {"table": "t", "dry_run": False}}}}
    build_repair_job([table]).execute_in_process(
        instance=instance, run_config=config, raise_on_error=False
    )
    (record,) = instance.fetch_observations(table.asset_key, limit=1).records
    observation = record.asset_observation
    assert observation is not None
    assert observation.description == (
        "Nothing was changed: 1 file gone, 1 file unknown to the log."
    )
    assert observation.metadata["delta/orphan_files"].value == ["unknown.parquet"]
    missing: Any = observation.metadata["delta/missing_files"].value
    assert len(missing) == 1


def test_a_revert_materializes_the_table(log: DeltaLog, instance: dg.DagsterInstance) -> None:
    (event,) = run(log, build_revert_job, REVERT_OP, instance, version=3)
    assert event.materialization.metadata["delta/removed_files"].value == 1
    assert event.materialization.metadata["delta/reverted_version"].value == 3
    assert ids(log) == [0, 1, 7, 10]


def test_a_repair_of_statistics_is_an_observation(
    log: DeltaLog, instance: dg.DagsterInstance
) -> None:
    commit(log, *(replace(add, stats=None) for add in log.snapshot().add_files()))
    (event,) = run(log, build_repair_job, REPAIR_OP, instance)
    observation = event.asset_observation
    assert observation.metadata["delta/described_files"].value == 2
    assert log.snapshot().version == 6


@pytest.mark.parametrize(
    ("build", "op", "config", "message"),
    [
        pytest.param(build_restore_job, RESTORE_OP, {"table": "x", "version": 1}, "'x'", id="name"),
        pytest.param(
            build_restore_job, RESTORE_OP, {}, "either a version or a timestamp", id="no version"
        ),
        pytest.param(build_revert_job, REVERT_OP, {"version": 0}, "created", id="version 0"),
    ],
)
def test_impossible_requests_fail_with_a_sentence(
    log: DeltaLog,
    instance: dg.DagsterInstance,
    build: Build,
    op: str,
    config: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(dg.Failure, match=message):
        run(log, build, op, instance, **config)
    assert log.snapshot().version == 4


@pytest.mark.parametrize(
    ("build", "op", "version", "left"),
    [
        pytest.param(build_restore_job, RESTORE_OP, 2, [0, 1, 7], id="restore"),
        pytest.param(build_revert_job, REVERT_OP, 3, [0, 1, 7, 10], id="revert"),
    ],
)
def test_the_log_can_record_the_end_of_a_killed_vacuum(
    log: DeltaLog,
    instance: dg.DagsterInstance,
    build: Build,
    op: str,
    version: int,
    left: list[int],
) -> None:
    info = CommitInfo(values={"operation": "VACUUM START", "timestamp": system_clock()})
    create_commit(log.storage, log.log_directory, 5, [info])
    with pytest.raises(dg.Failure, match="a vacuum without its end"):
        run(log, build, op, instance, version=version, timeout_s=0.1)

    run(log, build, op, instance, version=version, vacuum_was_killed=True)

    assert ids(log) == left
