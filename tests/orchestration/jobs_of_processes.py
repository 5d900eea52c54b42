"""Jobs that tests run in several processes, each of which imports them by this module's name."""

from __future__ import annotations

import os
from typing import Any

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import DeltaIOManager, build_fleet_maintenance_job

LAKE, KILLED = "DELTA_OPS_TEST_LAKE", "DELTA_OPS_TEST_KILLED"
"""Variables of the environment: where the tables are, and a file: while it is there, the step of an
asset is killed between its commit and its event."""


def fleet_in_processes() -> dg.JobDefinition:
    """The fleet's job beside our IO manager."""
    job = build_fleet_maintenance_job(executor_def=dg.multiprocess_executor)
    defs = dg.Definitions(jobs=[job], resources={"io_manager": DeltaIOManager(root="nowhere")})
    return defs.resolve_job_def(job.name)


class KilledAfterItsCommit(DeltaIOManager):
    """Ends the process that has committed, as long as a file says so."""

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        super().handle_output(context, obj)
        if os.path.exists(os.environ[KILLED]):
            os._exit(9)


@dg.asset(metadata={"delta/mode": "append"})
def orders() -> pa.Table:
    return pa.table({"x": [1, 2, 3]})


def orders_in_processes() -> dg.JobDefinition:
    """The asset `orders`, whose step is killed after its commit."""
    defs = dg.Definitions(
        assets=[orders],
        jobs=[dg.define_asset_job("write_orders", executor_def=dg.multiprocess_executor)],
        resources={"io_manager": KilledAfterItsCommit(root=os.environ[LAKE])},
    )
    return defs.resolve_job_def("write_orders")
