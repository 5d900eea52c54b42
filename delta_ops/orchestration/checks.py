"""Asset checks that read the log and no data."""

from collections.abc import Iterable, Sequence
from typing import get_args

import dagster as dg

from delta_ops.errors import DeltaOpsError
from delta_ops.log.checksum import validate_checksum
from delta_ops.maintenance import HealthThresholds, health, plan_maintenance
from delta_ops.maintenance.due import Finding, Measure
from delta_ops.orchestration.tables import TableRef

_LOST = ("lost_commits", "readable_time_travel")
"""Measures by which something is gone already, and not only slow or dear."""


def build_table_checks(tables: Sequence[TableRef]) -> list[dg.AssetChecksDefinition]:
    """For each table: its log can be read and agrees with the version checksum where there is one
    (an error if not), and maintenance is not overdue."""
    return [check for table in tables for check in (_log_check(table), _maintenance_check(table))]


def build_health_checks(
    tables: Sequence[TableRef], *, thresholds: HealthThresholds | None = None
) -> list[dg.AssetChecksDefinition]:
    """For each table, a check for each measure of its health: within its threshold, or a warning;
    an error where rows or versions are lost, and where the table cannot be read."""
    return [_health_checks(table, thresholds or HealthThresholds()) for table in tables]


def _health_checks(table: TableRef, thresholds: HealthThresholds) -> dg.AssetChecksDefinition:
    specs = [dg.AssetCheckSpec(measure, asset=table.asset_key) for measure in get_args(Measure)]

    @dg.multi_asset_check(
        name=f"{table.asset_key.to_python_identifier()}_health", specs=specs, can_subset=True
    )
    def health_checks(context: dg.AssetCheckExecutionContext) -> Iterable[dg.AssetCheckResult]:
        wanted = context.selected_asset_check_keys
        try:
            report = health(table.log(), thresholds=thresholds)
        except DeltaOpsError as error:
            for key in wanted:
                yield dg.AssetCheckResult(check_name=key.name, passed=False, description=str(error))
            return
        for finding in report.findings:
            if dg.AssetCheckKey(table.asset_key, finding.measure) in wanted:
                yield _finding_result(finding, report.figures.version)

    return health_checks


def _finding_result(finding: Finding, version: int) -> dg.AssetCheckResult:
    is_lost = finding.measure in _LOST
    return dg.AssetCheckResult(
        check_name=finding.measure,
        passed=finding.verdict == "ok",
        severity=dg.AssetCheckSeverity.ERROR if is_lost else dg.AssetCheckSeverity.WARN,
        description=finding.advice or "all is well",
        metadata={
            "delta/version": version,
            "delta/value": _plain_value(finding.value),
            "delta/limit": _plain_value(finding.threshold),
            "delta/unit": finding.unit,
            "delta/cured_by": finding.operation or "a person or another engine",
        },
    )


def _plain_value(value: float | tuple[str, ...]) -> float | str:
    return (", ".join(value) or "none") if isinstance(value, tuple) else value


def _log_check(table: TableRef) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=table.asset_key, name="log_is_readable")
    def log_is_readable() -> dg.AssetCheckResult:
        try:
            snapshot = table.log().snapshot()
            has_checksum = validate_checksum(snapshot)
        except DeltaOpsError as error:
            return dg.AssetCheckResult(passed=False, description=str(error))
        return dg.AssetCheckResult(
            passed=True,
            description="its version checksum agrees" if has_checksum else None,
            metadata={"delta/version": snapshot.version},
        )

    return log_is_readable


def _maintenance_check(table: TableRef) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=table.asset_key, name="maintenance_is_not_overdue")
    def maintenance_is_not_overdue() -> dg.AssetCheckResult:
        try:
            plan = plan_maintenance(table.log())
        except DeltaOpsError as error:
            return dg.AssetCheckResult(passed=False, description=str(error))
        return dg.AssetCheckResult(
            passed=not plan.has_work,
            severity=dg.AssetCheckSeverity.WARN,
            description=", ".join(plan.operations) or "nothing is due",
            metadata={
                "delta/commits_since_checkpoint": plan.commits_since_checkpoint,
                "delta/small_files": plan.small_files,
                "delta/expired_tombstones": plan.expired_tombstones,
                "delta/deletable_log_files": plan.deletable_log_files,
                "delta/incomplete_checkpoint_files": plan.incomplete_checkpoint_files,
            },
        )

    return maintenance_is_not_overdue
