"""Run by the test of terminated steps: a job whose step writes rows endlessly."""

import os

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import DataFrame

from delta_ops.orchestration import DeltaIOManager


@dg.asset
def endless(spark: LazyPySparkResource) -> DataFrame:
    """Rows that keep two tasks busy for weeks; some of them are written at once."""
    rows: DataFrame = spark.spark_session.range(0, 10**15, 1, 2).filter("id % 1000000 = 0")
    return rows


defs = dg.Definitions(
    assets=[endless],
    jobs=[dg.define_asset_job("write", [endless], executor_def=dg.multiprocess_executor)],
    resources={
        "io_manager": DeltaIOManager(root=os.environ.get("LAKE", ".")),
        "spark": LazyPySparkResource(
            spark_config={
                "spark.master": "local[2]",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                "spark.ui.enabled": "false",
            }
        ),
    },
)


def write() -> dg.JobDefinition:
    """The job, for a process that builds it again."""
    return defs.resolve_job_def("write")


if __name__ == "__main__":
    from tests.spark import endless_step

    with dg.DagsterInstance.get() as instance:
        job = dg.reconstructable(endless_step.write)
        with dg.execute_job(job, instance=instance) as result:
            print("success:", result.success)
