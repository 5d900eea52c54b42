"""The code location of the daemon test; its job kills itself once."""

import dagster as dg

from tests.orchestration.killed_reruns import WAYS, FatalIOManager, written_asset

defs = dg.Definitions(
    assets=[written_asset(way, None) for way in WAYS],
    jobs=[dg.define_asset_job("write_all", executor_def=dg.multiprocess_executor)],
    resources={"io_manager": FatalIOManager.configure_at_launch()},
)
