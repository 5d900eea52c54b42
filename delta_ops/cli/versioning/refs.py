"""The commands `tag`, `branch` and `refs`: names of versions, and commits beside main."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import click
from msgspec.structs import asdict

from delta_ops.cli.fleet import TABLE_FAILED
from delta_ops.cli.options import (
    FiniteRange,
    dry_run_option,
    json_option,
    open_table,
    storage_options_option,
)
from delta_ops.cli.render import Group, moment_text, say, show_json, show_rows
from delta_ops.cli.versioning.publish import publish_branch_command
from delta_ops.clock import system_clock
from delta_ops.log import DeltaLog
from delta_ops.log.refs.branches import is_rebasing
from delta_ops.protocol.values.wide_timestamps import utc_text
from delta_ops.units import count_text, size_text
from delta_ops.versioning import (
    Branch,
    Tag,
    VerifiedRef,
    create_anchor,
    create_branch,
    create_tag,
    delete_branch,
    delete_tag,
    diff_branch,
    list_branches,
    list_sessions,
    list_tags,
    rebase_branch,
    rename_branch,
    verify_refs,
)


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
def create_tag_command(
    table: str, storage_options: dict[str, Any], name: str, version: int | None, as_json: bool
) -> None:
    """Name a version; vacuum and log clean-up then keep what it needs."""
    log = open_table(table, storage_options)
    tag = create_tag(log, name, version)
    if as_json:
        show_json({"table": log.uri, **_tag_fields(tag)})
    else:
        say(f"Tag {tag.name} names version {tag.version}.")


@tag_command.command("list")
@storage_options_option
@json_option
@click.pass_obj
def list_tags_command(table: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Show the tags of a table, by name."""
    log = open_table(table, storage_options)
    tags = list_tags(log)
    if as_json:
        show_json({"table": log.uri, "tags": [_tag_fields(tag) for tag in tags]})
    elif tags:
        rows = [(tag.name, tag.version, moment_text(tag.created_ms)) for tag in tags]
        show_rows(("tag", "version", "created"), rows, whole=("tag", "created"))
    else:
        say("The table has no tags.")


@tag_command.command("delete")
@click.argument("name")
@dry_run_option
@storage_options_option
@json_option
@click.pass_obj
def delete_tag_command(
    table: str, storage_options: dict[str, Any], name: str, dry_run: bool, as_json: bool
) -> None:
    """Delete a tag; a vacuum may then delete files that only its version needs."""
    log = open_table(table, storage_options)
    tag = delete_tag(log, name, dry_run=dry_run)
    if as_json:
        show_json({"table": log.uri, "deleted": name, "dry_run": dry_run, **_tag_fields(tag)})
    elif dry_run:
        say(f"Would delete tag {name}, which names version {tag.version}.")
    else:
        say(f"Deleted tag {name}. Its name is never given again.")


@tag_command.command("anchor")
@click.argument("name")
@storage_options_option
@json_option
@click.pass_obj
def anchor_tag_command(
    table: str, storage_options: dict[str, Any], name: str, as_json: bool
) -> None:
    """Keep a tag readable even if another engine cleans up the log."""
    _show_anchor(open_table(table, storage_options), f"tag:{name}", as_json=as_json)


def _show_anchor(log: DeltaLog, ref: str, *, as_json: bool) -> None:
    anchor = create_anchor(log, ref)
    if as_json:
        show_json({"table": log.uri, "ref": ref, **dataclasses.asdict(anchor)})
    elif anchor.is_new:
        say(f"Wrote {anchor.path}, which keeps version {anchor.version} readable.")
    else:
        say(f"{anchor.path} keeps version {anchor.version} readable already.")


def _tag_fields(tag: Tag) -> dict[str, Any]:
    """The tag for JSON."""
    fields = asdict(tag)
    created = utc_text(fields.pop("created_ms"))
    return {**fields, "created": created}


@click.group("branch", cls=Group)
@click.argument("table")
@click.pass_context
def branch_command(context: click.Context, table: str) -> None:
    """Commit beside main, and publish: branch TABLE COMMAND."""
    context.obj = table


