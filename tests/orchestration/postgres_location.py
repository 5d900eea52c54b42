"""The code location of the tests with Postgres: two assets in one pool, with their maintenance.

Environment variables name the lake on S3, with the names of further secrets, and how a step of
`orders` ends once between its commit and its event: alone, or with its run's process. It raises if
it shares its process with a test.
"""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import DeltaIOManager, DeltaLogResource, delta_ops_definitions

LAKE, MARKER, KILLED = "TEST_LAKE", "TEST_MARKER", "TEST_KILLED"
STEP, RUN = "step", "run"
"""The process that the test kills."""
POOL = "writers"
S3_OPTIONS = {
    "key": dg.EnvVar("TEST_S3_KEY"),
    "secret": dg.EnvVar("TEST_S3_SECRET"),
    "endpoint_url": dg.EnvVar("TEST_S3_URL"),
}


class FatalIOManager(DeltaIOManager):
    """The IO manager; it ends its process once after a commit."""

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        super().handle_output(context, obj)
        marker = Path(os.environ[MARKER])
        if context.asset_key == dg.AssetKey("orders") and not marker.exists():
            marker.touch()
            if multiprocessing.parent_process() is None:
                raise RuntimeError("killed after its commit")
            if os.environ[KILLED] == RUN:
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


def rows_of_run(context: dg.AssetExecutionContext) -> pa.Table:
    time.sleep(0.5)  # so that two steps at once would be visible
    return pa.table({"run": [context.run.run_id]})


@dg.asset(metadata={"delta/mode": "append"}, pool=POOL)
def orders(context: dg.AssetExecutionContext) -> pa.Table:
    return rows_of_run(context)


@dg.asset(metadata={"delta/mode": "append"}, pool=POOL)
def returns(context: dg.AssetExecutionContext) -> pa.Table:
    return rows_of_run(context)


root = os.environ.get(LAKE, ".")
# Dagster resolves the environment at run time: it keeps a job as long as its process.
lake = DeltaLogResource(
    root=dg.EnvVar(LAKE) if root != "." else root,
    storage_options=S3_OPTIONS if "://" in root else {},
)
defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[orders, returns],
        jobs=[dg.define_asset_job("write_all")],
        resources={"io_manager": FatalIOManager(lake=lake)},
    ),
    delta_ops_definitions(lake, [orders, returns], with_checks=False),
)


def write_all() -> dg.JobDefinition:
    """The job, for a process that builds it again."""
    return defs.resolve_job_def("write_all")
