"""Audits: whether the blocking checks of an asset have passed for rows that wait on a branch.

Dagster itself runs no step after a blocking check that failed in the same run. It does not cover
the checks that a run leaves out, that yield no result, or that belong to another run. So the
publication looks up the evaluations.

An evaluation counts in one of two cases:

1. The run that wrote the branch logged it after the step that wrote the branch began, or a run that
   re-executes that run logged it. A check in the step itself may log it before the rows are stored.
2. Its target is the materialization that names the branch. Dagster records the target for checks in
   steps of their own.

The newest evaluation decides. A failed evaluation with the severity WARN is not blocking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import dagster as dg

from delta_ops.orchestration import dagster_records as records
from delta_ops.orchestration.io_manager.audit_branches import StagedRows, runs_of


class Audit(NamedTuple):
    """The state of one blocking check for the rows of a branch."""

    check: str
    """The name of the check."""
    has_passed: bool | None
    """None: the check has no evaluation for these rows."""

    @property
    def problem(self) -> str | None:
        """Why the check blocks the publication; None if it does not."""
        if self.has_passed:
            return None
        state = "was not executed" if self.has_passed is None else "failed"
        return f"the check {self.check} {state}"


def audits_of(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    asset_key: dg.AssetKey,
    defined: Iterable[dg.AssetCheckKey],
    staged: StagedRows,
) -> list[Audit]:
    """The state of each blocking check for the rows of a branch.

    Args:
        run: The run that publishes.
        asset_key: The audited asset.
        defined: Its blocking checks, as far as the run knows the definitions; checks that were
            evaluated for the rows count, too.
    """
    runs = [each.run_id for each in runs_of(instance, run)]
    if staged.run_id not in runs:
        runs = [staged.run_id]
    of_run = [
        evaluation
        for run_id in runs[: runs.index(staged.run_id) + 1]
        for evaluation in records.check_evaluations_of_run(
            instance, run_id, after_start_of=staged.step_key if run_id == staged.run_id else None
        )
    ]
    evaluated = {e.key for e in of_run if e.is_blocking and e.key.asset_key == asset_key}
    checks = sorted({*defined, *evaluated})
    return [Audit(key.name, _has_passed(instance, key, staged, of_run)) for key in checks]


def _has_passed(
    instance: dg.DagsterInstance,
    key: dg.AssetCheckKey,
    staged: StagedRows,
    of_run: Sequence[records.LoggedEvaluation],
) -> bool | None:
    counting = [each for each in of_run if each.key == key]
    counting += [
        each
        for each in records.latest_check_evaluations(instance, key)
        if each.target_storage_id == staged.storage_id
    ]
    newest = max(counting, key=lambda each: each.timestamp, default=None)
    return None if newest is None else newest.passed or not newest.is_error


def problems_of(audits: Iterable[Audit]) -> Iterator[str]:
    """Why the rows cannot be published, one reason for each check that blocks."""
    return (audit.problem for audit in audits if audit.problem is not None)
