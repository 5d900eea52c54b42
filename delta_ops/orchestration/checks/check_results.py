"""Check results: what a measure of a table's health says as the result of an asset check."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, get_args

import dagster as dg

from delta_ops.errors import DeltaOpsError
from delta_ops.maintenance import HealthReport, Operation
from delta_ops.maintenance.thresholds import Finding, Measure
from delta_ops.orchestration.dagster_compat import latest_check_verdicts
from delta_ops.orchestration.markdown import launchpad_link, plain_text
from delta_ops.orchestration.policies.maintenance_config import maintenance_config
from delta_ops.orchestration.tables import TableRef

LOST: tuple[Measure, ...] = ("lost_commits", "readable_time_travel")
"""Measures by which something is gone already, and not only slow or dear."""


class Cure:
    """Links to the launchpad of the maintenance job, for one table."""

    def __init__(self, table: TableRef, job: str, location: tuple[str, str] | None) -> None:
        self._table, self._job, self._location = table.name, job, location

    def link(self, label: str, *operations: Operation) -> str:
        """A link to a run of these operations, or of what is due if there are none."""
        chosen = {"operations": list(operations)} if operations else {}
        config = maintenance_config([self._table], **chosen)
        return launchpad_link(label, self._job, config, self._location)


def finding_result(
    finding: Finding, report: HealthReport, cure: Cure, errors: Collection[Measure] = LOST
) -> dg.AssetCheckResult:
    """What the check of a measure comes to.

    Args:
        errors: Measures whose failure is an error; of the others it is a warning.
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
    """What a check comes to whose table cannot be read."""
    return dg.AssetCheckResult(
        check_name=check_name, passed=False, description=plain_text(str(error))
    )


class SeenTable(NamedTuple):
    """What a look at a table has found."""

    table: TableRef
    job: str
    """The name of the maintenance job that looks after it."""
    found: HealthReport | DeltaOpsError


def changed_evaluations(
    instance: dg.DagsterInstance, seen: Sequence[SeenTable], location: tuple[str, str] | None
) -> list[dg.AssetCheckEvaluation]:
    """Evaluations of the health checks that say otherwise than their latest ones.

    A check that was never evaluated counts as passed; one whose run is under way says itself.

    Args:
        location: Names of the code location and the repository that have the jobs.
    """
    results = [
        (dg.AssetCheckKey(each.table.asset_key, str(result.check_name)), result)
        for each in seen
        for result in _results(each, location)
    ]
    told = latest_check_verdicts(instance, [key for key, _ in results])
    return [
        dg.AssetCheckEvaluation(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=result.passed,
            severity=result.severity,
            description=result.description,
            metadata=result.metadata,
        )
        for key, result in results
        if told.get(key, True) is not None and told.get(key, True) != result.passed
    ]


def _results(seen: SeenTable, location: tuple[str, str] | None) -> Iterator[dg.AssetCheckResult]:
    if isinstance(seen.found, DeltaOpsError):
        for measure in get_args(Measure):
            yield failed_result(seen.found, measure)
        return
    cure = Cure(seen.table, seen.job, location)
    for finding in seen.found.findings:
        yield finding_result(finding, seen.found, cure)
