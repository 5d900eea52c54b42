"""The command `tag`: names of versions, which vacuum and log clean-up keep."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import asdict

from delta_ops.cli.options import json_option, open_table, storage_options_option
from delta_ops.cli.render import Group, moment_text, say, show_json, show_rows
from delta_ops.protocol.values.wide_timestamps import utc_text
from delta_ops.versioning import Tag, create_tag, delete_tag, list_tags


@click.group("tag", cls=Group)
@click.argument("table")
@click.pass_context
def tag_command(context: click.Context, table: str) -> None:
    """Name versions and keep them readable: tag TABLE COMMAND."""
    context.obj = table


@tag_command.command("create")
@click.argument("name")
@click.option("--version", type=click.IntRange(min=0), help="The latest version if not given.")
@storage_options_option
@json_option
@click.pass_obj
def create_command(
    table: str, storage_options: dict[str, Any], name: str, version: int | None, as_json: bool
) -> None:
    """Name a version; vacuum and log clean-up then keep what it needs."""
    log = open_table(table, storage_options)
    tag = create_tag(log, name, version)
    if as_json:
        show_json({"table": log.uri, **_fields(tag)})
    else:
        say(f"Tag {tag.name} names version {tag.version}.")


@tag_command.command("list")
@storage_options_option
@json_option
@click.pass_obj
def list_command(table: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Show the tags of a table, by name."""
    log = open_table(table, storage_options)
    tags = list_tags(log)
    if as_json:
        show_json({"table": log.uri, "tags": [_fields(tag) for tag in tags]})
    elif tags:
        rows = [(tag.name, tag.version, moment_text(tag.created_ms)) for tag in tags]
        show_rows(("tag", "version", "created"), rows, whole=("tag", "created"))
    else:
        say("The table has no tags.")


@tag_command.command("delete")
@click.argument("name")
@storage_options_option
@json_option
@click.pass_obj
def delete_command(table: str, storage_options: dict[str, Any], name: str, as_json: bool) -> None:
    """Delete a tag; a vacuum may then delete files that only its version needs."""
    log = open_table(table, storage_options)
    delete_tag(log, name)
    if as_json:
        show_json({"table": log.uri, "deleted": name})
    else:
        say(f"Deleted tag {name}. Its name is never given again.")


def _fields(tag: Tag) -> dict[str, Any]:
    """The tag for JSON."""
    fields = asdict(tag)
    created = utc_text(fields.pop("created_ms"))
    return {**fields, "created": created}
