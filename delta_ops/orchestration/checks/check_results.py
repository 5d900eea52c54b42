"""Check results: health findings as results of asset checks, with or without a run.

The maintenance sensor evaluates checks without a run. It reports only changed verdicts, so that
ticks without news leave nothing in Dagster's event log.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, get_args

import dagster as dg

from delta_ops.errors import DeltaOpsError
from delta_ops.maintenance import HealthReport, Operation
from delta_ops.maintenance.thresholds import Finding, Measure
from delta_ops.orchestration.dagster_compat import latest_check_verdicts
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation
from delta_ops.orchestration.markdown import launchpad_link, plain_text
from delta_ops.orchestration.policies.maintenance_config import maintenance_config
from delta_ops.orchestration.tables import TableRef

LOST: tuple[Measure, ...] = ("lost_commits", "readable_time_travel")
"""Measures whose failure means a loss, not only slow or expensive reads."""


class Cure:
    """Links to the launchpad of the maintenance job for one table."""

    def __init__(self, table: TableRef, job: str, location: tuple[str, str] | None) -> None:
        self._table, self._job, self._location = table.name, job, location

    def link(self, label: str, *operations: Operation) -> str:
        """A link to a run of these operations; without operations, of what is due."""
        chosen = {"operations": list(operations)} if operations else {}
        config = maintenance_config([self._table], **chosen)
        return launchpad_link(label, self._job, config, self._location)


def finding_result(
    finding: Finding, report: HealthReport, cure: Cure, errors: Collection[Measure] = LOST
) -> dg.AssetCheckResult:
    """The check result of a finding.

    Args:
        errors: Measures whose failure is an error. The failure of any other measure is a warning.
    """
    operation = finding.operation if finding.verdict == "due" else None
    description = plain_text(finding.advice) or "all is well"
    if operation is not None and operation in report.figures.refused:
        reasons = plain_text(", ".join(report.figures.refused[operation]))
        description += f"; not by delta\\_ops, which does not support {reasons}"
    elif operation is not None:
        description += f". {cure.link(f'Open the launchpad to run {operation}', operation)}"
    return dg.AssetCheckResult(
        check_name=finding.measure,
        passed=finding.verdict == "ok",
        severity=_severity(is_error=finding.measure in errors),
        description=description,
        metadata={
            "delta/version": report.figures.version,
            "delta/value": _plain_value(finding.value),
            "delta/limit": _plain_value(finding.threshold),
            "delta/unit": finding.unit,
            "delta/cured_by": finding.operation or "a person or another engine",
        },
    )


def _severity(*, is_error: bool) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN


def _plain_value(value: float | tuple[str, ...]) -> float | str:
    return (", ".join(value) or "none") if isinstance(value, tuple) else value


def failed_result(error: DeltaOpsError, check_name: str | None = None) -> dg.AssetCheckResult:
    """The check result of a table that cannot be read."""
    return dg.AssetCheckResult(
        check_name=check_name, passed=False, description=plain_text(str(error))
    )


class AssessedTable(NamedTuple):
    """The sensor's assessment of a table."""

    table: TableRef
    job: str
    """Name of its maintenance job."""
    found: HealthReport | DeltaOpsError


def changed_evaluations(
    instance: dg.DagsterInstance,
    assessed: Sequence[AssessedTable],
    location: tuple[str, str] | None,
) -> list[AssetCheckEvaluation]:
    """Evaluations of the health checks whose verdict differs from the latest one.

    A check that was never evaluated counts as passed. A check that is running is skipped.

    Args:
        location: Names of the code location and the repository that have the jobs.
    """
    results = [
        (dg.AssetCheckKey(each.table.asset_key, str(result.check_name)), result)
        for each in assessed
        for result in _results(each, location)
    ]
    latest = latest_check_verdicts(instance, [key for key, _ in results])
    return [
        AssetCheckEvaluation(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=result.passed,
            severity=result.severity,
            description=result.description,
            metadata=result.metadata,
        )
        for key, result in results
        if latest.get(key, True) is not None and latest.get(key, True) != result.passed
    ]


def _results(
    assessed: AssessedTable, location: tuple[str, str] | None
) -> Iterator[dg.AssetCheckResult]:
    if isinstance(assessed.found, DeltaOpsError):
        for measure in get_args(Measure):
            yield failed_result(assessed.found, measure)
        return
    cure = Cure(assessed.table, assessed.job, location)
    for finding in assessed.found.findings:
        yield finding_result(finding, assessed.found, cure)
