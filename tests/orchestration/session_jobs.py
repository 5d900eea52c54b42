"""Jobs whose ops stage rows in a session; run by tests, in one or several processes.

The tags of a run name the place of a failure (`test/fail_at`), the number of failures
(`test/failures`) and the number of ops (`test/parts`). Failures are counted by files in the lake. A
step in its own process is killed; a step in the test's process raises an error at the same point.
"""

import multiprocessing
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    DeltaSessionResource,
    StagedStep,
)
from tests.support.counting_storage import CountingStorage

BEFORE_ROWS, AFTER_ROWS = "before the rows", "after the rows"
BEFORE_COMMIT, AFTER_COMMIT = "before the commit", "after the commit"
WITHIN_COMMIT = {
    "when the session is closed": (r"_delta_ops/sessions/.*/end\.json", "after"),
    "when its rows are fixed": (r"_delta_ops/sessions/.*/sealed\.json", "after"),
    "before the rows are on main": (r"_delta_log/\d+\.json", "before"),
    "when the rows are on main": (r"_delta_log/\d+\.json", "after"),
    "before the session is deleted": (r"_delta_ops/refs/\d+\.json", "before"),
    "when the session is deleted": (r"_delta_ops/refs/\d+\.json", "after"),
}
"""Points within the commit, by the file that is created."""
RETRY = dg.RetryPolicy(max_retries=1)


class StepKilledError(Exception):
    """Raised by a step that shares its process with the test."""


def fail_at(context: dg.OpExecutionContext, point: str) -> None:
    """End this step if the run must fail here, and has not failed often enough."""
    fail(context.run.tags, point)


def fail(tags: Mapping[str, str], point: str) -> None:
    """As `fail_at`, by the tags of the run."""
    if tags.get("test/fail_at") != point:
        return
    for number in range(int(tags.get("test/failures", "1"))):
        marker = Path(tags["test/lake"]) / f"{point} {number}.failed"
        if marker.exists():
            continue
        marker.touch()
        if multiprocessing.parent_process() is None:
            raise StepKilledError(point)
        os.kill(os.getpid(), signal.SIGKILL)


class FatalLogResource(DeltaLogResource):
    """The resource that has the table; the process ends once at a point within the commit."""

    def log(self, table: str | dg.AssetKey | Sequence[str]) -> DeltaLog:
        log, tags = super().log(table), self._run_tags
        point = tags.get("test/fail_at", "")
        if point not in WITHIN_COMMIT or Path(tags["test/lake"], f"{point} 0.failed").exists():
            return log  # a result that is stored must be picklable
        pattern, moment = WITHIN_COMMIT[point]

        def on_call(_number: int, method: str, path: str, when: str) -> None:
            is_there = (method, when) == ("create", moment) and re.fullmatch(pattern, path)
            if is_there and any(Path(log.uri, "_delta_ops", "sessions").rglob("end.json")):
                fail(tags, point)

        return log.over(CountingStorage(log.storage, on_call))


@dg.op(out=dg.DynamicOut(int))
def split(context: dg.OpExecutionContext) -> Iterator[dg.DynamicOutput[int]]:
    for number in range(1, int(context.run.tags.get("test/parts", "3")) + 1):
        yield dg.DynamicOutput(number, f"part_{number}")


@dg.op(retry_policy=RETRY)
def load(context: dg.OpExecutionContext, number: int, session: DeltaSessionResource) -> StagedStep:
    log = session.fork(context)
    if number == 2:
        fail_at(context, BEFORE_ROWS)
    da.write(log, pa.table({"id": pa.array([number], pa.int64())}))
    if number == 2:
        fail_at(context, AFTER_ROWS)
    assert session.fork(context) is log
    return session.staged_step(context)


@dg.op(retry_policy=RETRY)
def commit(
    context: dg.OpExecutionContext, parts: list[StagedStep], session: DeltaSessionResource
) -> Snapshot:
    fail_at(context, BEFORE_COMMIT)
    snapshot = session.commit(context, parts)
    fail_at(context, AFTER_COMMIT)
    return snapshot


DAYS = dg.StaticPartitionsDefinition(["monday", "tuesday"])


@dg.graph_asset(partitions_def=DAYS)
def orders() -> Any:
    return commit(split().map(load).collect())


@dg.graph
def load_all() -> None:
    commit(split().map(load).collect())


def load_orders() -> dg.JobDefinition:
    """The ops as a job."""
    lake = FatalLogResource.configure_at_launch()
    session = DeltaSessionResource(lake=lake, table="orders")
    return load_all.to_job(
        "load_orders",
        resource_defs={"lake": lake, "session": session},
        executor_def=dg.multi_or_in_process_executor,
    )


def materialize_orders() -> dg.JobDefinition:
    """The ops as a graph asset."""
    lake = DeltaLogResource.configure_at_launch()
    return dg.Definitions(
        assets=[orders],
        jobs=[dg.define_asset_job("orders", executor_def=dg.multi_or_in_process_executor)],
        resources={
            "lake": lake,
            "session": DeltaSessionResource(lake=lake, table="orders"),
            "io_manager": DeltaIOManager(lake=lake),
        },
    ).resolve_job_def("orders")
