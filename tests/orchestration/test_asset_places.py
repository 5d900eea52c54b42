"""The place of an asset's table: below root by its key, or at its `dagster/uri`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    add_table_metadata,
    delta_ops_definitions,
)
from delta_ops.orchestration.dagster_versions import VERSION
from delta_ops.orchestration.definitions import tables_of
from delta_ops.orchestration.swap_in.dagster_delta import DeltaLakePyarrowIOManager
from delta_ops.orchestration.swap_in.dagster_polars import PolarsDeltaIOManager

ROWS = pa.table({"n": [1]})


def lake_of(root: Path) -> dict[str, DeltaIOManager]:
    return {"io_manager": DeltaIOManager(root=str(root))}


def asset_at(uri: Any, *, of_output: bool = False) -> dg.AssetsDefinition:
    place = {"dagster/uri": uri}

    @dg.asset(metadata={} if of_output else place)
    def t() -> dg.Output[pa.Table]:
        return dg.Output(ROWS, metadata=place if of_output else {})

    return t


def tables_below(root: Path) -> list[str]:
    return sorted(str(log.parent.relative_to(root)) for log in root.rglob("_delta_log"))


BAD_KEYS = [
    pytest.param(["..", "t"], id="two dots"),
    pytest.param(["a", ".", "t"], id="a dot"),
    pytest.param(["a/../../t"], id="two dots in a part"),
    pytest.param(["a\\..\\t"], id="two dots between backslashes"),
    pytest.param(["a", ""], id="an empty part"),
    pytest.param(["/t"], id="a slash at the start"),
    pytest.param(["t\0"], id="NUL"),
    pytest.param(["_delta_log"], id="the log of root"),
    pytest.param(["t", "_delta_log"], id="the log of a table"),
    pytest.param(["t/_Delta_Log/x"], id="the log of a table, to a disk that ignores case"),
    pytest.param(["t", "_change_data"], id="the changes of a table"),
    pytest.param(["t", "_delta_ops"], id="what delta_ops keeps of a table"),
]


@pytest.mark.some_cases(4)
@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_leads_out_of_root_or_into_a_table_is_rejected(
    tmp_path: Path, key: list[str]
) -> None:
    root = tmp_path / "lake"
    manager, lake = DeltaIOManager(root=str(root)), DeltaLogResource(root=str(root))
    asset_key = dg.AssetKey(key)
    with pytest.raises(InvalidRequestError, match=r"asset key \[.*Nothing was read or written"):
        manager.handle_output(dg.build_output_context(asset_key=asset_key), ROWS)
    with pytest.raises(InvalidRequestError, match="asset key"):
        lake.table(asset_key)
    with pytest.raises(InvalidRequestError, match=r"table name"):
        lake.log(key)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    "key", [["a.b"], ["a:b"], ["..a"], ["_staging"], ["delta_log"], ["a/b"], ["mär"]]
)
def test_any_other_key_is_the_folders_of_its_table(tmp_path: Path, key: list[str]) -> None:
    context = dg.build_output_context(asset_key=dg.AssetKey(key))
    DeltaIOManager(root=str(tmp_path)).handle_output(context, ROWS)
    assert tables_below(tmp_path) == ["/".join(key)]


def test_a_schema_in_metadata_cannot_lead_out_of_root(tmp_path: Path) -> None:
    manager = DeltaLakePyarrowIOManager(root_uri=str(tmp_path / "lake"))
    context = dg.build_output_context(asset_key="t", definition_metadata={"schema": ".."})
    with pytest.raises(InvalidRequestError, match="table name"):
        manager.handle_output(context, ROWS)


def test_the_io_manager_writes_and_reads_where_dagster_uri_says(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = tmp_path / "elsewhere" / "t"
    t = asset_at(str(place))

    @dg.asset
    def reader(t: pa.Table) -> pa.Table:
        return t

    done = dg.materialize([t, reader], resources=lake_of(tmp_path / "lake"), instance=instance)
    assert done.success
    assert tables_below(tmp_path) == ["elsewhere/t", "lake/reader"]
    shown = done.asset_materializations_for_node("t")[0].metadata["dagster/uri"].value
    (table,) = tables_of(DeltaLogResource(root=str(tmp_path / "lake")), [t])
    assert shown == table.uri == str(place)


def test_a_table_of_others_is_read_where_its_spec_says(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path / "raw", ROWS)
    spec = dg.AssetSpec("t", metadata={"dagster/uri": (tmp_path / "raw").as_uri()})

    @dg.asset
    def reader(t: pa.Table) -> pa.Table:
        return t

    dg.materialize([spec, reader], resources=lake_of(tmp_path / "lake"), instance=instance)
    assert da.to_table(tmp_path / "lake" / "reader").equals(ROWS)


@pytest.mark.some_cases(3)
@pytest.mark.parametrize(
    "same",
    [
        pytest.param(lambda root: f"{root}/t", id="the path"),
        pytest.param(lambda root: f"{root}/t/", id="a slash at the end"),
        pytest.param(lambda root: f"file://{root}/t", id="a file URI"),
        pytest.param(lambda root: dg.MetadataValue.path(f"{root}/t"), id="a metadata value"),
        pytest.param(lambda _root: "", id="nothing"),
    ],
)
def test_another_address_of_the_same_place_changes_nothing(tmp_path: Path, same: Any) -> None:
    metadata: Mapping[str, Any] = {"dagster/uri": same(tmp_path)}
    context = dg.build_output_context(asset_key="t", definition_metadata=metadata)
    DeltaIOManager(root=str(tmp_path)).handle_output(context, ROWS)
    assert tables_below(tmp_path) == ["t"]


def test_a_table_below_root_is_not_left_behind(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    resources = lake_of(tmp_path)
    da.write(tmp_path / "t", ROWS)
    moved = asset_at(str(tmp_path / "elsewhere"))
    with pytest.raises(InvalidRequestError, match="move the table there, or leave dagster/uri out"):
        dg.materialize([moved], resources=resources, instance=instance)
    assert tables_below(tmp_path) == ["t"]


@pytest.mark.parametrize("uri", [5, "relative/path"])
def test_an_output_cannot_name_another_place(
    tmp_path: Path, instance: dg.DagsterInstance, uri: Any
) -> None:
    asset = asset_at(uri, of_output=True)
    with pytest.raises(InvalidRequestError, match="dagster/uri"):
        dg.materialize([asset], resources=lake_of(tmp_path), instance=instance)
    assert tables_below(tmp_path) == []


def test_a_place_that_is_no_text_is_rejected_by_every_surface(tmp_path: Path) -> None:
    asset = asset_at(5)
    lake = DeltaLogResource(root=str(tmp_path))
    with pytest.raises(InvalidRequestError, match="dagster/uri 5, of type int"):
        delta_ops_definitions(lake, [asset])
    context = dg.build_output_context(asset_key="t", definition_metadata={"dagster/uri": 5})
    with pytest.raises(InvalidRequestError, match="dagster/uri 5, of type int"):
        DeltaIOManager(lake=lake).handle_output(context, ROWS)


def test_the_io_manager_of_a_lake_opens_other_places_with_its_options(tmp_path: Path) -> None:
    options = {"use_listings_cache": False}
    lake = DeltaLogResource(root="memory://lake", storage_options=options)
    log = DeltaIOManager(lake=lake).log_of_asset(
        dg.AssetKey("t"), {"dagster/uri": f"memory://{tmp_path.name}/t"}
    )
    assert log.uri == f"memory://{tmp_path.name}/t"
    assert log.storage.client_options == options


@pytest.mark.parametrize(
    "manager_of",
    [
        pytest.param(lambda root: DeltaIOManager(root=root), id="DeltaIOManager"),
        pytest.param(
            lambda root: DeltaIOManager(lake=DeltaLogResource(root=root)), id="with a lake"
        ),
        pytest.param(
            lambda root: DeltaLakePyarrowIOManager(root_uri=root, schema="shop"),
            id="with the names of dagster-delta",
        ),
        pytest.param(
            lambda root: PolarsDeltaIOManager(base_dir=root), id="with the names of dagster-polars"
        ),
    ],
)
def test_a_definition_shows_the_place_that_the_io_manager_writes_to(
    tmp_path: Path, instance: dg.DagsterInstance, manager_of: Any
) -> None:
    """Maintenance finds the table there, too."""

    @dg.asset
    def t() -> pa.Table:
        return ROWS

    manager, root = manager_of(str(tmp_path)), str(tmp_path)
    (shown,) = add_table_metadata([t], manager)
    assert isinstance(shown, dg.AssetsDefinition)
    assert dg.materialize([shown], resources={"io_manager": manager}, instance=instance).success
    (place,) = tables_below(tmp_path)
    assert shown.metadata_by_key[t.key]["dagster/uri"] == dg.MetadataValue.text(f"{root}/{place}")
    (table,) = tables_of(DeltaLogResource(root=root), [shown])
    assert table.uri == f"{root}/{place}"


@pytest.mark.skipif(VERSION < (1, 12, 22), reason="this Dagster builds no context with partitions")
def test_contexts_that_a_test_builds_write_and_read(tmp_path: Path) -> None:
    manager = DeltaIOManager(root=str(tmp_path))
    days = dg.StaticPartitionsDefinition(["a", "b"])
    output = dg.build_output_context(
        asset_key="t",
        partition_key="a",
        asset_partitions_def=days,
        definition_metadata={"partition_expr": "day"},
    )
    rows = pa.table({"day": ["a"], "n": [1]})
    manager.handle_output(output, rows)
    assert output.get_logged_metadata()["delta/version"].value == 0
    read = dg.build_input_context(
        asset_key="t", partition_key="a", asset_partitions_def=days, upstream_output=output
    )
    assert da.to_table(manager.load_input(read)).equals(rows)
    absent = dg.build_input_context(asset_key="absent")
    with pytest.raises(TableNotFoundError):
        manager.load_input(absent)


def test_an_output_of_none_is_rejected_before_anything_is_written(tmp_path: Path) -> None:
    manager = DeltaIOManager(root=str(tmp_path))
    with pytest.raises(InvalidRequestError, match="returned None"):
        manager.handle_output(dg.build_output_context(asset_key="t"), None)
    assert list(tmp_path.iterdir()) == []


def writer_of(key: str, **metadata: Any) -> dg.AssetsDefinition:
    """An asset that writes the table `t`."""
    place = {} if key == "t" else {"delta/table": "t"}

    @dg.asset(key=key, metadata={**place, **{f"delta/{n}": v for n, v in metadata.items()}})
    def writes() -> pa.Table:
        return ROWS

    return writes


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(writer_of("other"), id="overwrites"),
        pytest.param(writer_of("other", mode="append"), id="appends", marks=pytest.mark.full),
    ],
)
def test_an_overwrite_of_the_table_of_two_assets_is_refused(
    tmp_path: Path, other: dg.AssetsDefinition
) -> None:
    with pytest.raises(InvalidRequestError, match="both write to the table") as refused:
        dg.materialize([other, writer_of("t")], resources=lake_of(tmp_path))
    assert "overwrite by t " in str(refused.value) or "overwrite by other " in str(refused.value)


@pytest.mark.full
def test_an_overwrite_of_the_table_at_the_uri_of_another_asset_is_refused(tmp_path: Path) -> None:
    @dg.asset
    def mine() -> pa.Table:
        return ROWS

    assets = [mine, asset_at(str(tmp_path / "mine"))]
    with pytest.raises(InvalidRequestError, match="both write to the table"):
        dg.materialize(assets, resources=lake_of(tmp_path))


@pytest.mark.some_cases(1)
@pytest.mark.parametrize(
    "assets",
    [
        pytest.param([writer_of(k, shared_table=True) for k in ("t", "b")], id="on purpose"),
        pytest.param([writer_of(k, mode="append") for k in ("t", "b")], id="appends"),
    ],
)
def test_two_assets_may_share_a_table(tmp_path: Path, assets: list[dg.AssetsDefinition]) -> None:
    assert dg.materialize(assets, resources=lake_of(tmp_path)).success
    assert tables_below(tmp_path) == ["t"]


def test_an_asset_without_an_output_may_have_the_table_of_another(tmp_path: Path) -> None:
    @dg.asset(metadata={"delta/table": "t"})
    def looks_after() -> None: ...

    assert dg.materialize([writer_of("t"), looks_after], resources=lake_of(tmp_path)).success
