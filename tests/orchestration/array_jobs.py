"""Jobs whose assets are datasets; run by tests, in one or several processes.

The tag `test/fail_at` of a run names the step and the moment of a failure, which happens once.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import xarray
from dagster._core.instance.ref import InstanceRef
from pydantic import PrivateAttr

from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.orchestration import DeltaArrayIOManager, DeltaLogResource

AFTER_WRITE = "after the commit of the output"
IN_PART, IN_JOIN = "in a part", "in the step that joins the parts"
DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-13")


class StepKilledError(Exception):
    """Raised by a step that shares its process with the test."""


def fail_at(run: dg.DagsterRun, point: str) -> None:
    """End this step once, if the run must fail here."""
    if run.tags.get("test/fail_at") != point:
        return
    marker = Path(run.tags["test/lake"], f"{point}.failed")
    if marker.exists():
        return
    marker.touch()
    if multiprocessing.parent_process() is None:
        raise StepKilledError(point)
    os.kill(os.getpid(), signal.SIGKILL)


class FatalIOManager(DeltaArrayIOManager):
    """The IO manager; the process ends once after an output was committed."""

    _run: Any = PrivateAttr(default=None)

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        super().handle_output(context, obj)
        if context.has_asset_key:
            fail_at(context.step_context.dagster_run, AFTER_WRITE)


def hours(day: str, size: int = 24) -> Any:
    """The times of a day."""
    return np.datetime64(day, "ns") + np.arange(size) * np.timedelta64(1, "h").astype("m8[ns]")


def dataset_of(day: str) -> xarray.Dataset:
    """A day of hours; the values are the number of the day."""
    values = np.full((24, 3), float(day[-2:]))
    coords = {"time": hours(day), "lat": [10.0, 20.0, 30.0]}
    return xarray.Dataset({"air": (("time", "lat"), values, {"units": "K"})}, coords=coords)


@dg.asset(
    partitions_def=DAYS,
    metadata={"partition_expr": "time"},
    retry_policy=dg.RetryPolicy(max_retries=1),
)
def days(context: dg.AssetExecutionContext) -> xarray.Dataset:
    return dataset_of(context.partition_key)


@dg.op(out={"token": dg.Out(str), "parts": dg.DynamicOut(int)})
def begin(lake: DeltaLogResource) -> Iterator[dg.Output[str] | dg.DynamicOutput[int]]:
    log = lake.log("joined")
    if not log.exists():
        create_array_table(log)
    with DeltaStore.begin(log) as store:
        xarray.Dataset({"air": ("x", np.zeros(40))}).to_zarr(
            store, consolidated=False, encoding={"air": {"chunks": (10,)}}
        )
        token = store.session
    assert token
    yield dg.Output(token, "token")
    yield from (dg.DynamicOutput(each, f"part_{each}", "parts") for each in range(4))


@dg.op(retry_policy=dg.RetryPolicy(max_retries=1))
def write_part(
    context: dg.OpExecutionContext, part: int, token: str, lake: DeltaLogResource
) -> int:
    with DeltaStore(lake.log("joined"), session=token) as store:
        data = xarray.Dataset({"air": ("x", np.full(10, part + 1.0))})
        region = {"x": slice(10 * part, 10 * part + 10)}
        data.to_zarr(store, region=region, consolidated=False)
        if part == 2:
            store.flush()
            fail_at(context.run, IN_PART)
    return part


@dg.op
def join(
    context: dg.OpExecutionContext, parts: list[int], token: str, lake: DeltaLogResource
) -> DeltaStore:
    fail_at(context.run, IN_JOIN)
    return DeltaStore(lake.log("joined"), session=token)


@dg.graph_asset
def joined() -> Any:
    token, parts = begin()
    return join(parts.map(lambda part: write_part(part, token)).collect(), token)


def _job(asset: Any) -> dg.JobDefinition:
    lake = DeltaLogResource.configure_at_launch()
    return dg.Definitions(
        assets=[asset],
        jobs=[dg.define_asset_job("job", [asset], executor_def=dg.multi_or_in_process_executor)],
        resources={"lake": lake, "io_manager": FatalIOManager(lake=lake)},
    ).resolve_job_def("job")


def days_job() -> dg.JobDefinition:
    """Partitions as regions."""
    return _job(days)


def joined_job() -> dg.JobDefinition:
    """Parallel steps in one session."""
    return _job(joined)


def run_day(instance: InstanceRef, lake: str, day: str) -> bool:
    """Materialize a day in this process, as one of several runs of a backfill."""
    with dg.DagsterInstance.from_ref(instance) as opened:
        return dg.execute_job(
            dg.reconstructable(days_job),
            opened,
            run_config={
                "execution": {"config": {"in_process": {}}},
                "resources": {"lake": {"config": {"root": lake}}},
            },
            tags={"dagster/partition": day, "dagster/backfill": "all"},
        ).success
