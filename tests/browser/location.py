"""The code location of the browser tests: three pyarrow assets and their maintenance.

`orders` needs maintenance, `returns` was maintained, and `revenue` is new. The definition of
`revenue` does not say where its table is.
"""

import os

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    MaintenancePolicy,
    add_table_metadata,
    build_commit_sensor,
    delta_ops_definitions,
)

LOCATION = "shop"
LAKE = "DELTA_OPS_TEST_LAKE"
ROWS = pa.table({"country": ["BE", "DE", "NL"], "amount": [10, 20, 30]})


@dg.asset(kinds={"deltalake"}, group_name="shop", metadata={"delta/mode": "append"})
def orders() -> pa.Table:
    """Three new orders with every run."""
    return ROWS


@dg.asset(kinds={"deltalake"}, group_name="shop", metadata={"delta/mode": "append"})
def returns() -> pa.Table:
    """Three returned orders with every run."""
    return ROWS


@dg.asset(kinds={"deltalake"}, group_name="shop")
def revenue(orders: pa.Table) -> pa.Table:
    """Revenue by country."""
    return orders.group_by("country").aggregate([("amount", "sum")])


@dg.asset_check(asset=orders, description="No order has a negative amount.")
def amounts_are_positive(orders: pa.Table) -> dg.AssetCheckResult:
    """A check of the user."""
    return dg.AssetCheckResult(passed=min(orders["amount"].to_pylist()) >= 0)


lake = DeltaLogResource(root=os.environ[LAKE])
ASSETS = [orders, returns, revenue]
assets = [*add_table_metadata([orders, returns], lake.table), revenue]
defs = dg.Definitions.merge(
    dg.Definitions(
        assets=assets,
        asset_checks=[amounts_are_positive],
        sensors=[
            # The sensor of delta_ops_definitions runs once a minute.
            build_commit_sensor([lake.table("orders")], name="quick", minimum_interval_seconds=1)
        ],
        resources={"io_manager": DeltaIOManager(lake=lake, checkpoint="scheduled")},
        executor=dg.in_process_executor,
    ),
    delta_ops_definitions(lake, assets, [MaintenancePolicy()]),
)
