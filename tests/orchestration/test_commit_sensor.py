"""The commit sensor: reports each commit of any writer once, in every case."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.events import StepMaterializationData
from deltalake import DeltaTable, write_deltalake

from delta_ops import DeltaLog
from delta_ops.clock import system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import create_checkpoint
from delta_ops.orchestration import (
    DeltaIOManager,
    TableRef,
    build_maintenance_job,
    maintenance_config,
)
from delta_ops.orchestration.commits.commit_cursor import cursor_from_text
from delta_ops.orchestration.commits.reported_commits import ReportedCommits
from delta_ops.orchestration.dagster_compat import asset_events_of_run
from tests.orchestration.closed_store import closed_table
from tests.orchestration.commit_watch import ROWS, Watch, append, commit_file, ref, versions
from tests.orchestration.jobs_of_processes import KILLED, LAKE, orders_in_processes

HOUR_MS = 3_600_000


def logged_versions(instance: dg.DagsterInstance, table: TableRef) -> list[int]:
    """The versions that events of the asset name, oldest first."""
    records = [
        record
        for fetch in (instance.fetch_materializations, instance.fetch_observations)
        for record in fetch(table.asset_key, limit=1000).records
    ]
    entries = [r.event_log_entry for r in sorted(records, key=lambda r: r.storage_id)]
    return versions([e.asset_materialization or e.asset_observation for e in entries])


@pytest.fixture
def orders(tmp_path: Path) -> TableRef:
    table = ref(tmp_path)
    append(table)
    return table


def watch_cleaned_up(instance: dg.DagsterInstance, orders: TableRef, versions: range) -> Watch:
    """A sensor that reported version 0 of a table. The table then got a checkpoint of version 9 and
    its last version 11, and lost the commits of some versions."""
    watch = Watch(instance, orders)
    watch.tick()
    append(orders, 9)
    create_checkpoint(orders.uri)
    append(orders, 2)
    for version in versions:
        commit_file(orders, version).unlink()
    return watch


def test_commits_that_were_cleaned_up_are_reported_as_a_gap(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = watch_cleaned_up(instance, orders, range(8))
    gap, *others = watch.tick()
    assert "versions 1 to 7 were cleaned up" in gap.description
    assert gap.metadata["delta/reported_since_version"].value == 1
    assert gap.metadata["delta/version"].value == 7
    assert gap.metadata["delta/num_files"].value == 12
    assert versions(others) == [8, 9, 10, 11]
    assert watch.tick() == []


def test_a_gap_shows_what_the_checkpoint_behind_it_has(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    gap, *others = watch_cleaned_up(instance, orders, range(10)).tick()
    assert gap.metadata["delta/version"].value == 9
    assert "delta/metadata_of_version" not in gap.metadata  # only of another version
    assert gap.metadata["delta/num_files"].value == 10
    assert versions(others) == [10, 11]


@pytest.mark.parametrize("commits", [1, 3, 5], ids=["fewer", "as many", "more"])
def test_a_table_that_was_created_again_is_reported_from_its_first_commit_on(
    orders: TableRef, instance: dg.DagsterInstance, commits: int
) -> None:
    append(orders, 2)
    watch = Watch(instance, orders)
    watch.tick()
    shutil.rmtree(orders.uri)
    for _ in range(commits):
        write_deltalake(orders.uri, ROWS, mode="append")
    events = watch.tick()
    assert versions(events) == list(range(commits))
    table_id = DeltaLog(orders.uri).snapshot().metadata.id[:8]
    assert events[0].tags["dagster/data_version"] == f"{table_id}@0"
    assert "another table has replaced" in watch.reason
    assert watch.tick() == []


def test_a_table_that_is_made_after_the_first_tick_is_reported_completely(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = ref(tmp_path)
    watch = Watch(instance, table)
    assert watch.tick() == []
    write_deltalake(table.uri, ROWS)
    write_deltalake(table.uri, ROWS, mode="append")
    assert versions(watch.tick()) == [0, 1]


def test_a_table_that_was_replaced_within_its_log_is_reported_from_the_last_cursor(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    append(orders, 2)
    watch = Watch(instance, orders)
    watch.tick()
    first = [json.loads(line) for line in commit_file(orders, 0).read_text().splitlines()]
    (metadata,) = [line for line in first if "metaData" in line]
    metadata["metaData"]["id"] = "another"
    commit_file(orders, 3).write_text(json.dumps(metadata))
    append(orders)
    assert versions(watch.tick()) == [3, 4]
    assert watch.tick() == []


def test_a_table_that_went_back_is_reported_once(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    append(orders, 4)
    watch = Watch(instance, orders)
    watch.tick()
    for version in (3, 4):
        for each in commit_file(orders, 0).parent.glob(f"{version:020d}.*"):
            each.unlink()
    (event,) = watch.tick()
    assert event.description == "the table went back from version 4 to 2"
    assert watch.tick() == []
    write_deltalake(orders.uri, ROWS, mode="append")
    assert versions(watch.tick()) == [3]


def test_a_tick_whose_cursor_was_lost_repeats_nothing(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    append(orders, 3)
    DeltaTable(orders.uri).optimize.compact()
    append(orders)
    events = watch.look()
    assert versions(events) == [1, 2, 3, 4, 5]
    watch.log(events[:4])  # here the daemon dies
    assert versions(watch.tick()) == [5]
    assert watch.tick() == []
    assert logged_versions(instance, orders) == [0, 1, 2, 3, 4, 5]


def test_a_gap_whose_cursor_was_lost_is_not_repeated(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    append(orders, 5)
    create_checkpoint(orders.uri)
    for version in range(4):
        commit_file(orders, version).unlink()
    watch.log(watch.look())
    assert watch.tick() == []


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A marker file; while it exists, steps that write `orders` are killed after their commit."""
    there = tmp_path / "killed"
    there.touch()
    monkeypatch.setenv(LAKE, str(tmp_path))
    monkeypatch.setenv(KILLED, str(there))
    return there


