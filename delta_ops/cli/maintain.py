"""The command `maintain`: runs due operations on one table, or on all tables below a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from delta_ops.cli.fleet import (
    collect_rows,
    end_command,
    exit_zero_option,
    failure_json,
    failure_text,
    find_all_tables,
    nested_option,
    short_names,
    show_each,
    show_failures,
    summary_text,
    tables_argument,
    threshold_option,
)
from delta_ops.cli.options import dry_run_option, json_option, storage_options_option
from delta_ops.cli.render import (
    is_terminal,
    progress,
    say,
    show_rows,
)
from delta_ops.maintenance import (
    HealthThresholds,
    MaintenanceResult,
    TableMaintenance,
    health_json,
    maintain_fleet,
)
from delta_ops.maintenance.fleet.maintain import MAINTAINED_AT_ONCE
from delta_ops.maintenance.work_text import done_text, planned_work
from delta_ops.units import count_text, size_text


@click.command("maintain")
@tables_argument
@storage_options_option
@nested_option
@threshold_option
@click.option(
    "--at-once",
    type=click.IntRange(1, 256),
    default=MAINTAINED_AT_ONCE,
    show_default=True,
    help="Tables maintained at once.",
)
@dry_run_option
@exit_zero_option
@json_option
def maintain_command(
    tables: tuple[str, ...],
    storage_options: dict[str, Any],
    nested: bool,
    thresholds: HealthThresholds,
    at_once: int,
    dry_run: bool,
    exit_zero: bool,
    as_json: bool,
) -> None:
    """Run the maintenance that is due, for tables or for all tables below a prefix.

    Work that is not safe without a person, or that delta-ops cannot do, is only reported.

    Exits with 0 if nothing was due, 3 if something was done (or would be, with --dry-run), 4 if
    something is left to do, 1 if a table failed.
    """
    uris, unread = find_all_tables(tables, storage_options, nested=nested)
    failures = [TableMaintenance(table=row.table, failure=row.failure) for row in unread]
    with progress(wanted=not as_json) as on_event:
        maintained = maintain_fleet(
            uris,
            storage_options,
            thresholds=thresholds,
            dry_run=dry_run,
            max_concurrency=at_once,
            on_event=on_event,
        )
        rows = [*collect_rows(maintained, _maintenance_json if as_json else None), *failures]
    if as_json:
        show_each(map(_maintenance_json, failures))
    else:
        _show_maintained(rows, dry_run=dry_run)
    counts = {
        "tables": len(rows),
        "done": sum(bool(row.result and row.result.results) for row in rows),
        "left": sum(bool(row.left) for row in rows),
        "failed": sum(bool(row.failure or (row.result and row.result.failures)) for row in rows),
        "bytes_saved": sum(row.saved["bytes"] for row in rows),
        "dry_run": dry_run,
    }
    end_command(
        counts,
        has_failed=counts["failed"] > 0,
        is_due=counts["done"] > 0,
        has_left=counts["left"] > 0,
        exit_zero=exit_zero,
    )


def _maintenance_json(row: TableMaintenance) -> dict[str, Any]:
    return {
        "table": row.table,
        "found": health_json(row.report)["findings"] if row.report else None,
        "planned": list(row.report.operations) if row.report else [],
        "planned_figures": row.result.planned if row.result else None,
        "skipped": list(row.skipped),
        "left": list(row.left),
        "done": row.result.figures if row.result and not row.result.dry_run else None,
        "saved": row.saved,
        "dry_run": row.result.dry_run if row.result else None,
        "failure": failure_json(row.failure),
    }


def _show_maintained(rows: Sequence[TableMaintenance], *, dry_run: bool) -> None:
    """Print the work on each table. A terminal shows only tables with work."""
    shown = [row for row in rows if not _is_idle(row)] if is_terminal() else rows
    outcome = "planned" if dry_run else "done or failed"
    columns = ("table", "due", outcome, "freed", "files fewer", "left to do")
    if shown:
        show_rows(
            columns,
            list(map(_maintenance_row, shown, short_names(shown))),
            whole=("freed",),
            optional=("freed", "files fewer", "left to do"),
        )
        show_failures(shown)
    if len(shown) < len(rows):
        say(f"{count_text(len(rows) - len(shown), 'table')} with nothing to do.")
    say(summary_text(len(rows), sum(row.failure is not None for row in rows)))


def _is_idle(row: TableMaintenance) -> bool:
    planned = row.report.operations if row.report else ()
    return not (row.failure or planned or row.left or row.skipped)


def _maintenance_row(row: TableMaintenance, name: str) -> tuple[Any, ...]:
    due = ", ".join(row.report.operations) if row.report else ""
    saved = row.saved
    parts = [_work_text(row.result)] if row.result else []
    if row.failure is not None:
        parts = [*filter(None, parts), f"failed: {failure_text(row)}"]
    elif row.result is None:
        parts = ["nothing could be done" if row.skipped else "nothing was due"]
    return (
        name,
        due,
        "; ".join(text or _idle_text(row) for text in parts),
        size_text(saved["bytes"]) if saved["bytes"] else "",
        saved["live_files"] or "",
        "; ".join(row.left),
    )


def _idle_text(row: TableMaintenance) -> str:
    return "nothing could be done" if row.left else "nothing was left to do"


def _work_text(result: MaintenanceResult) -> str:
    text = planned_work(result.planned) if result.dry_run else done_text(result.figures)
    return text.rstrip(".")
