"""The command `release`: versions of several tables that readers see together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
from msgspec.structs import asdict

from delta_ops.arrow.read.diff_rows import diff_rows
from delta_ops.cli.options import (
    FiniteRange,
    dry_run_option,
    json_option,
    open_table,
    pairs_callback,
    storage_options_option,
)
from delta_ops.cli.render import Group, moment_text, say, show_json, show_rows
from delta_ops.planning.row_difference import CHANGE
from delta_ops.protocol.values.wide_timestamps import utc_text
from delta_ops.units import count_text
from delta_ops.versioning import (
    Release,
    ReleaseSet,
    TableChange,
    create_release,
    delete_holds,
    delete_releases,
    diff_releases,
    find_release,
    list_releases,
    open_release,
    roll_back_release,
)


@click.group("release", cls=Group)
@click.argument("release_set", metavar="SET")
@click.pass_context
def release_command(context: click.Context, release_set: str) -> None:
    """Release several tables together: release SET COMMAND."""
    context.obj = release_set


@release_command.command("create")
@click.argument("tables", nargs=-1, required=True, metavar="NAME=TABLE...", callback=pairs_callback)
@click.option(
    "versions",
    "--version",
    multiple=True,
    metavar="NAME=N",
    callback=pairs_callback,
    help="The version of a table; the latest if not given. May be repeated.",
)
@click.option("--message", default="", help="Any text, kept with the release.")
@click.option(
    "--expected",
    type=click.IntRange(min=0),
    help="Fail unless this release is the current release; 0 for none.",
)
@click.option(
    "--allow-older", is_flag=True, help="Accept older versions than in the current release."
)
@storage_options_option
@json_option
@click.pass_obj
def create_release_command(
    release_set: str,
    storage_options: dict[str, Any],
    tables: list[tuple[str, str]],
    versions: list[tuple[str, str]],
    message: str,
    expected: int | None,
    allow_older: bool,
    as_json: bool,
) -> None:
    """Release a version of each table; readers of the set see all of them or none."""
    places = dict(tables)
    if len(places) < len(tables):
        names = [name for name, _ in tables]
        twice = next(name for name in names if names.count(name) > 1)
        raise click.UsageError(f"the name {twice!r} is given twice; give each table its own name")
    releases = ReleaseSet(release_set, storage_options)
    release = create_release(
        releases,
        places,
        versions=_numbers(versions),
        message=message,
        expected=expected,
        allow_older=allow_older,
    )
    _show_made(releases, release, as_json=as_json)


@release_command.command("list")
@storage_options_option
@json_option
@click.pass_obj
def list_releases_command(release_set: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Show the releases of a set, oldest first."""
    releases = ReleaseSet(release_set, storage_options)
    found = list_releases(releases)
    if as_json:
        show_json({"release_set": releases.uri, "releases": [_fields(each) for each in found]})
    elif found:
        rows = [
            (each.number, moment_text(each.created_ms), len(each.tables), _note(each))
            for each in found
        ]
        show_rows(("release", "created", "tables", "message"), rows, whole=("created",))
    else:
        say("The set has no releases.")


@release_command.command("show")
@click.argument("number", type=click.IntRange(min=1), required=False)
@storage_options_option
@json_option
@click.pass_obj
def show_release_command(
    release_set: str, storage_options: dict[str, Any], number: int | None, as_json: bool
) -> None:
    """Show the tables of a release and their versions; the current release by default."""
    releases = ReleaseSet(release_set, storage_options)
    release = find_release(releases, number)
    if as_json:
        show_json({"release_set": releases.uri, **_fields(release)})
        return
    say(f"Release {release.number}, created at {moment_text(release.created_ms)}.")
    if note := _note(release):
        say(note)
    _show_tables(release)


@release_command.command("diff")
@click.argument("old", type=click.IntRange(min=1))
@click.argument("new", type=click.IntRange(min=1), required=False)
@click.option("--rows", "with_rows", is_flag=True, help="Also count the rows that differ.")
@storage_options_option
@json_option
@click.pass_obj
def diff_releases_command(
    release_set: str,
    storage_options: dict[str, Any],
    old: int,
    new: int | None,
    with_rows: bool,
    as_json: bool,
) -> None:
    """Show which tables moved between two releases; NEW is the current release by default."""
    releases = ReleaseSet(release_set, storage_options)
    new = find_release(releases, new).number
    changes = diff_releases(releases, old, new)
    counts = _count_rows(releases, changes, old, new) if with_rows else {}
    if as_json:
        found = [{**asdict(each), **counts.get(each.table, {})} for each in changes]
        show_json({"release_set": releases.uri, "old": old, "new": new, "tables": found})
        return
    columns = ("table", "change", "old version", "new version", "rows only old", "rows only new")
    rows = [
        (
            each.table,
            each.change,
            each.old_version,
            each.new_version,
            *(counts[each.table].values() if each.table in counts else (None, None)),
        )
        for each in changes
    ]
    show_rows(columns, rows, whole=("table",), optional=columns[4:])


