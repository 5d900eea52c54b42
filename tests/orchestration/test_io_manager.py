"""Assets as tables, through real Dagster runs; rows as Arrow, so that no JVM is needed."""

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, col
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize, vacuum
from delta_ops.orchestration import DeltaIOManager, DeltaLogResource, SourcePart
from delta_ops.storage import FileInfo
from delta_ops.storage.local.storage import LocalStorage
from tests.support.lost_commits import replace_commit
from tests.support.tables import rows, rows_by_deltalake

DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-02-01")


def io(root: Path) -> dict[str, Any]:
    return {"io_manager": DeltaIOManager(root=str(root))}


def versions(instance: dg.DagsterInstance, asset: dg.AssetsDefinition) -> list[str | None]:
    """Data versions of the asset's materializations, oldest first."""
    records = instance.fetch_materializations(dg.AssetRecordsFilter(asset_key=asset.key), limit=99)
    return [
        record.asset_materialization.tags.get("dagster/data_version")  # type: ignore[union-attr]
        for record in reversed(records.records)
    ]


@dg.asset
def numbers() -> pa.Table:
    return pa.table({"id": [1, 2]})


def test_a_materialization_carries_the_version_of_the_table(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    for _ in range(2):
        assert dg.materialize([numbers], instance=instance, resources=io(tmp_path)).success
    table_id = DeltaLog(tmp_path / "numbers").snapshot().metadata.id[:8]
    assert versions(instance, numbers) == [f"{table_id}@0", f"{table_id}@1"]
    assert rows_by_deltalake(tmp_path / "numbers") == [{"id": 1}, {"id": 2}]


def test_a_table_is_opened_once_for_an_output(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    dg.materialize([numbers], instance=instance, resources=io(tmp_path))
    list_from, listed = LocalStorage.list_from, []

    def note(self: LocalStorage, directory: str, start: str) -> Iterator[FileInfo]:
        listed.append(directory)
        return list_from(self, directory, start)

    monkeypatch.setattr(LocalStorage, "list_from", note)
    dg.materialize([numbers], instance=instance, resources=io(tmp_path))
    assert listed == ["_delta_log"]


@pytest.mark.parametrize(("checkpoint", "num_files"), [("inline", 1), ("scheduled", 50)])
def test_a_writer_compacts_a_table_with_the_property(
    tmp_path: Path, instance: dg.DagsterInstance, checkpoint: str, num_files: int
) -> None:
    @dg.asset(metadata={"delta/mode": "append"})
    def many() -> pa.Table:
        return pa.table({"id": [49]})

    requested = {"delta.autoOptimize.autoCompact": "true"}
    for number in range(49):
        da.write(tmp_path / "many", pa.table({"id": [number]}), configuration=requested)
    manager = DeltaIOManager(root=str(tmp_path), checkpoint=checkpoint)
    assert dg.materialize([many], instance=instance, resources={"io_manager": manager}).success
    table = DeltaLog(tmp_path / "many").snapshot()
    assert len(table.add_files()) == num_files
    assert [str(each).partition("@")[2] for each in versions(instance, many)] == ["49"]
    found = sorted(row["id"] for row in rows_by_deltalake(tmp_path / "many"))
    assert found == list(range(50))


def test_metadata_of_a_table_in_the_ui_are_present(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    dg.materialize([numbers], instance=instance, resources=io(tmp_path))
    event = instance.get_latest_materialization_event(numbers.key)
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert metadata["delta/version"].value == 0
    assert metadata["delta/rows_written"].value == 2
    assert metadata["dagster/uri"].value == str(tmp_path / "numbers")
    assert [c.name for c in metadata["dagster/column_schema"].value.columns] == ["id"]  # type: ignore[union-attr]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(
            {"delta/mode": "append", "delta/merge_schema": True},
            [{"id": 1, "n": None}, {"id": 2, "n": "x"}],
            id="columns are added",
        ),
        pytest.param({"delta/merge_schema": True}, [{"id": 2, "n": "x"}], id="and rows replaced"),
        pytest.param(
            {"delta/overwrite_schema": True, "delta/partition_by": "n"},
            [{"id": 2, "n": "x"}],
            id="columns are replaced",
        ),
    ],
)
def test_an_output_may_change_the_columns(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    metadata: dict[str, Any],
    expected: list[dict[str, Any]],
) -> None:
    outputs = [pa.table({"id": [1]}), pa.table({"id": [2], "n": ["x"]})]

    @dg.asset(metadata={**metadata, "delta/partition_by": None})
    def first() -> pa.Table:
        return outputs[0]

    @dg.asset(name="first", metadata=metadata)
    def second() -> pa.Table:
        return outputs[1]

    for asset in (first, second):
        assert dg.materialize([asset], instance=instance, resources=io(tmp_path)).success
    log = DeltaLog(tmp_path / "first")
    assert rows(da.to_table(log)) == expected
    assert log.snapshot().partition_columns == (("n",) if "delta/partition_by" in metadata else ())


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"delta/mode": "upsert"}, "delta/mode 'upsert'; choose append, overwrite, merge, error"),
        ({"delta/mode": "append", "delta/overwrite_schema": True}, 'needs delta/mode: "overwrite"'),
        ({"delta/merge_schema": "true"}, "merge_schema 'true', of type str"),
    ],
)
def test_metadata_that_make_no_sense_are_refused(
    tmp_path: Path, instance: dg.DagsterInstance, metadata: dict[str, Any], message: str
) -> None:
    @dg.asset(metadata=metadata)
    def wrong() -> pa.Table:
        return pa.table({"id": [1]})

    with pytest.raises(InvalidRequestError) as refused:
        dg.materialize([wrong], instance=instance, resources=io(tmp_path))
    assert message in str(refused.value)


