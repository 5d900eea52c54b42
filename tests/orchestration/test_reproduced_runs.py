"""Runs that reproduce another run: recorded inputs, outputs on branches, and the comparison."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.maintenance import optimize, vacuum
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    build_publish_asset,
    build_release_asset,
)
from delta_ops.versioning import list_branches

TAG = "delta_ops/reproduce"


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


class Pipeline:
    """Orders that a test decides, and totals that are computed from them."""

    def __init__(self, lake: Path, instance: dg.DagsterInstance, **metadata: Any) -> None:
        self.lake, self.instance = lake, instance
        self.ids, self.factor = [1, 2], 10
        self.seen: list[list[int]] = []
        self.checks: list[dg.AssetChecksDefinition] = []

        @dg.asset
        def orders() -> pa.Table:
            return ids(*self.ids)

        @dg.asset(metadata=metadata)
        def totals(orders: pa.Table) -> pa.Table:
            self.seen.append(sorted(orders["id"].to_pylist()))
            return ids(*(self.factor * each for each in self.seen[-1]))

        self.orders, self.totals = orders, totals

    def run(self, *selected: Any, reproduce: str | None = None, tag: str = TAG) -> Any:
        return dg.materialize(
            [self.orders, self.totals, *self.checks],
            selection=dg.AssetSelection.assets(*selected) if selected else None,
            instance=self.instance,
            resources={"io_manager": DeltaIOManager(root=str(self.lake))},
            tags={} if reproduce is None else {tag: reproduce},
            raise_on_error=False,
        )

    def main(self, table: str = "totals") -> tuple[int, list[int]]:
        """The version and the ids of a table."""
        snapshot = DeltaLog(self.lake / table).snapshot()
        return snapshot.version, sorted(da.to_table(snapshot)["id"].to_pylist())


def metadata_of(result: Any, asset: str = "totals") -> dict[str, Any]:
    (event,) = result.asset_materializations_for_node(asset)
    return {name: each.value for name, each in event.metadata.items()}


def failure_of(result: Any, step: str = "totals") -> str:
    failure = result.failure_data_for_node(step)
    return str(failure.error.cause or failure.error)


def errors_of(result: Any) -> str:
    """The errors of all events of a run."""
    return " ".join(str(e.event_specific_data) for e in result.all_events if e.is_failure)


@pytest.fixture
def pipeline(tmp_path: Path, instance: dg.DagsterInstance) -> Pipeline:
    return Pipeline(tmp_path, instance)


def test_the_inputs_are_those_of_the_named_run_and_main_is_untouched(pipeline: Pipeline) -> None:
    first = pipeline.run()
    pipeline.ids = [7, 8, 9]
    pipeline.run()
    before = (pipeline.main("orders"), pipeline.main("totals"))
    again = pipeline.run(pipeline.totals, reproduce=first.run_id)
    assert pipeline.seen[-1] == [1, 2]
    found = metadata_of(again)
    assert (found["delta/reproduction"], found["delta/reproduced_version"]) == ("equal", 0)
    assert (found["delta/reproduced_run"], "delta/version" in found) == (first.run_id, False)
    assert (pipeline.main("orders"), pipeline.main("totals")) == before
    branch = found["delta/branch"]
    assert branch == f"reproduce/totals/{again.run_id}"
    assert sorted(da.to_table(pipeline.lake / "totals", ref=f"branch:{branch}")["id"].to_pylist())


def test_rows_that_differ_are_counted_and_shown(pipeline: Pipeline) -> None:
    first = pipeline.run()
    pipeline.factor = 11
    pipeline.ids = [1, 3]
    again = pipeline.run(reproduce=first.run_id)
    found = metadata_of(again)
    assert found["delta/reproduction"] == (
        f"differs: 2 rows only in run {first.run_id}, 2 rows only in this run"
    )
    assert (found["delta/rows_only_then"], found["delta/rows_only_now"]) == (2, 2)
    shown = [each.data for each in found["delta/differing_rows"].records]
    assert {"rows": "only then", "id": "10"} in shown
    assert {"rows": "only now", "id": "22"} in shown
    # The input of totals is what the named run read, not what this run wrote.
    assert pipeline.seen[-1] == [1, 2]
    assert metadata_of(again, "orders")["delta/rows_only_now"] == 1
    names: dict[str, Any] = {}
    exec(found["delta/read_branch"].split("```python\n")[1].split("```")[0], names)
    assert (
        da.diff_rows(
            DeltaLog(pipeline.lake / "totals").snapshot(0),
            DeltaLog(pipeline.lake / "totals").snapshot(ref=f"branch:{found['delta/branch']}"),
        ).num_rows
        == 4
    )


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_an_append_and_a_merge_meet_the_rows_of_then(
    tmp_path: Path, instance: dg.DagsterInstance, mode: str
) -> None:
    keys = {"delta/merge_keys": "id"} if mode == "merge" else {}
    pipeline = Pipeline(tmp_path, instance, **{"delta/mode": mode}, **keys)
    runs = []
    for number in range(3):
        pipeline.ids = [number, number + 1]
        runs.append(pipeline.run())
        optimize(pipeline.lake / "totals")
    before = pipeline.main()
    for run in runs:
        again = pipeline.run(pipeline.totals, reproduce=run.run_id)
        assert metadata_of(again)["delta/reproduction"] == "equal", again
    assert pipeline.main() == before
    pipeline.factor = 30
    found = metadata_of(pipeline.run(pipeline.totals, reproduce=runs[1].run_id))
    assert found["delta/rows_only_now"] == 2


def test_partitions_are_reproduced_one_by_one(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    days = dg.StaticPartitionsDefinition(["a", "b"])
    suffix = [""]

    @dg.asset(partitions_def=days, metadata={"partition_expr": "day"})
    def visits(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"day": [context.partition_key], "x": [context.partition_key]})

    @dg.asset(partitions_def=days, metadata={"partition_expr": "day"})
    def pages(visits: pa.Table) -> pa.Table:
        texts = [f"{each}{suffix[0]}" for each in visits["x"].to_pylist()]
        return pa.table({"day": visits["day"], "x": texts})

    def run(key: str, **options: Any) -> Any:
        return dg.materialize(
            [visits, pages],
            partition_key=key,
            instance=instance,
            resources={"io_manager": DeltaIOManager(root=str(tmp_path))},
            **options,
        )

    runs = {key: run(key) for key in ("a", "b", "a")}
    before = da.to_table(tmp_path / "pages")
    for key, named in runs.items():
        again = run(key, selection=[pages], tags={TAG: named.run_id})
        found = metadata_of(again, "pages")
        assert (found["delta/reproduction"], again.success) == ("equal", True)
        assert f"reproduce/pages/{key}/" in found["delta/branch"]
    suffix[0] = "!"
    again = run("b", selection=[pages], tags={TAG: runs["b"].run_id})
    assert metadata_of(again, "pages")["delta/rows_only_now"] == 1
    assert da.to_table(tmp_path / "pages") == before
    wrong = run("b", selection=[pages], tags={TAG: runs["a"].run_id}, raise_on_error=False)
    assert "has not materialized asset pages for partition b" in failure_of(wrong, "pages")


def test_later_runs_do_not_notice_a_reproduction(pipeline: Pipeline) -> None:
    first = pipeline.run()
    pipeline.ids = [3]
    pipeline.run()
    key = dg.AssetKey("orders")
    event = pipeline.instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.asset_materialization is not None
    before = event.asset_materialization.tags
    assert pipeline.run(reproduce=first.run_id).success
    event = pipeline.instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.asset_materialization is not None
    tags = event.asset_materialization.tags
    assert tags is not None
    assert before is not None
    assert tags["dagster/data_version"] == before["dagster/data_version"]
    pipeline.run(pipeline.totals)
    assert pipeline.seen[-1] == [3]


def old_version(pipeline: Pipeline) -> str:
    """A run whose input a vacuum has deleted."""
    first = pipeline.run()
    pipeline.ids = [5]
    pipeline.run()
    late = system_clock() + 30 * DAY_MS
    assert vacuum(pipeline.lake / "orders", clock=lambda: late).deleted_files == 1
    return str(first.run_id)


def test_versions_that_are_gone_are_named_before_any_step(pipeline: Pipeline) -> None:
    run_id = old_version(pipeline)
    steps = len(pipeline.seen)
    result = pipeline.run(pipeline.totals, reproduce=run_id)
    assert not result.success
    assert len(pipeline.seen) == steps
    kinds = {event.event_type_value for event in result.all_events}
    assert "STEP_START" not in kinds
    texts = [str(event.event_specific_data) for event in result.all_events if event.is_failure]
    assert any("totals read version 0 of orders" in text for text in texts), texts
    assert any("1 file of this version were deleted" in text for text in texts), texts


@pytest.mark.full
def test_all_versions_that_are_gone_are_named_with_their_assets(pipeline: Pipeline) -> None:
    run_id = old_version(pipeline)
    late = system_clock() + 30 * DAY_MS
    vacuum(pipeline.lake / "totals", clock=lambda: late)
    result = pipeline.run(reproduce=run_id)
    texts = [str(event.event_specific_data) for event in result.all_events if event.is_failure]
    for part in (
        "totals read version 0 of orders",
        "totals was committed as version 0",
        "orders was committed as version 0",
    ):
        assert any(part in text for text in texts), part


@pytest.mark.full
def test_a_selection_without_the_lost_version_runs(pipeline: Pipeline) -> None:
    first = pipeline.run()
    pipeline.ids = [5]
    pipeline.run(pipeline.orders)
    late = system_clock() + 30 * DAY_MS
    vacuum(pipeline.lake / "orders", clock=lambda: late)
    assert not pipeline.run(pipeline.totals, reproduce=first.run_id).success
    second = pipeline.run(pipeline.totals)
    assert pipeline.run(pipeline.totals, reproduce=second.run_id).success


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (lambda _first, _again: "nothing", "which is no other run of this Dagster instance"),
        (lambda first, again: again.run_id, "which itself reproduces run"),
    ],
    ids=["an unknown run", "a reproduction"],
)
def test_a_wrong_run_is_rejected(
    pipeline: Pipeline, name: Callable[[Any, Any], str], message: str
) -> None:
    first = pipeline.run()
    again = pipeline.run(pipeline.totals, reproduce=first.run_id)
    result = pipeline.run(pipeline.totals, reproduce=name(first, again))
    texts = [str(event.event_specific_data) for event in result.all_events if event.is_failure]
    assert any(message in text for text in texts), texts
    assert len(list_branches(pipeline.lake / "totals")) == 1


def test_a_misspelled_tag_is_rejected(pipeline: Pipeline) -> None:
    pipeline.run()
    result = pipeline.run(reproduce="x", tag="delta_ops/reproduces")
    assert "has the tag 'delta_ops/reproduces', which has no effect" in errors_of(result)
    assert pipeline.seen == [[1, 2]]


def test_an_asset_that_the_run_has_not_written_is_named(pipeline: Pipeline) -> None:
    first = pipeline.run(pipeline.orders)
    result = pipeline.run(pipeline.totals, reproduce=first.run_id)
    assert f"run {first.run_id} has not materialized asset totals" in failure_of(result)


def test_commits_of_another_writer_are_not_taken_for_the_runs(pipeline: Pipeline) -> None:
    first = pipeline.run()
    da.write(pipeline.lake / "totals", ids(99))
    second = pipeline.run(pipeline.totals)
    for run in (first, second):
        found = metadata_of(pipeline.run(pipeline.totals, reproduce=run.run_id))
        assert found["delta/reproduction"] == "equal"


def test_an_asset_that_writes_its_table_by_itself_is_not_executed(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path / "orders", ids(1))

    @dg.asset
    def orders() -> DeltaLog:
        da.write(tmp_path / "orders", ids(2))
        return DeltaLog(tmp_path / "orders")

    def run(**options: Any) -> Any:
        resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
        return dg.materialize([orders], resources=resources, instance=instance, **options)

    again = run(tags={TAG: run().run_id}, raise_on_error=False)
    assert "has not committed the rows of asset orders" in errors_of(again)
    assert da.count_rows(tmp_path / "orders") == 2


def test_a_resource_gives_no_table_that_a_step_could_change(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path / "log", ids(1))

    @dg.asset
    def orders(lake: DeltaLogResource) -> pa.Table:
        da.write(lake.log("log"), ids(2))
        return ids(1)

    def run(**options: Any) -> Any:
        lake = DeltaLogResource(root=str(tmp_path))
        resources = {"lake": lake, "io_manager": DeltaIOManager(lake=lake)}
        return dg.materialize([orders], resources=resources, instance=instance, **options)

    again = run(tags={TAG: run().run_id}, raise_on_error=False)
    assert "a table of DeltaLogResource" in errors_of(again)
    assert da.count_rows(tmp_path / "log") == 2


def test_publications_and_releases_are_rejected(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata={"delta/publish": "audited", "delta/table": "orders"})
    def new_orders() -> pa.Table:
        return ids(1)

    @dg.asset_check(asset=new_orders, blocking=True)
    def is_right() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    orders = build_publish_asset(new_orders, "orders")
    shop = build_release_asset([orders], "shop", release_set=str(tmp_path / "releases"))
    assets = [new_orders, is_right, orders, shop]
    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    first = dg.materialize(assets, resources=resources, instance=instance)
    before = DeltaLog(tmp_path / "orders").snapshot().version
    for asset, message in (
        (new_orders, "asset new_orders is audited"),
        (orders, "publishing rows is not possible"),
        (shop, "making a release is not possible"),
    ):
        (spec,) = asset.specs
        again = dg.materialize(
            assets,
            selection=[asset],
            resources=resources,
            instance=instance,
            tags={TAG: first.run_id},
            raise_on_error=False,
        )
        assert message in failure_of(again, spec.key.to_python_identifier())
    assert DeltaLog(tmp_path / "orders").snapshot().version == before


@pytest.mark.full
def test_a_check_of_a_reproduced_asset_reads_its_branch(pipeline: Pipeline) -> None:
    found = []

    @dg.asset_check(asset=pipeline.totals)
    def has_rows(totals: pa.Table) -> dg.AssetCheckResult:
        found.append(sorted(totals["id"].to_pylist()))
        return dg.AssetCheckResult(passed=True)

    pipeline.checks.append(has_rows)
    first = pipeline.run()
    pipeline.factor = 30
    assert pipeline.run(pipeline.totals, reproduce=first.run_id).success
    assert found == [[10, 20], [30, 60]]


@pytest.mark.full
def test_the_table_that_the_run_created_is_reproduced(pipeline: Pipeline) -> None:
    first = pipeline.run()
    found = metadata_of(pipeline.run(pipeline.orders, reproduce=first.run_id), "orders")
    assert (found["delta/reproduction"], found["delta/base_version"]) == ("equal", 0)
