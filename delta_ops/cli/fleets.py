"""The commands over many tables: `health` and `maintain`.

Exit codes, for schedulers: 0 all is well; 3 something is to be done (`health`, and `maintain` in a
dry run) or was done (`maintain`); 4 `maintain` leaves something for a person to do, whatever else
was done; 1 a table failed, whatever the others did; 2 the command was not understood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import takewhile
from typing import Any

import click

from delta_ops.cli.options import dry_run_option, json_option, storage_options_option
from delta_ops.cli.render import (
    is_looked_at,
    progress,
    rows_of_page,
    say,
    show_json,
    show_rows,
)
from delta_ops.errors import DeltaOpsError, InvalidRequestError, TableNotFoundError
from delta_ops.maintenance import (
    Failure,
    Finding,
    HealthReport,
    HealthThresholds,
    MaintenanceResult,
    TableHealth,
    TableMaintenance,
    find_tables,
    fleet_health,
    health_json,
    maintain_fleet,
)
from delta_ops.maintenance.fleet.maintain import MAINTAINED_AT_ONCE, failure_of
from delta_ops.maintenance.health.report import VERDICTS
from delta_ops.protocol.properties.values import parse_interval
from delta_ops.storage.paths import redact
from delta_ops.units import count_text, size_text

TABLE_FAILED = 1
SOMETHING_DUE = 3
SOMETHING_LEFT = 4

_NAMES = [field.name for field in fields(HealthThresholds)]


def _thresholds(
    _ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]
) -> HealthThresholds:
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in _NAMES:
            raise click.BadParameter(
                f"{text!r} is none; write it as NAME=VALUE, with a name of {', '.join(_NAMES)}"
            )
        values[name] = _number(name, value)
    try:
        return HealthThresholds(**values)
    except InvalidRequestError as error:
        raise click.BadParameter(str(error)) from error


def _number(name: str, text: str) -> int | float:
    """A number; of a duration also an interval, such as `7 days`."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    if not name.endswith("_ms"):
        raise click.BadParameter(f"{text!r} is no number")
    try:
        return parse_interval(text)
    except InvalidRequestError as error:
        raise click.BadParameter(str(error)) from error


tables_argument = click.argument("tables", nargs=-1, required=True, metavar="TABLE_OR_PREFIX...")
nested_option = click.option(
    "--nested",
    is_flag=True,
    help="Look for tables in the directories of tables too; lists their data directories.",
)
threshold_option = click.option(
    "thresholds",
    "--threshold",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_thresholds,
    help="From where on something is not well; may be repeated. One of a duration may be an "
    f"interval, such as '30 days'. Names: {', '.join(_NAMES)}.",
)


exit_zero_option = click.option(
    "--exit-zero",
    is_flag=True,
    help="Exit with 0 unless a table failed, and end with a line of JSON that counts the tables.",
)


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
@click.option("--all", "shows_all", is_flag=True, help="Show all tables, on as many pages.")
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
    """How tables are, and what they need; of all tables below a prefix, the worst first.

    Exits with 0 if all is well, 3 if there is something to do, 1 if a table failed.
    """
    uris, failures = _find_all_tables(tables, storage_options, nested=nested)
    with progress(wanted=not as_json) as on_event:
        looked_at = fleet_health(
            uris, storage_options, thresholds=thresholds, max_concurrency=at_once, on_event=on_event
        )
        rows = [*_collect_rows(looked_at, _health_json if as_json else None), *failures]
    if as_json:
        _show_each(map(_health_json, failures))
    elif len(rows) == 1 and rows[0].report is not None:
        _show_findings(rows[0].report)
    else:
        _show_fleet(rows, shows_all=shows_all)
    verdicts = Counter(map(_verdict, rows))
    counts = {verdict: verdicts[verdict] for verdict in (*VERDICTS, "failed")}
    _end(
        {"tables": len(rows), **counts},
        has_failed=counts["failed"] > 0,
        is_due=len(rows) > counts["ok"] + counts["failed"],
        exit_zero=exit_zero,
    )


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
    """Do what the health of tables asks for; of all tables below a prefix.

    What is not safe to do unasked, or cannot be done by delta-ops, is left for a person and told.

    Exits with 0 if nothing was due, 3 if something was done (or would be, with --dry-run), 4 if
    something is left to do, 1 if a table failed.
    """
    uris, unread = _find_all_tables(tables, storage_options, nested=nested)
    failures = [TableMaintenance(table=row.table, failure=row.failure) for row in unread]
    with progress(wanted=not as_json) as on_event:
        looked_after = maintain_fleet(
            uris,
            storage_options,
            thresholds=thresholds,
            dry_run=dry_run,
            max_concurrency=at_once,
            on_event=on_event,
        )
        rows = [*_collect_rows(looked_after, _maintenance_json if as_json else None), *failures]
    if as_json:
        _show_each(map(_maintenance_json, failures))
    else:
        _show_maintained(rows)
    counts = {
        "tables": len(rows),
        "done": sum(bool(row.result and row.result.results) for row in rows),
        "left": sum(bool(row.left) for row in rows),
        "failed": sum(bool(row.failure or (row.result and row.result.failures)) for row in rows),
        "bytes_saved": sum(row.saved["bytes"] for row in rows),
        "dry_run": dry_run,
    }
    _end(
        counts,
        has_failed=counts["failed"] > 0,
        is_due=counts["done"] > 0,
        has_left=counts["left"] > 0,
        exit_zero=exit_zero,
    )


