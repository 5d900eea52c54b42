"""Column lineage in Dagster: taken from Spark's plan if it is not declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
from delta_ops.orchestration import DeltaIOManager
from tests.spark.lineage_location import LAKE, prepare, write
from tests.support.instances import new_instance

pytestmark = pytest.mark.spark

SHOWN = "dagster/column_lineage"
ORDERS = dg.AssetKey("orders")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with new_instance() as real:
        yield real


@dg.asset
def orders() -> pa.Table:
    return pa.table({"price": [2, 3], "pieces": [4, 5]})


def totals(orders: DataFrame) -> DataFrame:
    return orders.selectExpr("price * pieces AS total", "price", "1 AS one")


def materialize(
    asset: dg.AssetsDefinition, lake: Path, instance: dg.DagsterInstance
) -> tuple[Mapping[str, Any], list[str]]:
    """The metadata of an asset that reads `orders`, and the messages of its run."""
    manager = DeltaIOManager(root=str(lake), spark=LazyPySparkResource(spark_config={}))
    result = dg.materialize(
        [orders, asset], instance=instance, resources={"io_manager": manager}, raise_on_error=False
    )
    assert result.success
    messages = [entry.user_message for entry in instance.all_logs(result.run_id)]
    return metadata_of(instance, asset.key), messages


def metadata_of(instance: dg.DagsterInstance, key: dg.AssetKey) -> Mapping[str, Any]:
    event = instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.asset_materialization is not None
    return {name: each.value for name, each in event.asset_materialization.metadata.items()}


@pytest.mark.long
def test_steps_of_the_multiprocess_executor_record_it_for_each_partition(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LAKE, str(tmp_path))
    with dg.execute_job(dg.reconstructable(prepare), instance=instance) as prepared:
        assert prepared.success
    tags = {"dagster/partition": "mon"}
    with dg.execute_job(dg.reconstructable(write), instance=instance, tags=tags) as written:
        assert written.success
    shop = dg.AssetKey(["shop", "orders"])
    assert metadata_of(instance, dg.AssetKey("totals"))[SHOWN].deps_by_column == {
        "day": [dg.TableColumnDep(shop, "day")],
        "name": [dg.TableColumnDep(dg.AssetKey("countries"), "name")],
        "total": [dg.TableColumnDep(shop, "pieces"), dg.TableColumnDep(shop, "price")],
    }
    assert SHOWN not in metadata_of(instance, shop)


@pytest.mark.full
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        pytest.param(
            {"one": {"orders": ["pieces"]}},
            {"one": [dg.TableColumnDep(ORDERS, "pieces")]},
            id="what is declared is all that is shown",
        ),
        pytest.param({}, {}, id="nothing is shown if nothing is what is declared"),
    ],
)
def test_the_declared_idempotency_counts(
    tmp_path: Path, instance: dg.DagsterInstance, declared: Any, shown: Any
) -> None:
    asset = dg.asset(totals, metadata={"delta/column_lineage": declared})
    metadata, _ = materialize(asset, tmp_path, instance)
    assert metadata[SHOWN].deps_by_column == shown


@pytest.mark.usefixtures("spark")
def test_columns_have_the_tables_names(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    da.write(tmp_path / "totals", pa.table({"Total": [1], "price": [1], "one": [1], "more": [1]}))
    asset = dg.asset(totals, metadata={"delta/mode": "append"})
    metadata, _ = materialize(asset, tmp_path, instance)
    assert metadata[SHOWN].deps_by_column == {
        "Total": [dg.TableColumnDep(ORDERS, "pieces"), dg.TableColumnDep(ORDERS, "price")],
        "price": [dg.TableColumnDep(ORDERS, "price")],
    }


@pytest.mark.full
@pytest.mark.usefixtures("spark")
def test_rows_that_left_spark_have_none(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.asset
    def frame(orders: DataFrame) -> pa.Table:
        return orders.toArrow()

    metadata, _ = materialize(frame, tmp_path, instance)
    assert SHOWN not in metadata


@pytest.mark.full
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "step", [pytest.param("mark_input", marks=pytest.mark.full), "describe_plan"]
)
def test_a_failure_of_lineage_is_one_log_line_and_fails_no_step(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("another Spark")

    monkeypatch.setattr(f"delta_ops.spark.lineage.column_lineage.{step}", fail)
    metadata, recorded = materialize(dg.asset(totals), tmp_path, instance)
    assert SHOWN not in metadata
    assert metadata["delta/rows_written"] == 2
    assert len([each for each in recorded if "column lineage" in each]) == 1


@pytest.mark.full
def test_rows_that_were_found_written_have_none(
    tmp_path: Path, spark: SparkSession, instance: dg.DagsterInstance
) -> None:
    """Other code may have computed them."""
    failures = [AssertionError("after the commit")]

    class FailsAfterItsCommit(DeltaIOManager):
        def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
            super().handle_output(context, obj)
            if context.asset_key == asset.key and failures:
                raise failures.pop()

    asset = dg.asset(totals, retry_policy=dg.RetryPolicy(max_retries=1))
    manager = FailsAfterItsCommit(root=str(tmp_path), spark=LazyPySparkResource(spark_config={}))
    resources = {"io_manager": manager}
    assert dg.materialize([orders, asset], instance=instance, resources=resources).success
    metadata = metadata_of(instance, asset.key)
    assert failures == []
    assert metadata["delta/adopted"]
    assert SHOWN not in metadata
