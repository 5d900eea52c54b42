"""The version that an input reads, after maintenance and after a restore."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.maintenance import optimize, vacuum
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    TableRef,
    build_restore_job,
    build_revert_job,
)

DAYS = dg.DailyPartitionsDefinition("2026-11-01")
FIRST, SECOND = "2026-11-01", "2026-11-02"
RETENTION = {"delta.deletedFileRetentionDuration": "interval 0 hours"}


class Assets:
    """An asset with daily partitions, and a downstream asset that reads it."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.root, self.instance = root, instance
        self.value = 0
        self.done: dg.ExecuteInProcessResult
        """The last run of the asset downstream."""
        self.lake = DeltaLogResource(root=str(root))
        metadata = {"partition_expr": "day", "delta/configuration": RETENTION}

        @dg.asset(partitions_def=DAYS, metadata=metadata)
        def up(context: dg.AssetExecutionContext) -> pa.Table:
            return pa.table({"day": [context.partition_key], "v": [self.value]})

        @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
        def down(up: pa.Table) -> pa.Table:
            return up

        self.up, self.down = up, down
        self.resources = {"io_manager": DeltaIOManager(lake=self.lake)}

    def write(self, day: str, value: int) -> None:
        self.value = value
        dg.materialize(
            [self.up], partition_key=day, resources=self.resources, instance=self.instance
        )

    def read(self, day: str) -> list[int]:
        """The values that the downstream asset reads for a day."""
        self.done = done = dg.materialize(
            [self.up, self.down],
            selection=["down"],
            partition_key=day,
            resources=self.resources,
            instance=self.instance,
        )
        assert done.success
        found = da.to_table(self.root / "down").to_pylist()
        return [row["v"] for row in found if row["day"] == day]

    def said(self) -> tuple[dict[str, Any], list[str]]:
        """Metadata and warnings about the input from the last run of the downstream asset."""
        (event,) = self.done.asset_materializations_for_node("down")
        links = {n: m.value for n, m in event.metadata.items() if n.endswith("/up")}
        entries = self.instance.all_logs(self.done.run_id)
        return links, [each.user_message for each in entries if each.level == logging.WARNING]

    def table(self, *, has_layout: bool) -> TableRef:
        """The table; a run gets missing layout from its code location, if any."""
        table = self.lake.table("up")
        return replace(table, partitions_def=DAYS, partition_expr="day") if has_layout else table

    def run(self, job: dg.JobDefinition, config: dict[str, Any]) -> None:
        (op,) = (node.name for node in job.nodes)
        run_config = {"ops": {op: {"config": {"table": "up", "dry_run": False, **config}}}}
        assert job.execute_in_process(instance=self.instance, run_config=run_config).success


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "has_layout"),
    [
        pytest.param("restore", True, id="restore, known"),
        pytest.param("revert", False, id="revert, unknown"),
        pytest.param("restore", False, id="restore, unknown", marks=pytest.mark.full),
        pytest.param("revert", True, id="revert, known", marks=pytest.mark.full),
    ],
)
def test_a_partition_read_finds_restored_rows(
    tmp_path: Path, instance: dg.DagsterInstance, kind: str, has_layout: bool
) -> None:
    assets = Assets(tmp_path, instance)
    assets.write(FIRST, 1)
    assets.write(FIRST, 99)
    assert assets.read(FIRST) == [99]
    build = build_restore_job if kind == "restore" else build_revert_job
    job = build([assets.table(has_layout=has_layout)])
    assets.run(job, {"version": 0 if kind == "restore" else 1})
    assert assets.read(FIRST) == [1]
    if has_layout:
        assets.write(SECOND, 5)
        assert assets.read(FIRST) == [1]


def test_each_partition_that_a_restore_touched_is_materialized(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    assets = Assets(tmp_path, instance)
    for day, value in ((FIRST, 1), (SECOND, 2), (SECOND, 3)):
        assets.write(day, value)
    assets.run(build_restore_job([assets.table(has_layout=True)]), {"version": 0})
    records = instance.fetch_materializations(dg.AssetKey("up"), limit=10).records
    reported = [each.asset_materialization for each in records]
    of_version = [
        each.partition for each in reported if each and each.metadata["delta/version"].value == 3
    ]
    assert set(of_version) == {SECOND, None}


def test_the_latest_version_replaces_a_version_that_a_vacuum_has_broken(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    assets = Assets(tmp_path, instance)
    assets.write(FIRST, 1)
    assets.write(SECOND, 2)
    log = assets.lake.log("up")
    optimize(log)
    assert assets.read(FIRST) == [1]
    vacuum(log, enforce_retention=False)
    assert assets.read(FIRST) == [1]
    assert assets.read(SECOND) == [2]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: da.delete(t, f"day = '{FIRST}'"), id="a delete"),
        pytest.param(
            lambda t: da.write(t, pa.table({"day": [FIRST], "v": [2]}), mode="append"),
            id="an append",
        ),
    ],
)
def test_a_step_that_reads_older_rows_than_the_table_has_says_so(
    tmp_path: Path, instance: dg.DagsterInstance, change: Callable[[Path], object]
) -> None:
    assets = Assets(tmp_path, instance)
    assets.write(FIRST, 1)
    change(tmp_path / "up")
    assert assets.read(FIRST) == [1]
    reported, (warning,) = assets.said()
    assert reported == {
        "delta/input_version/up": 0,
        "delta/latest/up": 1,
        "delta/read_advice/up": warning,
    }
    for part in ("reads version 0", "latest version is 1", "build_commit_sensor", "DeltaLog"):
        assert part in warning


def test_a_partition_that_nobody_changed_is_read_without_a_warning(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    assets = Assets(tmp_path, instance)
    assets.write(FIRST, 1)
    assets.write(FIRST, 2)
    assets.write(SECOND, 3)
    assert assets.read(FIRST) == [2]
    assert assets.said() == ({"delta/input_version/up": 1, "delta/latest/up": 2}, [])
    optimize(assets.lake.log("up"))
    assert assets.read(FIRST) == [2]
    assert assets.said() == ({"delta/input_version/up": 1, "delta/latest/up": 3}, [])


def test_the_latest_version_is_read_without_a_warning_after_its_event(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    assets = Assets(tmp_path, instance)
    assets.write(FIRST, 1)
    da.delete(tmp_path / "up", f"day = '{FIRST}'")
    assets.write(SECOND, 2)
    assets.write(FIRST, 3)
    assert assets.read(FIRST) == [3]
    assert assets.said() == ({"delta/input_version/up": 3, "delta/latest/up": 3}, [])
