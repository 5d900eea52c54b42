"""The commands that restore an earlier state: `restore`, `revert` and `repair`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click

from delta_ops.cli.fleet import SOMETHING_DUE
from delta_ops.cli.options import (
    busy_options,
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
    RepairPlan,
    RestorePlan,
    RestoreResult,
    RevertPlan,
    RevertResult,
    repair,
    restore,
    revert,
)
from delta_ops.maintenance.repair.operation import REPAIR
from delta_ops.units import count_text, size_text


@click.command("restore")
@table_argument
@click.option("--version", type=click.IntRange(min=0), help="The version to go back to.")
@click.option(
    "--timestamp",
    metavar="TIME",
    help="The time to go back to, as 2026-01-31T00:00:00Z; in UTC if it has no time zone.",
)
@click.option(
    "--ignore-missing-files",
    is_flag=True,
    help="Restore without the rows of missing files, instead of failing.",
)
@click.option(
    "--request-id",
    metavar="ID",
    help="A key of your choice: of all runs with the same key, only one restores.",
)
@busy_options
@dry_run_option
@json_option
def restore_command(
    table: str, storage_options: dict[str, Any], dry_run: bool, as_json: bool, **arguments: Any
) -> None:
    """Restore the table to a version or a time."""
    if (arguments["version"] is None) == (arguments["timestamp"] is None):
        raise click.UsageError("give --version or --timestamp, one of the two")
    log = open_table(table, storage_options)
    result = restore(log, **arguments, dry_run=dry_run)
    if as_json:
        show_json({"table": log.uri, **_restore_json(result)})
    else:
        say(_restore_text(result))


def _restore_json(result: RestoreResult) -> dict[str, Any]:
    plan = result.plan
    return {
        "dry_run": result.dry_run,
        "restored_version": plan.version,
        "planned_on": plan.latest_version,
        **_changes(plan),
        "metadata_changed": plan.metadata is not None,
        "clustering_changed": plan.clustered_by is not None,
        "version": result.version,
        "already_committed": result.already_committed,
        "missing": result.missing,
    }


def _restore_text(result: RestoreResult) -> str:
    plan = result.plan
    if result.already_committed:
        return _done_sentence(result)
    if not plan.has_work:
        left_out = f", except for {_missing_text(result)}" if result.missing else ""
        return (
            f"The table already has the state of version {plan.version}{left_out}; nothing to do."
        )
    verb = "Would restore" if result.dry_run else f"Version {result.version} restores"
    without = f" without {_missing_text(result)}" if result.missing else ""
    return f"{verb} version {plan.version}{without}: {_sentence(plan)}"


@click.command("revert")
@table_argument
@click.argument("version", metavar="VERSION", type=click.IntRange(min=0))
@busy_options
@dry_run_option
@json_option
def revert_command(
    table: str,
    storage_options: dict[str, Any],
    version: int,
    timeout: timedelta,
    vacuum_was_killed: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Undo the commit of VERSION, and keep later commits."""
    log = open_table(table, storage_options)
    result = revert(
        log, version, timeout=timeout, vacuum_was_killed=vacuum_was_killed, dry_run=dry_run
    )
    plan = result.plan
    if as_json:
        show_json(
            {
                "table": log.uri,
                "dry_run": dry_run,
                "reverted_version": plan.version,
                "planned_on": plan.latest_version,
                **_changes(plan),
                "version": result.version,
                "already_committed": result.already_committed,
            }
        )
    elif result.already_committed:
        say(_done_sentence(result))
    elif not plan.has_work:
        say(f"Version {version} has no changes left to undo; nothing to do.")
    else:
        verb = "Would revert" if dry_run else f"Version {result.version} reverts"
        say(f"{verb} version {version}: {_sentence(plan)}")


