"""The commit sensor on partitioned assets: it reports the partitions that any writer changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops.orchestration import DeltaIOManager, TableRef, external_table
from delta_ops.orchestration.commits import changed_partitions
from delta_ops.orchestration.swap_in.dagster_polars import PolarsDeltaIOManager
from tests.orchestration.commit_watch import Watch, commit_file, ref, versions

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-02-01")
GRID = dg.MultiPartitionsDefinition(
    {"day": DAYS, "country": dg.StaticPartitionsDefinition(["nl", "be"])}
)
NOTHING: Mapping[str, str] = {}


def rows(*days: str, country: str = "nl") -> pa.Table:
    moments = [datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC) for day in days]
    return pa.table(
        {
            "day": pa.array([moment.date() for moment in moments]),
            "at": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "country": [country] * len(days),
        }
    )


def by_day(root: Path, expression: Any = "day", partitions: Any = DAYS) -> TableRef:
    table = ref(root)
    return TableRef(
        asset_key=table.asset_key,
        uri=table.uri,
        partitions_def=partitions,
        partition_expr=expression,
    )


def started(instance: dg.DagsterInstance, table: TableRef, **settings: Any) -> Watch:
    """A sensor that has reported the current version of the table."""
    watch = Watch(instance, table, **settings)
    watch.tick()
    return watch


def partitions(events: Sequence[Any]) -> list[str | None]:
    return [event.partition for event in events]


@pytest.mark.some_cases(4)
@pytest.mark.parametrize("layout", [["day"], ["country", "day"], None], ids=str)
@pytest.mark.parametrize("expression", ["day", "date(at)", "at"])
def test_a_foreign_commit_is_reported_for_the_partitions_that_it_touched(
    tmp_path: Path, instance: dg.DagsterInstance, layout: list[str] | None, expression: str
) -> None:
    table = by_day(tmp_path, expression)
    write_deltalake(table.uri, rows("2026-01-01"), partition_by=layout)
    watch = started(instance, table)
    write_deltalake(table.uri, rows("2026-01-02", "2026-01-04"), mode="append")
    events = watch.tick()
    assert partitions(events) == ["2026-01-02", "2026-01-04"]
    assert versions(events) == [1, 1]
    assert {event.tags["dagster/data_version"][-2:] for event in events} == {"@1"}
    assert watch.tick() == []
    assert instance.get_materialized_partitions(table.asset_key) == {
        "2026-01-01",
        "2026-01-02",
        "2026-01-04",
    }


@pytest.mark.parametrize("swapped_in", [False, pytest.param(True, marks=pytest.mark.full)])
def test_the_expression_may_come_from_the_io_manager(tmp_path: Path, *, swapped_in: bool) -> None:
    @dg.asset(partitions_def=DAYS)
    def t() -> None: ...

    default = {"partition_expr": "day"}
    io_manager: Any = DeltaIOManager(root=str(tmp_path), metadata=default)
    if swapped_in:
        io_manager = PolarsDeltaIOManager(base_dir=str(tmp_path), metadata=default)
    external = dg.AssetSpec("external", partitions_def=DAYS)
    definitions = dg.Definitions(assets=[t, external], resources={"io_manager": io_manager})
    repository = definitions.get_repository_def()
    for name in ("t", "external"):
        table = TableRef(asset_key=dg.AssetKey(name), uri=str(tmp_path / name))
        layout = changed_partitions.layout_of(table, repository)
        assert layout is not None
        assert layout.expression == "day"


def test_deletes_touch_and_compactions_do_not(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    table = by_day(tmp_path)
    for day in ("2026-01-01", "2026-01-02", "2026-01-02"):
        write_deltalake(table.uri, rows(day), partition_by=["day"], mode="append")
    watch = started(instance, table)
    DeltaTable(table.uri).optimize.compact()
    (optimized,) = watch.tick()
    assert isinstance(optimized, dg.AssetObservation)
    # Its rows equal the rows of the previous version.
    assert optimized.tags["dagster/data_version"].endswith("@2")
    DeltaTable(table.uri).delete("day = '2026-01-01'")
    assert partitions(watch.tick()) == ["2026-01-01"]


def test_a_partition_of_several_dimensions_is_reported_by_its_key(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = by_day(tmp_path, {"day": "day", "country": "country"}, GRID)
    write_deltalake(table.uri, rows("2026-01-01"), partition_by=["country"])
    watch = started(instance, table)
    both = pa.concat_tables(
        [rows("2026-01-01", "2026-01-02", country="be"), rows("2026-01-02", country="nl")]
    )
    write_deltalake(table.uri, both, mode="append")
    wanted = ["2026-01-01|be", "2026-01-02|be", "2026-01-02|nl"]
    # Dagster orders dimensions by their names.
    wanted = sorted("|".join(reversed(key.split("|"))) for key in wanted)
    assert partitions(watch.tick()) == wanted
    assert instance.get_materialized_partitions(table.asset_key) == {*wanted, "nl|2026-01-01"}


def test_the_asset_in_the_same_location_says_how_it_is_partitioned(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def orders() -> None: ...

    write_deltalake(tmp_path / "orders", rows("2026-01-01"))
    watch = started(instance, ref(tmp_path), definitions=dg.Definitions(assets=[orders]))
    write_deltalake(tmp_path / "orders", rows("2026-01-03"), mode="append")
    assert partitions(watch.tick()) == ["2026-01-03"]
    spec = external_table(by_day(tmp_path))
    assert spec.partitions_def == DAYS
    assert spec.metadata["partition_expr"] == "day"


def test_values_outside_of_every_partition_are_said(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = by_day(tmp_path)
    write_deltalake(table.uri, rows("2026-01-01"))
    watch = started(instance, table)
    write_deltalake(table.uri, rows("2025-12-31", "2026-02-01"), mode="append")
    (event,) = watch.tick()
    assert event.partition is None
    assert isinstance(event, dg.AssetMaterialization)
    outside = event.metadata["delta/outside_of_partitions"].value
    assert outside == ["2025-12-31", "2026-02-01"]
    assert "version 1 has values outside of every partition" in watch.reason
    write_deltalake(table.uri, rows("2025-12-31", "2026-01-05"), mode="append")
    (event,) = watch.tick()
    assert event.partition == "2026-01-05"
    assert event.metadata["delta/outside_of_partitions"].value == ["2025-12-31"]
    nulls = pa.table({"day": pa.array([None], pa.date32()), "country": ["nl"]})
    write_deltalake(table.uri, nulls, mode="append", schema_mode="merge")
    (event,) = watch.tick()
    assert event.metadata["delta/outside_of_partitions"].value == ["null"]


def test_a_window_is_reported_when_it_has_ended(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = datetime.now(UTC).date()
    table = by_day(tmp_path, partitions=dg.DailyPartitionsDefinition("2026-01-01"))
    write_deltalake(table.uri, rows("2026-01-01"))
    watch = started(instance, table)
    write_deltalake(table.uri, rows(today.isoformat()), mode="append")
    write_deltalake(table.uri, rows(today.isoformat()), mode="append")
    events = watch.tick()
    assert partitions(events) == [None, None]
    assert events[0].metadata["delta/coming_partitions"].value == [today.isoformat()]
    assert watch.tick() == []
    tomorrow = dg.DailyPartitionsDefinition("2026-01-01", end_offset=1)
    later = Watch(instance, by_day(tmp_path, partitions=tomorrow))
    later.cursor = watch.cursor
    (event,) = later.tick()
    assert event.partition == today.isoformat()
    assert event.tags["dagster/data_version"].endswith("@2")
    assert later.tick() == []


@pytest.mark.parametrize(
    ("partitions_def", "expression"),
    [
        pytest.param(GRID, {"day": "day", "country": "country"}, id="of two dimensions"),
        pytest.param(DAYS, {"day": "day"}, id="by a mapping that does not fit"),
        pytest.param(dg.StaticPartitionsDefinition(["nl"]), "country", id="by names"),
        pytest.param(dg.HourlyPartitionsDefinition("2026-01-01-00:00"), "at", id="hours"),
    ],
)
def test_a_table_that_is_partitioned_anew_is_followed_though_a_window_waits(
    tmp_path: Path, instance: dg.DagsterInstance, partitions_def: Any, expression: Any
) -> None:
    table = by_day(tmp_path, partitions=dg.DailyPartitionsDefinition("2026-01-01"))
    write_deltalake(table.uri, rows("2026-01-01"))
    watch = started(instance, table)
    write_deltalake(table.uri, rows(datetime.now(UTC).date().isoformat()), mode="append")
    watch.tick()
    anew = Watch(instance, by_day(tmp_path, expression, partitions_def))
    anew.cursor = watch.cursor
    write_deltalake(table.uri, rows("2026-01-02"), mode="append")
    assert versions(anew.tick()) == [2]
    assert anew.tick() == []


def test_windows_that_no_cursor_has_room_for_are_said(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    today = datetime.now(UTC).date()
    table = by_day(tmp_path, partitions=dg.DailyPartitionsDefinition("2026-01-01"))
    write_deltalake(table.uri, rows("2026-01-01"))
    watch = started(instance, table)
    far = [(today + timedelta(days=n)).isoformat() for n in range(60, 162)]
    write_deltalake(table.uri, rows(*far), mode="append")
    watch.tick()
    assert "2 windows that have not ended are too many to wait for" in watch.reason
    write_deltalake(table.uri, rows(today.isoformat()), mode="append")
    watch.tick()
    tomorrow = dg.DailyPartitionsDefinition("2026-01-01", end_offset=1)
    later = Watch(instance, by_day(tmp_path, partitions=tomorrow))
    later.cursor = watch.cursor
    assert partitions(later.tick()) == [today.isoformat()]


def test_partitions_that_a_run_has_reported_are_not_reported_again(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day", "delta/partition_by": "day"})
    def orders(context):  # type: ignore[no-untyped-def]
        return rows(context.partition_key)

    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    defs = dg.Definitions(assets=[orders], resources=resources)
    watch = Watch(instance, ref(tmp_path), definitions=defs)
    watch.tick()
    job = defs.resolve_implicit_global_asset_job_def()
    for day in ("2026-01-01", "2026-01-02"):
        assert job.execute_in_process(instance=instance, partition_key=day).success
        write_deltalake(tmp_path / "orders", rows("2026-01-09"), mode="append")
    assert versions(watch.tick()) == [1, 3]
    assert watch.tick() == []
    latest = instance.get_latest_data_version_record(orders.key, partition_key="2026-01-09")
    assert latest is not None
    assert latest.partition_key == "2026-01-09"


def test_the_first_tick_reports_a_partition_whose_commits_have_no_event(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day", "delta/partition_by": "day"})
    def orders(context):  # type: ignore[no-untyped-def]
        return rows(context.partition_key)

    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    defs = dg.Definitions(assets=[orders], resources=resources)
    job = defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, partition_key="2026-01-01").success
    write_deltalake(tmp_path / "orders", rows("2026-01-01", "2026-01-02"), mode="append")
    assert job.execute_in_process(instance=instance, partition_key="2026-01-02").success
    watch = Watch(instance, ref(tmp_path), definitions=defs)
    events = watch.tick()
    assert [(e.partition, e.metadata["delta/version"].value) for e in events] == [("2026-01-01", 1)]
    assert watch.tick() == []


def test_a_killed_run_is_reported_for_its_partition(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = by_day(tmp_path)
    da.write(table.uri, rows("2026-01-01"))
    watch = started(instance, table)
    da.write(table.uri, rows("2026-01-07"), user_metadata=json.dumps({"dagster/run_id": "unknown"}))
    (event,) = watch.tick()
    assert event.partition == "2026-01-07"
    assert "which did not report it" in event.description


def test_a_daemon_that_died_between_partitions_goes_on_with_the_others(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = by_day(tmp_path)
    write_deltalake(table.uri, rows("2026-01-01"))
    watch = started(instance, table)
    write_deltalake(table.uri, rows("2026-01-02", "2026-01-03", "2026-01-04"), mode="append")
    watch.log(watch.look()[:2])  # here the daemon dies
    assert partitions(watch.tick()) == ["2026-01-04"]
    assert watch.tick() == []


def test_a_table_without_events_is_reported_in_its_current_state(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = by_day(tmp_path)
    write_deltalake(table.uri, rows("2026-01-01", "2026-01-05"))
    first = Watch(instance, table)
    events = first.look()
    assert partitions(events) == ["2026-01-01", "2026-01-05", None]
    assert events[-1].metadata["dagster/row_count"].value == 2
    first.log(events[:1])  # here the daemon dies
    assert partitions(first.tick()) == ["2026-01-05", None]
    assert Watch(instance, table).tick() == []
    assert first.tick() == []


def test_files_that_are_too_large_to_be_read_are_said(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = by_day(tmp_path)
    write_deltalake(table.uri, rows("2026-01-01"))
    watch = started(instance, table)
    line = {
        "path": "huge.parquet",
        "partitionValues": {},
        "size": 1 << 40,
        "modificationTime": 0,
        "dataChange": True,
    }
    commit_file(table, 1).write_text(json.dumps({"add": line}))
    (event,) = watch.tick()
    assert event.partition is None
    assert "would have to be read" in watch.reason


def test_too_many_partitions_for_single_events_are_one_event(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    many = dg.StaticPartitionsDefinition([f"p{n}" for n in range(changed_partitions.MAX_KEYS + 1)])
    table = by_day(tmp_path, "key", many)
    write_deltalake(table.uri, pa.table({"key": ["p0"]}))
    watch = started(instance, table)
    write_deltalake(table.uri, pa.table({"key": many.get_partition_keys()}), mode="append")
    (event,) = watch.tick()
    assert event.partition is None
    assert "they are 1,001, more than 1,000" in watch.reason


def test_an_expression_that_does_not_fit_the_table_is_said(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = by_day(tmp_path, "week")
    write_deltalake(table.uri, rows("2026-01-01"))
    watch = started(instance, table)
    write_deltalake(table.uri, rows("2026-01-02"), mode="append")
    assert partitions(watch.tick()) == [None]
    assert "week" in watch.reason


def test_the_newest_event_shows_the_table(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    table = ref(tmp_path)
    write_deltalake(table.uri, rows("2026-01-01"))
    watch = started(instance, table)
    for day in ("2026-01-02", "2026-01-03"):
        write_deltalake(table.uri, rows(day), mode="append")
    older, newest = watch.tick()
    assert "dagster/row_count" not in older.metadata
    assert newest.metadata["dagster/row_count"].value == 3
    assert newest.metadata["dagster/column_schema"].value.columns[0].name == "day"
