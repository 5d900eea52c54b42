"""The commands for the log of a table: `checkpoint`, `scan-cache`, `clean-up-log`, `compact-log`
and `backfill-statistics`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from delta_ops.cli.options import dry_run_option, json_option, open_table, table_argument
from delta_ops.cli.render import (
    command_error,
    deletion_text,
    fail_for_files,
    progress,
    say,
    show_json,
    show_result,
)
from delta_ops.maintenance import (
    CheckpointResult,
    LogCleanupPlan,
    ScanCacheResult,
    backfill_statistics,
    clean_up_log,
    compact_log,
    create_checkpoint,
    create_scan_cache,
)
from delta_ops.maintenance.checkpoint.operation import CHECKPOINT
from delta_ops.maintenance.log_cleanup.operation import CLEAN_UP_LOG
from delta_ops.maintenance.log_compaction.operation import COMPACT_LOG
from delta_ops.maintenance.scan_cache.operation import SCAN_CACHE
from delta_ops.units import count_text, size_text

_UNFINISHED = "of unfinished checkpoints"


@click.command("checkpoint")
@table_argument
@click.option(
    "--part-rows",
    type=click.IntRange(min=1),
    help=(
        "Split the checkpoint into files with about this many live files each. If not given, the "
        "table's delta.checkpointPolicy decides."
    ),
)
@dry_run_option
@json_option
def checkpoint_command(
    table: str,
    storage_options: dict[str, Any],
    part_rows: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write the checkpoint of the latest version, if it does not exist."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = create_checkpoint(log, part_rows=part_rows, dry_run=dry_run, on_event=on_event)
    if as_json:
        show_result(CHECKPOINT, log.uri, result)
    else:
        say(_checkpoint_text(result))
    fail_for_files(result.failures)


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


@click.command("scan-cache")
@table_argument
@dry_run_option
@json_option
def scan_cache_command(
    table: str, storage_options: dict[str, Any], dry_run: bool, as_json: bool
) -> None:
    """Write the scan cache of the latest version, if it does not exist."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = create_scan_cache(log, dry_run=dry_run, on_event=on_event)
    if as_json:
        show_result(SCAN_CACHE, log.uri, result)
    else:
        say(_scan_cache_text(result))
    fail_for_files(result.failures)


def _scan_cache_text(result: ScanCacheResult) -> str:
    plan, written = result.plan, result.written
    done = []
    if plan.problem is not None:
        done.append(f"The existing scan cache cannot be used, because {plan.problem}.")
    if written:
        done.append(
            f"Wrote the scan cache of version {written.version}: "
            f"{count_text(written.num_files, 'live file')}, {size_text(written.size_bytes)}."
        )
    elif result.dry_run and plan.is_missing:
        checkpoint = ", and its checkpoint" if plan.needs_checkpoint else ""
        done.append(f"Would write the scan cache of version {plan.version}{checkpoint}.")
    if result.dry_run and plan.unused:
        done.append(f"Would delete {count_text(len(plan.unused), 'file')} of older scan caches.")
    elif result.deleted_files:
        done.append(f"Deleted {count_text(result.deleted_files, 'file')} of older scan caches.")
    return " ".join(done) or f"Version {plan.version} has its scan cache; nothing to do."


@click.command("clean-up-log")
@table_argument
@click.option(
    "--keep-version",
    "keep_versions",
    type=click.IntRange(min=0),
    multiple=True,
    help="A version that must stay readable, with all later versions. May be repeated.",
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

    This runs even if delta.enableExpiredLogCleanup is false.
    """
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = clean_up_log(log, dry_run=dry_run, keep_versions=keep_versions, on_event=on_event)
    plan = result.plan
    if as_json:
        show_result(CLEAN_UP_LOG, log.uri, result)
    elif not plan.has_work:
        say(
            "Every log file is still needed or too young to delete; nothing to do. Versions can "
            f"be read from {plan.earliest_before} on."
        )
    elif dry_run:
        say(
            f"{deletion_text(len(plan.files), plan.size_bytes, dry_run=True)} Versions can be read "
            f"from {plan.earliest_before} on; afterwards, from {plan.earliest_after} on."
        )
        _say_anchored(plan, "would get")
    else:
        say(
            f"{deletion_text(result.deleted_files, result.deleted_bytes)} Versions can be read "
            f"from {result.earliest_version} on; before, from {plan.earliest_before} on."
        )
        _say_anchored(plan, "have")
    fail_for_files(result.failures)


def _say_anchored(plan: LogCleanupPlan, verb: str) -> None:
    if plan.anchored:
        versions = ", ".join(map(str, plan.anchored))
        say(f"Tags and releases of earlier versions {verb} anchors, which keep them: {versions}.")


@click.command("compact-log")
@table_argument
@click.option(
    "--from-version",
    type=click.IntRange(min=0),
    help="The first version; the version after the newest checkpoint if not given.",
)
@click.option(
    "--to-version", type=click.IntRange(min=0), help="The last version; the latest if not given."
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
    """Write the actions of several versions to one file, for engines that read log compactions."""
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
        say(f"Would compact {count_text(len(plan.commits), 'version')} into {plan.file_name}.")
    else:
        is_there = plan.end_version > plan.start_version
        why = (
            f"{plan.file_name} already exists"
            if is_there
            else "There are not two versions to compact"
        )
        say(f"{why}; nothing to do.")


@click.command("backfill-statistics")
@table_argument
@dry_run_option
@json_option
def backfill_statistics_command(
    table: str, storage_options: dict[str, Any], dry_run: bool, as_json: bool
) -> None:
    """Add missing statistics of live files to the log, from their footers."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = backfill_statistics(log, dry_run=dry_run, on_event=on_event)
    if as_json:
        show_json({"table": log.uri, **asdict(result)})
    elif dry_run:
        say(f"Would describe {count_text(result.lacking_files, 'file')} of {result.num_files:,}.")
    elif result.version is None and not result.failures:
        say(f"{count_text(result.num_files, 'file')}, all with statistics; nothing to do.")
    elif not result.failures:
        described = count_text(result.described_files, "file")
        say(f"Version {result.version} describes {described} of {result.num_files:,}.")
    if result.failures:
        raise command_error(
            f"{count_text(len(result.failures), 'file')} cannot be described, the first: "
            f"{result.failures[0]}"
        )
