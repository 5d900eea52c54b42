"""The command that shows a table's properties and changes them: `properties`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from delta_ops.cli.options import (
    dry_run_option,
    json_option,
    open_table,
    pairs_callback,
    table_argument,
)
from delta_ops.cli.render import say, show_json, show_rows
from delta_ops.ddl import set_properties
from delta_ops.protocol.properties.in_force import PropertyInForce, properties_in_force
from delta_ops.transaction.result import CommitResult


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
    show_rows(("property", "value", "from", "acts in"), map(_row, shown), whole=("property",))
    for each in shown:
        if each.problem:
            say(each.problem)


def _row(each: PropertyInForce) -> tuple[str | None, ...]:
    origin = "kept without effect" if each.origin == "unused" else each.origin
    return each.name, each.value, origin, each.acts_in


def _sentence(result: CommitResult, dry_run: bool) -> str:
    if dry_run:
        return "This change is possible; nothing was changed."
    if result.version is None:
        return "The properties already have these values; nothing to do."
    return f"Version {result.version} changes the properties."
