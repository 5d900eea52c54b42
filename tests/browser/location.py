"""The code location of the browser tests: two pyarrow assets and their maintenance."""

import os

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    build_commit_sensor,
    delta_ops_definitions,
)

LOCATION = "shop"
LAKE = "DELTA_OPS_TEST_LAKE"


@dg.asset(kinds={"deltalake"}, group_name="shop", metadata={"delta/mode": "append"})
def orders() -> pa.Table:
    """Three new orders with every run."""
    return pa.table({"country": ["BE", "DE", "NL"], "amount": [10, 20, 30]})


@dg.asset(kinds={"deltalake"}, group_name="shop")
def revenue(orders: pa.Table) -> pa.Table:
    """Revenue by country."""
    return orders.group_by("country").aggregate([("amount", "sum")])


lake = DeltaLogResource(root=os.environ[LAKE])
assets = [orders, revenue]
defs = dg.Definitions.merge(
    dg.Definitions(
        assets=assets,
        sensors=[
            # The sensor of delta_ops_definitions runs once a minute.
            build_commit_sensor([lake.table("orders")], name="quick", minimum_interval_seconds=1)
        ],
        resources={"io_manager": DeltaIOManager(lake=lake, checkpoint="scheduled")},
        executor=dg.in_process_executor,
    ),
    delta_ops_definitions(lake, assets),
)