@branch_command.command("create")
@click.argument("name")
@click.option("--version", type=click.IntRange(min=0), help="The latest version if not given.")
@click.option("--ref", help="Begin with the version of this tag, such as tag:2026-11.")
@click.option(
    "--expires-in",
    type=FiniteRange(min=0, min_open=True, max=36_500),
    metavar="DAYS",
    help="How long the branch lives; a day less than removed files stay if not given.",
)
@click.option(
    "--no-enforce-retention",
    is_flag=True,
    help="Allow a longer life: vacuums of other engines may delete files of the branch.",
)
@storage_options_option
@json_option
@click.pass_obj
def create_branch_command(
    table: str,
    storage_options: dict[str, Any],
    name: str,
    version: int | None,
    ref: str | None,
    expires_in: float | None,
    no_enforce_retention: bool,
    as_json: bool,
) -> None:
    """Create a branch; vacuum and log clean-up then keep what it needs."""
    log = open_table(table, storage_options)
    branch = create_branch(
        log,
        name,
        version=version,
        ref=ref,
        expires_in=None if expires_in is None else timedelta(days=expires_in),
        enforce_retention=not no_enforce_retention,
    )
    if as_json:
        show_json({"table": log.uri, **_branch_fields(branch)})
    else:
        say(
            f"Branch {name} begins at version {branch.base_version}, and expires at "
            f"{moment_text(branch.expires_ms)}."
        )


