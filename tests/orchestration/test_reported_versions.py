"""A materialization's report of its commit: the version, and the rows of each partition."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot
from delta_ops.orchestration import DeltaIOManager, SourcePart

DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-02-01")
NO_TAGS: Mapping[str, str] = {}


class FailingIOManager(DeltaIOManager):
    """The IO manager; it fails between commit and event of runs with the tag."""

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        super().handle_output(context, obj)
        if context.step_context.dagster_run.tags.get("test/fails"):
            raise RuntimeError("killed after the commit")


def execute(
    assets: list[dg.AssetsDefinition],
    lake: Path,
    instance: dg.DagsterInstance,
    *,
    selection: list[dg.AssetsDefinition] | None = None,
    tags: Mapping[str, str] = NO_TAGS,
) -> dg.ExecuteInProcessResult:
    resources = {"io_manager": FailingIOManager(root=str(lake))}
    job = dg.define_asset_job("job", selection or assets)
    defs = dg.Definitions(assets=assets, resources=resources, jobs=[job])
    return defs.resolve_job_def("job").execute_in_process(
        instance=instance, tags=tags, raise_on_error=False
    )


def continues(run: dg.ExecuteInProcessResult) -> dict[str, str]:
    return {"dagster/parent_run_id": run.run_id, "dagster/root_run_id": run.run_id}


def events(
    instance: dg.DagsterInstance, asset: dg.AssetsDefinition
) -> list[dg.AssetMaterialization]:
    records = instance.fetch_materializations(asset.key, limit=99, ascending=True).records
    return [r.asset_materialization for r in records if r.asset_materialization]


def reported(event: dg.AssetMaterialization) -> tuple[Any, Any, Any]:
    """The data version's number, the version and the rows that an event reports."""
    number = (event.tags or {})["dagster/data_version"].partition("@")[2]
    metadata = event.metadata
    return number, metadata["delta/version"].value, metadata["delta/rows_written"].value


@dg.asset(metadata={"delta/mode": "append"})
def lines() -> pa.Table:
    return pa.table({"x": [1, 2]})


@dg.asset(metadata={"delta/idempotency": "source"})
def raw() -> list[SourcePart]:
    return [SourcePart(data=pa.table({"x": [1, 2]}), source="a", position=1)]


@pytest.mark.parametrize("asset", [lines, raw], ids=["append", "source"])
def test_a_commit_that_a_rerun_adopts_is_reported_with_its_own_version(
    tmp_path: Path, instance: dg.DagsterInstance, asset: dg.AssetsDefinition
) -> None:
    failed = execute([asset], tmp_path, instance, tags={"test/fails": "yes"})
    da.write(tmp_path / asset.key.path[-1], pa.table({"x": [3]}))
    assert execute([asset], tmp_path, instance, tags=continues(failed)).success
    (event,) = events(instance, asset)
    assert reported(event) == ("0", 0, 2)
    assert event.metadata["delta/adopted"].value is True


def test_an_adopted_commit_does_not_take_steps_back_behind_what_dagster_knows(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    read: list[Snapshot] = []

    @dg.asset
    def follower(lines: Snapshot) -> None:
        read.append(lines)

    failed = execute([lines], tmp_path, instance, tags={"test/fails": "yes"})
    assert execute([lines], tmp_path, instance).success
    assert execute([lines], tmp_path, instance, tags=continues(failed)).success
    assert [reported(e)[:2] for e in events(instance, lines)] == [("1", 1), ("1", 0)]
    execute([lines, follower], tmp_path, instance, selection=[follower])
    assert [snapshot.version for snapshot in read] == [1]


def ranged(layout: str | None, mode: str, num_rows: dict[str, int]) -> dg.AssetsDefinition:
    @dg.asset(
        partitions_def=DAYS,
        backfill_policy=dg.BackfillPolicy.single_run(),
        metadata={"partition_expr": "day", "delta/partition_by": layout, "delta/mode": mode},
    )
    def daily(context: dg.AssetExecutionContext) -> pa.Table:
        days = [date.fromisoformat(k) for k in context.partition_keys for _ in range(num_rows[k])]
        return pa.table({"day": pa.array(days, pa.date32()), "x": [0] * len(days)})

    return daily


@pytest.mark.some_cases(2)
@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")
@pytest.mark.parametrize("layout", ["day", None])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_each_event_of_a_range_has_the_rows_of_its_partition(
    tmp_path: Path, instance: dg.DagsterInstance, layout: str | None, mode: str
) -> None:
    num_rows = {"2026-01-01": 3, "2026-01-02": 0, "2026-01-03": 5}
    asset = ranged(layout, mode, num_rows)
    over = {
        "dagster/asset_partition_range_start": "2026-01-01",
        "dagster/asset_partition_range_end": "2026-01-03",
    }
    for _ in range(2):
        assert execute([asset], tmp_path, instance, tags=over).success
    found = [(e.partition, e.metadata["delta/rows_written"].value) for e in events(instance, asset)]
    assert found == [*num_rows.items()] * 2
    counts = [e.metadata.get("dagster/partition_row_count") for e in events(instance, asset)]
    expected: list[int | None] = [3, 0, 5] * 2
    if mode == "append":
        # Statistics of files with several partitions do not give rows per partition.
        expected = [3, 0, 5, 6, 0, 10] if layout else [None] * 6
    assert [count.value if count else None for count in counts] == expected


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")
def test_a_partitioned_input_is_read_at_the_version_of_its_partition(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    read: list[Snapshot] = []
    rows: list[int] = []
    asset = ranged(None, "overwrite", {"2026-01-01": 1, "2026-01-02": 1})

    @dg.asset(partitions_def=DAYS)
    def follower(daily: Snapshot) -> None:
        read.append(daily)

    @dg.asset(partitions_def=DAYS)
    def counter(daily: pa.Table) -> None:
        rows.append(len(daily))

    @dg.asset
    def overview(daily: pa.Table) -> None:
        rows.append(len(daily))

    all_assets = [asset, follower, counter, overview]
    for key in ("2026-01-01", "2026-01-02"):
        tags = {"dagster/partition": key}
        assert execute(all_assets, tmp_path, instance, selection=[asset], tags=tags).success
        da.write(tmp_path / "daily", pa.table({"day": [date.fromisoformat(key)], "x": [1]}))
    of_day = {"dagster/partition": "2026-01-01"}
    assert execute(
        all_assets, tmp_path, instance, selection=[follower, counter], tags=of_day
    ).success
    assert [snapshot.version for snapshot in read] == [0]
    assert rows == [1]
    event = instance.get_latest_materialization_event(follower.key)
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["delta/input_version/daily"].value == 0
    assert execute(all_assets, tmp_path, instance, selection=[overview]).success
    assert rows == [1, 3]  # at version 2, which has the first foreign row and not the second
    assert DeltaLog(tmp_path / "daily").snapshot().version == 3