@release_command.command("rollback")
@click.argument("number", type=click.IntRange(min=1))
@click.option("--message", default="", help="Any text, kept with the release.")
@click.option(
    "--expected", type=click.IntRange(min=1), help="Fail unless this release is the current one."
)
@storage_options_option
@json_option
@click.pass_obj
def roll_back_command(
    release_set: str,
    storage_options: dict[str, Any],
    number: int,
    message: str,
    expected: int | None,
    as_json: bool,
) -> None:
    """Release the versions of an older release again, as a new release."""
    releases = ReleaseSet(release_set, storage_options)
    release = roll_back_release(releases, number, message=message, expected=expected)
    _show_made(releases, release, as_json=as_json)


@release_command.command("delete")
@click.argument("numbers", nargs=-1, type=click.IntRange(min=1))
@click.option(
    "--keep-last", type=click.IntRange(min=1), help="Delete all but this many of the newest."
)
@click.option(
    "--older-than",
    type=FiniteRange(min=0, max=36_500),
    metavar="DAYS",
    help="Delete the releases that are older than this.",
)
@dry_run_option
@storage_options_option
@json_option
@click.pass_obj
def delete_releases_command(
    release_set: str,
    storage_options: dict[str, Any],
    numbers: tuple[int, ...],
    keep_last: int | None,
    older_than: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete releases; vacuums may then delete files that only their versions need."""
    releases = ReleaseSet(release_set, storage_options)
    result = delete_releases(
        releases,
        numbers,
        keep_last=keep_last,
        older_than=None if older_than is None else timedelta(days=older_than),
        dry_run=dry_run,
    )
    found = [each.number for each in result.releases]
    if as_json:
        left = list(result.tables_left)
        fields = {"dry_run": dry_run, "deleted": found, "tables_left": left}
        show_json({"release_set": releases.uri, **fields})
        return
    verb = "Would delete" if dry_run else "Deleted"
    names = f": {', '.join(map(str, found))}" if found else ""
    say(f"{verb} {count_text(len(found), 'release')}{names}.")
    for name in result.tables_left:
        say(f"The next vacuum of {name} drops its holds; its store failed, or it is gone.")


@release_command.command("drop-holds")
@click.argument("table")
@dry_run_option
@storage_options_option
@json_option
@click.pass_obj
def drop_holds_command(
    release_set: str, storage_options: dict[str, Any], table: str, dry_run: bool, as_json: bool
) -> None:
    """Let a table drop the versions of a set that is gone.

    SET is the location that `refs` and errors name.
    """
    log = open_table(table, storage_options)
    dropped = delete_holds(log, release_set, dry_run=dry_run)
    if as_json:
        versions = [each.version for each in dropped]
        fields = {"release_set": release_set, "dry_run": dry_run, "versions": versions}
        show_json({"table": log.uri, **fields})
    else:
        verb = "Would drop" if dry_run else "Dropped"
        say(f"{verb} {count_text(len(dropped), 'hold')} of {release_set}.")


def _numbers(versions: list[tuple[str, str]]) -> dict[str, int]:
    """The versions by name."""
    if not all(text.isdecimal() for _, text in versions):
        raise click.UsageError("write --version as NAME=N, such as orders=3")
    return {name: int(text) for name, text in versions}


def _count_rows(
    releases: ReleaseSet, changes: list[TableChange], old: int, new: int
) -> dict[str, dict[str, int]]:
    """The number of rows in which each moved table differs."""
    before, after = open_release(releases, old), open_release(releases, new)
    counts = {}
    for each in changes:
        if each.change in ("moved", "replaced", "same"):
            types = diff_rows(before[each.table], after[each.table])[CHANGE].to_pylist()
            counts[each.table] = {
                "deleted_rows": types.count("delete"),
                "inserted_rows": types.count("insert"),
            }
    return counts


def _show_made(releases: ReleaseSet, release: Release, *, as_json: bool) -> None:
    if as_json:
        show_json({"release_set": releases.uri, **_fields(release)})
        return
    say(f"Release {release.number} has these versions:")
    _show_tables(release)


def _show_tables(release: Release) -> None:
    rows = [(name, each.version, each.uri) for name, each in sorted(release.tables.items())]
    show_rows(("table", "version", "location"), rows, whole=("table",))


def _note(release: Release) -> str:
    """What a person should know of the release."""
    back = "" if release.rolled_back_to is None else f"back to release {release.rolled_back_to}"
    return "; ".join(each for each in (release.message, back) if each)


def _fields(release: Release) -> dict[str, Any]:
    """The release for JSON."""
    fields = asdict(release)
    tables = {name: asdict(table) for name, table in release.tables.items()}
    created = utc_text(fields.pop("created_ms"))
    return {**fields, "created": created, "tables": tables}
