"""Run by the test of killed audits: an audited asset, its check and its publish asset, killed once.

A run tag names the point of the kill. A step in its own process is killed; a step in the test's
process fails at the same point.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

import dagster as dg
import pyarrow as pa
from pydantic import PrivateAttr

from delta_ops.log import DeltaLog
from delta_ops.orchestration import DeltaIOManager, build_publish_asset
from delta_ops.orchestration.dagster_versions import run_of_resource
from tests.orchestration.killed_reruns import die_once
from tests.support.counting_storage import CountingStorage

ENTRIES = {
    "when the branch exists": "create branch",
    "when the branch is closed": "close branch",
    "when the publication is recorded": "record publication",
    "when the branch is deleted": "delete branch",
}
"""Points after an entry of the journal, by the beginning of its text."""
HELD: dict[str, tuple[str, Literal["before", "after"]]] = {
    f"{moment} table {name} is held": (name, moment)
    for name in ("a", "b")
    for moment in ("before", "after")
}
"""Points at the entry that holds a version of a table for a release."""
COMMITS: dict[str, tuple[str, Literal["before", "after"]]] = {
    "before the rows are on the branch": (r"_delta_ops/branches/.*\.json", "before"),
    "when the rows are on the branch": (r"_delta_ops/branches/.*\.json", "after"),
    "before the rows are on main": (r"_delta_log/\d+\.json", "before"),
    "when the rows are on main": (r"_delta_log/\d+\.json", "after"),
}
"""Points at a commit."""
STAGED, REPORTED = "before the event of the rows", "after the event of the rows"
CHECKED, PUBLISHED = "in the check", "before the event of the publication"
POINTS = (*ENTRIES, *COMMITS, STAGED, REPORTED, CHECKED, PUBLISHED)


class FatalIOManager(DeltaIOManager):
    """The IO manager, whose process dies at a point."""

    _tags: Any = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        super().setup_for_execution(context)
        run = run_of_resource(context)
        assert run is not None
        self._tags = run.tags

    def log_of_asset(self, asset_key: dg.AssetKey, metadata: Any) -> DeltaLog:
        log = super().log_of_asset(asset_key, metadata)
        storage = log.storage

        def on_call(_number: int, method: str, path: str, when: str) -> None:
            if method != "create":
                return
            for point, (pattern, moment) in COMMITS.items():
                if when == moment and re.fullmatch(pattern, path):
                    self.die(point)
            for point, (name, moment) in HELD.items():
                is_entry = when == moment and path.startswith("_delta_ops/refs/")
                if is_entry and log.uri.endswith(f"/{name}"):
                    self.die(point)
            if path.startswith("_delta_ops/refs/") and when == "after":
                entry = storage.read(path).decode()
                for point, text in ENTRIES.items():
                    if f'"change":"{text}' in entry:
                        self.die(point)

        return log.over(CountingStorage(storage, on_call))

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        super().handle_output(context, obj)
        self.die(PUBLISHED if context.asset_key.path == ["orders"] else STAGED)

    def die(self, point: str) -> None:
        assert self.root is not None
        die_once(self.root, "orders", self._tags, point)


@dg.asset(metadata={"delta/publish": "audited", "delta/table": "orders", "delta/mode": "append"})
def new_orders(context: dg.AssetExecutionContext) -> Iterator[dg.Output[Any]]:
    yield dg.Output(pa.table({"code": [context.run.tags["test/code"]]}))
    die_once(context.run.tags["test/lake"], "orders", context.run.tags, REPORTED)


@dg.asset_check(asset=new_orders, blocking=True)
def is_right(context: dg.AssetCheckExecutionContext, new_orders: pa.Table) -> dg.AssetCheckResult:
    die_once(context.run.tags["test/lake"], "orders", context.run.tags, CHECKED)
    return dg.AssetCheckResult(passed=len(new_orders) == 2)  # with the row that main had


def write_orders() -> dg.JobDefinition:
    """The job, for a process that builds it again."""
    return (
        dg.Definitions(
            assets=[new_orders, build_publish_asset(new_orders, "orders")],
            asset_checks=[is_right],
            jobs=[
                dg.define_asset_job("write_orders", executor_def=dg.multi_or_in_process_executor)
            ],
            resources={"io_manager": FatalIOManager.configure_at_launch()},
        )
        .get_repository_def()
        .get_job("write_orders")
    )
