"""Run by the tests of column lineage: assets whose steps are processes with their own sessions."""

import os

import dagster as dg
import pyarrow as pa
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from delta_ops.orchestration import DeltaIOManager

DAYS = dg.StaticPartitionsDefinition(["mon", "tue"])
LAKE = "DELTA_OPS_TEST_LAKE"


@dg.asset(key_prefix="shop", partitions_def=DAYS, metadata={"partition_expr": "day"})
def orders(context: dg.AssetExecutionContext) -> pa.Table:
    """The orders of a day."""
    rows = {"day": [context.partition_key], "country": ["nl"], "price": [2], "pieces": [3]}
    return pa.table(rows)


@dg.asset
def countries() -> pa.Table:
    """Names by code."""
    return pa.table({"code": ["nl"], "name": ["Netherlands"]})


@dg.asset(
    ins={"orders": dg.AssetIn(key_prefix="shop")},
    partitions_def=DAYS,
    metadata={"partition_expr": "day"},
)
def totals(orders: DataFrame, countries: DataFrame) -> DataFrame:
    """Total price and number of orders, by country and day."""
    joined = orders.join(countries, orders["country"] == countries["code"])
    total = sf.sum(orders["price"] * orders["pieces"]).alias("total")
    return joined.groupBy("day", "name").agg(total, sf.count("*").alias("number"))


defs = dg.Definitions(
    assets=[orders, countries, totals],
    jobs=[
        dg.define_asset_job("write", [orders, totals], executor_def=dg.multiprocess_executor),
        dg.define_asset_job("prepare", [countries], executor_def=dg.multiprocess_executor),
    ],
    resources={
        "io_manager": DeltaIOManager(
            root=os.environ.get(LAKE, "."),
            spark=LazyPySparkResource(
                spark_config={
                    "spark.master": "local[1]",
                    "spark.driver.bindAddress": "127.0.0.1",
                    "spark.driver.host": "127.0.0.1",
                    "spark.ui.enabled": "false",
                    "spark.sql.shuffle.partitions": "1",
                }
            ),
        ),
    },
)


def write() -> dg.JobDefinition:
    """Orders and totals of a day, for a process that builds the job again."""
    return defs.resolve_job_def("write")


def prepare() -> dg.JobDefinition:
    """Countries, in the same way."""
    return defs.resolve_job_def("prepare")
