"""Maintenance report: the observation of each table's asset, and the figures of a whole run.

An observation has few keys. Dagster plots whole numbers, so the numbers of a series are always
present: the state of the table, and what the run saved. Other counts are present unless they are
zero. The table's card is present if the run did or found anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.errors import DeltaOpsError
from delta_ops.log import Snapshot
from delta_ops.maintenance import MaintenanceResult
from delta_ops.maintenance.fleet.failures import failure_of
from delta_ops.maintenance.optimize.clustering import load_clustering
from delta_ops.orchestration.card.table_card import table_card
from delta_ops.orchestration.markdown import plain_text
from delta_ops.orchestration.tables import TableRef

_SAVED = ("bytes", "live_files", "commits_to_replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """The maintenance of one table in a run."""

    table: TableRef
    result: MaintenanceResult | None = None
    """None if the table could not be assessed, or does not exist yet."""
    seconds: float = 0.0
    failure: str | None = None


def run_summary(runs: Sequence[TableRun], left: Sequence[TableRef]) -> dict[str, Any]:
    """The figures of a whole run, as metadata of its op.

    Args:
        left: Tables that the run had no time for.
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
    """Fail the run if a table failed.

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


def maintenance_observation(table: TableRef, result: MaintenanceResult) -> dg.AssetObservation:
    """The observation of a table's maintenance in a run, with the state of the table after it.

    Raises:
        DeltaOpsError: The table can no longer be opened.
    """
    snapshot = table.log().snapshot()
    return dg.AssetObservation(
        asset_key=table.asset_key,
        description=_sentence(result),
        metadata={
            **_series(snapshot, result),
            **_depths(snapshot, result),
            **_work(result),
            **_card(table, result),
        },
    )


def _series(snapshot: Snapshot, result: MaintenanceResult) -> dict[str, int]:
    """The numbers of every observation, so that their plots have no gaps."""
    return {
        "delta/version": snapshot.version,
        "delta/num_files": snapshot.num_files,
        "dagster/size_bytes": snapshot.size_bytes,
        "delta/commits_since_checkpoint": snapshot.commits_since_checkpoint,
        "delta/bytes_saved": result.saved["bytes"],
        "delta/live_files_saved": result.saved["live_files"],
    }


def _depths(snapshot: Snapshot, result: MaintenanceResult) -> dict[str, int]:
    """The depth of a clustered table before and after a rewrite."""
    if "optimize" not in result.operations or not snapshot.clustering_columns:
        return {}
    before = result.plan.clustering_depth
    return {
        **({} if before is None else {"delta/clustering_depth_before": before}),
        "delta/clustering_depth": load_clustering(snapshot).depth,
    }


def _work(result: MaintenanceResult) -> dict[str, Any]:
    """The operations that ran, and their counts; without empty values."""
    metadata: dict[str, Any] = {f"delta/{name}": value for name, value in _counts(result).items()}
    if result.operations:
        metadata["delta/operations"] = ", ".join(result.operations)
    if result.dry_run:
        metadata["delta/dry_run"] = True
    if result.left:
        metadata["delta/left"] = list(result.left)
    return metadata


def _card(table: TableRef, result: MaintenanceResult) -> dict[str, Any]:
    """The table's card if the run did or found anything. Dagster stores it forever."""
    if not (_counts(result) or result.left):
        return {}
    try:
        return {"delta/card": dg.MetadataValue.md(table_card(table.log()))}
    except DeltaOpsError as error:  # still report the work
        return {"delta/card": dg.MetadataValue.md(plain_text(str(error)))}


def _counts(result: MaintenanceResult) -> Mapping[str, int]:
    """Counts of the work, done or planned in a dry run, without zeros."""
    counts = result.planned if result.dry_run else result.figures
    return {name: count for name, count in counts.items() if count}


def _sentence(result: MaintenanceResult) -> str:
    """The work in figures, failures, and work left to a person, as Markdown."""
    done = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in _counts(result).items())
    if result.error is not None:
        failure = plain_text(failure_of(result.error).message)
        return "; ".join(filter(None, [done, f"failed: {failure}"]))
    if not result.results:
        return "nothing was due"
    if result.left:
        left = plain_text("; ".join(result.left))
        done = "; ".join(filter(None, [done, f"needs a person: {left}"]))
    return f"{'dry run: ' if result.dry_run else ''}{done or 'nothing was left to do'}"
