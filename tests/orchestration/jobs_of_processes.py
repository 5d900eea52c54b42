"""Jobs that tests run in several processes; each process imports them from this module."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import (
    DeltaIOManager,
    TableRef,
    build_fleet_maintenance_job,
    build_maintenance_job,
    maintenance_config,
)
from tests.support.instances import new_instance

LAKE, KILLED = "DELTA_OPS_TEST_LAKE", "DELTA_OPS_TEST_KILLED"
"""Environment variables: the folder of the tables, and a marker file. While the marker exists, the
step of an asset ends between its commit and its event."""


def fleet_in_processes() -> dg.JobDefinition:
    """The fleet's job beside our IO manager."""
    job = build_fleet_maintenance_job(executor_def=dg.multiprocess_executor)
    defs = dg.Definitions(jobs=[job], resources={"io_manager": DeltaIOManager(root="nowhere")})
    return defs.resolve_job_def(job.name)


class KilledAfterItsCommit(DeltaIOManager):
    """Ends a step after its commit, and its process if it has one, while a marker file exists."""

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        super().handle_output(context, obj)
        if os.path.exists(os.environ[KILLED]):
            if multiprocessing.parent_process() is None:
                raise RuntimeError("killed after its commit")
            os._exit(9)


@dg.asset(metadata={"delta/mode": "append"})
def orders() -> pa.Table:
    return pa.table({"x": [1, 2, 3]})


def orders_in_processes() -> dg.JobDefinition:
    """The asset `orders`; its step is killed after its commit, in its own process or not."""
    defs = dg.Definitions(
        assets=[orders],
        jobs=[dg.define_asset_job("write_orders", executor_def=dg.multi_or_in_process_executor)],
        resources={"io_manager": KilledAfterItsCommit(root=dg.EnvVar(LAKE))},
    )
    return defs.get_repository_def().get_job("write_orders")


def maintain_side_by_side(uris: Sequence[str]) -> list[tuple[bool, str]]:
    """The success and the messages of two runs that start on a table at once."""
    context = multiprocessing.get_context("spawn")
    barrier, reported = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=_maintain_each, args=(uris, barrier, reported)) for _ in "ab"
    ]
    for process in processes:
        process.start()
    found = [reported.get(timeout=300) for _ in range(2 * len(uris))]
    for process in processes:
        process.join()
    return found


def _maintain_each(uris: Sequence[str], barrier: Any, expected: Any) -> None:
    operations = ["vacuum", "optimize", "checkpoint", "clean_up_log"]
    with new_instance() as instance:
        for uri in uris:
            job = build_maintenance_job([TableRef(asset_key=dg.AssetKey("t"), uri=uri)])
            barrier.wait()
            result = job.execute_in_process(
                instance=instance,
                run_config=maintenance_config([], operations=operations),
                raise_on_error=False,
            )
            observed = [event for event in result.all_events if event.is_asset_observation]
            texts = [each.asset_observation_data.asset_observation.description for each in observed]
            expected.put((result.success, "; ".join(map(str, texts))))
