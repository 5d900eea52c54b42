"""Check results: health findings in words, and as results of asset checks, with or without a run.

The maintenance sensor evaluates checks without a run. It reports only changed verdicts, so that
ticks without news leave nothing in Dagster's event log.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import dagster as dg

from delta_ops.errors import DeltaOpsError
from delta_ops.maintenance import HealthReport, Operation
from delta_ops.maintenance.thresholds import Finding, Measure
from delta_ops.orchestration.checks.check_ops import check_evaluation, failed_result
from delta_ops.orchestration.dagster_compat import (
    CheckState,
    latest_check_states,
    target_of_evaluation,
)
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation
from delta_ops.orchestration.markdown import launchpad_link, plain_text
from delta_ops.orchestration.policies.maintenance_config import maintenance_config
from delta_ops.orchestration.tables import TableRef
from delta_ops.units import count_text, duration_text, size_text

HEALTH = "health"
"""Name of the check for all measures of a table."""
_HEALTH_NAMES = frozenset({HEALTH, *get_args(Measure)})
LOST: tuple[Measure, ...] = ("lost_commits", "readable_time_travel")
"""Measures whose failure means a loss, not only slow or expensive reads."""


class Cure:
    """Links to the launchpad of the maintenance job for one table."""

    def __init__(self, table: TableRef, job: str, location: tuple[str, str] | None) -> None:
        self._table, self._job, self._location = table.name, job, location

    def link(self, label: str, *operations: Operation) -> str:
        """A link to launch these operations; without operations, the due operations."""
        chosen = {"operations": list(operations)} if operations else {}
        config = maintenance_config([self._table], **chosen)
        return launchpad_link(label, self._job, config, self._location)


def health_results(
    found: HealthReport | DeltaOpsError | str,
    cure: Cure | None,
    names: Collection[str],
    errors: Collection[Measure] = LOST,
) -> Iterator[dg.AssetCheckResult]:
    """The results of the check `health`, and of the checks of single measures.

    Args:
        found: The report, or why the table cannot be read.
        cure: None: no link to a maintenance job.
        names: Names of the checks.
        errors: As for `finding_result`.
    """
    if not isinstance(found, HealthReport):
        yield from (failed_result(found, name) for name in names)
        return
    if HEALTH in names:
        yield _health_result(found, cure, errors)
    for finding in found.findings:
        if finding.measure in names:
            yield finding_result(finding, found, cure, errors)


def _health_result(
    report: HealthReport, cure: Cure | None, errors: Collection[Measure]
) -> dg.AssetCheckResult:
    found = [each for each in report.findings if each.verdict != "ok"]
    lines = [f"- {_faults_text(each, report)}" for each in found]
    if cure is not None and report.operations:
        label = f"Open the launchpad to run {', '.join(report.operations)}"
        lines.append(f"\n{cure.link(label, *report.operations)}")
    return dg.AssetCheckResult(
        check_name=HEALTH,
        passed=not found,
        severity=_severity(is_error=any(each.measure in errors for each in found)),
        description="\n".join(lines) or "The log is readable, and no maintenance is due.",
        metadata={
            "delta/version": report.figures.version,
            **{f"delta/{each.measure}": _plain_value(each.value) for each in found},
        },
    )


def _faults_text(finding: Finding, report: HealthReport) -> str:
    """A finding as Markdown, with advice or a reason if delta_ops has no operation for it."""
    text = plain_text(finding_text(finding))
    if finding.verdict == "look":
        return f"{text}: {plain_text(finding.advice)}"
    refused = report.figures.refused.get(finding.operation or "", ())
    if refused:
        reasons = plain_text(", ".join(refused))
        return f"{text}: delta\\_ops cannot run {finding.operation}, because of {reasons}"
    return text


def finding_result(
    finding: Finding, report: HealthReport, cure: Cure | None, errors: Collection[Measure] = LOST
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
    elif operation is not None and cure is not None:
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


class AssessedTable(NamedTuple):
    """The sensor's assessment of a table."""

    table: TableRef
    job: str
    """Name of its maintenance job."""
    found: HealthReport | DeltaOpsError
    names: Collection[str] = (HEALTH,)
    """Names of its checks. A name that no health check has is ignored."""


