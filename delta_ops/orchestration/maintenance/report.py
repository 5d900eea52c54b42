"""Maintenance report: observations of assets, and the figures and failures of runs and fleets.

An observation begins with the small card of the table. Dagster plots whole numbers, so the numbers
of the table's state are always present. Counts of the work are present unless they are zero. The
full card is present if the run did or found anything. Tables of a fleet need no assets; metadata of
the batches report their work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg

from delta_ops.errors import DeltaOpsError
from delta_ops.log import Snapshot
from delta_ops.maintenance import MaintenanceResult, TableMaintenance
from delta_ops.maintenance.fleet.failures import failure_of
from delta_ops.maintenance.indexes.act import indexes_of
from delta_ops.maintenance.optimize.clustering import load_clustering
from delta_ops.maintenance.work_text import done_text, planned_text
from delta_ops.orchestration.card.small_card import small_card
from delta_ops.orchestration.card.table_card import table_card
from delta_ops.orchestration.markdown import plain_text
from delta_ops.orchestration.metadata import row_count
from delta_ops.orchestration.tables import TableRef
from delta_ops.protocol.sort_key import sort_columns

_SAVED = ("bytes", "live_files", "commits_to_replay")
_NAMES: Mapping[str, str] = {
    "files_after_compaction": "rewritten_into_files",
    "bytes_after_compaction": "rewritten_into_bytes",
    "files_after_purge": "purged_into_files",
    "bytes_after_purge": "purged_into_bytes",
}
"""Figures that have another name in metadata."""
_REPLACED = ("compacted_bytes", "purged_bytes")
"""Bytes of files that a rewrite replaced. They exist until a vacuum deletes them."""


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
        description=_outcome_text(result),
        metadata={
            "delta/card": dg.MetadataValue.md(small_card(snapshot, row_count(snapshot))),
            **_full_card(table, result),
            **_series(snapshot),
            **_depths(snapshot, result),
            **_indexes(snapshot, result),
            **_work(result),
        },
    )


def _series(snapshot: Snapshot) -> dict[str, int]:
    """The numbers of every observation, so that their plots have no gaps."""
    return {
        "delta/version": snapshot.version,
        "delta/num_files": snapshot.num_files,
        "dagster/size_bytes": snapshot.size_bytes,
        "delta/commits_since_checkpoint": snapshot.commits_since_checkpoint,
    }


def _depths(snapshot: Snapshot, result: MaintenanceResult) -> dict[str, int]:
    """The depth of a table with clustering columns or a sort key, before and after a rewrite."""
    is_laid_out = snapshot.clustering_columns or sort_columns(snapshot.definition)
    if "optimize" not in result.operations or not is_laid_out:
        return {}
    before = result.plan.clustering_depth
    return {
        **({} if before is None else {"delta/clustering_depth_before": before}),
        "delta/clustering_depth": load_clustering(snapshot).depth,
    }


def _indexes(snapshot: Snapshot, result: MaintenanceResult) -> dict[str, Any]:
    """What each index covers after a refresh, and how many files hold one of its values."""
    found: dict[str, Any] = {}
    if "refresh_indexes" in result.operations:
        for each in indexes_of(snapshot):
            found[f"delta/index_coverage/{each.name}"] = each.coverage
            if each.selectivity is not None:
                found[f"delta/index_selectivity/{each.name}"] = each.selectivity
    return found


def _work(result: MaintenanceResult) -> dict[str, Any]:
    """The operations that ran, and their counts; without empty values."""
    counts = _counts(result)
    metadata: dict[str, Any] = {
        f"delta/{_NAMES.get(name, name)}": value for name, value in counts.items()
    }
    to_free = sum(counts.get(name, 0) for name in _REPLACED)
    if to_free:
        metadata["delta/bytes_to_be_freed_by_vacuum"] = to_free
    if result.saved["bytes"]:
        metadata["delta/bytes_saved"] = result.saved["bytes"]
    if result.operations:
        metadata["delta/operations"] = ", ".join(result.operations)
    if result.dry_run:
        metadata["delta/dry_run"] = True
    if result.left:
        metadata["delta/left"] = list(result.left)
    return metadata


def _full_card(table: TableRef, result: MaintenanceResult) -> dict[str, Any]:
    """The table's full card if the run did or found anything. Dagster stores it forever."""
    if not (_counts(result) or result.left):
        return {}
    try:
        return {"delta/full_card": dg.MetadataValue.md(table_card(table.log()))}
    except DeltaOpsError as error:  # still report the work
        return {"delta/full_card": dg.MetadataValue.md(plain_text(str(error)))}


