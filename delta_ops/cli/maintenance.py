"""The commands that maintain a table's log and folder: `checkpoint`, `vacuum`, `clean-up-log`,
`compact-log`, `backfill-statistics`; `optimize` stands in `optimizing`.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from delta_ops.cli.options import (
    dry_run_option,
    json_option,
    open_table,
    table_argument,
)
from delta_ops.cli.render import (
    command_error,
    progress,
    say,
    show_json,
    show_result,
    show_rows,
)
from delta_ops.maintenance import (
    CheckpointResult,
    backfill_statistics,
    clean_up_log,
    compact_log,
    create_checkpoint,
    vacuum,
)
from delta_ops.maintenance.checkpoint.act import CHECKPOINT
from delta_ops.maintenance.log_cleanup.operation import CLEAN_UP_LOG
from delta_ops.maintenance.log_compaction.act import COMPACT_LOG
from delta_ops.maintenance.vacuum.inventory import load_inventory
from delta_ops.maintenance.vacuum.operation import VACUUM
from delta_ops.protocol.values.far_times import utc_text
from delta_ops.units import count_text, size_text

_UNFINISHED = "of checkpoints that nobody finished"
_CENTURY_HOURS = 100 * 365 * 24


@click.command()
@table_argument
@click.option(
    "--part-rows",
    type=click.IntRange(min=1),
    help="Write a checkpoint of several files, of about so many live files each, where there are "
    "more. Without it the table's delta.checkpointPolicy decides.",
)
@dry_run_option
@json_option
def checkpoint(
    table: str,
    storage_options: dict[str, Any],
    part_rows: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write the checkpoint of the latest version unless it is there."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = create_checkpoint(log, part_rows=part_rows, dry_run=dry_run, on_event=on_event)
    if as_json:
        show_result(CHECKPOINT, log.uri, result)
    else:
        say(_checkpoint_text(result))
    _fail_for(result.failures)


def _checkpoint_text(result: CheckpointResult) -> str:
    plan, written = result.plan, result.written
    done = []
    if written:
        done.append(
            f"Wrote the checkpoint of version {written.version}: "
            f"{count_text(written.num_actions, 'action')}, {size_text(written.size_bytes)}."
        )
    elif result.dry_run and plan.is_missing:
        done.append(f"Would write the checkpoint of version {plan.version}.")
    if result.dry_run and plan.stale:
        done.append(f"Would delete {count_text(len(plan.stale), 'file')} {_UNFINISHED}.")
    elif result.deleted_files:
        done.append(f"Deleted {count_text(result.deleted_files, 'file')} {_UNFINISHED}.")
    return " ".join(done) or f"Version {plan.version} has its checkpoint; nothing to do."


@click.command("vacuum")
@table_argument
@click.option(
    "--retain-hours",
    type=click.IntRange(min=0, max=_CENTURY_HOURS),
    help="Keep files that were removed or written within so many hours; "
    "delta.deletedFileRetentionDuration if not given.",
)
@click.option(
    "--no-enforce-retention",
    is_flag=True,
    help="Allow less than delta.deletedFileRetentionDuration: readers of older versions and "
    "running writers may break.",
)
@click.option(
    "--lite", is_flag=True, help="Look only at what the log says was removed; list nothing."
)
@click.option(
    "--inventory",
    metavar="FILE",
    help="Look only at what this lists: a Parquet or CSV file of this machine, or a Delta table, "
    "with the columns path, length, isDir and modificationTime (milliseconds).",
)
@click.option(
    "--keep-last",
    type=click.IntRange(min=0),
    default=0,
    help="Keep so many of the last versions readable, however old they are; those that change no "
    "files are not counted.",
)
@click.option(
    "--log-commits/--no-log-commits",
    default=None,
    help="Commit VACUUM START and VACUUM END; as delta_ops.vacuum.logging says if not given.",
)
@dry_run_option
@json_option
def vacuum_command(
    table: str,
    storage_options: dict[str, Any],
    retain_hours: int | None,
    no_enforce_retention: bool,
    lite: bool,
    inventory: str | None,
    keep_last: int,
    log_commits: bool | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete files that no version within the retention needs."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = vacuum(
            log,
            retention=None if retain_hours is None else timedelta(hours=retain_hours),
            enforce_retention=not no_enforce_retention,
            mode="lite" if lite else "full",
            inventory=None if inventory is None else load_inventory(inventory, storage_options),
            keep_last=keep_last,
            log_commits=log_commits,
            dry_run=dry_run,
            on_event=on_event,
        )
    planned = (*result.plan.files, *result.plan.leftovers)
    if as_json:
        show_result(VACUUM, log.uri, result)
    elif dry_run and planned:
        show_rows(
            ("path", "size", "modified"),
            ((i.path, i.size, utc_text(i.modified_ms)) for i in planned),
        )
        say(_plan_text(len(planned), result.plan.size_bytes))
    elif not result.plan.has_work:
        say("Every file is needed or young; nothing to do.")
    else:
        done = (
            _plan_text(0, 0)
            if dry_run
            else _delete_text(result.deleted_files, result.deleted_bytes)
        )
        empty = len(result.plan.directories) if dry_run else result.deleted_directories
        say(f"{done} Empty directories: {empty:,}." if empty else done)
    _fail_for(result.failures)


@click.command("clean-up-log")
@table_argument
@click.option(
    "--keep-version",
    "keep_versions",
    type=click.IntRange(min=0),
    multiple=True,
    help="A version that must stay readable, however old; all after it stay too. May be repeated.",
)
@dry_run_option
@json_option
def clean_up_log_command(
    table: str,
    storage_options: dict[str, Any],
    keep_versions: tuple[int, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete log files of versions older than delta.logRetentionDuration.

    Being asked, also where delta.enableExpiredLogCleanup is false.
    """
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = clean_up_log(log, dry_run=dry_run, keep_versions=keep_versions, on_event=on_event)
    plan = result.plan
    if as_json:
        show_result(CLEAN_UP_LOG, log.uri, result)
    elif not plan.has_work:
        say(
            "Every log file is needed or young; nothing to do. "
            f"Versions can be read from {plan.earliest_before} on."
        )
    elif dry_run:
        say(
            f"{_plan_text(len(plan.files), plan.size_bytes)} Versions can be read from "
            f"{plan.earliest_before} on; afterwards, from {plan.earliest_after} on."
        )
    else:
        say(
            f"{_delete_text(result.deleted_files, result.deleted_bytes)} Versions can be read from "
            f"{result.earliest_version} on; before, from {plan.earliest_before} on."
        )
    _fail_for(result.failures)


