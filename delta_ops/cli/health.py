"""The command `health`: the state of one table, or of all tables below a prefix."""

from __future__ import annotations

from collections import Counter
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
from delta_ops.cli.options import json_option, storage_options_option
from delta_ops.cli.render import (
    is_terminal,
    progress,
    rows_of_page,
    say,
    show_rows,
)
from delta_ops.maintenance import (
    Finding,
    HealthReport,
    HealthThresholds,
    TableHealth,
    fleet_health,
    health_json,
)
from delta_ops.maintenance.health.report import VERDICTS
from delta_ops.units import count_text, duration_text, size_text


@click.command("health")
@tables_argument
@storage_options_option
@nested_option
@threshold_option
@click.option(
    "--at-once",
    type=click.IntRange(1, 256),
    help="Tables read at once; 16 in stores and 1 on disks if not given.",
)
@click.option("--all", "shows_all", is_flag=True, help="Show all tables, on several pages.")
@exit_zero_option
@json_option
def health_command(
    tables: tuple[str, ...],
    storage_options: dict[str, Any],
    nested: bool,
    thresholds: HealthThresholds,
    at_once: int | None,
    shows_all: bool,
    exit_zero: bool,
    as_json: bool,
) -> None:
    """Show the health of tables and the work they need; below a prefix, worst table first.

    Exits with 0 if all is well, 3 if there is something to do, 1 if a table failed.
    """
    uris, failures = find_all_tables(tables, storage_options, nested=nested)
    with progress(wanted=not as_json) as on_event:
        tables_health = fleet_health(
            uris, storage_options, thresholds=thresholds, max_concurrency=at_once, on_event=on_event
        )
        rows = [*collect_rows(tables_health, _health_json if as_json else None), *failures]
    if as_json:
        show_each(map(_health_json, failures))
    elif len(rows) == 1 and rows[0].report is not None:
        _show_findings(rows[0].report)
    else:
        _show_fleet(rows, shows_all=shows_all)
    verdicts = Counter(map(_verdict, rows))
    counts = {verdict: verdicts[verdict] for verdict in (*VERDICTS, "failed")}
    end_command(
        {"tables": len(rows), **counts},
        has_failed=counts["failed"] > 0,
        is_due=len(rows) > counts["ok"] + counts["failed"],
        exit_zero=exit_zero,
    )


def _health_json(row: TableHealth) -> dict[str, Any]:
    if row.report is None:
        return {"table": row.table, "verdict": "failed", "failure": failure_json(row.failure)}
    return {**health_json(row.report), "failure": None}


def _show_findings(report: HealthReport) -> None:
    show_rows(
        ("measure", "value", "threshold", "verdict", "advice"),
        (
            (
                _measure_text(f),
                _value_text(f, f.value),
                _value_text(f, f.threshold),
                f.verdict,
                f.advice,
            )
            for f in report.findings
        ),
    )
    say(f"{report.table}, version {report.figures.version}: {report.verdict}.")


def _measure_text(finding: Finding) -> str:
    """The name of a measure; on a terminal with spaces, where lines can be folded."""
    return finding.measure.replace("_", " ") if is_terminal() else finding.measure


def _value_text(finding: Finding, value: int | float | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    match finding.unit:
        case "bytes":
            return size_text(round(value))
        case "ms":
            return duration_text(value)
        case "share":
            return f"{value:.1%}"
        case "ratio":
            return f"{value:.1f}"
    return f"{value:,}"


def _show_fleet(rows: Sequence[TableHealth], *, shows_all: bool) -> None:
    """Print the worst tables first; on a terminal, only one page unless `shows_all`."""
    ordered = sorted(rows, key=_severity, reverse=True)
    most = None if shows_all else rows_of_page()
    columns = ("table", "verdict", "version", "files", "size", "due", "to look at")
    names = short_names(ordered)
    show_rows(
        columns,
        list(map(_health_row, ordered[:most], names)),
        whole=("verdict", "size"),
        optional=("due", "to look at"),
    )
    show_failures(ordered[:most])
    left = Counter(_verdict(row) for row in ordered[most:]) if most else Counter()
    if left:
        texts = ", ".join(f"{n:,} {verdict}" for verdict, n in left.items())
        say(f"{count_text(left.total(), 'more table')} with --all: {texts}.")
    say(summary_text(len(ordered), sum(row.failure is not None for row in ordered)))


def _severity(row: TableHealth) -> int:
    return len(VERDICTS) if row.report is None else VERDICTS.index(row.report.verdict)


def _verdict(row: TableHealth) -> str:
    return "failed" if row.report is None else row.report.verdict


def _health_row(row: TableHealth, name: str) -> tuple[Any, ...]:
    if row.report is None:
        return name, "failed", "", "", "", "", failure_text(row)
    report, figures = row.report, row.report.figures
    texts = {
        verdict: ", ".join(
            f"{_measure_text(f)} {_value_text(f, f.value)}"
            for f in report.findings
            if f.verdict == verdict
        )
        for verdict in ("due", "look")
    }
    return (
        name,
        report.verdict,
        figures.version,
        figures.num_files,
        size_text(figures.size_bytes),
        texts["due"],
        texts["look"],
    )
