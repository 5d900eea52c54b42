"""Assets whose tables a script writes, for runs in several processes."""

import os
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import DeltaIOManager, DeltaLogResource, pipes_extras
from delta_ops.orchestration.swap_in.dagster_deltalake import (
    DeltaLakePyarrowIOManager,
    LocalConfig,
)

LAKE = "DELTA_OPS_TEST_PIPES_LAKE"
SCRIPT = Path(__file__).with_name("pipes_script.py")
DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-02-01")


def start_script(
    context: dg.AssetExecutionContext, pipes: dg.PipesSubprocessClient, lake: DeltaLogResource
) -> Any:
    """The results of the script for the assets of a step."""
    root = Path(lake.root)
    tables = [lake.table(key) for key in sorted(context.selected_asset_keys)]
    extras = pipes_extras(
        context, *tables, marker=str(root / "marker"), computed=str(root / "computed")
    )
    done = pipes.run(context=context, command=[sys.executable, str(SCRIPT)], extras=extras)
    return done.get_results()


@dg.asset(metadata={"delta/mode": "append"})
def appended(
    context: dg.AssetExecutionContext, pipes: dg.PipesSubprocessClient, lake: DeltaLogResource
) -> Any:
    return start_script(context, pipes, lake)[0]


@dg.multi_asset(
    specs=[dg.AssetSpec("left"), dg.AssetSpec("right", metadata={"delta/mode": "append"})]
)
def both(
    context: dg.AssetExecutionContext, pipes: dg.PipesSubprocessClient, lake: DeltaLogResource
) -> Any:
    yield from start_script(context, pipes, lake)


@dg.asset(partitions_def=DAYS, metadata={"partition_expr": "key"})
def daily(
    context: dg.AssetExecutionContext, pipes: dg.PipesSubprocessClient, lake: DeltaLogResource
) -> Any:
    return start_script(context, pipes, lake)[0]


@dg.asset(io_manager_key="swapped")
def follower(appended: pa.Table) -> pa.Table:
    return appended


def resources(root: str) -> dict[str, Any]:
    """Resources of the assets, with our IO manager as the default."""
    lake = DeltaLogResource(root=root)
    return {
        "io_manager": DeltaIOManager(lake=lake),
        "swapped": DeltaLakePyarrowIOManager(
            root_uri=dg.EnvVar(LAKE), storage_options=LocalConfig(), mode="error"
        ),
        "lake": lake,
        "pipes": dg.PipesSubprocessClient(),
    }


def write_by_script() -> dg.JobDefinition:
    """The job with the script's appended asset and its reader."""
    return dg.Definitions(
        assets=[appended, follower],
        jobs=[dg.define_asset_job("write_by_script", executor_def=dg.multi_or_in_process_executor)],
        resources=resources(os.environ[LAKE]),
    ).resolve_job_def("write_by_script")
