"""Run by the test of a dead JVM: an asset whose Spark is killed while it writes.

    python -m tests.spark.dead_jvm LAKE kill|live

Prints the error of the run, or nothing.
"""

import os
import signal
import sys
import threading
import time

import dagster as dg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.events import OnEvent, WriteStarted
from delta_ops.orchestration import DeltaIOManager

KILL_AFTER_S = 2
BUSY_S = 10


class FatalIOManager(DeltaIOManager):
    """The IO manager, which kills the JVM soon after a write has begun."""

    def listener(self, context: dg.OutputContext) -> OnEvent:
        jvm = SparkSession.active()._jvm
        assert jvm is not None
        pid = jvm.java.lang.ProcessHandle.current().pid()

        def on_event(event: object) -> None:
            if isinstance(event, WriteStarted) and sys.argv[2] == "kill":
                threading.Timer(KILL_AFTER_S, os.kill, (pid, signal.SIGKILL)).start()

        return on_event


@dg.asset
def numbers() -> DataFrame:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    is_killed = sys.argv[2] == "kill"

    @sf.udf("long")
    def wait(number: int) -> int:
        time.sleep(BUSY_S if is_killed else 0)
        return number

    return spark.range(3, numPartitions=1).select(wait("id").alias("id"))


if __name__ == "__main__":
    result = dg.materialize(
        [numbers], resources={"io_manager": FatalIOManager(root=sys.argv[1])}, raise_on_error=False
    )
    for event in result.get_step_failure_events():
        error = event.step_failure_data.error
        print(error.cause.message if error and error.cause else error)