def _find_all_tables(
    tables: Iterable[str], storage_options: Mapping[str, Any], *, nested: bool
) -> tuple[list[str], list[TableHealth]]:
    """The tables, each once; and a row for what could not be looked into."""
    uris: dict[str, None] = {}
    failures: list[TableHealth] = []
    for place in tables:
        try:
            found = find_tables(place, storage_options, nested=nested)
            if not found.tables and not found.failures:
                failures.append(_no_table(redact(place)))
            uris.update(dict.fromkeys(found.tables))
        except DeltaOpsError as error:
            failures.append(TableHealth(table=redact(place), failure=failure_of(error)))
            continue
        failures += [TableHealth(table=t, failure=f) for t, f in found.failures.items()]
    return list(uris), failures


def _no_table(place: str) -> TableHealth:
    message = f"{place}: there is no Delta table here, nor in a folder below; check the path"
    return TableHealth(
        table=place, failure=Failure(kind=TableNotFoundError.__name__, message=message)
    )


def _collect_rows(rows: Iterable[Any], json_of: Any) -> Iterator[Any]:
    """The rows; each is shown as soon as it is there if it is shown as JSON."""
    for row in rows:
        if json_of is not None:
            show_json(json_of(row))
        yield row


def _show_each(values: Iterable[Mapping[str, Any]]) -> None:
    for value in values:
        show_json(value)


def _health_json(row: TableHealth) -> dict[str, Any]:
    if row.report is None:
        return {"table": row.table, "verdict": "failed", "failure": _failure_json(row.failure)}
    return {**health_json(row.report), "failure": None}


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
        "failure": _failure_json(row.failure),
    }


