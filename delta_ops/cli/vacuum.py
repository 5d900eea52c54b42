"""The command `vacuum`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from delta_ops.cli.options import dry_run_option, json_option, open_table, table_argument
from delta_ops.cli.render import (
    deletion_text,
    fail_for_files,
    moment_text,
    progress,
    say,
    show_result,
    show_rows,
)
from delta_ops.maintenance import VacuumResult, vacuum
from delta_ops.maintenance.vacuum.inventory import load_inventory
from delta_ops.maintenance.vacuum.operation import VACUUM
from delta_ops.units import count_text, size_text

_CENTURY_HOURS = 100 * 365 * 24


@click.command("vacuum")
@table_argument
@click.option(
    "--retain-hours",
    type=click.IntRange(min=0, max=_CENTURY_HOURS),
    help=(
        "Keep files that were removed or written within this many hours; "
        "delta.deletedFileRetentionDuration if not given."
    ),
)
@click.option(
    "--no-enforce-retention",
    is_flag=True,
    help=(
        "Allow a shorter retention than delta.deletedFileRetentionDuration: readers of older "
        "versions and running writers may fail."
    ),
)
@click.option(
    "--lite",
    is_flag=True,
    help="Delete only files that the log says were removed; do not list the table.",
)
@click.option(
    "--inventory",
    metavar="FILE",
    help=(
        "Use this list of files instead of listing the table: a local Parquet or CSV file, or a "
        "Delta table, with the columns path, length, isDir and modificationTime (milliseconds)."
    ),
)
@click.option(
    "--keep-last",
    type=click.IntRange(min=0),
    default=0,
    help=(
        "Keep this many of the last versions readable at any age; versions that change no files do "
        "not count."
    ),
)
@click.option(
    "--log-commits/--no-log-commits",
    default=None,
    help="Commit VACUUM START and VACUUM END; if not given, delta_ops.vacuum.logging decides.",
)
@dry_run_option
@json_option
def vacuum_command(
    table: str, storage_options: dict[str, Any], dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Delete files that no version within the retention needs."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        arguments = _arguments(storage_options, **options)
        result = vacuum(log, **arguments, dry_run=dry_run, on_event=on_event)
    if as_json:
        show_result(VACUUM, log.uri, result)
    else:
        _show(result)
    fail_for_files(result.failures)


def _arguments(
    storage_options: dict[str, Any],
    *,
    retain_hours: int | None,
    no_enforce_retention: bool,
    lite: bool,
    inventory: str | None,
    keep_last: int,
    log_commits: bool | None,
) -> dict[str, Any]:
    """Convert the command's options to arguments of `vacuum`."""
    return {
        "retention": None if retain_hours is None else timedelta(hours=retain_hours),
        "enforce_retention": not no_enforce_retention,
        "mode": "lite" if lite else "full",
        "inventory": None if inventory is None else load_inventory(inventory, storage_options),
        "keep_last": keep_last,
        "log_commits": log_commits,
    }


def _show(result: VacuumResult) -> None:
    plan = result.plan
    planned = (*plan.files, *plan.leftovers)
    if result.expired_branches:
        say(f"Deleted branches that had expired: {', '.join(result.expired_branches)}.")
    if result.lost_holds:
        holds = count_text(result.lost_holds, "hold")
        say(f"Dropped {holds} of releases that were never made or were deleted.")
    if result.expired_sessions:
        say(f"Ended sessions that had expired: {', '.join(result.expired_sessions)}.")
    if result.chunks.reason_to_stay:
        say(f"No chunk of an array was deleted, because {result.chunks.reason_to_stay}.")
    if result.chunks.num_chunks:
        size = size_text(result.chunks.size_bytes)
        chunks = count_text(result.chunks.num_chunks, "chunk")
        say(f"{'Would delete' if result.dry_run else 'Deleted'} {chunks} of arrays ({size}).")
    if not plan.has_work:
        say("Every file is still needed or too young to delete; nothing to do.")
        return
    if result.dry_run and planned:
        rows = (
            (info.path, size_text(info.size), moment_text(info.modified_ms)) for info in planned
        )
        columns = ("path", "size", "modified")
        show_rows(columns, rows, whole=("size", "modified"), cut=("path",))
        say(deletion_text(len(planned), plan.size_bytes, dry_run=True))
        return
    if result.dry_run:
        done, empty = deletion_text(0, 0, dry_run=True), len(plan.directories)
    else:
        done = deletion_text(result.deleted_files, result.deleted_bytes)
        empty = result.deleted_directories
    say(f"{done} Empty directories: {empty:,}." if empty else done)
