"""Run by the test of killed reproductions: an asset that is reproduced, and whose step dies once.

A step dies as in killed audits.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pyarrow as pa

from tests.orchestration.killed_audits import COMMITS, REPORTED, STAGED, FatalIOManager
from tests.orchestration.killed_reruns import die_once

POINTS = (
    "when the branch exists",
    *(point for point, (path, _) in COMMITS.items() if "branches" in path),
    STAGED,
    REPORTED,
)


@dg.asset
def codes(context: dg.AssetExecutionContext) -> pa.Table:
    return pa.table({"code": [context.run.tags["test/code"]]})


@dg.asset(metadata={"delta/mode": "append"})
def totals(context: dg.AssetExecutionContext, codes: pa.Table) -> Iterator[dg.Output[Any]]:
    yield dg.Output(codes)
    die_once(context.run.tags["test/lake"], "orders", context.run.tags, REPORTED)


defs = dg.Definitions(
    assets=[codes, totals],
    jobs=[dg.define_asset_job("write_totals", executor_def=dg.multi_or_in_process_executor)],
    resources={"io_manager": FatalIOManager.configure_at_launch()},
)


def write_totals() -> dg.JobDefinition:
    """The job, for a process that builds it again."""
    return defs.get_repository_def().get_job("write_totals")
