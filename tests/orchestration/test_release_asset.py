"""The asset that releases the tables of several assets together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.log.refs.refs import refs_journal
from delta_ops.orchestration import DeltaIOManager, build_publish_asset, build_release_asset
from delta_ops.versioning import ReleaseSet, create_release, list_releases, open_release


class Shop:
    """Two assets whose rows a test decides, and the asset that releases them."""

    def __init__(self, lake: Path, instance: dg.DagsterInstance) -> None:
        self.lake, self.instance = lake, instance
        self.ids = [1]
        self.is_right = True
        self.before_release: Callable[[], None] = lambda: None

        @dg.asset
        def orders() -> pa.Table:
            return pa.table({"id": self.ids})

        @dg.asset(key=["sales", "items"], metadata={"delta/table": "items"})
        def items() -> pa.Table:
            return pa.table({"id": self.ids})

        @dg.asset_check(asset=items, blocking=True)
        def is_right() -> dg.AssetCheckResult:
            self.before_release()
            return dg.AssetCheckResult(passed=self.is_right)

        self.orders, self.items, self.check = orders, items, is_right
        self.shop = build_release_asset(
            [orders, items], "shop", release_set=str(lake / "releases"), message="nightly"
        )

    def run(self, *selected: Any, **options: Any) -> Any:
        return dg.materialize(
            selected or (self.orders, self.items, self.check, self.shop),
            instance=self.instance,
            resources={"io_manager": DeltaIOManager(root=str(self.lake))},
            raise_on_error=False,
            **options,
        )

    @property
    def released(self) -> dict[str, list[int]]:
        opened = open_release(self.lake / "releases")
        return {name: da.to_table(each)["id"].to_pylist() for name, each in opened.items()}

    @property
    def versions(self) -> list[list[int]]:
        found = list_releases(self.lake / "releases")
        return [[table.version for table in each.tables.values()] for each in found]


@pytest.fixture
def shop(tmp_path: Path, instance: dg.DagsterInstance) -> Shop:
    return Shop(tmp_path, instance)


def test_a_run_releases_the_versions_that_it_has_materialized(shop: Shop) -> None:
    result = shop.run()
    assert shop.released == {"orders": [1], "sales/items": [1]}
    (event,) = result.asset_materializations_for_node("shop")
    assert event.metadata["delta/release"].value == 1
    table = event.metadata["delta/release_tables"].value
    assert [each.data["version"] for each in table.records] == [0, 0]
    assert event.tags["dagster/data_version"] == "1"
    da.write(shop.lake / "orders", pa.table({"id": [9]}))  # not of the run
    shop.ids = [2]
    shop.run()
    assert shop.released == {"orders": [2], "sales/items": [2]}
    assert shop.versions == [[0, 0], [2, 1]]


def test_a_failed_check_leaves_the_release_as_it_was(shop: Shop) -> None:
    shop.run()
    shop.ids, shop.is_right = [2], False
    assert not shop.run().success
    assert shop.released == {"orders": [1], "sales/items": [1]}


def test_an_asset_outside_of_the_run_has_its_newest_materialization(shop: Shop) -> None:
    shop.run()
    shop.ids = [2]
    shop.run(shop.orders)
    da.write(shop.lake / "items", pa.table({"id": [7]}))
    shop.ids = [3]
    assert shop.run(shop.orders, shop.shop).success
    assert shop.released == {"orders": [3], "sales/items": [1]}


def test_a_second_execution_makes_no_second_release(shop: Shop) -> None:
    shop.run()
    assert shop.run(shop.shop).success
    assert len(list_releases(shop.lake / "releases")) == 1
    holds = refs_journal(DeltaLog(shop.lake / "orders").storage).load().state.holds
    assert len(holds) == 1


def test_a_run_that_was_overtaken_fails_and_says_why(shop: Shop) -> None:
    def overtake() -> None:
        tables = {"orders": shop.lake / "orders", "sales/items": shop.lake / "items"}
        for table in tables.values():
            da.write(table, pa.table({"id": [2]}), mode="overwrite")
        create_release(shop.lake / "releases", tables)

    shop.before_release = overtake
    failure = shop.run().failure_data_for_node("shop")
    assert "would go back to version 0" in failure.user_failure_data.description
    assert shop.released == {"orders": [2], "sales/items": [2]}


def test_an_asset_that_was_never_materialized_is_named(shop: Shop) -> None:
    shop.run(shop.orders)
    result = shop.run(shop.shop)
    failure = result.failure_data_for_node("shop")
    assert "asset sales/items was never materialized" in failure.user_failure_data.description
    assert not ReleaseSet(shop.lake / "releases").exists()


def test_a_published_asset_is_released_and_an_audited_asset_is_rejected(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata={"delta/publish": "audited", "delta/table": "orders"})
    def new_orders() -> pa.Table:
        return pa.table({"id": [1]})

    @dg.asset_check(asset=new_orders, blocking=True)
    def is_right() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    places = str(tmp_path / "releases")
    with pytest.raises(InvalidRequestError, match="release its publish asset instead"):
        build_release_asset([new_orders], "shop", release_set=places)
    with pytest.raises(InvalidRequestError, match="needs at least one asset"):
        build_release_asset([], "shop", release_set=places)
    orders = build_publish_asset(new_orders, "orders")
    shop = build_release_asset([orders], "shop", release_set=places)
    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    dg.materialize([new_orders, is_right, orders, shop], resources=resources, instance=instance)
    assert da.count_rows(open_release(places)["orders"]) == 1


def test_partitions_of_a_table_are_released_at_the_newest_version(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    days = dg.StaticPartitionsDefinition(["a", "b"])

    @dg.asset(partitions_def=days, metadata={"partition_expr": "day"})
    def visits(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"day": [context.partition_key]})

    shop = build_release_asset([visits], "shop", release_set=str(tmp_path / "releases"))
    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    for key in ("a", "b"):
        dg.materialize([visits], resources=resources, instance=instance, partition_key=key)
    dg.materialize([shop], resources=resources, instance=instance)
    assert da.count_rows(open_release(tmp_path / "releases")["visits"]) == 2
