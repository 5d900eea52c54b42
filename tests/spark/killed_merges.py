"""Run by the test of killed merges: assets that Spark merges, whose steps die once.

Run tags name the place of the kill and the code to run, as in `killed_reruns`.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from tests.orchestration.killed_reruns import AFTER, WAYS, FatalIOManager, die_once

MERGES = ("merge", "merge_by_clauses")
"""Ways to merge: by keys alone, and by clauses that cannot be repeated."""


def merged_asset(way: str) -> dg.AssetsDefinition:
    @dg.asset(name=way, metadata=WAYS[way])
    def asset(
        context: dg.AssetExecutionContext, spark: LazyPySparkResource
    ) -> Iterator[dg.Output[Any]]:
        tags = context.run.tags
        rows = spark.spark_session.sql(f"SELECT 'a.csv' AS file, '{tags['test/code']}' AS code")
        yield dg.Output(rows)
        die_once(tags["test/lake"], way, tags, AFTER)

    return asset


ONE_BY_ONE: dict[str, Any] = {
    "multiprocess": {
        "max_concurrent": 1,
        "start_method": {"forkserver": {"preload_modules": [__name__]}},
    }
}
"""Config of the executor: steps in a process each, one after the other."""
ONE_CORE = {
    "spark.master": "local[1]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


def job_of(spark_config: dict[str, Any]) -> dg.JobDefinition:
    spark = LazyPySparkResource(spark_config=spark_config)
    return dg.Definitions(
        assets=[merged_asset(way) for way in MERGES],
        jobs=[dg.define_asset_job("merge_all", executor_def=dg.multi_or_in_process_executor)],
        resources={"io_manager": FatalIOManager.configure_at_launch(), "spark": spark},
    ).resolve_job_def("merge_all")


def merge_all() -> dg.JobDefinition:
    """The job, for a process that builds it again."""
    return job_of(ONE_CORE)


def merge_by_clauses_here() -> dg.JobDefinition:
    """The job of the merge that a careless rerun would repeat, in a process with a session."""
    return job_of({}).get_subset(asset_selection={dg.AssetKey("merge_by_clauses")})
