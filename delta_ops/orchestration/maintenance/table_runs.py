"""Table runs: what became of each table in a run of maintenance, and the run's sum of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.maintenance import MaintenanceResult
from delta_ops.orchestration.tables import TableRef

_SAVED = ("bytes", "live_files", "commits_to_replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """What became of a table in a run."""

    table: TableRef
    result: MaintenanceResult | None = None
    """None: it could not be found out what is due, or there is no table yet."""
    seconds: float = 0.0
    failure: str | None = None


def run_summary(runs: Sequence[TableRun], left: Sequence[TableRef]) -> dict[str, Any]:
    """The figures of a whole run, for its op.

    Args:
        left: Tables that there was no time for.
    """
    results = [run.result for run in runs if run.result is not None]
    saved = {name: sum(result.saved[name] for result in results) for name in _SAVED}
    return {
        "delta/tables": len(runs),
        "delta/tables_with_work": sum(bool(result.operations) for result in results),
        "delta/tables_failed": sum(run.failure is not None for run in runs),
        "delta/tables_left": len(left),
        "delta/seconds": round(sum(run.seconds for run in runs), 3),
        **{f"delta/{name}_saved": value for name, value in saved.items()},
    }


def raise_failures(runs: Sequence[TableRun]) -> None:
    """Fail the run with what failed, if anything did.

    Raises:
        Failure: A table could not be maintained.
    """
    failed = {run.table.name: run.failure for run in runs if run.failure is not None}
    if failed:
        raise dg.Failure(
            f"{len(failed)} of the tables could not be maintained: {', '.join(failed)}",
            metadata=failed,
            allow_retries=False,
        )