def write_orders(instance: dg.DagsterInstance, **settings: Any) -> dg.DagsterRun:
    job = dg.reconstructable(orders_in_processes)
    with dg.execute_job(job, instance=instance, **settings) as result:
        return result.dagster_run


def write_orders_here(instance: dg.DagsterInstance, **settings: Any) -> dg.DagsterRun:
    """Write orders with the step in this process, so a kill is a failure."""
    config: dict[str, Any] = {"execution": {"config": {"in_process": {}}}}
    return write_orders(instance, run_config=config, **settings)


@pytest.mark.full
def test_a_commit_whose_run_was_killed_before_its_event_is_reported(
    orders: TableRef, instance_on_disk: dg.DagsterInstance, killed: Path
) -> None:
    watch = Watch(instance_on_disk, orders)
    watch.tick()
    run = write_orders(instance_on_disk)
    assert DeltaLog(orders.uri).snapshot().version == 1
    assert logged_versions(instance_on_disk, orders) == [0]
    (event,) = watch.tick()
    assert isinstance(event, dg.AssetMaterialization)
    assert event.description == (
        f"Run {run.run_id}, which did not report it, committed version 1 (WRITE)."
    )
    assert event.metadata["delta/run"] == dg.MetadataValue.dagster_run(run.run_id)
    assert watch.tick() == []


