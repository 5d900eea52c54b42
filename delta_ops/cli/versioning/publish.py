"""The command `publish`, which is also a command of `branch`: commits a branch to main."""

from __future__ import annotations

from typing import Any

import click

from delta_ops.cli.options import json_option, open_table, storage_options_option
from delta_ops.cli.render import say, show_json
from delta_ops.units import count_text
from delta_ops.versioning import publish


@click.command("publish")
@click.argument("name")
@click.option(
    "--expected-version",
    type=click.IntRange(min=0),
    help="Publish only this version of the branch, which was checked before.",
)
@click.option(
    "--rebase",
    is_flag=True,
    help="Publish beside other commits on main, if they changed no row that the branch read.",
)
@storage_options_option
@json_option
@click.pass_obj
def publish_branch_command(
    table: str,
    storage_options: dict[str, Any],
    name: str,
    expected_version: int | None,
    rebase: bool,
    as_json: bool,
) -> None:
    """Commit the changes of a branch to main, in one commit or not at all."""
    log = open_table(table, storage_options)
    result = publish(log, name, expected_branch_version=expected_version, rebase=rebase)
    if as_json:
        fields = {each: getattr(result, each) for each in result.__slots__}
        show_json({"table": log.uri, **fields})
    elif result.version is None:
        say(f"Branch {name} has no commits, so nothing was published.")
    elif result.already_published:
        say(f"Branch {name} was published before, as version {result.version}.")
    else:
        say(
            f"Published version {result.branch_version} of branch {name} as version "
            f"{result.version}: {count_text(result.added_files, 'file')} added, "
            f"{result.removed_files:,} removed."
        )


@click.pass_context
def _publish(context: click.Context, /, table: str, **arguments: Any) -> None:
    context.obj = table
    context.invoke(publish_branch_command, **arguments)


publish_command = click.Command(
    "publish",
    params=[click.Argument(["table"]), *publish_branch_command.params],
    callback=_publish,
    help=publish_branch_command.help,
)