def changed_evaluations(
    instance: dg.DagsterInstance,
    assessed: Sequence[AssessedTable],
    location: tuple[str, str] | None,
) -> list[AssetCheckEvaluation]:
    """Evaluations of the health checks whose result differs from the latest result.

    If it was never evaluated, `health` is reported, and any other check counts as passed. A check
    that is running is skipped.

    Args:
        location: Names of the code location and the repository that have the jobs.
    """
    found = [
        check_evaluation(each.table.asset_key, result, target)
        for each in assessed
        for target in [target_of_evaluation(instance, each.table.asset_key)]
        for result in health_results(
            each.found,
            Cure(each.table, each.job, location),
            [name for name in each.names if name in _HEALTH_NAMES],
        )
    ]
    latest = latest_check_states(instance, [each.asset_check_key for each in found])
    return [each for each in found if _is_news(each, latest)]


def _is_news(
    evaluation: AssetCheckEvaluation, latest: Mapping[dg.AssetCheckKey, CheckState | None]
) -> bool:
    key = evaluation.asset_check_key
    if key not in latest:
        return evaluation.check_name == HEALTH or not evaluation.passed
    state = latest[key]
    if state is None:
        return False
    if evaluation.passed or state.passed:
        return evaluation.passed != state.passed
    is_other = state.metadata_keys != evaluation.metadata.keys()
    return is_other or evaluation.severity != state.severity


def finding_text(finding: Finding) -> str:
    """The figure of a finding and its limit.

    Example: `36 commits since the last checkpoint, limit 10`.
    """
    return _TEXTS[finding.measure](finding.value, finding.threshold)


def _count_text(noun: str, after: str = "") -> Callable[[Any, Any], str]:
    return lambda value, limit: f"{count_text(value, noun)}{after}, limit {limit:,}"


def _list_text(noun: str, after: str = "") -> Callable[[Any, Any], str]:
    return lambda values, _: (
        f"{noun if len(values) == 1 else f'{noun}s'} {', '.join(values)}{after}"
    )


_TEXTS: Mapping[Measure, Callable[[Any, Any], str]] = {
    "small_files": _count_text("small file"),
    "commits_since_checkpoint": _count_text("commit", " since the last checkpoint"),
    "commit_bytes_since_checkpoint": lambda value, limit: (
        f"{size_text(value)} of commits since the last checkpoint, limit {size_text(limit)}"
    ),
    "expired_tombstones": _count_text("removed file", " past the retention"),
    "expired_log_files": _count_text("log file", " past the retention"),
    "incomplete_checkpoints": _count_text("file", " of incomplete checkpoints"),
    "commits_since_scan_cache": _count_text("commit", " since the scan cache"),
    "deleted_rows": lambda value, limit: f"{value:.3g} of all rows are deleted, limit {limit:g}",
    "partition_skew": lambda value, limit: (
        f"the largest partition has {value:.3g} times the mean size, limit {limit:g}"
    ),
    "file_size_skew": lambda value, limit: (
        f"the largest file has {value:.3g} times the target size, limit {limit:g}"
    ),
    "stats_coverage": lambda value, limit: (
        f"{value:.3g} of the files have statistics, required {limit:g}"
    ),
    "clustering_depth": _count_text("file", " may hold the same clustering values or keys"),
    "unindexed_files": _count_text("file", " not covered by an index"),
    "index_selectivity": lambda value, limit: (
        f"a value of an index is in {value:.3g} of the files, limit {limit:g}"
    ),
    "promised_time_travel": lambda value, limit: (
        f"time travel is promised for {duration_text(value)}, required {duration_text(limit)}"
    ),
    "readable_time_travel": lambda value, limit: (
        f"versions of the last {duration_text(value)} are readable, promised {duration_text(limit)}"
    ),
    "unreachable_files": lambda value, limit: (
        f"the log is kept for {duration_text(value)}, but removed files for {duration_text(limit)}"
    ),
    "lost_commits": _list_text("lost version"),
    "damaged_checkpoints": _list_text("damaged checkpoint"),
    "refs_at_risk": _list_text("ref", " at risk"),
    "features": _list_text("unsupported feature"),
}
