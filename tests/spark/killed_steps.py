"""Run by the test of killed steps: a job whose step process dies at each of five events of a write.

LAKE is the folder of the tables. The step dies once at each event in KILL_AT (default: all); a
marker in LAKE makes its re-execution die at the next event.
"""

import os
import signal
from pathlib import Path

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import DataFrame

from delta_ops.events import Event, OnEvent
from delta_ops.orchestration import DeltaIOManager

LAKE = Path(os.environ.get("LAKE", "."))
POINTS = ("WriteStarted", "DataFilesWritten", "DataFilesStaged", "CommitAttempted", "Committed")
KILL_AT = os.environ.get("KILL_AT", " ".join(POINTS)).split()


class FatalIOManager(DeltaIOManager):
    """The IO manager, with a listener that kills the process."""

    def listener(self, context: dg.OutputContext) -> OnEvent:
        def on_event(event: Event) -> None:
            marker = LAKE / type(event).__name__
            if marker.name in KILL_AT and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        return on_event


@dg.asset(
    metadata={"delta/mode": "append", "delta/configuration": {"delta.checkpointInterval": "1"}}
)
def lines(spark: LazyPySparkResource) -> DataFrame:
    """An append, which a careless rerun would repeat."""
    rows: DataFrame = spark.spark_session.range(10).withColumnRenamed("id", "x")
    return rows


defs = dg.Definitions(
    assets=[lines],
    jobs=[dg.define_asset_job("write_lines", [lines], executor_def=dg.multiprocess_executor)],
    resources={
        "io_manager": FatalIOManager(root=str(LAKE)),
        "spark": LazyPySparkResource(
            spark_config={
                "spark.master": "local[1]",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                "spark.ui.enabled": "false",
            }
        ),
    },
)


def write_lines() -> dg.JobDefinition:
    """The job, for a process that builds it again."""
    return defs.resolve_job_def("write_lines")
