"""Fleet report: the metadata and counts of batches, and the failures of a whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from delta_ops.maintenance import TableMaintenance

_COUNTS = (
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
    return {f"delta/{n}": sum(batch["counts"][n] for batch in batches) for n in _COUNTS}


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