@branch_command.command("list")
@storage_options_option
@json_option
@click.pass_obj
def list_branches_command(table: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Show the branches of a table, by name."""
    log = open_table(table, storage_options)
    branches = list_branches(log)
    if as_json:
        show_json({"table": log.uri, "branches": [_branch_fields(branch) for branch in branches]})
    elif branches:
        rows = [
            (each.name, each.base_version, _state(each), moment_text(each.expires_ms))
            for each in branches
        ]
        columns = ("branch", "base", "state", "expires")
        show_rows(columns, rows, whole=("branch", "state", "expires"))
    else:
        say("The table has no branches.")


@branch_command.command("delete")
@click.argument("name")
@dry_run_option
@storage_options_option
@json_option
@click.pass_obj
def delete_branch_command(
    table: str, storage_options: dict[str, Any], name: str, dry_run: bool, as_json: bool
) -> None:
    """Delete a branch, with its commits unless they were published."""
    log = open_table(table, storage_options)
    branch = delete_branch(log, name, dry_run=dry_run)
    if as_json:
        fields = _branch_fields(branch)
        show_json({"table": log.uri, "deleted": name, "dry_run": dry_run, **fields})
    elif dry_run:
        say(
            f"Would delete branch {name} ({_state(branch)}). A full vacuum deletes its files later."
        )
    else:
        say(f"Deleted branch {name}. A full vacuum deletes its files later.")


@branch_command.command("rename")
@click.argument("name")
@click.argument("new_name")
@storage_options_option
@json_option
@click.pass_obj
def rename_branch_command(
    table: str, storage_options: dict[str, Any], name: str, new_name: str, as_json: bool
) -> None:
    """Rename a branch."""
    log = open_table(table, storage_options)
    branch = rename_branch(log, name, new_name)
    if as_json:
        show_json({"table": log.uri, **_branch_fields(branch)})
    else:
        say(f"Branch {name} is {new_name} now.")


@branch_command.command("anchor")
@click.argument("name")
@storage_options_option
@json_option
@click.pass_obj
def anchor_branch_command(
    table: str, storage_options: dict[str, Any], name: str, as_json: bool
) -> None:
    """Keep a branch readable even if another engine cleans up the log."""
    _show_anchor(open_table(table, storage_options), f"branch:{name}", as_json=as_json)


@branch_command.command("rebase")
@click.argument("name")
@storage_options_option
@json_option
@click.pass_obj
def rebase_branch_command(
    table: str, storage_options: dict[str, Any], name: str, as_json: bool
) -> None:
    """Move a branch to the latest version of main, with its changes in one commit."""
    log = open_table(table, storage_options)
    branch = rebase_branch(log, name)
    if as_json:
        show_json({"table": log.uri, **_branch_fields(branch)})
    else:
        say(f"Branch {name} follows version {branch.base_version} of main.")


branch_command.add_command(publish_branch_command)


@branch_command.command("diff")
@click.argument("name")
@storage_options_option
@json_option
@click.pass_obj
def diff_command(table: str, storage_options: dict[str, Any], name: str, as_json: bool) -> None:
    """Show what a publication of a branch would commit."""
    log = open_table(table, storage_options)
    diff = diff_branch(log, name)
    if as_json:
        show_json({"table": log.uri, **{each: getattr(diff, each) for each in diff.__slots__}})
        return
    say(
        f"Branch {name} is at version {diff.branch_version} and began at version "
        f"{diff.base_version} of main, which is at version {diff.main_version}."
    )
    for verb, paths, size in (
        ("added", diff.added, diff.added_bytes),
        ("removed", diff.removed, diff.removed_bytes),
    ):
        say(f"{count_text(len(paths), 'file')} {verb}, {size_text(size)}.")
        for path in paths:
            say(f"  {verb} {path}")
    for change in diff.columns:
        say(f"Column: {change}.")
    for name_of_property in diff.properties:
        say(f"Property: changed {name_of_property}.")


def _state(branch: Branch) -> str:
    if branch.published_version is not None:
        return f"published as {branch.published_version}"
    if branch.expires_ms < system_clock():
        return "expired"
    if is_rebasing(branch):
        return f"rebasing {branch.last_version}"
    return "open" if branch.last_version is None else f"publishing {branch.last_version}"


def _branch_fields(branch: Branch) -> dict[str, Any]:
    """The branch for JSON."""
    fields = asdict(branch)
    times = {name: utc_text(fields.pop(f"{name}_ms")) for name in ("created", "expires")}
    del fields["publisher"], fields["replaces"]
    return {**fields, **times, "state": _state(branch)}


@click.command("refs")
@click.argument("table")
@click.option(
    "--timestamp",
    help="List the refs of this time instead, and look up no files; UTC unless it has a zone.",
)
@storage_options_option
@json_option
def refs_command(
    table: str, storage_options: dict[str, Any], timestamp: str | None, as_json: bool
) -> None:
    """Look up the files of all tags and branches, and name those that are missing.

    Exits with 1 if rows of a tag or branch cannot be read.
    """
    log = open_table(table, storage_options)
    if timestamp is not None:
        _show_earlier(log, timestamp, as_json=as_json)
        return
    refs = verify_refs(log)
    if as_json:
        found = [{**dataclasses.asdict(each), "readable": each.is_readable} for each in refs]
        show_json({"table": log.uri, "refs": found})
    elif refs:
        rows = [(each.ref, each.version, _readable_text(each)) for each in refs]
        show_rows(("ref", "version", "state"), rows, whole=("ref",))
        for each in refs:
            for path in each.missing_files:
                say(f"{each.ref}: {path} is missing")
    else:
        say("The table has no tags, branches or sessions.")
    if not all(each.is_readable for each in refs):
        raise click.exceptions.Exit(TABLE_FAILED)


def _show_earlier(log: DeltaLog, timestamp: str, *, as_json: bool) -> None:
    tags = list_tags(log, timestamp=timestamp)
    branches = list_branches(log, timestamp=timestamp)
    sessions = list_sessions(log, timestamp=timestamp)
    found = [
        *((f"tag:{each.name}", each.version, each.created_ms) for each in tags),
        *((f"branch:{each.name}", each.base_version, each.created_ms) for each in branches),
        *((f"session:{each.id}", each.base_version, each.created_ms) for each in sessions),
    ]
    if as_json:
        refs = [
            {"ref": ref, "version": version, "created": utc_text(created_ms)}
            for ref, version, created_ms in found
        ]
        show_json({"table": log.uri, "timestamp": timestamp, "refs": refs})
    elif found:
        rows = [(ref, version, moment_text(created_ms)) for ref, version, created_ms in found]
        show_rows(("ref", "version", "created"), rows, whole=("ref", "created"))
    else:
        say("The table had no tags, branches or sessions.")


def _readable_text(ref: VerifiedRef) -> str:
    if ref.problem is not None:
        return ref.problem
    return (
        "readable" if ref.is_readable else f"{count_text(len(ref.missing_files), 'file')} missing"
    )
