"""Watching: reports commits of other writers, and checks the health of their tables.

    <name>_commit_sensor                    reports other writers' commits as asset events
    health                                  an asset check for each table
    <name>_checks, <name>_checks_schedule   run the checks; only with a cron expression

All checks are one op, so that a run checks all tables in one process.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import dagster as dg
from pydantic import Field

from delta_ops.components.attributes import (
    PlacedAttributes,
    StorageOptions,
    validate_cron,
    validate_name,
    validate_options,
)
from delta_ops.maintenance.fleet.maintain import TableHealth, fleet_health
from delta_ops.maintenance.thresholds import Finding
from delta_ops.orchestration.checks.check_results import LOST
from delta_ops.orchestration.commits.commit_sensor import build_commit_sensor
from delta_ops.orchestration.markdown import plain_text
from delta_ops.orchestration.policies.choice import PolicyTables, rules_by_policies
from delta_ops.orchestration.tables import TableRef

CHECK = "health"
_text = dg.Resolver.default


class WatchAttributes(PlacedAttributes):
    """Attributes for watching tables."""

    storage_options: StorageOptions = Field(default={})
    name: Annotated[
        str | None,
        _text(description="Prefix of the names of sensors, jobs and schedules."),
    ] = None
    check_cron: Annotated[
        str | None,
        _text(
            description="Cron schedule of the checks, in UTC; null: checks run only on demand.",
            examples=["0 6 * * *"],
        ),
    ] = None
    switched_on: Annotated[
        bool,
        _text(
            description=(
                "Whether sensors and schedules start with the code location, or only when "
                "somebody turns "
                "them on."
            )
        ),
    ] = False

    def model_post_init(self, _context: Any) -> None:
        """Reject invalid attributes, while their place in the file is known.

        Raises:
            AttributeRefusedError: A secret is in plain text, or a name or a time is invalid.
        """
        validate_options(self.storage_options)
        if self.name is not None:
            validate_name("name", self.name)
        if self.check_cron is not None:
            validate_cron("check_cron", self.check_cron)


def plain_name(text: str) -> str:
    """Convert any text to a name for definitions."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "lake"


def build_watch_sensor(
    tables: Sequence[TableRef], *, name: str, switched_on: bool
) -> dg.SensorDefinition:
    """Build the sensor that reports the tables' commits."""
    status = dg.DefaultSensorStatus.RUNNING if switched_on else dg.DefaultSensorStatus.STOPPED
    return build_commit_sensor(tables, name=f"{name}_commit_sensor", default_status=status)


def build_watch_checks(
    assigned: Sequence[PolicyTables], *, name: str, cron: str | None, switched_on: bool
) -> dg.Definitions:
    """Build the check of each table, and the schedule for all checks.

    Args:
        assigned: The tables by policy; the policies have the thresholds of the checks.
        cron: When the checks run, in UTC; None for no schedule.
    """
    # Dagster requires different names for ops and jobs.
    checks = _health_checks(assigned, f"{name}_health_check")
    if cron is None:
        return dg.Definitions(asset_checks=[checks])
    job = dg.define_asset_job(
        f"{name}_checks",
        selection=dg.AssetSelection.checks(checks),
        description="Reads the logs of the tables, but no rows.",
    )
    status = dg.DefaultScheduleStatus.RUNNING if switched_on else dg.DefaultScheduleStatus.STOPPED
    schedule = dg.ScheduleDefinition(
        name=f"{name}_checks_schedule", job=job, cron_schedule=cron, default_status=status
    )
    return dg.Definitions(asset_checks=[checks], jobs=[job], schedules=[schedule])


def _health_checks(assigned: Sequence[PolicyTables], op_name: str) -> dg.AssetChecksDefinition:
    specs = [
        dg.AssetCheckSpec(
            CHECK,
            asset=table.asset_key,
            description="The log is readable and complete, and no maintenance is due.",
        )
        for each in assigned
        for table in each.tables
    ]

    @dg.multi_asset_check(name=op_name, specs=specs, can_subset=True)
    def health_checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        wanted = {key.asset_key for key in context.selected_asset_check_keys}
        chosen = [t for each in assigned for t in each.tables if t.asset_key in wanted]
        logs = [table.log() for table in chosen]
        names = {log.uri: table.name for log, table in zip(logs, chosen, strict=True)}
        rules_of = rules_by_policies([each.policy for each in assigned], names.__getitem__)
        for table, row in zip(chosen, fleet_health(logs, rules_of=rules_of), strict=True):
            yield _check_result(table, row)

    return health_checks


def _check_result(table: TableRef, row: TableHealth) -> dg.AssetCheckResult:
    if row.report is None:
        reason = row.failure.message if row.failure is not None else "the table was not checked"
        return _result(table, dg.AssetCheckSeverity.ERROR, reason)
    found = [each for each in row.report.findings if each.verdict != "ok"]
    is_lost = any(each.measure in LOST for each in found)
    return _result(
        table,
        dg.AssetCheckSeverity.ERROR if is_lost else dg.AssetCheckSeverity.WARN,
        "; ".join(f"{each.measure}: {each.advice}" for each in found),
        {
            "delta/version": row.report.figures.version,
            **{f"delta/{each.measure}": _plain_value(each) for each in found},
        },
    )


def _result(
    table: TableRef,
    severity: dg.AssetCheckSeverity,
    reason: str,
    metadata: Mapping[str, Any] | None = None,
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=table.asset_key,
        check_name=CHECK,
        passed=not reason,
        severity=severity,
        description=plain_text(reason) or "all is well",
        metadata=metadata,
    )


def _plain_value(finding: Finding) -> float | str:
    value = finding.value
    return ", ".join(value) if isinstance(value, tuple) else value