@click.command("compact-log")
@table_argument
@click.option(
    "--from-version",
    type=click.IntRange(min=0),
    help="The first version; the one after the newest checkpoint if not given.",
)
@click.option(
    "--to-version", type=click.IntRange(min=0), help="The last one; the latest if not given."
)
@dry_run_option
@json_option
def compact_log_command(
    table: str,
    storage_options: dict[str, Any],
    from_version: int | None,
    to_version: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write the actions of several versions to one file, for engines that read such files."""
    log = open_table(table, storage_options)
    result = compact_log(log, from_version, to_version, dry_run=dry_run)
    plan = result.plan
    if as_json:
        show_result(COMPACT_LOG, log.uri, result)
    elif result.written:
        say(
            f"Wrote {plan.file_name}: {count_text(result.num_actions, 'action')}, "
            f"{size_text(result.size_bytes)}."
        )
    elif dry_run and plan.has_work:
        say(f"Would put {count_text(len(plan.commits), 'version')} into {plan.file_name}.")
    else:
        is_there = plan.end_version > plan.start_version
        why = (
            f"{plan.file_name} is there"
            if is_there
            else "There are no two versions to put together"
        )
        say(f"{why}; nothing to do.")


@click.command("backfill-statistics")
@table_argument
@dry_run_option
@json_option
def backfill_statistics_command(
    table: str, storage_options: dict[str, Any], dry_run: bool, as_json: bool
) -> None:
    """Describe live files by columns of which the log says nothing yet, from their footers."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = backfill_statistics(log, dry_run=dry_run, on_event=on_event)
    if as_json:
        show_json({"table": log.uri, **asdict(result)})
    elif dry_run:
        say(f"Would describe {count_text(result.lacking_files, 'file')} of {result.num_files:,}.")
    elif result.version is None and not result.failures:
        say(f"{count_text(result.num_files, 'file')}, all described; nothing to do.")
    elif not result.failures:
        described = count_text(result.described_files, "file")
        say(f"Version {result.version} describes {described} of {result.num_files:,}.")
    if result.failures:
        raise command_error(
            f"{count_text(len(result.failures), 'file')} cannot be described, the first: "
            f"{result.failures[0]}"
        )


def _plan_text(count: int, size_bytes: int) -> str:
    return f"Would delete {count_text(count, 'file')}, {size_text(size_bytes)}."


def _delete_text(count: int, size_bytes: int) -> str:
    return f"Deleted {count_text(count, 'file')}, {size_text(size_bytes)}."


def _fail_for(failures: tuple[str, ...]) -> None:
    if failures:
        raise command_error(
            f"{count_text(len(failures), 'file')} could not be deleted, the first of them "
            f"{failures[0]}; check the permissions and run this again."
        )
