"""Check evaluations without runs: a look at a table's log says what its checks would say.

A check that stands as failed, though the table is well, or as passed, though it is not, gets an
evaluation; others get none, so that looks that find nothing new leave nothing in Dagster's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

import dagster as dg

from delta_ops.errors import DeltaOpsError
from delta_ops.maintenance import HealthReport
from delta_ops.maintenance.thresholds import Measure
from delta_ops.orchestration.checks.check_results import Cure, failed_result, finding_result
from delta_ops.orchestration.dagster_compat import latest_check_verdicts
from delta_ops.orchestration.tables import TableRef


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
