"""Write, audit, publish with rows of Spark."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops.orchestration import DeltaIOManager, build_publish_asset
from tests.support.instances import new_instance
from tests.support.tables import rows_by_deltalake

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with new_instance() as real:
        yield real


def test_rows_of_spark_are_published_after_their_check(
    tmp_path: Path, instance: dg.DagsterInstance, spark: SparkSession
) -> None:
    ids = [1, 2]

    @dg.asset(metadata={"delta/publish": "audited", "delta/table": "orders"})
    def new_orders() -> DataFrame:
        return spark.createDataFrame([(each,) for each in ids], "id int")

    @dg.asset_check(asset=new_orders, blocking=True)
    def is_small(new_orders: DataFrame) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=new_orders.count() < 3)

    orders = build_publish_asset(new_orders, "orders")
    manager = DeltaIOManager(root=str(tmp_path), spark=LazyPySparkResource(spark_config={}))

    def run() -> bool:
        return dg.materialize(
            [new_orders, is_small, orders],
            instance=instance,
            resources={"io_manager": manager},
            raise_on_error=False,
        ).success

    assert run()
    ids.append(3)
    assert not run()
    assert sorted(row["id"] for row in rows_by_deltalake(tmp_path / "orders")) == [1, 2]
    event = instance.get_latest_materialization_event(new_orders.key)
    assert event is not None
    assert event.asset_materialization is not None
    branch = event.asset_materialization.metadata["delta/branch"].value
    assert ds.read(spark, tmp_path / "orders", ref=f"branch:{branch}").count() == 3
