"""Run by the test of killed releases: two assets and their release, whose step dies once."""

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import build_release_asset
from tests.orchestration.killed_audits import HELD, FatalIOManager
from tests.orchestration.killed_reruns import die_once

RELEASED = "in the step after the release"
POINTS = (*HELD, RELEASED)


@dg.asset(metadata={"delta/table": "a"})
def orders(context: dg.AssetExecutionContext) -> pa.Table:
    return pa.table({"code": [context.run.tags["test/code"]]})


@dg.asset(metadata={"delta/table": "b"})
def items(context: dg.AssetExecutionContext) -> pa.Table:
    return pa.table({"code": [context.run.tags["test/code"]]})


@dg.asset(deps=["shop"])
def report(context: dg.AssetExecutionContext) -> None:
    die_once(context.run.tags["test/lake"], "orders", context.run.tags, RELEASED)


def definitions(release_set: str) -> dg.Definitions:
    """The assets and their job."""
    shop = build_release_asset([orders, items], "shop", release_set=release_set)
    return dg.Definitions(
        assets=[orders, items, shop, report],
        jobs=[dg.define_asset_job("write_shop", executor_def=dg.multi_or_in_process_executor)],
        resources={"io_manager": FatalIOManager.configure_at_launch()},
    )


def write_shop(release_set: str) -> dg.JobDefinition:
    """The job, for a process that builds it again."""
    return definitions(release_set).get_repository_def().get_job("write_shop")
