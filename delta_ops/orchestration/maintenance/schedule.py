"""Maintenance schedule: runs a maintenance job at fixed times, even if the sensor is off."""

from __future__ import annotations

import dagster as dg

from delta_ops.arguments import validate_arguments


def build_maintenance_schedule(
    job: dg.JobDefinition,
    *,
    cron_schedule: str = "0 3 * * *",
    timezone: str = "UTC",
    default_status: dg.DefaultScheduleStatus = dg.DefaultScheduleStatus.STOPPED,
) -> dg.ScheduleDefinition:
    """A schedule that runs the job for all its tables, even if the sensor is off.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> job = build_maintenance_job([orders])
        >>> build_maintenance_schedule(job, cron_schedule="0 22 * * *").name
        'delta_maintenance_schedule'
    """
    validate_arguments(build_maintenance_schedule, locals())
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=cron_schedule,
        execution_timezone=timezone,
        description=f"Runs {job.name} for all of its tables, whether or not the sensor is on.",
        default_status=default_status,
    )