def test_a_commit_that_was_lost_is_a_warning_of_the_next_run(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    dg.materialize([numbers], instance=instance, resources=io(tmp_path))
    lost = dg.materialize([numbers], instance=instance, resources=io(tmp_path))
    replace_commit(DeltaLog(tmp_path / "numbers"), 1)
    after = dg.materialize([numbers], instance=instance, resources=io(tmp_path))
    assert not warnings_of(lost, instance)
    assert "rerun the operation that committed version 1" in "".join(warnings_of(after, instance))


def warnings_of(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance) -> list[str]:
    entries = instance.all_logs(result.run_id)
    return [entry.user_message for entry in entries if entry.level == logging.WARNING]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "column_type",
    [
        pytest.param(pa.date32(), id="dates"),
        pytest.param(pa.string(), id="texts"),
        pytest.param(pa.timestamp("us", "UTC"), id="timestamps"),
        pytest.param(pa.timestamp("us"), id="timestamps without a zone"),
    ],
)
def test_a_partition_replaces_its_slice_and_nothing_else(
    tmp_path: Path, instance: dg.DagsterInstance, column_type: pa.DataType
) -> None:
    runs = iter(range(99))

    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def daily(context: dg.AssetExecutionContext) -> pa.Table:
        key = context.partition_key
        day = pa.array([key if column_type == pa.string() else date.fromisoformat(key)])
        return pa.table({"day": day.cast(column_type), "run": [next(runs)]})

    for key in ("2026-01-01", "2026-01-02", "2026-01-01"):
        dg.materialize([daily], partition_key=key, instance=instance, resources=io(tmp_path))
    found = da.to_table(DeltaLog(tmp_path / "daily"))
    assert sorted(found["run"].to_pylist()) == [1, 2]