def test_commits_that_a_rerun_has_reported_are_not_reported_again(
    orders: TableRef, instance: dg.DagsterInstance, killed: Path
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    run = write_orders_here(instance)
    killed.unlink()
    again = dg.ReexecutionOptions(parent_run_id=run.run_id)
    write_orders_here(instance, reexecution_options=again)
    assert DeltaLog(orders.uri).snapshot().version == 1
    assert logged_versions(instance, orders) == [0, 1]
    assert watch.tick() == []


def test_a_killed_run_is_reported_though_a_rerun_has_reported_its_own_commit(
    orders: TableRef, instance: dg.DagsterInstance, killed: Path
) -> None:
    killed.unlink()
    first = write_orders_here(instance)
    watch = Watch(instance, orders)
    watch.tick()
    again = dg.ReexecutionOptions(parent_run_id=first.run_id)
    killed.touch()
    write_orders_here(instance, reexecution_options=again)
    killed.unlink()
    write_orders_here(instance, reexecution_options=again)
    assert DeltaLog(orders.uri).snapshot().version == 3
    assert versions(watch.tick()) == [2]
    assert watch.tick() == []


def written_by(run_id: str, *, at_ms: int | None = None) -> Callable[[TableRef], None]:
    """A commit with a run's id in it, with the current or a given time."""

    def write(table: TableRef) -> None:
        append(table, user_metadata=json.dumps({"dagster/run_id": run_id}))
        if at_ms is not None:
            latest = commit_file(table, DeltaLog(table.uri).snapshot().version)
            lines = [json.loads(line) for line in latest.read_text().splitlines()]
            for line in lines:
                if "commitInfo" in line:
                    line["commitInfo"]["timestamp"] = at_ms
            latest.write_text("\n".join(map(json.dumps, lines)))

    return write


@dg.job
def writes() -> None:
    """A job of a test's runs."""


def test_a_commit_of_a_run_of_another_dagster_is_reported(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    written_by("unknown")(orders)
    assert versions(watch.tick()) == [1]


@pytest.mark.parametrize("run_id", ["\ud800", "\0", "x" * 5_000], ids=ascii)
def test_a_commit_without_a_valid_run_is_of_another_writer(
    orders: TableRef, instance: dg.DagsterInstance, run_id: str
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    written_by(run_id)(orders)
    (event,) = watch.tick()
    assert event.description.startswith("Another writer committed version ")
    assert watch.tick() == []


def test_the_operation_of_a_commit_is_no_markdown(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    add = json.loads(commit_file(orders, 0).read_text().splitlines()[-1])
    operation = "[all is well](https://evil.example)" + "x" * 10_000
    lines = [add, {"commitInfo": {"timestamp": 0, "operation": operation}}]
    commit_file(orders, 1).write_text("\n".join(map(json.dumps, lines)))
    (event,) = watch.tick()
    assert event.description.startswith(
        "Another writer committed version 1 (\\[all is well\\](https"
    )
    assert len(event.description) < 200
    assert len(event.metadata["delta/operation"].value) < 200


def test_commits_wait_for_the_run_that_is_about_to_report_them(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    run = instance.create_run_for_job(writes, status=dg.DagsterRunStatus.STARTED)
    written_by(run.run_id)(orders)
    write_deltalake(orders.uri, ROWS, mode="append")
    assert watch.tick() == []
    assert f"version 1 waits for run {run.run_id}" in watch.reason
    instance.report_run_failed(run)
    assert versions(watch.tick()) == [1, 2]


def test_a_long_run_does_not_keep_other_runs_from_being_reported(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    run = instance.create_run_for_job(writes, status=dg.DagsterRunStatus.STARTED)
    written_by(run.run_id, at_ms=system_clock() - HOUR_MS)(orders)
    write_deltalake(orders.uri, ROWS, mode="append")
    assert versions(watch.tick()) == [2]
    assert watch.tick() == []
    instance.report_run_failed(run)
    (late,) = watch.tick()
    assert late.metadata["delta/version"].value == 1
    # A data version that went back would show readers the older rows.
    assert late.tags["dagster/data_version"].endswith("@2")
    assert watch.tick() == []


def test_a_run_that_reports_late_is_not_reported_again(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    run = instance.create_run_for_job(writes, status=dg.DagsterRunStatus.STARTED)
    written_by(run.run_id, at_ms=system_clock() - HOUR_MS)(orders)
    assert watch.tick() == []
    recorded = dg.AssetMaterialization(orders.asset_key, metadata={"delta/version": 1})
    event = dg.DagsterEvent(
        dg.DagsterEventType.ASSET_MATERIALIZATION.value,
        job_name=run.job_name,
        event_specific_data=StepMaterializationData(recorded),
    )
    instance.report_dagster_event(event, run.run_id)
    instance.report_run_failed(run)
    assert watch.tick() == []
    assert len(asset_events_of_run(instance, run.run_id)) == 1


def test_commits_of_runs_with_an_event_are_not_reported(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata={"delta/mode": "append"})
    def orders() -> pa.Table:
        return ROWS

    defs = dg.Definitions(
        assets=[orders], resources={"io_manager": DeltaIOManager(root=str(tmp_path))}
    )
    job = defs.resolve_implicit_global_asset_job_def()
    job.execute_in_process(instance=instance)
    watch = Watch(instance, ref(tmp_path))
    watch.tick()
    for _ in range(2):
        job.execute_in_process(instance=instance)
        write_deltalake(tmp_path / "orders", ROWS, mode="append")
    assert versions(watch.tick()) == [2, 4]
    assert watch.tick() == []


def test_commits_since_the_newest_event_are_reported_at_the_first_tick(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata={"delta/mode": "append"})
    def orders() -> pa.Table:
        return ROWS

    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    defs = dg.Definitions(assets=[orders], resources=resources)
    job = defs.resolve_implicit_global_asset_job_def()
    write_deltalake(tmp_path / "orders", ROWS)
    job.execute_in_process(instance=instance)
    for _ in range(2):
        write_deltalake(tmp_path / "orders", ROWS, mode="append")
    maintenance = build_maintenance_job([ref(tmp_path)])
    config = maintenance_config([], operations=["optimize"])
    assert maintenance.execute_in_process(instance=instance, run_config=config).success
    watch = Watch(instance, ref(tmp_path))
    assert versions(watch.tick()) == [2, 3]
    assert watch.tick() == []


def test_a_cursor_that_was_cleared_repeats_nothing(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    append(orders, 2)
    assert versions(watch.tick()) == [1, 2]
    watch.cursor = None
    assert watch.tick() == []
    append(orders)
    assert versions(watch.tick()) == [3]


def test_a_run_without_an_event_yet_is_waited_for_at_the_first_look(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    run = dg.DagsterRun(job_name="a", run_id="5e0b3c1e-2e62-4a3c-9f64-0d5d2a3f9c11")
    instance.add_run(run)
    instance.report_run_canceling(run)
    append(orders, user_metadata=json.dumps({"dagster/run_id": run.run_id}))
    watch = Watch(instance, orders)
    assert watch.tick() == []
    instance.report_run_failed(run)
    assert versions(watch.tick()) == [1]


def test_a_data_version_never_goes_back(orders: TableRef, instance: dg.DagsterInstance) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    append(orders, 2)
    table_id = DeltaLog(orders.uri).snapshot().metadata.id[:8]
    recorded = dg.AssetMaterialization(
        orders.asset_key,
        metadata={"delta/version": 2},
        tags={"dagster/data_version": f"{table_id}@2"},
    )
    instance.report_runless_asset_event(recorded)
    (event,) = watch.tick()
    assert event.metadata["delta/version"].value == 1
    assert event.tags["dagster/data_version"] == f"{table_id}@2"


def test_maintenance_commits_belong_to_a_run_that_has_reported_them(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    append(orders, 3)
    watch = Watch(instance, orders)
    watch.tick()
    run = build_maintenance_job([orders]).execute_in_process(
        instance=instance,
        run_config=maintenance_config([orders.name], operations=["optimize", "vacuum"]),
    )
    newest = next(DeltaLog(orders.uri).history(limit=1))
    assert newest.version > 3
    assert run.run_id in str(newest.user_metadata)
    assert watch.tick() == []
    assert "no commits to report" in watch.reason


def many_commits(table: TableRef, count: int) -> None:
    """Foreign commits after the first version, and a checkpoint."""
    add = {
        "partitionValues": {},
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
    }
    for version in range(1, count + 1):
        line = json.dumps({"add": {**add, "path": f"{version}.parquet"}})
        commit_file(table, version).write_text(line)
    create_checkpoint(table.uri)


@pytest.mark.full
def test_a_backlog_larger_than_a_tick_is_reported_completely_and_once(
    orders: TableRef, instance: dg.DagsterInstance
) -> None:
    watch = Watch(instance, orders)
    watch.tick()
    many_commits(orders, 2_100)
    ticks = []
    for _ in range(3):
        ticks.append(versions(watch.look()))
        watch.cursor = watch._next
    assert [len(each) for each in ticks] == [1_000, 1_000, 100]
    assert list(itertools.chain(*ticks)) == list(range(1, 2_101))
    assert watch.tick() == []


def jumping_clock(step_ms: int) -> Iterator[int]:
    return itertools.count(system_clock(), step_ms)


def test_a_tick_ends_in_time_and_every_table_has_its_turn(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    tables = [ref(tmp_path, name) for name in ("busy", "idle", "calm")]
    for table in tables:
        append(table)
    Watch(instance, *tables).tick()
    times = jumping_clock(11_000)
    watch = Watch(instance, *tables, clock=lambda: next(times), tick_seconds=30)
    watch.tick()
    watch.tick()
    for table in tables:
        append(table, 3)
    reported = [
        [(e.asset_key.to_user_string(), v) for e, v in zip(t, versions(t), strict=True)]
        for t in (watch.tick() for _ in range(9))
    ]
    assert all(len(each) <= 3 for each in reported)
    assert {name for name, _ in itertools.chain(*reported[:3])} == {"busy", "idle", "calm"}
    assert sorted(itertools.chain(*reported)) == sorted(
        (table.name, version) for table in tables for version in (1, 2, 3)
    )


def test_a_cursor_of_versions_alone_goes_on(orders: TableRef, instance: dg.DagsterInstance) -> None:
    append(orders, 3)
    watch = Watch(instance, orders)
    watch.cursor = json.dumps({"orders": 1})
    assert versions(watch.tick()) == [2, 3]
    assert watch.tick() == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("begin", id="no JSON"),
        pytest.param("7", id="a number"),
        pytest.param('["t"]', id="a list"),
        pytest.param('{"t": "seven"}', id="a version that is no number"),
        pytest.param('{"tables": {"t": {"id": null}}}', id="no version"),
        pytest.param('{"tables": {"t": {"id": null, "version": "x"}}}', id="a text as a version"),
    ],
)
def test_a_cursor_that_somebody_typed_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="clear the cursor in the UI"):
        cursor_from_text(text)


def test_tables_that_cannot_be_looked_at_are_a_sentence_each_and_stop_no_other(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    gone, broken, whole, later = (ref(tmp_path, n) for n in ("gone", "broken", "whole", "later"))
    for table in (gone, broken, whole):
        append(table, 3)
    with closed_table("closed") as closed:
        watch = Watch(instance, gone, closed, broken, later, whole)
        watch.tick()
        shutil.rmtree(gone.uri)
        commit_file(broken, 1).write_text("{")
        append(whole)
        events = watch.tick()
    assert versions(events) == [3]
    count, *sentences = watch.reason.split("; ")
    assert count == "1 event reported"
    assert "gone: " in sentences[0]
    assert "is not a Delta table" in sentences[0]
    assert "closed: " in sentences[1]
    assert "access is denied" in sentences[1]
    assert "line 1" in watch.reason
    assert "later" not in watch.reason
    assert "s3cr3t" not in watch.reason


def test_events_are_read_in_parts(orders: TableRef, instance: dg.DagsterInstance) -> None:
    for version in range(5):
        for kind in (dg.AssetMaterialization, dg.AssetObservation):
            metadata = {"delta/version": version}
            tags = {"dagster/data_version": f"12345678@{version}"}
            instance.report_runless_asset_event(
                kind(orders.asset_key, metadata=metadata, tags=tags)
            )
    reported, known, parts = (
        ReportedCommits(instance, orders.asset_key, 0, max_events=2),
        set[int](),
        1,
    )
    while True:
        known |= {
            version for version in range(5) if reported.is_reported_by_sensor("123456789", version)
        }
        if reported.is_complete:
            break
        reported = ReportedCommits(instance, orders.asset_key, reported.event_id, max_events=2)
        parts += 1
    assert known == {0, 1, 2, 3, 4}
    assert parts > 2


def test_events_of_a_run_can_be_requested(instance: dg.DagsterInstance) -> None:
    @dg.op(out=dg.Out(dg.Nothing))
    def report(context) -> None:  # type: ignore[no-untyped-def]
        context.log_event(dg.AssetMaterialization("a"))
        context.log_event(dg.AssetObservation("b"))

    @dg.job
    def reporting() -> None:
        report()

    run = reporting.execute_in_process(instance=instance)
    first, second = asset_events_of_run(instance, run.run_id)
    assert first.asset_materialization is not None
    assert second.asset_observation is not None
