"""Asset checks that read the log and no data."""

from collections.abc import Sequence

import dagster as dg

from delta_ops.errors import DeltaOpsError
from delta_ops.log.checksum import validate_checksum
from delta_ops.maintenance import HealthThresholds, health, plan_maintenance
from delta_ops.orchestration.tables import TableRef


def build_table_checks(tables: Sequence[TableRef]) -> list[dg.AssetChecksDefinition]:
    """For each table: its log can be read and agrees with the version checksum where there is one
    (an error if not), and maintenance is not overdue."""
    return [check for table in tables for check in (_log_check(table), _maintenance_check(table))]


def build_health_checks(
    tables: Sequence[TableRef], *, thresholds: HealthThresholds | None = None
) -> list[dg.AssetChecksDefinition]:
    """For each table: every measure of its health is within its threshold; a warning if not, an
    error if the log cannot be read."""
    return [_health_check(table, thresholds or HealthThresholds()) for table in tables]


def _health_check(table: TableRef, thresholds: HealthThresholds) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=table.asset_key, name="table_is_healthy")
    def table_is_healthy() -> dg.AssetCheckResult:
        try:
            report = health(table.log(), thresholds=thresholds)
        except DeltaOpsError as error:
            return dg.AssetCheckResult(passed=False, description=str(error))
        return dg.AssetCheckResult(
            passed=report.verdict == "ok",
            severity=dg.AssetCheckSeverity.WARN,
            description="; ".join(f.advice for f in report.findings if f.advice) or "all is well",
            metadata={
                "delta/version": report.figures.version,
                "delta/operations": ", ".join(report.operations) or "nothing is due",
                **{
                    f"delta/{f.measure}": ", ".join(f.value)
                    if isinstance(f.value, tuple)
                    else f.value
                    for f in report.findings
                },
            },
        )

    return table_is_healthy


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
