"""Watching: reports commits of other writers, and checks the health of their tables.

    <name>_commit_sensor                    reports other writers' commits as asset events
    health                                  an asset check for each table
    <name>_checks, <name>_checks_schedule   run the checks; only with a cron expression

All checks are one op, so that a run checks all tables in one process.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated

import dagster as dg
from pydantic import Field

from delta_ops.components.attributes import (
    PlacedAttributes,
    StorageOptions,
    validate_cron,
    validate_name,
    validate_options,
)
from delta_ops.maintenance import HealthReport
from delta_ops.maintenance.fleet.maintain import TableHealth, fleet_health
from delta_ops.orchestration.checks.check_ops import Evaluation, TableChecks, marked_specs
from delta_ops.orchestration.checks.check_results import HEALTH, Cure, health_results
from delta_ops.orchestration.checks.table_checks import health_spec
from delta_ops.orchestration.commits.commit_sensor import build_commit_sensor
from delta_ops.orchestration.dagster_compat import code_location
from delta_ops.orchestration.policies.choice import PolicyTables, rules_by_policies
from delta_ops.orchestration.tables import TableRef

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

    def model_post_init(self, _context: object) -> None:
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
    """Convert any string to a name for definitions."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "lake"


def build_watch_sensor(
    tables: Sequence[TableRef], *, name: str, switched_on: bool
) -> dg.SensorDefinition:
    """Build the sensor that reports the tables' commits."""
    status = dg.DefaultSensorStatus.RUNNING if switched_on else dg.DefaultSensorStatus.STOPPED
    return build_commit_sensor(tables, name=f"{name}_commit_sensor", default_status=status)


def build_watch_checks(
    assigned: Sequence[PolicyTables],
    *,
    name: str,
    cron: str | None,
    switched_on: bool,
    jobs: Mapping[str, str] | None = None,
) -> dg.Definitions:
    """Build the check of each table, and the schedule for all checks.

    Args:
        assigned: The tables by policy; the policies have the thresholds of the checks.
        cron: When the checks run, in UTC; None for no schedule.
        jobs: The maintenance job of each table, by the table's name, for the links of failures.
    """
    # Dagster requires different names for ops and jobs.
    checks = _health_checks(assigned, f"{name}_health_check", jobs or {})
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


def _health_checks(
    assigned: Sequence[PolicyTables], op_name: str, jobs: Mapping[str, str]
) -> dg.AssetChecksDefinition:
    def results(
        tables: Sequence[TableRef], scene: Evaluation
    ) -> Iterator[tuple[TableRef, dg.AssetCheckResult]]:
        """Assess tables concurrently."""
        logs = [table.log() for table in tables]
        names = {log.uri: table.name for log, table in zip(logs, tables, strict=True)}
        rules_of = rules_by_policies([each.policy for each in assigned], names.__getitem__)
        for table, row in zip(tables, fleet_health(logs, rules_of=rules_of), strict=True):
            job = jobs.get(table.name)
            cure = None if job is None else Cure(table, job, scene.location)
            for result in health_results(_report_of(row), cure, [HEALTH]):
                yield table, result

    def evaluate_one(
        table: TableRef, scene: Evaluation, _: Collection[dg.AssetCheckKey]
    ) -> Iterator[dg.AssetCheckResult]:
        for _table, result in results([table], scene):
            yield result

    by_key = {table.asset_key: table for each in assigned for table in each.tables}
    specs = [
        spec
        for table in by_key.values()
        for spec in marked_specs(
            TableChecks(
                specs=[health_spec(table, HEALTH)],
                evaluate=partial(evaluate_one, table),
                is_about_maintenance=True,
            )
        )
    ]

    @dg.multi_asset_check(name=op_name, specs=specs, can_subset=True)
    def health_checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        wanted = {key.asset_key for key in context.selected_asset_check_keys}
        chosen = [table for key, table in by_key.items() if key in wanted]
        scene = Evaluation(instance=context.instance, location=code_location(context.run))
        for table, result in results(chosen, scene):
            yield result._replace(asset_key=table.asset_key)

    return health_checks


def _report_of(row: TableHealth) -> HealthReport | str:
    if row.report is not None:
        return row.report
    return "the table was not checked" if row.failure is None else row.failure.message
