"""Write, audit, publish in a backfill: runs of the daemon overlap, and one fails its check."""

from pathlib import Path

import dagster as dg
import pytest

from delta_ops.versioning import list_branches
from tests.orchestration.daemon_home import DaemonHome
from tests.support.tables import rows_by_deltalake

LOCATION = """
import os
from pathlib import Path

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import DeltaIOManager, build_publish_asset

LAKE = Path(os.environ["LAKE"])
DAYS = dg.StaticPartitionsDefinition(["1", "2", "3"])


@dg.asset(
    partitions_def=DAYS,
    metadata={"delta/publish": "audited", "delta/table": "orders", "partition_expr": "day"},
)
def new_orders(context: dg.AssetExecutionContext) -> pa.Table:
    return pa.table({"day": [context.partition_key]})


@dg.asset_check(asset=new_orders, blocking=True)
def is_right(new_orders: pa.Table) -> dg.AssetCheckResult:
    is_wrong = "2" in new_orders["day"].to_pylist() and not (LAKE / "corrected").exists()
    return dg.AssetCheckResult(passed=not is_wrong)


defs = dg.Definitions(
    assets=[new_orders, build_publish_asset(new_orders, "orders")],
    asset_checks=[is_right],
    jobs=[dg.define_asset_job("publish_days", executor_def=dg.in_process_executor)],
    resources={"io_manager": DeltaIOManager(root=str(LAKE))},
)
"""
SETTINGS = """
run_coordinator:
  module: dagster.core.run_coordinator
  class: QueuedRunCoordinator
  config: {max_concurrent_runs: 3}
telemetry: {enabled: false}
"""


@pytest.mark.long
def test_a_backfill_publishes_each_partition_whose_check_passed(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    home = DaemonHome(tmp_path / "home", LOCATION, SETTINGS, {"LAKE": str(lake)})
    with dg.DagsterInstance.from_config(str(home.root)) as instance, home.daemon():
        backfill(home, instance, "1,2,3", num_runs=3)
        assert days_of(lake) == ["1", "3"]
        (branch,) = list_branches(lake / "orders")
        assert branch.name.startswith("audit/new_orders/2/")
        (lake / "corrected").touch()
        backfill(home, instance, "2", num_runs=4)
        assert days_of(lake) == ["1", "2", "3"]


def backfill(home: DaemonHome, instance: dg.DagsterInstance, keys: str, num_runs: int) -> None:
    """Run a backfill, and wait until all runs of the instance have ended."""
    home.run("job", "backfill", "-j", "publish_days", "--partitions", keys, "--noprompt")

    def have_ended() -> bool:
        runs = instance.get_runs()
        return len(runs) == num_runs and all(run.is_finished for run in runs)

    home.wait_until(have_ended)


def days_of(lake: Path) -> list[str]:
    return sorted(row["day"] for row in rows_by_deltalake(lake / "orders"))
