"""Definitions from assets: their content, and their use beside other definitions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import HealthThresholds
from delta_ops.maintenance.thresholds import Measure
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    MaintenancePolicy,
    TableRef,
    build_publish_asset,
    delta_ops_definitions,
    external_table,
    fleet_config,
)
from delta_ops.orchestration.dagster_versions import JOB_OWNERS, VERSION
from delta_ops.orchestration.definitions import DeltaAsset, tables_of

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "maintenance.md"
ROWS = pa.table({"x": [1, 2, 3]})


@dg.asset(key_prefix="sales", metadata={"delta/mode": "append"})
def orders() -> pa.Table:
    return ROWS


@dg.multi_asset(specs=[dg.AssetSpec("stock"), dg.AssetSpec("prices")])
def counted() -> tuple[pa.Table, pa.Table]:
    return ROWS, ROWS


def location(root: Path, assets: Sequence[DeltaAsset], **settings: Any) -> dg.Definitions:
    """Our definitions beside assets and our IO manager."""
    lake = DeltaLogResource(root=str(root))
    own = [asset for asset in assets if not isinstance(asset, TableRef)]
    return dg.Definitions.merge(
        delta_ops_definitions(lake, assets, **settings),
        dg.Definitions(assets=own, resources={"io_manager": DeltaIOManager(lake=lake)}),
    )


def names_of(defs: dg.Definitions) -> dict[str, list[str]]:
    """The names in a location, by kind; everything is resolved."""
    repository = defs.get_repository_def()
    repository.load_all_definitions()
    return {
        "jobs": sorted(n for n in repository.job_names if not n.startswith("__")),
        "schedules": sorted(each.name for each in repository.schedule_defs),
        "sensors": sorted(each.name for each in repository.sensor_defs),
    }


def test_all_that_looks_after_tables_is_there(tmp_path: Path) -> None:
    policy = MaintenancePolicy(tables="sales/*", cron=None)
    defs = location(tmp_path, [orders, counted], policies=[policy])
    assert names_of(defs) == {
        "jobs": [
            "delta_fleet_maintenance",
            "delta_log_maintenance",
            "delta_log_maintenance_sales",
            "delta_maintenance",
            "delta_maintenance_sales",
            "delta_repair",
            "delta_restore",
            "delta_revert",
        ],
        "schedules": ["delta_maintenance_schedule"],
        "sensors": ["delta_commit_sensor", "delta_maintenance_sensor"],
    }
    checks = {key.asset_key for each in defs.asset_checks or [] for key in each.check_keys}
    assert checks == {orders.key, dg.AssetKey("stock"), dg.AssetKey("prices")}
    assert isinstance((defs.resources or {})["delta_log"], DeltaLogResource)


@pytest.mark.skipif(VERSION < JOB_OWNERS, reason="this Dagster has no owners of jobs")
def test_every_job_says_what_it_does_and_whose_it_is(tmp_path: Path) -> None:
    policy = MaintenancePolicy(owners=["team:lake"], tags={"cost": "lake"}, pool="lake")
    defs = delta_ops_definitions(DeltaLogResource(root=str(tmp_path)), [orders], [policy])
    jobs = [job for job in defs.jobs or [] if isinstance(job, dg.JobDefinition)]
    assert len(jobs) == 6
    for job in jobs:
        assert job.description
        assert job.owners == ["team:lake"]
        assert job.tags["cost"] == "lake"
        assert "lake" in {pool for node in job.all_node_defs for pool in node.pools}
    assert all(each.description for each in (*(defs.sensors or []), *(defs.schedules or [])))


@pytest.mark.parametrize(
    ("with_checks", "names"),
    [
        pytest.param(True, {"health"}, id="by default the health of the table"),
        pytest.param(["measures"], set(get_args(Measure)), id="each measure on request"),
        pytest.param(
            ["health", "columns", "row_count"],
            {"health", "columns_are_unchanged", "row_count_is_plausible"},
            id="several kinds",
        ),
    ],
)
def test_all_checks_of_a_table_are_one_op(
    tmp_path: Path, with_checks: Any, names: set[str]
) -> None:
    defs = location(tmp_path, [orders], with_checks=with_checks)
    checks = list(defs.asset_checks or [])
    assert [{key.name for key in each.check_keys} for each in checks] == [names]


@pytest.mark.parametrize("none", [False, ()])
def test_checks_can_be_left_out(tmp_path: Path, none: Any) -> None:
    assert not location(tmp_path, [orders], with_checks=none).asset_checks


def test_an_unknown_kind_of_checks_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="'rows', which is not a kind of check; choose"):
        location(tmp_path, [orders], with_checks=["rows"])


def test_some_checks_of_an_op_can_run(tmp_path: Path) -> None:
    asset = orders.key
    wanted = {"health", "row_count_is_plausible"}
    selection = dg.AssetSelection.checks(*(dg.AssetCheckKey(asset, name) for name in wanted))
    defs = dg.Definitions.merge(
        location(tmp_path, [orders], with_checks=["health", "measures", "row_count"]),
        dg.Definitions(jobs=[dg.define_asset_job("look", selection=selection)]),
    )
    da.write(str(tmp_path / "sales" / "orders"), ROWS)
    result = defs.resolve_job_def("look").execute_in_process()
    found = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
    assert found == dict.fromkeys(wanted, True)


def test_checks_run_after_the_assets_of_a_run(tmp_path: Path) -> None:
    @dg.asset(ins={"orders": dg.AssetIn(key=orders.key)})
    def revenue(orders: pa.Table) -> pa.Table:
        return orders

    @dg.asset
    def summary(revenue: pa.Table) -> pa.Table:
        return revenue

    assets = [orders, revenue, summary]
    job = location(tmp_path, assets).resolve_implicit_global_asset_job_def()
    steps = [str(each.step_key) for each in job.execute_in_process().get_step_success_events()]
    first = ["sales__orders", "revenue", "summary"]
    assert steps[:3] == first
    assert sorted(steps[3:]) == sorted(f"{name}_delta_checks" for name in first)


def test_a_key_that_cannot_have_checks_is_named(tmp_path: Path) -> None:
    table = dg.AssetSpec("my table")
    with pytest.raises(InvalidRequestError, match=r"the checks of asset my table.*another key"):
        location(tmp_path, [table])
    assert names_of(location(tmp_path, [table], with_checks=False))["jobs"]


def test_two_lakes_fit_into_one_location(tmp_path: Path) -> None:
    here, there = (DeltaLogResource(root=str(tmp_path / name)) for name in ("here", "there"))
    specs = [dg.AssetSpec("a"), dg.AssetSpec("b")]
    there_defs = delta_ops_definitions(there, specs[1:], name="there", resource_key="there_log")
    defs = dg.Definitions.merge(
        delta_ops_definitions(here, specs[:1]), there_defs, dg.Definitions(assets=specs)
    )
    assert "there_restore" in names_of(defs)["jobs"]


def test_a_policy_without_operations_only_looks(tmp_path: Path) -> None:
    defs = location(tmp_path, [orders], policies=[MaintenancePolicy(operations=[])])
    found = names_of(defs)
    assert found["jobs"] == [
        "delta_fleet_maintenance",
        "delta_maintenance",
        "delta_repair",
        "delta_restore",
        "delta_revert",
    ]
    assert (found["schedules"], found["sensors"]) == ([], ["delta_commit_sensor"])
    assert list(defs.asset_checks or [])


@pytest.mark.parametrize("switched_on", [False, True])
def test_sensors_and_schedules_can_be_on_from_the_beginning(
    tmp_path: Path, switched_on: bool
) -> None:
    defs = location(tmp_path, [orders], switched_on=switched_on)
    repository = defs.get_repository_def()
    sensors = [each.default_status.value for each in repository.sensor_defs]
    schedules = [each.default_status.value for each in repository.schedule_defs]
    assert {*sensors, *schedules} == {"RUNNING" if switched_on else "STOPPED"}


@pytest.mark.parametrize(
    ("asset", "uri"),
    [
        pytest.param(orders, "lake/sales/orders", id="by its key"),
        pytest.param(dg.AssetSpec(["a", "b"]), "lake/a/b", id="a spec"),
        pytest.param(
            dg.AssetSpec("a", metadata={"dagster/uri": "s3://other/a"}),
            "s3://other/a",
            id="by its metadata",
        ),
        pytest.param(
            external_table(TableRef(asset_key=dg.AssetKey("a"), uri="s3://other/b")),
            "s3://other/b",
            id="a table of others",
        ),
        pytest.param(TableRef(asset_key=dg.AssetKey("a"), uri="x/y"), "x/y", id="a TableRef"),
    ],
)
def test_an_assets_table_is_found(asset: DeltaAsset, uri: str) -> None:
    lake = DeltaLogResource(root="lake", storage_options={"anon": True})
    (table,) = tables_of(lake, [asset])
    assert table.uri == uri
    if not isinstance(asset, TableRef):
        assert table.storage_options == {"anon": True}


def test_the_table_of_an_audited_asset_belongs_to_its_publish_asset() -> None:
    audited = dg.AssetSpec("new", metadata={"delta/publish": "audited", "delta/table": "orders"})
    lake = DeltaLogResource(root="lake")
    (table,) = tables_of(lake, [audited, build_publish_asset(audited, "orders")])
    assert (table.name, table.uri) == ("orders", "lake/orders")
    with pytest.raises(InvalidRequestError, match="add the asset of build_publish_asset"):
        tables_of(lake, [audited])


def test_an_asset_with_tables_at_two_locations_is_refused() -> None:
    assets: list[Any] = [orders, TableRef(asset_key=orders.key, uri="x/y")]
    with pytest.raises(InvalidRequestError, match="sales/orders occurs twice, with tables at two"):
        tables_of(DeltaLogResource(root="lake"), assets)


def test_a_misspelt_key_of_an_asset_is_refused_when_the_location_loads(tmp_path: Path) -> None:
    lake = DeltaLogResource(root=str(tmp_path))
    spec = dg.AssetSpec("t", metadata={"partition_exprs": "day", "delta/chunks": {}})
    with pytest.raises(InvalidRequestError, match="the closest key is 'partition_expr'"):
        delta_ops_definitions(lake, [spec])


def test_tables_of_assets_are_looked_after(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    policy = MaintenancePolicy(thresholds=HealthThresholds(small_files=3))
    defs = location(tmp_path, [orders], policies=[policy])
    for _ in range(3):
        assert (
            defs.resolve_implicit_global_asset_job_def()
            .execute_in_process(instance=instance, asset_selection=[orders.key])
            .success
        )
    log = DeltaLogResource(root=str(tmp_path)).log(orders.key)
    assert log.snapshot().num_files == 3

    sensor = defs.get_repository_def().get_sensor_def("delta_maintenance_sensor")
    tick = sensor.evaluate_tick(dg.build_sensor_context(instance, definitions=defs))
    (request,) = tick.run_requests or []
    job = defs.resolve_job_def(str(request.job_name))
    assert job.execute_in_process(instance=instance, run_config=request.run_config).success
    assert log.snapshot().num_files == 1

    failed = [
        each.check_name
        for each in defs.resolve_implicit_global_asset_job_def()
        .execute_in_process(instance=instance)
        .get_asset_check_evaluations()
        if not each.passed
    ]
    assert failed == []


def test_the_fleets_job_takes_the_lake_where_its_config_names_no_table(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(10):
        da.write(tmp_path / "of_nobody", ROWS)
    lake = DeltaLogResource(root=dg.EnvVar("DELTA_OPS_TEST_ROOT"))
    monkeypatch.setenv("DELTA_OPS_TEST_ROOT", str(tmp_path))
    defs = delta_ops_definitions(lake, [])
    job = defs.resolve_job_def("delta_fleet_maintenance")
    assert job.execute_in_process(instance=instance, run_config=fleet_config([])).success
    assert da.to_table(tmp_path / "of_nobody").num_rows == 30
    assert len(list((tmp_path / "of_nobody").glob("*.parquet"))) == 11


@pytest.mark.skipif(VERSION < JOB_OWNERS, reason="this Dagster has no owners of jobs")
def test_the_example_of_the_document_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    found: dict[str, Any] = {}
    exec(compile(code, DOCUMENT.name, "exec"), found)
    assert "delta_maintenance_sales" in names_of(found["defs"])["jobs"]
