"""`delta/table`: an asset whose table has another name than the asset's key."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager, DeltaLogResource, add_table_metadata
from delta_ops.orchestration.definitions import tables_of
from delta_ops.orchestration.swap_in.dagster_deltalake import DeltaLakePyarrowIOManager
from delta_ops.orchestration.swap_in.dagster_polars import PolarsDeltaIOManager

ROWS = pa.table({"n": [1]})
MANAGERS: list[Any] = [
    pytest.param(lambda root: DeltaIOManager(root=root), id="ours"),
    pytest.param(lambda root: DeltaLakePyarrowIOManager(root_uri=root), id="dagster-deltalake"),
    pytest.param(lambda root: PolarsDeltaIOManager(base_dir=root), id="dagster-polars"),
]


def asset_with(**metadata: Any) -> dg.AssetsDefinition:
    @dg.asset(metadata={name.replace("_", "/"): value for name, value in metadata.items()})
    def renamed() -> pa.Table:
        return ROWS

    return renamed


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize(
    "name", ["old/orders", ["old", "orders"], dg.MetadataValue.text("old/orders")]
)
def test_the_table_is_where_the_metadata_name_it(
    tmp_path: Path, instance: dg.DagsterInstance, manager: Any, name: Any
) -> None:
    got = []

    @dg.asset
    def reader(renamed: pa.Table) -> None:
        got.append(renamed)

    asset = asset_with(delta_table=name)
    resources = {"io_manager": manager(str(tmp_path))}
    dg.materialize([asset, reader], resources=resources, instance=instance)
    assert da.to_table(tmp_path / "old/orders").equals(ROWS)
    assert got[0].equals(ROWS)
    assert [path.parent.name for path in tmp_path.rglob("_delta_log")] == ["orders"]


def test_maintenance_and_the_definition_name_the_same_table(tmp_path: Path) -> None:
    lake, asset = DeltaLogResource(root=str(tmp_path)), asset_with(delta_table="old/orders")
    (table,) = tables_of(lake, [asset])
    assert (table.name, table.uri) == ("renamed", f"{tmp_path}/old/orders")
    (described,) = add_table_metadata([asset], lake.table)
    assert isinstance(described, dg.AssetsDefinition)
    metadata = described.metadata_by_key[asset.key]
    assert metadata["dagster/uri"].value == f"{tmp_path}/old/orders"
    assert tables_of(lake, [described]) == [table]


@pytest.mark.parametrize("manager", MANAGERS)
def test_an_asset_whose_definition_shows_its_table_is_written_and_read_there(
    tmp_path: Path, instance: dg.DagsterInstance, manager: Any
) -> None:
    got = []

    @dg.asset
    def reader(renamed: pa.Table) -> None:
        got.append(renamed)

    lake = DeltaLogResource(root=str(tmp_path))
    (shown,) = add_table_metadata([asset_with(delta_table="old/orders")], lake.table)
    resources = {"io_manager": manager(str(tmp_path))}
    dg.materialize([shown, reader], resources=resources, instance=instance)
    assert da.to_table(tmp_path / "old/orders").equals(ROWS)
    assert got[0].equals(ROWS)


def test_the_definition_of_an_asset_elsewhere_has_the_address_of_its_place(tmp_path: Path) -> None:
    place = f"{tmp_path}/elsewhere/t"
    (described,) = add_table_metadata(
        [asset_with(dagster_uri=place)], DeltaLogResource(root=str(tmp_path / "lake")).table
    )
    assert isinstance(described, dg.AssetsDefinition)
    metadata = described.metadata_by_key[dg.AssetKey("renamed")]
    assert metadata["dagster/uri"] == place
    assert metadata["dagster/table_name"] == "renamed"


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"delta_table": 3}, "the name of its table below root"),
        ({"delta_table": []}, "the name of its table below root"),
        ({"delta_table": "../orders"}, "names no folder below"),
        ({"delta_table": "orders", "dagster_uri": "lake/orders"}, "have both delta/table and"),
    ],
)
def test_a_name_that_cannot_be_a_table_is_rejected_everywhere(
    tmp_path: Path, instance: dg.DagsterInstance, metadata: dict[str, Any], says: str
) -> None:
    asset = asset_with(**metadata)
    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    with pytest.raises(InvalidRequestError, match=says):
        dg.materialize([asset], resources=resources, instance=instance)
    with pytest.raises(InvalidRequestError, match=says):
        tables_of(DeltaLogResource(root=str(tmp_path)), [asset])


def test_an_output_cannot_name_a_table(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.asset
    def orders() -> dg.Output[pa.Table]:
        return dg.Output(ROWS, metadata={"delta/table": "other"})

    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    with pytest.raises(InvalidRequestError, match="put it into the metadata of the asset's def"):
        dg.materialize([orders], resources=resources, instance=instance)
