"""Automation by table versions: changed rows start a run, rearranged rows do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.maintenance import optimize, vacuum
from delta_ops.orchestration import DeltaIOManager, TableRef, external_table, on_new_table_version
from tests.orchestration.commit_watch import ROWS, Watch

DAYS = dg.StaticPartitionsDefinition(["mon", "tue"])


def week(*days: str) -> pa.Table:
    return pa.table({"day": days, "x": [1] * len(days)})


def evaluate(
    defs: dg.Definitions, instance: dg.DagsterInstance, cursor: Any
) -> dg.EvaluateAutomationConditionsResult:
    selection = dg.AssetSelection.assets("follower")
    return dg.evaluate_automation_conditions(
        defs, instance=instance, asset_selection=selection, cursor=cursor
    )


class Location:
    """A table, its downstream asset, and the sensor and automation of their location."""

    def __init__(self, instance: dg.DagsterInstance, table: TableRef) -> None:
        @dg.asset(
            deps=[table.asset_key],
            partitions_def=table.partitions_def,
            automation_condition=on_new_table_version(),
        )
        def follower() -> None:
            self.meanwhile()

        self.meanwhile: Callable[[], object] = lambda: None
        self.instance, self.table, self.key = instance, table, follower.key
        self.follower = follower
        self.defs = dg.Definitions(assets=[external_table(table), follower])
        self.watch = Watch(instance, table, definitions=self.defs)
        self._cursor: Any = None

    def tick(self) -> list[str | None]:
        """Tick the sensor, then the automation; materialize the partitions that it requests."""
        self.watch.tick()
        result = evaluate(self.defs, self.instance, self._cursor)
        self._cursor = result.cursor
        wanted: list[str | None] = [None] * result.total_requested
        if self.table.partitions_def is not None:
            wanted = sorted(result.get_requested_partitions(self.key), key=str)
        for partition in wanted:
            self.instance.report_runless_asset_event(
                dg.AssetMaterialization(self.key, partition=partition)
            )
        return wanted

    def run(self, meanwhile: Callable[[], object]) -> None:
        """Materialize the follower, and act while its run is in progress."""
        self.meanwhile = meanwhile
        dg.materialize([self.follower], instance=self.instance)


@pytest.fixture
def location(tmp_path: Path, instance: dg.DagsterInstance) -> Location:
    place = tmp_path / "orders"
    write_deltalake(place, ROWS)
    return Location(instance, TableRef(asset_key=dg.AssetKey("orders"), uri=str(place)))


def test_rows_of_any_writer_start_a_run_and_maintenance_of_none(location: Location) -> None:
    place = location.table.uri
    assert location.tick() == []
    assert location.tick() == []
    write_deltalake(place, ROWS, mode="append")
    assert location.tick() == [None]
    assert location.tick() == []
    DeltaTable(place).optimize.compact()
    assert location.tick() == []
    DeltaTable(place).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert location.tick() == []
    for _ in range(2):
        da.write(place, ROWS)
    assert location.tick() == [None]
    optimize(DeltaLog(place))
    vacuum(DeltaLog(place))
    assert location.tick() == []
    assert location.tick() == []
    DeltaTable(place).delete("x = 1")
    assert location.tick() == [None]


def test_rows_and_a_compaction_between_two_ticks_start_one_run(location: Location) -> None:
    location.tick()
    write_deltalake(location.table.uri, ROWS, mode="append")
    DeltaTable(location.table.uri).optimize.compact()
    assert location.tick() == [None]
    assert location.tick() == []


def test_a_version_that_is_seen_with_the_end_of_a_run_starts_another(location: Location) -> None:
    location.tick()
    for _ in range(3):
        write_deltalake(location.table.uri, ROWS, mode="append")
        assert location.tick() == [None]
    assert location.tick() == []


def test_a_version_of_the_time_of_a_run_starts_another_when_it_has_ended(
    location: Location,
) -> None:
    location.tick()
    requests = []

    def commit_and_look() -> None:
        write_deltalake(location.table.uri, ROWS, mode="append")
        requests.extend([location.tick(), location.tick()])

    location.run(commit_and_look)
    assert requests == [[], []]
    assert location.tick() == [None]
    assert location.tick() == []
    assert location.tick() == []


def test_the_partitions_run_whose_rows_changed(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = tmp_path / "orders"
    write_deltalake(place, week("mon", "tue"), partition_by=["day"])
    table = TableRef(
        asset_key=dg.AssetKey("orders"),
        uri=str(place),
        partitions_def=DAYS,
        partition_expr="day",
    )
    location = Location(instance, table)
    assert location.tick() == []
    assert location.tick() == []
    write_deltalake(place, week("tue"), mode="append")
    assert location.tick() == ["tue"]
    DeltaTable(place).optimize.compact()
    assert location.tick() == []
    write_deltalake(place, week("mon"), mode="append")
    assert location.tick() == ["mon"]


def test_a_materialization_of_the_same_rows_starts_nothing(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset
    def orders() -> DeltaLog:
        return DeltaLog(tmp_path / "orders")

    @dg.asset(deps=[orders], automation_condition=on_new_table_version())
    def follower() -> None: ...

    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    defs = dg.Definitions(assets=[orders, follower], resources=resources)
    da.write(tmp_path / "orders", ROWS)
    requests = []
    result = evaluate(defs, instance, None)
    for rows in (ROWS, None, ROWS):
        if rows is not None:
            da.write(tmp_path / "orders", rows)
        dg.materialize([orders], instance=instance, resources=resources)
        result = evaluate(defs, instance, result.cursor)
        requests.append(result.total_requested)
        if result.total_requested:
            instance.report_runless_asset_event(dg.AssetMaterialization(follower.key))
    assert requests == [1, 0, 1]


def test_a_run_of_an_asset_and_of_what_follows_it_starts_no_other(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset
    def orders() -> pa.Table:
        return ROWS

    @dg.asset(deps=[orders], automation_condition=on_new_table_version())
    def follower() -> None: ...

    defs = dg.Definitions(
        assets=[orders, follower],
        resources={"io_manager": DeltaIOManager(root=str(tmp_path))},
        jobs=[dg.define_asset_job("both", [orders, follower])],
    )
    job = defs.resolve_job_def("both")
    cursor, requests = None, []
    for keys in ([orders.key, follower.key], [orders.key, follower.key], [orders.key], []):
        if keys:
            job.execute_in_process(instance=instance, asset_selection=keys)
        result = evaluate(defs, instance, cursor)
        cursor = result.cursor
        requests.append(result.total_requested)
    assert requests == [0, 0, 1, 0]
    job.execute_in_process(instance=instance)  # as a schedule does, without naming assets
    assert evaluate(defs, instance, cursor).total_requested == 1
