"""Shared code of the commands for many tables: `health` and `maintain`.

Exit codes, for schedulers: 0 nothing was due; 3 something is due (`health`, and `maintain` in a dry
run) or was done (`maintain`); 4 `maintain` leaves work to a person, even if it did other work; 1 a
table failed, whatever the result of other tables; 2 invalid command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import takewhile
from typing import Any

import click

from delta_ops.cli.render import (
    is_terminal,
    say,
    show_json,
)
from delta_ops.errors import DeltaOpsError, InvalidRequestError, TableNotFoundError
from delta_ops.maintenance import (
    Failure,
    HealthThresholds,
    TableHealth,
    TableMaintenance,
    find_tables,
)
from delta_ops.maintenance.fleet.failures import failure_of
from delta_ops.protocol.properties.values import parse_interval
from delta_ops.storage.paths import redact
from delta_ops.units import count_text

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
                f"{text!r} is not a threshold; write NAME=VALUE, where NAME is one of "
                f"{', '.join(_NAMES)}"
            )
        values[name] = _number(name, value)
    try:
        return HealthThresholds(**values)
    except InvalidRequestError as error:
        raise click.BadParameter(str(error)) from error


def _number(name: str, text: str) -> int | float:
    """Parse a number; a duration may also be an interval, such as `7 days`."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    if not name.endswith("_ms"):
        raise click.BadParameter(f"{text!r} is not a number")
    try:
        return parse_interval(text)
    except InvalidRequestError as error:
        raise click.BadParameter(str(error)) from error


tables_argument = click.argument("tables", nargs=-1, required=True, metavar="TABLE_OR_PREFIX...")
nested_option = click.option(
    "--nested",
    is_flag=True,
    help="Also look for tables inside of tables; this lists their data directories.",
)
threshold_option = click.option(
    "thresholds",
    "--threshold",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_thresholds,
    help=(
        "A threshold for a measure of health; may be repeated. A duration may be an interval, such "
        f"as '30 days'. Names: {', '.join(_NAMES)}."
    ),
)


exit_zero_option = click.option(
    "--exit-zero",
    is_flag=True,
    help="Exit with 0 unless a table failed, and end with a line of JSON that counts the tables.",
)


def find_all_tables(
    tables: Iterable[str], storage_options: Mapping[str, Any], *, nested: bool
) -> tuple[list[str], list[TableHealth]]:
    """Find all tables, each once, and return a row for each place that cannot be searched."""
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
    message = f"{place}: there is no Delta table here or in a folder below; check the path"
    return TableHealth(
        table=place, failure=Failure(kind=TableNotFoundError.__name__, message=message)
    )


def collect_rows(rows: Iterable[Any], json_of: Any) -> Iterator[Any]:
    """Yield the rows; with `json_of`, print each row as JSON as soon as it arrives."""
    for row in rows:
        if json_of is not None:
            show_json(json_of(row))
        yield row


def show_each(values: Iterable[Mapping[str, Any]]) -> None:
    """Print each value as one line of JSON."""
    for value in values:
        show_json(value)


def failure_json(failure: Failure | None) -> dict[str, str] | None:
    """A failure as JSON."""
    return None if failure is None else {"kind": failure.kind, "message": failure.message}


def show_failures(rows: Iterable[TableHealth | TableMaintenance]) -> None:
    """Print failures below a table on a terminal, because its columns are too narrow for them."""
    if is_terminal():
        for row in rows:
            if row.failure is not None:
                say(row.failure.message)


def failure_text(row: TableHealth | TableMaintenance) -> str:
    """The failure of a table, for a cell of its row."""
    if row.failure is None:
        return ""
    return "see below" if is_terminal() else row.failure.message


def short_names(rows: Sequence[TableHealth | TableMaintenance]) -> list[str]:
    """The names of the tables; a terminal shows their common directory only once."""
    parts = [row.table.split("/") for row in rows]
    same = takewhile(
        lambda names: len(set(names)) == 1, zip(*(p[:-1] for p in parts), strict=False)
    )
    common = [names[0] for names in same]
    if not any(common) or not is_terminal():
        return [row.table for row in rows]
    say(f"{'Table' if len(rows) == 1 else 'Tables'} below {'/'.join(common)}:")
    return ["/".join(names[len(common) :]) for names in parts]


def summary_text(tables: int, failed: int) -> str:
    """The last line, with the numbers of tables and of failed tables."""
    return f"{count_text(tables, 'table')}, {failed:,} failed."


def end_command(
    counts: Mapping[str, Any],
    *,
    has_failed: bool,
    is_due: bool,
    has_left: bool = False,
    exit_zero: bool,
) -> None:
    """Exit with the command's code.

    `exit_zero` is for schedulers that distinguish only success and failure.
    """
    if exit_zero:
        show_json(counts)
    if has_failed:
        raise click.exceptions.Exit(TABLE_FAILED)
    if has_left and not exit_zero:
        raise click.exceptions.Exit(SOMETHING_LEFT)
    if is_due and not exit_zero:
        raise click.exceptions.Exit(SOMETHING_DUE)