@click.command("repair")
@table_argument
@click.option(
    "--remove-missing",
    is_flag=True,
    help="Remove missing files, and so their rows, from the table; check with --dry-run first.",
)
@click.option("--no-statistics", is_flag=True, help="Do not add missing statistics.")
@dry_run_option
@json_option
def repair_command(
    table: str,
    storage_options: dict[str, Any],
    remove_missing: bool,
    no_statistics: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Compare the table with its files, and add missing statistics.

    Fails if files or deletion vectors are gone, unless --remove-missing has taken care of it. With
    --dry-run it exits with 3 if files, deletion vectors or statistics are missing, 0 if none is.
    """
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = repair(
            log,
            remove_missing=remove_missing,
            fill_statistics=not no_statistics,
            dry_run=dry_run,
            on_event=on_event,
        )
    plan = result.plan
    if as_json:
        show_result(REPAIR, log.uri, result)
    else:
        _show_repair(plan)
        if result.version is not None:
            say(
                f"Version {result.version}: {count_text(result.described_files, 'file')} got "
                f"statistics, {count_text(result.removed_files, 'lost file')} left the table."
            )
        elif plan.is_healthy:
            say(f"{count_text(plan.num_files, 'file')}, all intact.")
    if dry_run:
        is_incomplete = plan.missing or plan.missing_vectors or plan.truncated
        if is_incomplete or (plan.without_statistics and not no_statistics):
            raise click.exceptions.Exit(SOMETHING_DUE)
        return
    is_kept = plan.missing and not result.removed_files
    is_left = is_kept or plan.missing_vectors or plan.truncated or result.failures
    if is_left and not result.already_committed:
        raise command_error(_left_sentence(plan, result.failures))


def _done_sentence(result: RestoreResult | RevertResult) -> str:
    where = "since cleaned up" if result.version is None else f"version {result.version}"
    return f"This was already done ({where}); nothing was changed."


def _missing_text(result: RestoreResult) -> str:
    missing = result.missing
    return f"{count_text(len(missing), 'file')} that {_verb(missing)} gone, such as {missing[0]}"


def _changes(plan: RestorePlan | RevertPlan) -> dict[str, Any]:
    return {
        "added_files": len(plan.adds),
        "added_bytes": sum(add.size for add in plan.adds),
        "removed_files": len(plan.removes),
        "removed_bytes": sum(add.size for add in plan.removes),
        "transactions": dict(plan.transactions),
    }


def _sentence(plan: RestorePlan | RevertPlan) -> str:
    figures = _changes(plan)
    return (
        f"{count_text(figures['added_files'], 'file')} ({size_text(figures['added_bytes'])}) back, "
        f"{count_text(figures['removed_files'], 'file')} ({size_text(figures['removed_bytes'])}) "
        "out" + "".join(f", {other}" for other in _others(plan)) + "."
    )


def _others(plan: RestorePlan | RevertPlan) -> Iterator[str]:
    if plan.transactions:
        yield f"{count_text(len(plan.transactions), 'txn')} set back"
    if isinstance(plan, RestorePlan) and plan.metadata is not None:
        yield "schema or properties changed"
    if isinstance(plan, RestorePlan) and plan.clustered_by is not None:
        yield "clustering changed"


def _show_repair(plan: RepairPlan) -> None:
    found = [
        *(("gone", add.path, add.size) for add in plan.missing),
        *(("deletion vector gone", add.path, add.size) for add in plan.missing_vectors),
        *(("cut off", add.path, add.size) for add in plan.truncated),
        *(("no statistics", add.path, add.size) for add in plan.without_statistics),
        *(("orphan", info.path, info.size) for info in plan.orphans),
    ]
    if found:
        show_rows(("found", "path", "size"), found)


def _left_sentence(plan: RepairPlan, failures: tuple[str, ...]) -> str:
    parts = []
    if plan.missing:
        parts.append(
            f"{count_text(len(plan.missing), 'file')} of the table {_verb(plan.missing)} gone, "
            f"the first of them {plan.missing[0].path}: restore from a backup, or remove with "
            "--remove-missing"
        )
    if plan.missing_vectors:
        parts.append(
            f"the deletion vectors of {count_text(len(plan.missing_vectors), 'file')} are "
            f"missing, the first of {plan.missing_vectors[0].path}: restore from a backup"
        )
    if plan.truncated:
        parts.append(
            f"{count_text(len(plan.truncated), 'file')} of the table {_verb(plan.truncated)} "
            f"shorter than the log says, first {plan.truncated[0].path}: restore from a backup"
        )
    return "; ".join([*parts, *failures[:1]])


def _verb(things: tuple[Any, ...]) -> str:
    return "is" if len(things) == 1 else "are"
