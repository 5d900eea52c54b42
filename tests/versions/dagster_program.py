"""One path through Dagster, on the Dagster of this Python.

    python -m tests.versions.dagster_program FOLDER

Materializes partitions, ticks a sensor for a commit of another writer, evaluates checks, and runs
the maintenance job. Prints what was found as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import col
from delta_ops.orchestration import (
    DeltaIOManager,
    TableRef,
    build_commit_sensor,
    build_health_checks,
    build_maintenance_job,
)

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-04")


@dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
def orders(context: dg.AssetExecutionContext) -> pa.Table:
    return pa.table({"day": [context.partition_key], "n": [1]})


def main(folder: str) -> None:
    """Run the path."""
    table = TableRef(asset_key=orders.key, uri=str(Path(folder) / "orders"))
    manager = {"io_manager": DeltaIOManager(root=folder)}
    with dg.DagsterInstance.ephemeral() as instance:
        for key in [*DAYS.get_partition_keys(), "2026-01-01"]:
            done = dg.materialize([orders], partition_key=key, instance=instance, resources=manager)
            assert done.success
        found = {
            "rows": da.to_table(table.uri).num_rows,
            "commits": _commits_of_others(table, instance),
            "checks": _verdicts(table, instance, manager),
        }
        assert build_maintenance_job([table]).execute_in_process(instance=instance).success
    print(json.dumps(found))


def _commits_of_others(table: TableRef, instance: dg.DagsterInstance) -> int:
    sensor = build_commit_sensor([table])
    first = sensor.evaluate_tick(dg.build_sensor_context(instance))
    da.delete(table.uri, col("day") == "2026-01-02")
    context = dg.build_sensor_context(instance, cursor=first.cursor)
    return len(sensor.evaluate_tick(context).asset_events)


def _verdicts(table: TableRef, instance: dg.DagsterInstance, manager: dict[str, Any]) -> list[bool]:
    look = dg.define_asset_job("look", selection=dg.AssetSelection.all_asset_checks())
    location: Any = dg.Definitions(
        assets=[orders], asset_checks=build_health_checks([table]), jobs=[look], resources=manager
    )
    find = getattr(location, "resolve_job_def", None) or location.get_job_def
    result = find("look").execute_in_process(instance=instance)
    return sorted({each.passed for each in result.get_asset_check_evaluations()})


if __name__ == "__main__":
    main(*sys.argv[1:])