def test_integer_partitions_do_not_destroy_each_other(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(
        partitions_def=dg.StaticPartitionsDefinition(["1", "2", "3"]),
        metadata={"partition_expr": "p"},
    )
    def numbered(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"p": pa.array([int(context.partition_key)], pa.int32()), "x": [0]})

    for key in ("1", "2", "3", "2"):
        dg.materialize([numbered], partition_key=key, instance=instance, resources=io(tmp_path))
    assert sorted(row["p"] for row in rows_by_deltalake(tmp_path / "numbered")) == [1, 2, 3]


def test_a_weekly_partition_loads_its_whole_week(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    weeks = dg.WeeklyPartitionsDefinition(start_date="2026-01-04", end_date="2026-03-01")
    loaded: list[int] = []

    @dg.asset(partitions_def=weeks, metadata={"partition_expr": "day"})
    def weekly(context: dg.AssetExecutionContext) -> pa.Table:
        start = context.partition_time_window.start
        days = [date.fromordinal(start.date().toordinal() + i) for i in range(7)]
        return pa.table({"day": days, "x": list(range(7))})

    @dg.asset(partitions_def=weeks)
    def follower(weekly: pa.Table) -> None:
        loaded.append(len(weekly))

    for key in ("2026-01-04", "2026-01-11"):
        both = [weekly, follower]
        dg.materialize(both, partition_key=key, instance=instance, resources=io(tmp_path))
    assert loaded == [7, 7]
    assert len(rows_by_deltalake(tmp_path / "weekly")) == 14


def test_days_of_another_time_zone_are_windows_of_utc(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    days = dg.DailyPartitionsDefinition(
        start_date="2026-01-01", end_date="2026-02-01", timezone="America/New_York"
    )

    @dg.asset(partitions_def=days, metadata={"partition_expr": "at"})
    def local(context: dg.AssetExecutionContext) -> pa.Table:
        at = context.partition_time_window.start.astimezone(UTC)
        return pa.table({"at": pa.array([at], pa.timestamp("us", "UTC")), "x": [1]})

    for key in ("2026-01-01", "2026-01-02", "2026-01-02"):
        dg.materialize([local], partition_key=key, instance=instance, resources=io(tmp_path))
    assert sorted(row["at"] for row in rows_by_deltalake(tmp_path / "local")) == [
        datetime(2026, 1, 1, 5, tzinfo=UTC),
        datetime(2026, 1, 2, 5, tzinfo=UTC),
    ]


def test_an_empty_partition_empties_its_slice(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    data = iter([1, 1, 0])

    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def daily(context: dg.AssetExecutionContext) -> pa.Table:
        day = [date.fromisoformat(context.partition_key)]
        return pa.table({"day": day, "x": [1]}).slice(0, next(data))

    for key in ("2026-01-01", "2026-01-02", "2026-01-01"):
        dg.materialize([daily], partition_key=key, instance=instance, resources=io(tmp_path))
    assert [row["day"] for row in rows_by_deltalake(tmp_path / "daily")] == [date(2026, 1, 2)]


def test_partitions_without_a_column_are_refused(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=DAYS)
    def daily() -> pa.Table:
        return pa.table({"day": [date(2026, 1, 1)]})

    with pytest.raises(Exception, match="partition_expr"):
        dg.materialize(
            [daily], partition_key="2026-01-01", instance=instance, resources=io(tmp_path)
        )
    assert not DeltaLog(tmp_path / "daily").exists()


def test_rows_outside_of_the_partition_are_refused(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def daily() -> pa.Table:
        return pa.table({"day": [date(2026, 1, 9)], "x": [1]})

    with pytest.raises(Exception, match=r"for which .*day.*2026-01-01.* is not true, .*outside"):
        dg.materialize(
            [daily], partition_key="2026-01-01", instance=instance, resources=io(tmp_path)
        )
    assert not DeltaLog(tmp_path / "daily").exists()


def rerun(
    asset: dg.AssetsDefinition,
    instance: dg.DagsterInstance,
    resources: dict[str, Any],
    first: dg.ExecuteInProcessResult,
    **tags: str,
) -> dg.ExecuteInProcessResult:
    """Execute the job of a run again, as a re-execution of the run."""
    job = dg.Definitions(
        assets=[asset], resources=resources
    ).resolve_implicit_global_asset_job_def()
    root = first.dagster_run.root_run_id or first.run_id
    return job.execute_in_process(
        instance=instance,
        tags={"dagster/root_run_id": root, "dagster/parent_run_id": first.run_id, **tags},
        raise_on_error=False,
    )


def lines(fails: Iterator[bool]) -> dg.AssetsDefinition:
    """An asset that appends a row; after the write its run fails if `fails` says so."""

    @dg.multi_asset(
        outs={"log_lines": dg.AssetOut(metadata={"delta/mode": "append"})},
    )
    def log_lines() -> Iterator[dg.Output[pa.Table]]:
        yield dg.Output(pa.table({"x": [1]}), output_name="log_lines")
        if next(fails, False):
            raise RuntimeError("killed after the commit")

    return log_lines


def test_a_retry_in_the_same_run_does_not_append_twice(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    attempts: list[int] = []

    @dg.asset(metadata={"delta/mode": "append"}, retry_policy=dg.RetryPolicy(max_retries=2))
    def log_lines(context: dg.AssetExecutionContext) -> Iterator[dg.Output[pa.Table]]:
        attempts.append(context.retry_number)
        yield dg.Output(pa.table({"x": [1]}))
        if context.retry_number < 2:
            raise dg.RetryRequested(max_retries=2)

    dg.materialize([log_lines], instance=instance, resources=io(tmp_path), raise_on_error=False)
    assert attempts == [0, 1, 2]
    assert rows_by_deltalake(tmp_path / "log_lines") == [{"x": 1}]


def test_a_new_run_appends_again(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    for _ in range(2):
        dg.materialize([lines(iter([]))], instance=instance, resources=io(tmp_path))
    assert len(rows_by_deltalake(tmp_path / "log_lines")) == 2


def test_a_re_execution_of_a_failed_run_finds_what_it_committed(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    asset = lines(iter([True]))
    resources = io(tmp_path)
    failed = dg.materialize([asset], instance=instance, resources=resources, raise_on_error=False)
    assert not failed.success
    again = rerun(asset, instance, resources, failed, **{"dagster/is_resume_retry": "true"})
    assert again.success
    assert rows_by_deltalake(tmp_path / "log_lines") == [{"x": 1}]


def test_a_run_that_succeeded_and_is_run_again_on_purpose_appends_again(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    asset = lines(iter([]))
    first = dg.materialize([asset], instance=instance, resources=io(tmp_path))
    assert rerun(asset, instance, io(tmp_path), first).success
    assert len(rows_by_deltalake(tmp_path / "log_lines")) == 2


def part(value: int, position: int) -> SourcePart:
    return SourcePart(
        data=pa.table({"file": ["a.csv"], "x": [value]}),
        source="a.csv",
        position=position,
        replaces=col("file") == "a.csv",
    )


def test_a_source_is_ingested_once_and_a_new_position_replaces_its_rows(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    parts = iter([[part(1, 10)], [part(1, 10)], [part(2, 20)], [part(1, 10)]])

    @dg.asset(metadata={"delta/idempotency": "source"})
    def raw() -> list[SourcePart]:
        return next(parts)

    seen = []
    for _ in range(4):
        dg.materialize([raw], instance=instance, resources=io(tmp_path))
        seen.append([row["x"] for row in rows_by_deltalake(tmp_path / "raw")])
    assert seen == [[1], [1], [2], [2]]
    assert DeltaLog(tmp_path / "raw").snapshot().version == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(
            [part(1, 10), part(2, 10)],
            "a.csv with the position 10 after.* 10",
            id="a position twice",
        ),
        pytest.param(
            [part(2, 20), part(1, 10)], "a.csv with the position 10 after.* 20", id="newest first"
        ),
        pytest.param([part(1, 2**63)], "position 9223372036854775808; give", id="over 64 bits"),
        pytest.param([part(1, "10")], "position '10'; give a whole number", id="a text"),  # type: ignore[arg-type]
        pytest.param([part(1, 10), {"x": 1}], "returned a list of dict", id="another type"),
        pytest.param(part(1, 10), "returned a SourcePart; return a list", id="no list"),
    ],
)
def test_parts_that_could_not_all_be_committed_are_rejected_before_the_first_commit(
    tmp_path: Path, value: Any, message: str
) -> None:
    context = dg.build_output_context(
        asset_key=dg.AssetKey("raw"), definition_metadata={"delta/idempotency": "source"}
    )
    with pytest.raises(InvalidRequestError, match=message):
        DeltaIOManager(root=str(tmp_path)).handle_output(context, value)
    assert not DeltaLog(tmp_path / "raw").exists()


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_parts_are_not_added_to_a_table_that_is_to_stay_as_it_is(
    tmp_path: Path, instance: dg.DagsterInstance, mode: str
) -> None:
    da.write(tmp_path / "raw", pa.table({"file": ["a.csv"], "x": [0]}))

    @dg.asset(metadata={"delta/mode": mode})
    def raw() -> list[SourcePart]:
        return [part(1, 10)]

    with pytest.raises(InvalidRequestError, match=f"delta/mode '{mode}'.*SourcePart"):
        dg.materialize([raw], instance=instance, resources=io(tmp_path))
    assert [row["x"] for row in rows_by_deltalake(tmp_path / "raw")] == [0]


def test_a_run_after_a_forced_re_execution_continues_it(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """The first run succeeds; its repetition fails after the commit and is continued."""
    asset = lines(iter([False, True]))
    resources = io(tmp_path)
    first = dg.materialize([asset], instance=instance, resources=resources)
    second = rerun(asset, instance, resources, first)
    assert not second.success
    third = rerun(asset, instance, resources, second, **{"dagster/retry_number": "1"})
    assert third.success
    assert len(rows_by_deltalake(tmp_path / "log_lines")) == 2


def ranged(values: Iterator[Any]) -> dg.AssetsDefinition:
    """An asset of daily partitions, a whole range in one run; a value other than text fails it."""

    @dg.asset(
        partitions_def=DAYS,
        backfill_policy=dg.BackfillPolicy.single_run(),
        metadata={"partition_expr": "day", "delta/idempotency": "partition"},
    )
    def state(context: dg.AssetExecutionContext) -> pa.Table:
        value = next(values)
        if not isinstance(value, str):
            raise RuntimeError("killed before the write")
        days = [date.fromisoformat(key) for key in context.partition_keys]
        return pa.table({"day": days, "x": [value] * len(days)})

    return state


def over(first: str, last: str) -> dict[str, str]:
    return {
        "dagster/asset_partition_range_start": first,
        "dagster/asset_partition_range_end": last,
    }


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")
def test_a_run_that_a_newer_one_overtook_in_one_partition_changes_nothing(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    state = ranged(iter([None, "new", "old"]))
    wide = over("2026-01-01", "2026-01-03")
    defs = dg.Definitions(
        assets=[state], resources=io(tmp_path), jobs=[dg.define_asset_job("job", [state])]
    )
    job = defs.resolve_job_def("job")
    first = job.execute_in_process(instance=instance, tags=wide, raise_on_error=False)
    assert not first.success
    narrow = over("2026-01-02", "2026-01-02")
    assert job.execute_in_process(instance=instance, tags=narrow).success
    late = job.execute_in_process(
        instance=instance,
        tags={**wide, "dagster/root_run_id": first.run_id, "dagster/parent_run_id": first.run_id},
        raise_on_error=False,
    )
    (failure,) = [event for event in late.all_events if event.is_step_failure]
    assert "newer run" in str(failure.step_failure_data.error)
    assert rows_by_deltalake(tmp_path / "state") == [{"day": date(2026, 1, 2), "x": "new"}]


def test_a_succeeded_overwrite_that_is_run_again_on_purpose_writes_again(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    values = iter([1, 2])

    @dg.asset(metadata={"delta/idempotency": "partition"})
    def state() -> pa.Table:
        return pa.table({"x": [next(values)]})

    first = dg.materialize([state], instance=instance, resources=io(tmp_path))
    assert rerun(state, instance, io(tmp_path), first).success
    assert rows_by_deltalake(tmp_path / "state") == [{"x": 2}]


def test_a_rerun_that_finds_its_work_done_does_not_take_readers_back(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    names = iter(["a", "b", "a"])
    counted: list[int] = []

    @dg.asset(metadata={"delta/idempotency": "source"})
    def raw() -> list[SourcePart]:
        name = next(names)
        return [SourcePart(data=pa.table({"file": [name]}), source=name, position=1)]

    @dg.asset
    def follower(raw: pa.Table) -> None:
        counted.append(len(raw))

    for _ in range(3):
        dg.materialize([raw, follower], instance=instance, resources=io(tmp_path))
    assert counted == [1, 2, 2]


def test_maintenance_does_not_take_the_input_from_under_a_reader(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    loaded: list[int] = []

    @dg.asset(metadata={"delta/mode": "append"})
    def raw() -> pa.Table:
        return pa.table({"x": [1]})

    @dg.asset
    def follower(raw: pa.Table) -> None:
        loaded.append(len(raw))

    resources = io(tmp_path)
    for _ in range(2):
        dg.materialize([raw], instance=instance, resources=resources)
    log = DeltaLog(tmp_path / "raw")
    optimize(log)
    vacuum(log, retention=timedelta(0), enforce_retention=False, clock=lambda: 4_000_000_000_000)
    dg.materialize([raw, follower], selection=[follower], instance=instance, resources=resources)
    assert loaded == [2]


def test_an_unknown_idempotency_is_refused(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.asset(metadata={"delta/idempotency": "sources"})
    def raw() -> pa.Table:
        return pa.table({"x": [1]})

    with pytest.raises(Exception, match="choose from run, source, partition"):
        dg.materialize([raw], instance=instance, resources=io(tmp_path))


def test_an_input_is_read_at_the_version_that_its_run_saw(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    read: list[Snapshot] = []

    @dg.asset
    def follower(numbers: Snapshot) -> None:
        read.append(numbers)

    dg.materialize([numbers], instance=instance, resources=io(tmp_path))
    da.write(tmp_path / "numbers", pa.table({"id": [3]}))
    both = [numbers, follower]
    dg.materialize(both, selection=[follower], instance=instance, resources=io(tmp_path))
    assert [snapshot.version for snapshot in read] == [0]
    event = instance.get_latest_materialization_event(follower.key)
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["delta/input_version/numbers"].value == 0


def test_input_columns_are_columns(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    loaded: list[pa.Table] = []

    @dg.asset
    def wide() -> pa.Table:
        return pa.table({"a": [1], "b": [2]})

    @dg.asset(ins={"wide": dg.AssetIn(metadata={"columns": ["a"]})})
    def follower(wide: pa.Table) -> None:
        loaded.append(wide)

    dg.materialize([wide, follower], instance=instance, resources=io(tmp_path))
    assert [rows(table) for table in loaded] == [[{"a": 1}]]


def test_a_resource_gives_snapshots_and_transactions(tmp_path: Path) -> None:
    da.write(tmp_path / "t", pa.table({"x": [1]}))
    resource = DeltaLogResource(root=str(tmp_path))
    txn = resource.begin("t")
    txn.set_transaction(("app", 7))
    txn.commit(operation="MANUAL UPDATE")
    assert resource.snapshot("t").transactions()["app"].version == 7