def _counts(result: MaintenanceResult) -> Mapping[str, int]:
    """Counts of the work, done or planned in a dry run, without zeros."""
    counts = result.planned if result.dry_run else result.figures
    return {name: count for name, count in counts.items() if count}


def _outcome_text(result: MaintenanceResult) -> str:
    """Describe what was done, what failed, and what needs a person, as Markdown."""
    work = planned_text(result.planned) if result.dry_run else done_text(result.figures)
    if result.error is not None:
        failure = plain_text(failure_of(result.error).message)
        return " ".join(filter(None, [plain_text(work), f"Failed: {failure}"]))
    if not result.results:
        return "Nothing was due."
    left = f"Needs a person: {'; '.join(result.left)}." if result.left else ""
    nothing = "Dry run: nothing to do." if result.dry_run else "Nothing was left to do."
    return plain_text(" ".join(filter(None, [work, left])) or nothing)


_FLEET_COUNTS = (
    "tables",
    "tables_with_work",
    "tables_skipped",
    "tables_left",
    "tables_failed",
    "bytes_saved",
    "live_files_saved",
)


def batch_metadata(rows: Sequence[TableMaintenance]) -> dict[str, Any]:
    """Metadata of a batch: findings, planned, done and skipped work, and savings of each table."""
    return {
        **{f"delta/{name}": value for name, value in batch_counts(rows)["counts"].items()},
        "delta/found": _values_by_table(rows, _finding_values),
        "delta/planned": _values_by_table(
            rows, lambda row: list(row.report.operations if row.report else ())
        ),
        "delta/planned_figures": _values_by_table(rows, _planned_figures),
        "delta/done": _values_by_table(rows, _done_figures),
        "delta/skipped": _values_by_table(rows, lambda row: list(row.skipped)),
        "delta/left": _values_by_table(rows, lambda row: list(row.left)),
        "delta/saved": _values_by_table(
            rows, lambda row: {n: v for n, v in row.saved.items() if v}
        ),
        "delta/failed": dg.MetadataValue.json(_failures_by_table(rows)),
    }


def batch_counts(rows: Sequence[TableMaintenance]) -> dict[str, Any]:
    """The counts of a batch, and its failures by table."""
    saved = [row.saved for row in rows]
    failed = _failures_by_table(rows)
    return {
        "counts": {
            "tables": len(rows),
            "tables_with_work": sum(row.result is not None for row in rows),
            "tables_skipped": sum(bool(row.skipped) for row in rows),
            "tables_left": sum(bool(row.left) for row in rows),
            "tables_failed": len(failed),
            "bytes_saved": sum(each["bytes"] for each in saved),
            "live_files_saved": sum(each["live_files"] for each in saved),
        },
        "failed": failed,
    }


def _values_by_table(rows: Sequence[TableMaintenance], value: Any) -> dg.MetadataValue[Any]:
    """The values by table, without empty values."""
    values = ((row.table, value(row)) for row in rows)
    return dg.MetadataValue.json({table: each for table, each in values if each})


def _finding_values(row: TableMaintenance) -> dict[str, Any]:
    findings = row.report.findings if row.report else ()
    return {f.measure: asdict(f)["value"] for f in findings if f.verdict != "ok"}


def _planned_figures(row: TableMaintenance) -> dict[str, int]:
    planned = row.result.planned if row.result else {}
    return {name: value for name, value in planned.items() if value}


def _done_figures(row: TableMaintenance) -> dict[str, int]:
    if row.result is None or row.result.dry_run:
        return {}
    return {name: value for name, value in row.result.figures.items() if value}


def _failures_by_table(rows: Sequence[TableMaintenance]) -> dict[str, str]:
    failed = {row.table: row.failure.message for row in rows if row.failure is not None}
    for row in rows:
        if row.result is not None and row.result.failures:
            failed.setdefault(row.table, f"could not delete or read all: {row.result.failures}")
    return failed


def fleet_metadata(batches: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The sums of the counts of all batches."""
    return {f"delta/{n}": sum(batch["counts"][n] for batch in batches) for n in _FLEET_COUNTS}


def raise_fleet_failures(batches: Sequence[Mapping[str, Any]]) -> None:
    """Fail the run if a table failed.

    Raises:
        Failure: A table failed; the metadata have the counts and the failure of each table.
    """
    failed = {table: why for batch in batches for table, why in batch["failed"].items()}
    if not failed:
        return
    counts = fleet_metadata(batches)
    numbered = {f"{n}: {table}": why for n, (table, why) in enumerate(failed.items(), 1)}
    raise dg.Failure(
        f"{len(failed)} of {counts['delta/tables']} tables could not be maintained",
        metadata={**counts, **numbered},
        allow_retries=False,
    )
