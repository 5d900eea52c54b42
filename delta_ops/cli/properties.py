"""The command that shows a table's properties and changes them: `properties`.

The properties in force are the effective values of the known properties, which are the rows of
`known`, and of the table's other properties. Source: PROTOCOL.md, "Table Properties".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import click

from delta_ops.cli.options import (
    dry_run_option,
    json_option,
    open_table,
    pairs_callback,
    table_argument,
)
from delta_ops.cli.render import is_terminal, say, show_json, show_rows
from delta_ops.ddl import set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.properties.known import PROPERTIES
from delta_ops.protocol.properties.property import Property
from delta_ops.protocol.row_rules import CONSTRAINTS
from delta_ops.transaction.result import CommitResult

_COLUMNS = ("property", "value", "from", "acts in")


@click.command("properties")
@table_argument
@click.option(
    "values",
    "--set",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs_callback,
    help="Set this property; may be repeated. One commit makes all changes.",
)
@click.option(
    "removed",
    "--unset",
    multiple=True,
    metavar="NAME",
    help="Remove this property, so that its default applies; may be repeated.",
)
@click.option(
    "--all", "is_all", is_flag=True, help="Also show properties that only other engines use."
)
@dry_run_option
@json_option
def properties_command(
    table: str,
    storage_options: dict[str, Any],
    values: list[tuple[str, str]],
    removed: tuple[str, ...],
    is_all: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show the properties in force and what uses them; set or unset properties."""
    log = open_table(table, storage_options)
    changes: dict[str, str | None] = {**dict(values), **dict.fromkeys(removed)}
    if len(changes) < len(values) + len(removed):
        raise click.UsageError("a property occurs twice; name each property once")
    result = set_properties(log, changes, dry_run=dry_run) if changes else None
    snapshot = log.snapshot()
    found = properties_in_force(snapshot.metadata.configuration)
    if as_json:
        show_json(
            {
                "table": log.uri,
                "dry_run": dry_run,
                "version": snapshot.version,
                "committed_version": result.version if result else None,
                "properties": list(map(asdict, found)),
            }
        )
        return
    if result is not None:
        say(_sentence(result, dry_run))
        return
    shown = [each for each in found if is_all or each.acts_in or each.origin != "default"]
    if is_terminal():
        _show_by_origin(shown)
    else:
        show_rows(_COLUMNS, map(_row, shown))
    for each in shown:
        if each.problem:
            say(each.problem)


def _show_by_origin(shown: Sequence[PropertyInForce]) -> None:
    """Print the table's own properties first, without a column for their origin."""
    origins = dict.fromkeys(_row(each)[2] or "" for each in shown)
    for origin in sorted(origins, key=lambda each: (each != "set", each)):
        name, value, _, place = _COLUMNS
        found = [row for row in map(_row, shown) if row[2] == origin]
        show_rows(
            (f"{name}: {origin}", value, place),
            [(row[0], row[1], row[3]) for row in found],
            whole=(f"{name}: {origin}",),
        )


def _row(each: PropertyInForce) -> tuple[str | None, ...]:
    origin = "kept without effect" if each.origin == "unused" else each.origin
    return each.name, each.value, origin, each.acts_in


def _sentence(result: CommitResult, dry_run: bool) -> str:
    if dry_run:
        return "This change is possible; nothing was changed."
    if result.version is None:
        return "The properties already have these values; nothing to do."
    return f"Version {result.version} changes the properties."


Origin = Literal["set", "default", "older name", "constraint", "unused", "own"]
"""Origin of a property's effective value.

set: the table sets the property. default: the table does not set it. older name: the table sets it
under its former name. constraint: a CHECK constraint. unused: no known engine uses a property of
this name; it is kept. own: a name outside `delta.`, free for users.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyInForce:
    """A property of a table with its effective value."""

    name: str
    value: str | None
    """None: the table does not set the property, and it has no default."""
    origin: Origin
    acts_in: str
    """Parts of delta_ops that use the property; empty: only other engines use it, or none."""
    meaning: str
    problem: str | None = None
    """Why the value is invalid; None if it is valid."""


def properties_in_force(configuration: Mapping[str, str]) -> list[PropertyInForce]:
    """All known properties by name, followed by the table's other properties by name.

    Args:
        configuration: `metaData.configuration`.
    """
    known = [_known_property(each, configuration) for each in PROPERTIES]
    names = {name for each in PROPERTIES for name in (each.name, each.older_name)}
    others = [
        _other_property(name, value) for name, value in configuration.items() if name not in names
    ]
    return [*sorted(known, key=_order), *sorted(others, key=_order)]


def _known_property(row: Property[object], configuration: Mapping[str, str]) -> PropertyInForce:
    origin: Origin = "default"
    if row.name in configuration:
        origin = "set"
    elif row.older_name is not None and row.older_name in configuration:
        origin = "older name"
    problem = None
    try:
        row.value_in(configuration)
    except InvalidRequestError as error:
        problem = str(error)
    return PropertyInForce(
        name=row.name,
        value=row.text_in(configuration),
        origin=origin,
        acts_in=row.acts_in,
        meaning=row.meaning,
        problem=problem,
    )


def _other_property(name: str, value: str) -> PropertyInForce:
    lower = name.lower()
    if lower.startswith(CONSTRAINTS):
        return PropertyInForce(
            name=name,
            value=value,
            origin="constraint",
            acts_in="write",
            meaning="Every row makes this condition true.",
        )
    is_unknown = lower.startswith("delta.")
    return PropertyInForce(
        name=name,
        value=value,
        origin="unused" if is_unknown else "own",
        acts_in="",
        meaning="Kept without effect." if is_unknown else "",
    )


def _order(each: PropertyInForce) -> str:
    return each.name.lower()
