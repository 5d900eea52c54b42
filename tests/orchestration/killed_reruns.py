"""Run by the test of killed reruns: assets, one for each way to write, whose steps die once.

Run tags name the place of the kill (`test/kill_at`) and the code to run (`test/code`), because
steps of a fork server share the environment of the first step. Kills are counted by files in the
lake. A step in its own process is killed; a step in the test's process fails at the same point.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from delta_ops import col
from delta_ops.events import CommitAttempted, Event, OnEvent
from delta_ops.orchestration import DeltaIOManager, SourcePart

BEFORE, BETWEEN, AFTER = "before the commit", "between commit and event", "after the event"
WAYS: dict[str, dict[str, Any]] = {
    "append": {"delta/mode": "append"},
    "overwrite": {},
    "source": {"delta/idempotency": "source"},
    "partition": {"delta/idempotency": "partition"},
    "merge": {"delta/mode": "merge", "delta/merge_keys": "file"},
    "merge_by_clauses": {
        "delta/mode": "merge",
        "delta/merge_keys": "file",
        "delta/merge_clauses": [
            {
                "when": "matched",
                "then": "update",
                "set": {"code": "concat(target.code, ' ', source.code)"},
            },
            {"when": "not matched", "then": "insert"},
        ],
    },
}


class StepKilledError(Exception):
    """Raised by a step that shares its process with the test."""


def die_once(lake: str, name: str, tags: Any, point: str) -> None:
    """End this step if the run must die here and has not died yet."""
    marker = Path(lake) / f"{name}.killed"
    if tags.get("test/kill_at") == point and not marker.exists():
        marker.touch()
        if multiprocessing.parent_process() is None:
            raise StepKilledError(point)
        os.kill(os.getpid(), signal.SIGKILL)


class FatalIOManager(DeltaIOManager):
    """The IO manager, which kills the process before or after a commit."""

    def listener(self, context: dg.OutputContext) -> OnEvent:
        def on_event(event: Event) -> None:
            if isinstance(event, CommitAttempted):
                self._die_once(context, BEFORE)

        return on_event

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        super().handle_output(context, obj)
        self._die_once(context, BETWEEN)

    def _die_once(self, context: dg.OutputContext, point: str) -> None:
        tags = context.step_context.dagster_run.tags
        assert self.root is not None
        die_once(self.root, context.asset_key.path[-1], tags, point)


def written_asset(way: str, retry_policy: dg.RetryPolicy | None) -> dg.AssetsDefinition:
    @dg.asset(name=way, metadata=WAYS[way], retry_policy=retry_policy)
    def asset(context: dg.AssetExecutionContext) -> Iterator[dg.Output[Any]]:
        tags = context.run.tags
        code = "second" if context.retry_number else tags["test/code"]
        rows = pa.table({"file": ["a.csv"], "code": [code]})
        part = SourcePart(data=rows, source="a.csv", position=1, replaces=col("file") == "a.csv")
        yield dg.Output([part] if way == "source" else rows)
        die_once(tags["test/lake"], way, tags, AFTER)

    return asset


IN_PROCESS: dict[str, Any] = {"in_process": {}}
IN_PROCESSES: dict[str, Any] = {
    "multiprocess": {
        "max_concurrent": 2,
        "start_method": {"forkserver": {"preload_modules": [__name__]}},
    }
}
"""Config of the executor: steps in the process of the run, or in separate processes."""


def job_of(retry_policy: dg.RetryPolicy | None) -> dg.JobDefinition:
    return (
        dg.Definitions(
            assets=[written_asset(way, retry_policy) for way in WAYS],
            jobs=[dg.define_asset_job("write_all", executor_def=dg.multi_or_in_process_executor)],
            resources={"io_manager": FatalIOManager.configure_at_launch()},
        )
        .get_repository_def()
        .get_job("write_all")
    )


DAYS = dg.StaticPartitionsDefinition(["1", "2", "3"])
REGIONS = dg.MultiPartitionsDefinition(
    {
        "day": dg.StaticPartitionsDefinition(["1", "2"]),
        "region": dg.StaticPartitionsDefinition(["be", "nl"]),
    }
)
PARTITIONED_WAYS: dict[str, dict[str, Any]] = {
    "append": {"delta/mode": "append"},
    "overwrite": {},
    "merge": {"delta/mode": "merge", "delta/merge_keys": ["day", "region"]},
    "counting_merge": {
        "delta/mode": "merge",
        "delta/merge_keys": ["day", "region"],
        "delta/merge_clauses": [
            {"when": "matched", "then": "update", "set": {"n": "target.n + source.n"}},
            {"when": "not matched", "then": "insert"},
        ],
    },
}
"""An append and a counting merge: both are wrong when done twice."""


def partitioned_asset(
    name: str,
    metadata: dict[str, Any],
    partitions: dg.PartitionsDefinition[Any],
    expression: str | dict[str, str],
) -> dg.AssetsDefinition:
    """An asset that writes a row with the number 1 for each partition of its run."""

    @dg.asset(
        name=name,
        metadata={**metadata, "partition_expr": expression},
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def asset(context: dg.AssetExecutionContext) -> Iterator[dg.Output[pa.Table]]:
        parts = [key.split("|") for key in context.partition_keys]
        days, regions = [each[0] for each in parts], [each[-1] for each in parts]
        yield dg.Output(pa.table({"day": days, "region": regions, "n": [1] * len(parts)}))
        die_once(context.run.tags["test/lake"], name, context.run.tags, AFTER)

    return asset


def _partitioned_job(
    partitions: dg.PartitionsDefinition[Any], expression: str | dict[str, str]
) -> dg.JobDefinition:
    assets = [
        partitioned_asset(name, metadata, partitions, expression)
        for name, metadata in PARTITIONED_WAYS.items()
    ]
    return (
        dg.Definitions(
            assets=assets,
            jobs=[dg.define_asset_job("write_parts", executor_def=dg.multi_or_in_process_executor)],
            resources={"io_manager": FatalIOManager.configure_at_launch()},
        )
        .get_repository_def()
        .get_job("write_parts")
    )


def write_days() -> dg.JobDefinition:
    """The job of assets with a partition for each day."""
    return _partitioned_job(DAYS, "day")


def write_regions() -> dg.JobDefinition:
    """The job of assets with a partition for each day and region."""
    return _partitioned_job(REGIONS, {"day": "day", "region": "region"})


def write_all() -> dg.JobDefinition:
    """The job, for a process that builds it again."""
    return job_of(None)


def write_all_with_retries() -> dg.JobDefinition:
    """The job with retried ops, for a process that builds it again."""
    return job_of(dg.RetryPolicy(max_retries=1))