def _failure_json(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else {"kind": failure.kind, "message": failure.message}


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
    """The name of a measure; of words on a terminal, which folds lines between them."""
    return finding.measure.replace("_", " ") if is_looked_at() else finding.measure


def _value_text(finding: Finding, value: int | float | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    match finding.unit:
        case "bytes":
            return size_text(round(value))
        case "ms":
            return f"{value / 3_600_000:,.1f} hours"
        case "share":
            return f"{value:.1%}"
        case "ratio":
            return f"{value:.1f}"
    return f"{value:,}"


def _show_fleet(rows: Sequence[TableHealth], *, shows_all: bool) -> None:
    """The worst tables first, and to a person no more than a page of them."""
    ordered = sorted(rows, key=_severity, reverse=True)
    most = None if shows_all else rows_of_page()
    columns = ("table", "verdict", "version", "files", "size", "due", "to look at or failed")
    names = _short_names(ordered)
    show_rows(columns, map(_health_row, ordered[:most], names), whole=("verdict", "size"))
    _show_failures(ordered[:most])
    left = Counter(_verdict(row) for row in ordered[most:]) if most else Counter()
    if left:
        told = ", ".join(f"{n:,} {verdict}" for verdict, n in left.items())
        say(f"{count_text(left.total(), 'more table')}, which --all shows: {told}.")
    say(_summary(len(ordered), sum(row.failure is not None for row in ordered)))


def _show_maintained(rows: Sequence[TableMaintenance]) -> None:
    """What was done to each table; to a person of those alone for which there was something."""
    shown = [row for row in rows if not _is_idle(row)] if is_looked_at() else rows
    columns = ("table", "due", "bytes freed", "files fewer", "done or failed", "left to do")
    if shown:
        names = _short_names(shown)
        show_rows(columns, map(_maintenance_row, shown, names), whole=("bytes freed",))
        _show_failures(shown)
    if len(shown) < len(rows):
        say(f"{count_text(len(rows) - len(shown), 'table')} with nothing to do.")
    say(_summary(len(rows), sum(row.failure is not None for row in rows)))


def _is_idle(row: TableMaintenance) -> bool:
    planned = row.report.operations if row.report else ()
    return not (row.failure or planned or row.left or row.skipped)


def _show_failures(rows: Iterable[TableHealth | TableMaintenance]) -> None:
    """Sentences that a column of a terminal is too narrow for."""
    if is_looked_at():
        for row in rows:
            if row.failure is not None:
                say(row.failure.message)


def _failure_text(row: TableHealth | TableMaintenance) -> str:
    if row.failure is None:
        return ""
    return "see below" if is_looked_at() else row.failure.message


def _verdict(row: TableHealth) -> str:
    return "failed" if row.report is None else row.report.verdict


def _severity(row: TableHealth) -> int:
    return len(VERDICTS) if row.report is None else VERDICTS.index(row.report.verdict)


def _short_names(rows: Sequence[TableHealth | TableMaintenance]) -> list[str]:
    """The tables' names; for a person below the directory in common, which is told once."""
    parts = [row.table.split("/") for row in rows]
    same = takewhile(
        lambda names: len(set(names)) == 1, zip(*(p[:-1] for p in parts), strict=False)
    )
    common = [names[0] for names in same]
    if len(rows) < 2 or not any(common) or not is_looked_at():
        return [row.table for row in rows]
    say(f"Tables below {'/'.join(common)}:")
    return ["/".join(names[len(common) :]) for names in parts]


def _health_row(row: TableHealth, name: str) -> tuple[Any, ...]:
    if row.report is None:
        return name, "failed", "", "", "", "", _failure_text(row)
    report, figures = row.report, row.report.figures
    told = {
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
        told["due"],
        told["look"],
    )


def _maintenance_row(row: TableMaintenance, name: str) -> tuple[Any, ...]:
    due = ", ".join(row.report.operations) if row.report else ""
    saved = row.saved
    said = [_figures_text(row.result)] if row.result else []
    if row.failure is not None:
        said = [*filter(None, said), f"failed: {_failure_text(row)}"]
    elif row.result is None:
        said = ["nothing could be done" if row.skipped else "nothing was due"]
    return (
        name,
        due,
        size_text(saved["bytes"]),
        saved["live_files"],
        "; ".join(text or _idle_text(row) for text in said),
        "; ".join(row.left),
    )


def _idle_text(row: TableMaintenance) -> str:
    return "nothing could be done" if row.left else "nothing was left to do"


def _figures_text(result: MaintenanceResult) -> str:
    figures = result.planned if result.dry_run else result.figures
    return ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in figures.items() if n)


def _summary(tables: int, failed: int) -> str:
    return f"{count_text(tables, 'table')}, {failed:,} failed."


def _end(
    counts: Mapping[str, Any],
    *,
    has_failed: bool,
    is_due: bool,
    has_left: bool = False,
    exit_zero: bool,
) -> None:
    """Exit with the code, or with what schedulers understand that know success and failure only."""
    if exit_zero:
        show_json(counts)
    if has_failed:
        raise click.exceptions.Exit(TABLE_FAILED)
    if has_left and not exit_zero:
        raise click.exceptions.Exit(SOMETHING_LEFT)
    if is_due and not exit_zero:
        raise click.exceptions.Exit(SOMETHING_DUE)
