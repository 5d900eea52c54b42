"""The code location of an audited asset, whose check fails until a file exists."""

import os
from pathlib import Path

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import DeltaIOManager, audit_metadata, build_publish_asset

LOCATION = "audits"
LAKE = "DELTA_OPS_TEST_LAKE"
IS_RIGHT = "is_right"


@dg.asset(
    kinds={"deltalake"},
    metadata={"delta/publish": "audited", "delta/table": "visits", "delta/mode": "append"},
)
def new_visits() -> pa.Table:
    """Two new visits with every run."""
    return pa.table({"page": ["/", "/orders"]})


@dg.asset_check(asset=new_visits, blocking=True)
def has_right_pages(
    context: dg.AssetCheckExecutionContext, new_visits: pa.Table
) -> dg.AssetCheckResult:
    """Passes if the lake has the file `is_right`."""
    passed = len(new_visits) > 0 and Path(os.environ[LAKE], IS_RIGHT).exists()
    return dg.AssetCheckResult(passed=passed, metadata=audit_metadata(context))


visits = build_publish_asset(new_visits, "visits")
defs = dg.Definitions(
    assets=[new_visits, visits],
    asset_checks=[has_right_pages],
    jobs=[dg.define_asset_job("publish_visits")],
    resources={"io_manager": DeltaIOManager(root=os.environ[LAKE])},
    executor=dg.in_process_executor,
)
