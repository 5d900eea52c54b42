"""Write, audit, publish: audited assets, their blocking checks, and the asset that publishes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import (
    DeltaIOManager,
    SourcePart,
    audit_metadata,
    build_publish_asset,
    open_audit_branch,
)
from delta_ops.orchestration.dagster_versions import VERSION
from delta_ops.orchestration.io_manager.audit_branches import find_staged
from delta_ops.orchestration.publish.audits import audits_of, problems_of
from delta_ops.versioning import delete_branch, list_branches
from tests.orchestration.commit_watch import Watch, ref, versions
from tests.support.tables import rows_by_deltalake

AUDITED = {"delta/publish": "audited", "delta/table": "orders"}
KEY = dg.AssetKey("new_orders")
JOBS_HAVE_ALL_CHECKS = pytest.mark.skipif(
    VERSION < (1, 11), reason="a job of this Dagster has no checks of assets that it does not run"
)


class Pipeline:
    """An audited asset whose rows and checks a test decides, and its publish asset."""

    def __init__(self, lake: Path, instance: dg.DagsterInstance, **metadata: Any) -> None:
        self.lake, self.instance = lake, instance
        self.table = lake / "orders"
        self.ids: Any = [1]
        self.is_right, self.severity = True, dg.AssetCheckSeverity.ERROR
        self.seen: list[list[int]] = []

        @dg.asset(metadata={**AUDITED, **metadata})
        def new_orders() -> Any:
            return pa.table({"id": self.ids}) if isinstance(self.ids, list) else self.ids()

        @dg.asset_check(asset=new_orders, blocking=True)
        def is_right(
            context: dg.AssetCheckExecutionContext, new_orders: pa.Table
        ) -> dg.AssetCheckResult:
            self.seen.append(sorted(new_orders["id"].to_pylist()))
            return dg.AssetCheckResult(
                passed=self.is_right, severity=self.severity, metadata=audit_metadata(context)
            )

        self.orders = build_publish_asset(new_orders, "orders")

        @dg.asset
        def num_orders(orders: pa.Table) -> pa.Table:
            return pa.table({"n": [len(orders)]})

        self.new_orders, self.check, self.num_orders = new_orders, is_right, num_orders

    def run(self, *selected: Any, **options: Any) -> Any:
        definitions = selected or (self.new_orders, self.check, self.orders, self.num_orders)
        return dg.materialize(
            definitions,
            instance=self.instance,
            resources={"io_manager": DeltaIOManager(root=str(self.lake))},
            raise_on_error=False,
            **options,
        )

    def publish(self) -> Any:
        """Run the publish asset alone."""
        return self.run(self.new_orders, self.check, self.orders, selection=[self.orders])

    def definitions(self) -> dg.Definitions:
        return dg.Definitions(
            assets=[self.new_orders, self.orders, self.num_orders],
            asset_checks=[self.check],
            resources={"io_manager": DeltaIOManager(root=str(self.lake))},
        )

    def again(self, result: Any, *selected: str) -> Any:
        """Run again, as a re-execution of a failed run."""
        return (
            self.definitions()
            .resolve_implicit_global_asset_job_def()
            .execute_in_process(
                instance=self.instance,
                raise_on_error=False,
                op_selection=list(selected) or None,
                tags={
                    "dagster/parent_run_id": result.run_id,
                    "dagster/root_run_id": result.run_id,
                },
            )
        )

    @property
    def main(self) -> list[int]:
        return sorted(row["id"] for row in rows_by_deltalake(self.table))

    def event(self, key: str) -> dg.AssetMaterialization | None:
        entry = self.instance.get_latest_materialization_event(dg.AssetKey(key))
        return entry.asset_materialization if entry else None

    def failure(self, result: Any, step: str) -> Any:
        return result.failure_data_for_node(step)


@pytest.fixture
def pipeline(tmp_path: Path, instance: dg.DagsterInstance) -> Pipeline:
    return Pipeline(tmp_path, instance)


def test_rows_are_published_after_their_checks_and_before_readers(pipeline: Pipeline) -> None:
    assert pipeline.run().success
    assert (pipeline.seen, pipeline.main) == ([[1]], [1])
    assert da.to_table(pipeline.lake / "num_orders")["n"].to_pylist() == [1]
    assert list_branches(pipeline.table) == []


def test_main_stays_as_it_was_if_a_check_fails(pipeline: Pipeline) -> None:
    pipeline.run()
    version = DeltaLog(pipeline.table).snapshot().version
    pipeline.ids, pipeline.is_right = [2, 3], False
    result = pipeline.run()
    assert not result.success
    assert (pipeline.main, DeltaLog(pipeline.table).snapshot().version) == ([1], version)
    steps = {event.step_key for event in result.get_step_success_events()}
    assert steps == {"new_orders"}


def test_the_materialization_names_the_branch_of_rows_that_failed(pipeline: Pipeline) -> None:
    pipeline.run()
    pipeline.ids, pipeline.is_right = [2, 3], False
    result = pipeline.run()
    event = pipeline.event("new_orders")
    assert event is not None
    branch = event.metadata["delta/branch"].value
    assert branch == f"audit/new_orders/{result.run_id}"
    assert da.to_table(pipeline.table, ref=f"branch:{branch}")["id"].to_pylist() == [2, 3]
    assert f"ref='branch:{branch}'" in str(event.metadata["delta/read_branch"].value)
    assert "delta/version" not in event.metadata


def test_the_failed_check_names_the_branch_of_its_rows(pipeline: Pipeline) -> None:
    pipeline.run()
    pipeline.ids, pipeline.is_right = [2, 3], False
    (evaluation,) = pipeline.run().get_asset_check_evaluations()
    event = pipeline.event("new_orders")
    assert event is not None
    for key in ("delta/branch", "delta/branch_version", "delta/read_branch"):
        assert evaluation.metadata[key] == event.metadata[key]


@JOBS_HAVE_ALL_CHECKS
def test_a_check_of_published_rows_names_no_branch(pipeline: Pipeline) -> None:
    pipeline.run()
    only = dg.AssetSelection.checks_for_assets(KEY)
    result = pipeline.run(pipeline.new_orders, pipeline.check, selection=only)
    (evaluation,) = result.get_asset_check_evaluations()
    assert (pipeline.seen, dict(evaluation.metadata)) == ([[1], [1]], {})


def test_a_failed_check_that_only_warns_does_not_stop_the_publication(pipeline: Pipeline) -> None:
    pipeline.is_right, pipeline.severity = False, dg.AssetCheckSeverity.WARN
    assert pipeline.run().success
    assert pipeline.main == [1]


def test_a_check_that_the_run_leaves_out_blocks_the_publication(pipeline: Pipeline) -> None:
    result = pipeline.run(pipeline.new_orders, pipeline.check)
    run = pipeline.instance.get_run_by_id(result.run_id)
    assert run is not None
    staged = find_staged(pipeline.instance, run, KEY, None)[None]
    left_out = dg.AssetCheckKey(KEY, "is_complete")
    audits = audits_of(pipeline.instance, run, KEY, [left_out], staged)
    assert list(problems_of(audits)) == ["the check is_complete was not executed"]


def test_rows_without_any_blocking_check_are_not_published(pipeline: Pipeline) -> None:
    result = pipeline.run(pipeline.new_orders, pipeline.orders)
    failure = pipeline.failure(result, "orders").user_failure_data
    assert "has no blocking check" in str(failure.description)
    assert "delta/branch" in failure.metadata
    assert pipeline.main == []


@pytest.mark.parametrize("is_published", [True, False])
def test_a_run_warns_if_no_asset_publishes_its_rows(pipeline: Pipeline, is_published: bool) -> None:
    publish_asset = [pipeline.orders] if is_published else []
    result = pipeline.run(pipeline.new_orders, pipeline.check, *publish_asset)
    messages = [entry.user_message for entry in pipeline.instance.all_logs(result.run_id)]
    warned = any("so its rows stay on a branch" in message for message in messages)
    assert warned is not is_published


@JOBS_HAVE_ALL_CHECKS
def test_another_run_publishes_rows_that_were_checked(pipeline: Pipeline) -> None:
    assert pipeline.run(pipeline.new_orders, pipeline.check).success
    assert pipeline.main == []
    pipeline.publish()
    assert pipeline.main == [1]


@JOBS_HAVE_ALL_CHECKS
def test_a_check_that_is_executed_alone_checks_the_rows_that_wait(pipeline: Pipeline) -> None:
    pipeline.is_right = False
    assert not pipeline.run().success
    pipeline.is_right = True
    only = dg.AssetSelection.checks_for_assets(KEY)
    assert pipeline.run(pipeline.new_orders, pipeline.check, selection=only).success
    assert pipeline.seen == [[1], [1]]
    assert pipeline.publish().success
    assert pipeline.main == [1]


@pytest.mark.full
def test_an_evaluation_of_earlier_rows_does_not_count(pipeline: Pipeline) -> None:
    assert pipeline.run().success
    pipeline.ids = [2]
    assert pipeline.run(pipeline.new_orders).success
    result = pipeline.publish()
    assert not result.success
    assert pipeline.main == [1]


@pytest.mark.full
def test_a_second_publication_of_the_same_rows_changes_nothing(pipeline: Pipeline) -> None:
    assert pipeline.run().success
    version = DeltaLog(pipeline.table).snapshot().version
    assert pipeline.publish().success
    assert DeltaLog(pipeline.table).snapshot().version == version
    event = pipeline.event("orders")
    assert event is not None
    assert event.metadata["delta/adopted"].value is True


def test_a_re_execution_after_a_failed_check_writes_a_new_branch(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    pipeline = Pipeline(tmp_path, instance, **{"delta/mode": "append"})
    pipeline.is_right = False
    first = pipeline.run()
    pipeline.ids, pipeline.is_right = [2], True
    assert pipeline.again(first).success
    assert pipeline.main == [2]


def test_a_re_execution_from_the_check_on_publishes_the_branch_of_the_failed_run(
    pipeline: Pipeline,
) -> None:
    pipeline.is_right = False
    first = pipeline.run()
    pipeline.ids, pipeline.is_right = [2], True
    assert pipeline.again(first, "new_orders_is_right", "orders", "num_orders").success
    assert (pipeline.main, pipeline.seen) == ([1], [[1], [1]])


def test_an_append_that_was_published_is_not_written_again(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    pipeline = Pipeline(tmp_path, instance, **{"delta/mode": "append"})
    first = pipeline.run()
    instance.report_run_failed(instance.get_run_by_id(first.run_id))  # type: ignore[arg-type]
    assert pipeline.again(first).success
    assert pipeline.main == [1]


@pytest.mark.full
def test_a_deleted_branch_is_reported_and_not_published(pipeline: Pipeline) -> None:
    pipeline.run(pipeline.new_orders, pipeline.check)
    (branch,) = list_branches(pipeline.table)
    delete_branch(pipeline.table, branch.name)
    result = pipeline.publish()
    text = str(pipeline.failure(result, "orders").user_failure_data.description)
    assert "was deleted before it was published" in text


@JOBS_HAVE_ALL_CHECKS
def test_a_conflict_with_main_is_an_error_that_names_the_branch(pipeline: Pipeline) -> None:
    pipeline.run()
    pipeline.run(pipeline.new_orders, pipeline.check)
    da.write(pipeline.table, pa.table({"id": [9]}))
    result = pipeline.publish()
    failure = pipeline.failure(result, "orders").user_failure_data
    assert "Materialize new_orders again" in str(failure.description)
    assert "delta/branch" in failure.metadata
    assert pipeline.main == [1, 9]
    assert pipeline.run().success
    assert pipeline.main == [1]


@pytest.mark.full
def test_source_parts_are_staged_and_published_once(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    pipeline = Pipeline(
        tmp_path, instance, **{"delta/mode": "append", "delta/idempotency": "source"}
    )
    pipeline.ids = lambda: [
        SourcePart(data=pa.table({"id": [each]}), source=f"{each}.csv", position=1)
        for each in (1, 2)
    ]
    assert pipeline.run().success
    assert pipeline.run().success
    assert pipeline.main == [1, 2]


@pytest.mark.full
def test_an_audited_output_creates_its_table_and_replaces_its_columns(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    pipeline = Pipeline(tmp_path, instance, **{"delta/overwrite_schema": True})
    assert pipeline.run().success
    pipeline.ids = lambda: pa.table({"id": ["a"], "more": [1]})
    assert pipeline.run().success
    assert da.to_table(pipeline.table).to_pylist() == [{"id": "a", "more": 1}]


@pytest.mark.full
def test_strings_of_the_asset_are_in_the_commit_on_main(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    pipeline = Pipeline(tmp_path, instance, **{"delta/user_metadata": {"source": "shop"}})
    result = pipeline.run()
    newest = next(iter(DeltaLog(pipeline.table).history(limit=1)))
    assert newest.operation == "PUBLISH BRANCH"
    assert '"source":"shop"' in (newest.user_metadata or "")
    assert result.run_id in (newest.user_metadata or "")
    assert '"dagster/asset":"orders"' in (newest.user_metadata or "")


def test_the_publish_asset_reports_the_version_that_it_committed(pipeline: Pipeline) -> None:
    pipeline.run()
    event = pipeline.event("orders")
    assert event is not None
    snapshot = DeltaLog(pipeline.table).snapshot()
    assert event.metadata["delta/version"].value == snapshot.version
    assert event.metadata["delta/rows_written"].value == 1
    assert event.metadata["dagster/row_count"].value == 1
    assert (event.tags or {})["dagster/data_version"] == (
        f"{snapshot.metadata.id[:8]}@{snapshot.version}"
    )


@pytest.mark.parametrize("read", ["latest", "materialized"])
def test_the_tag_of_a_run_cannot_make_a_check_read_main(pipeline: Pipeline, read: str) -> None:
    assert pipeline.run(tags={"delta_ops/read": read}).success
    assert pipeline.seen == [[1]]


def test_the_metadata_of_an_input_may_choose_main(pipeline: Pipeline) -> None:
    seen: list[int] = []

    @dg.asset(ins={"published": dg.AssetIn(KEY, metadata={"delta/read": "latest"})})
    def report(published: pa.Table) -> None:
        seen.append(len(published))

    assert pipeline.run(pipeline.new_orders, pipeline.check, report).success
    assert (seen, pipeline.seen) == ([0], [[1]])


def test_the_commit_sensor_does_not_report_a_publication_again(pipeline: Pipeline) -> None:
    watch = Watch(pipeline.instance, ref(pipeline.lake))
    pipeline.run()
    watch.tick()
    pipeline.run()
    assert watch.tick() == []
    da.write(pipeline.table, pa.table({"id": [9]}))
    assert versions(watch.tick()) == [3]


# One step: the checks are in the step of the asset.


def one_step_asset(has_passed: bool, *, check_first: bool) -> dg.AssetsDefinition:
    spec = dg.AssetCheckSpec("is_right", asset=KEY, blocking=True)

    @dg.asset(key=KEY, metadata=AUDITED, check_specs=[spec])
    def new_orders() -> Iterator[Any]:
        result = dg.AssetCheckResult(passed=has_passed)
        output = dg.Output(pa.table({"id": [1]}))
        yield from (result, output) if check_first else (output, result)

    return new_orders


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("check_first", [True, False], ids=["check first", "rows first"])
@pytest.mark.parametrize("has_passed", [True, False], ids=["passed", "failed"])
def test_checks_in_the_step_of_the_asset_decide_too(
    tmp_path: Path, instance: dg.DagsterInstance, has_passed: bool, check_first: bool
) -> None:
    asset = one_step_asset(has_passed, check_first=check_first)
    result = dg.materialize(
        [asset, build_publish_asset(asset, "orders")],
        instance=instance,
        resources={"io_manager": DeltaIOManager(root=str(tmp_path))},
        raise_on_error=False,
    )
    assert result.success is has_passed
    orders = tmp_path / "orders"  # Dagster 1.10 stores no output after a failed check
    published = rows_by_deltalake(orders) if orders.exists() else []
    assert published == ([{"id": 1}] if has_passed else [])


@pytest.mark.parametrize("checks_again", [True, False], ids=["checked again", "not checked again"])
def test_a_retried_step_publishes_only_rows_that_its_last_attempt_checked(
    tmp_path: Path, instance: dg.DagsterInstance, checks_again: bool
) -> None:
    attempts: list[int] = []
    spec = dg.AssetCheckSpec("is_right", asset=KEY, blocking=True)
    retry = dg.RetryPolicy(max_retries=1)

    @dg.asset(key=KEY, metadata=AUDITED, check_specs=[spec], retry_policy=retry)
    def new_orders() -> Iterator[Any]:
        attempts.append(len(attempts))
        yield dg.Output(pa.table({"id": attempts[-1:]}))
        if attempts == [0] or checks_again:
            yield dg.AssetCheckResult(passed=True)
        if attempts == [0]:
            raise RuntimeError

    result = dg.materialize(
        [new_orders, build_publish_asset(new_orders, "orders")],
        instance=instance,
        resources={"io_manager": DeltaIOManager(root=str(tmp_path))},
        raise_on_error=False,
    )
    assert (attempts, result.success) == ([0, 1], checks_again)
    assert rows_by_deltalake(tmp_path / "orders") == ([{"id": 1}] if checks_again else [])


# Assets that write by themselves.


def test_an_asset_writes_to_its_branch_by_itself(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path / "orders", pa.table({"id": [1, 2]}))
    pipeline = Pipeline(tmp_path, instance)

    @dg.asset(key=KEY, metadata=AUDITED)
    def new_orders(context: dg.AssetExecutionContext) -> DeltaLog:
        branch = open_audit_branch(context, DeltaLog(tmp_path / "orders"))
        da.delete(branch, "id = 1")
        return branch

    assert pipeline.run(new_orders, pipeline.check, pipeline.orders).success
    assert (pipeline.seen, pipeline.main) == ([[2]], [2])


def test_a_check_gets_the_handle_of_the_branch(pipeline: Pipeline) -> None:
    versions_seen: list[tuple[int, int]] = []

    @dg.asset_check(asset=pipeline.new_orders, blocking=True)
    def opens(new_orders: DeltaLog) -> dg.AssetCheckResult:
        versions_seen.append((new_orders.snapshot().version, new_orders.main.snapshot().version))
        return dg.AssetCheckResult(passed=da.count_rows(new_orders) == 1)

    assert pipeline.run(pipeline.new_orders, opens, pipeline.orders).success
    assert versions_seen == [(1, 0)]


def test_a_branch_without_commits_publishes_nothing(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path / "orders", pa.table({"id": [1]}))
    pipeline = Pipeline(tmp_path, instance)

    @dg.asset(key=KEY, metadata=AUDITED)
    def new_orders(context: dg.AssetExecutionContext) -> DeltaLog:
        return open_audit_branch(context, DeltaLog(tmp_path / "orders"))

    assert pipeline.run(new_orders, pipeline.check, pipeline.orders).success
    assert (pipeline.main, DeltaLog(tmp_path / "orders").snapshot().version) == ([1], 0)
    assert list_branches(tmp_path / "orders") == []


def test_an_asset_that_writes_nothing_publishes_nothing(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    pipeline = Pipeline(tmp_path, instance)
    assert pipeline.run().success

    @dg.asset(key=KEY, metadata=AUDITED)
    def new_orders() -> pa.Table | None:
        return None

    assert pipeline.run(new_orders, pipeline.check, pipeline.orders).success
    assert pipeline.main == [1]


def test_an_asset_that_returns_main_is_rejected(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path / "orders", pa.table({"id": [1]}))
    pipeline = Pipeline(tmp_path, instance)
    pipeline.ids = lambda: DeltaLog(tmp_path / "orders")
    result = pipeline.run()
    error = str(pipeline.failure(result, "new_orders").error)
    assert "must write to its branch" in error


# Partitions.

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-05")


def daily(lake: Path, failing: Sequence[str] = ()) -> list[Any]:
    @dg.asset(
        partitions_def=DAYS,
        metadata={**AUDITED, "partition_expr": "day"},
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def new_orders(context: dg.AssetExecutionContext) -> pa.Table:
        keys = list(context.partition_keys)
        return pa.table({"day": keys, "id": [int(key[-1]) for key in keys]})

    @dg.asset_check(asset=new_orders, blocking=True)
    def is_right(new_orders: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=not set(failing) & set(new_orders["day"].to_pylist()))

    return [new_orders, is_right, build_publish_asset(new_orders, "orders")]


def materialize(
    definitions: Sequence[Any], lake: Path, instance: dg.DagsterInstance, *keys: str, **options: Any
) -> Any:
    ranges = {
        "dagster/asset_partition_range_start": keys[0],
        "dagster/asset_partition_range_end": keys[-1],
    }
    return dg.materialize(
        definitions,
        instance=instance,
        resources={"io_manager": DeltaIOManager(root=str(lake))},
        raise_on_error=False,
        **({"tags": ranges} if len(keys) > 1 else {"partition_key": keys[0]}),
        **options,
    )


pytestmark = pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")


def days_of(lake: Path) -> list[str]:
    return sorted(row["day"] for row in rows_by_deltalake(lake / "orders"))


@pytest.mark.full
def test_partitions_are_checked_and_published_each(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    definitions = daily(tmp_path, failing=["2026-01-02"])
    passed = [
        materialize(definitions, tmp_path, instance, f"2026-01-0{day}").success for day in (1, 2, 3)
    ]
    assert passed == [True, False, True]
    assert days_of(tmp_path) == ["2026-01-01", "2026-01-03"]


def test_a_run_over_several_partitions_publishes_them_in_one_commit(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    keys = ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert materialize(daily(tmp_path), tmp_path, instance, *keys).success
    assert days_of(tmp_path) == keys
    assert DeltaLog(tmp_path / "orders").snapshot().version == 1
    records = instance.fetch_materializations(dg.AssetKey("orders"), limit=9).records
    assert {r.partition_key for r in records} == set(keys)
    assert {r.asset_materialization.metadata["delta/rows_written"].value for r in records} == {1}  # type: ignore[union-attr]


@pytest.mark.full
def test_one_failing_partition_of_a_run_keeps_all_of_them_from_main(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    definitions = daily(tmp_path, failing=["2026-01-02"])
    keys = ["2026-01-01", "2026-01-02"]
    assert not materialize(definitions, tmp_path, instance, *keys).success
    assert days_of(tmp_path) == []


@JOBS_HAVE_ALL_CHECKS
def test_branches_of_several_runs_are_published_by_one_run(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    assets = daily(tmp_path)
    keys = ["2026-01-01", "2026-01-02"]
    for key in keys:
        assert materialize(assets[:2], tmp_path, instance, key).success
    assert len(list_branches(tmp_path / "orders")) == 2
    result = materialize(assets, tmp_path, instance, *keys, selection=[assets[-1]])
    assert result.success
    assert days_of(tmp_path) == keys


@JOBS_HAVE_ALL_CHECKS
def test_partitions_that_main_got_meanwhile_stay(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    new_orders, check, orders = daily(tmp_path)
    assert materialize([new_orders, check], tmp_path, instance, "2026-01-01").success
    assert materialize([new_orders, check, orders], tmp_path, instance, "2026-01-02").success
    assets = [new_orders, check, orders]
    result = materialize(assets, tmp_path, instance, "2026-01-01", selection=[orders])
    assert result.success
    assert days_of(tmp_path) == ["2026-01-01", "2026-01-02"]


@pytest.mark.full
def test_partitions_of_two_dimensions_are_published_each(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    regions = dg.StaticPartitionsDefinition(["be", "nl"])
    both = dg.MultiPartitionsDefinition({"day": DAYS, "region": regions})
    columns = {"day": "day", "region": "region"}

    @dg.asset(partitions_def=both, metadata={**AUDITED, "partition_expr": columns})
    def new_orders(context: dg.AssetExecutionContext) -> pa.Table:
        day, region = context.partition_key.split("|")
        return pa.table({"day": [day], "region": [region]})

    @dg.asset_check(asset=new_orders, blocking=True)
    def is_right(new_orders: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed="nl" in new_orders["region"].to_pylist())

    definitions = [new_orders, is_right, build_publish_asset(new_orders, "orders")]
    keys = [dg.MultiPartitionKey({"day": "2026-01-01", "region": each}) for each in ("be", "nl")]
    passed = [materialize(definitions, tmp_path, instance, key).success for key in keys]
    assert passed == [False, True]
    assert [row["region"] for row in rows_by_deltalake(tmp_path / "orders")] == ["nl"]


@pytest.mark.full
def test_the_assets_of_one_step_are_published_each(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    names = ("a", "b")
    specs = [dg.AssetCheckSpec("is_right", asset=f"new_{name}", blocking=True) for name in names]

    @dg.multi_asset(
        outs={
            f"new_{name}": dg.AssetOut(
                metadata={"delta/publish": "audited", "delta/table": name}, is_required=False
            )
            for name in names
        },
        check_specs=specs,
    )
    def both() -> Iterator[Any]:
        for number, name in enumerate(names):
            yield dg.Output(pa.table({"id": [number]}), output_name=f"new_{name}")
            yield dg.AssetCheckResult(passed=True, asset_key=f"new_{name}", check_name="is_right")

    published = [build_publish_asset(spec, spec.key.path[-1][4:]) for spec in both.specs]
    result = dg.materialize(
        [both, *published],
        instance=instance,
        resources={"io_manager": DeltaIOManager(root=str(tmp_path))},
    )
    assert result.success
    assert [rows_by_deltalake(tmp_path / name) for name in names] == [[{"id": 0}], [{"id": 1}]]


# Bad input.


def test_only_an_audited_asset_can_be_published() -> None:
    @dg.asset
    def plain() -> None: ...

    with pytest.raises(InvalidRequestError, match="writes to main, so there is nothing to publish"):
        build_publish_asset(plain, "orders")


def test_a_publish_asset_publishes_one_asset() -> None:
    @dg.multi_asset(outs={"a": dg.AssetOut(metadata=AUDITED), "b": dg.AssetOut()})
    def both() -> tuple[int, int]:
        return 1, 2

    with pytest.raises(InvalidRequestError, match=r"has 2 assets \(a, b\)"):
        build_publish_asset(both, "orders")
    assert build_publish_asset(both.specs_by_key[dg.AssetKey("a")], "orders").key.path == ["orders"]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param({"delta/publish": "checked"}, "give 'audited'", id="another word"),
        pytest.param({"delta/mode": "error"}, "writes only a new table", id="mode error"),
        pytest.param({"delta/commit_info": {"a": "b"}}, "does not keep", id="commit_info"),
    ],
)
def test_metadata_that_contradict_an_audit_are_rejected(
    tmp_path: Path, instance: dg.DagsterInstance, metadata: dict[str, Any], message: str
) -> None:
    @dg.asset(key=KEY, metadata={**AUDITED, **metadata})
    def new_orders() -> pa.Table:
        return pa.table({"id": [1]})

    with pytest.raises(InvalidRequestError, match=message):
        dg.materialize(
            [new_orders],
            instance=instance,
            resources={"io_manager": DeltaIOManager(root=str(tmp_path))},
        )
    assert not (tmp_path / "orders").exists()


def test_an_output_cannot_choose_to_be_audited(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(key="orders")
    def orders() -> dg.Output[pa.Table]:
        return dg.Output(pa.table({"id": [1]}), metadata={"delta/publish": "audited"})

    with pytest.raises(InvalidRequestError, match="put it into the metadata of the asset's def"):
        dg.materialize(
            [orders],
            instance=instance,
            resources={"io_manager": DeltaIOManager(root=str(tmp_path))},
        )


def test_a_table_that_cannot_have_branches_is_rejected(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(
        tmp_path / "orders",
        pa.table({"id": [1]}),
        configuration={"delta.enableRowTracking": "true"},
    )
    pipeline = Pipeline(tmp_path, instance)
    result = pipeline.run()
    assert "rowTracking cannot have branches" in str(pipeline.failure(result, "new_orders").error)
