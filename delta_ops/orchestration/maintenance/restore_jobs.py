"""Restore jobs: restore, revert and repair as Dagster jobs, each for one table of its config.

A retry or re-execution of a failed run is the same request, which is carried out once. A change of
rows is a materialization with the new data version, also if a rerun finds the change done. A repair
of statistics, a dry run, and a run without work are observations. A repair that leaves work to a
person fails.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import dagster as dg
from pydantic import Field

from delta_ops.arguments import validate_arguments
from delta_ops.errors import DeltaOpsError
from delta_ops.log import Snapshot
from delta_ops.log.commit_file import read_commit_if_there
from delta_ops.maintenance import (
    RepairPlan,
    RepairResult,
    RestorePlan,
    RestoreResult,
    RevertResult,
    repair,
    restore,
    revert,
)
from delta_ops.maintenance.work_text import sentence
from delta_ops.option_words import Surface, speaking
from delta_ops.orchestration.changed_values import changed_files
from delta_ops.orchestration.checks.check_ops import log_check_results
from delta_ops.orchestration.commits.changed_partitions import find_changed_partitions, layout_of
from delta_ops.orchestration.commits.reported_commits import run_user_metadata
from delta_ops.orchestration.commits.table_events import TableEvents
from delta_ops.orchestration.dagster_compat import repository_of
from delta_ops.orchestration.io_manager.reruns import origin_id
from delta_ops.orchestration.maintenance.op_outputs import build_single_op_job, no_output, op_name
from delta_ops.orchestration.metadata import data_version, table_metadata
from delta_ops.orchestration.policies.policy import MaintenancePolicy
from delta_ops.orchestration.run_config import StrictConfig
from delta_ops.orchestration.table_versions import rows_changed
from delta_ops.orchestration.tables import TableRef
from delta_ops.orchestration.tags import JOB_TAG
from delta_ops.units import count_text

RESTORE_OP, REVERT_OP, REPAIR_OP = "restore_table", "revert_commit", "repair_table"
_SHOWN = 100
"""Maximum number of file names in an event, because Dagster stores events forever."""
Result = RestoreResult | RevertResult | RepairResult


class _BringBackConfig(StrictConfig):
    """Common config of the restore job and the revert job."""

    timeout_s: float = Field(
        default=0.0,
        ge=0,
        le=604_800,
        description="Seconds to retry if other writers commit first, at most a week; 0: no retry.",
    )
    vacuum_was_killed: bool = Field(
        default=False,
        description="Set true if a vacuum started and was killed: it deletes nothing more.",
    )
    dry_run: bool = Field(
        default=True, description="Only report what would be done. Set false to do it."
    )


class RestoreConfig(_BringBackConfig):
    """Config of the restore job.

    Examples:
        >>> config = RestoreConfig(table="orders", version=3)  # plans only
        >>> config = RestoreConfig(table="orders", timestamp="2026-01-31", dry_run=False)
    """

    table: str = Field(description="Asset key of the table, such as sales/orders.")
    version: int | None = Field(
        default=None, description="Version to restore; or give a timestamp."
    )
    timestamp: str | None = Field(
        default=None, description="Restore the version at this time, such as 2026-01-31T00:00:00Z."
    )
    ignore_missing_files: bool = Field(
        default=False, description="Restore even if data files are missing, without their rows."
    )


class RevertConfig(_BringBackConfig):
    """Config of the revert job.

    Examples:
        >>> config = RevertConfig(table="orders", version=3, dry_run=False)
    """

    table: str = Field(description="Asset key of the table, such as sales/orders.")
    version: int = Field(description="Version of the commit to undo.")


class RepairConfig(StrictConfig):
    """Config of the repair job.

    Examples:
        >>> config = RepairConfig(table="orders", remove_missing=True, dry_run=False)
    """

    table: str = Field(description="Asset key of the table, such as sales/orders.")
    remove_missing: bool = Field(
        default=False, description="Remove missing files from the table, with their rows."
    )
    fill_statistics: bool = Field(
        default=True, description="Add missing statistics, from the footers of the data files."
    )
    dry_run: bool = Field(
        default=True, description="Only report what would be done. Set false to do it."
    )


def build_restore_job(
    tables: Sequence[TableRef],
    *,
    name: str = "delta_restore",
    policy: MaintenancePolicy | None = None,
) -> dg.JobDefinition:
    """A job that restores one of these tables to an earlier state.

    Args:
        policy: Has the owners, tags and pool of the job.

    Examples:
        >>> _ = da.delete("lake/orders")
        >>> job = build_restore_job([TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")])
        >>> config = RestoreConfig(table="orders", version=0, dry_run=False)
        >>> job.execute_in_process(run_config=dg.RunConfig(ops={"restore_table": config})).success
        True
        >>> da.count_rows("lake/orders")
        3
    """
    validate_arguments(build_restore_job, locals())
    settings = policy or MaintenancePolicy()

    @dg.op(name=op_name(name, RESTORE_OP), out=no_output(), pool=settings.pool)
    def restore_table(context: dg.OpExecutionContext, config: RestoreConfig) -> None:
        table = _find_table(tables, config.table)
        with _translating_errors():
            result = restore(
                table.log(),
                version=config.version,
                timestamp=config.timestamp,
                ignore_missing_files=config.ignore_missing_files,
                timeout=timedelta(seconds=config.timeout_s),
                vacuum_was_killed=config.vacuum_was_killed,
                request_id=f"dagster:{origin_id(context.instance, context.run)}",
                user_metadata=run_user_metadata(context),
                dry_run=config.dry_run,
            )
        _report(context, table, result, _restore_metadata(result))

    description = "Restores a table to a version or a time."
    return _build_job(restore_table, name, RESTORE_OP, "restore", description, settings)


def build_revert_job(
    tables: Sequence[TableRef],
    *,
    name: str = "delta_revert",
    policy: MaintenancePolicy | None = None,
) -> dg.JobDefinition:
    """A job that undoes one commit of one of these tables.

    Args:
        policy: As for `build_restore_job`.

    Examples:
        >>> _ = da.delete("lake/orders")
        >>> job = build_revert_job([TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")])
        >>> config = RevertConfig(table="orders", version=1, dry_run=False)
        >>> job.execute_in_process(run_config=dg.RunConfig(ops={"revert_commit": config})).success
        True
    """
    validate_arguments(build_revert_job, locals())
    settings = policy or MaintenancePolicy()

    @dg.op(name=op_name(name, REVERT_OP), out=no_output(), pool=settings.pool)
    def revert_commit(context: dg.OpExecutionContext, config: RevertConfig) -> None:
        table = _find_table(tables, config.table)
        with _translating_errors():
            result = revert(
                table.log(),
                config.version,
                timeout=timedelta(seconds=config.timeout_s),
                vacuum_was_killed=config.vacuum_was_killed,
                user_metadata=run_user_metadata(context),
                dry_run=config.dry_run,
            )
        _report(context, table, result, _restore_metadata(result))

    description = "Undoes one commit of a table, if later commits did not change its files."
    return _build_job(revert_commit, name, REVERT_OP, "revert", description, settings)


def build_repair_job(
    tables: Sequence[TableRef],
    *,
    name: str = "delta_repair",
    policy: MaintenancePolicy | None = None,
) -> dg.JobDefinition:
    """A job that compares one of these tables with its files, and repairs it.

    Args:
        policy: As for `build_restore_job`.

    Examples:
        >>> job = build_repair_job([TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")])
        >>> config = RepairConfig(table="orders")  # dry_run is True by default
        >>> job.execute_in_process(run_config=dg.RunConfig(ops={"repair_table": config})).success
        True
    """
    validate_arguments(build_repair_job, locals())
    settings = policy or MaintenancePolicy()

    @dg.op(name=op_name(name, REPAIR_OP), out=no_output(), pool=settings.pool)
    def repair_table(context: dg.OpExecutionContext, config: RepairConfig) -> None:
        table = _find_table(tables, config.table)
        with _translating_errors():
            result = repair(
                table.log(),
                remove_missing=config.remove_missing,
                fill_statistics=config.fill_statistics,
                request_id=f"dagster:{origin_id(context.instance, context.run)}",
                user_metadata=run_user_metadata(context),
                dry_run=config.dry_run,
            )
        _report(context, table, result, _repair_metadata(result))
        left = (*result.left, *result.failures)
        if left and not (result.dry_run or result.already_committed):
            raise dg.Failure("; ".join(left), allow_retries=False)

    description = "Compares a table with its files, and makes the repairs that lose nothing."
    return _build_job(repair_table, name, REPAIR_OP, "repair", description, settings)


def _build_job(
    op: dg.OpDefinition,
    name: str,
    step: str,
    kind: str,
    description: str,
    settings: MaintenancePolicy,
) -> dg.JobDefinition:
    return build_single_op_job(
        op,
        name,
        step=step,
        description=f"{description} Only plans, unless its config says `dry_run: false`.",
        owners=settings.owners,
        tags={JOB_TAG: kind, **settings.tags},
    )


def _find_table(tables: Sequence[TableRef], name: str) -> TableRef:
    """The table with this name.

    Raises:
        Failure: There is no such table.
    """
    by_name = {table.name: table for table in tables}
    if name not in by_name:
        raise dg.Failure(
            f"there is no table {name!r}; choose from {', '.join(by_name)}", allow_retries=False
        )
    return by_name[name]


@contextmanager
def _translating_errors() -> Iterator[None]:
    """Raise errors of delta_ops as failures of the op."""
    try:
        with speaking(Surface.RUN_CONFIG):
            yield
    except DeltaOpsError as error:
        raise dg.Failure(str(error)) from error


def _report(
    context: dg.OpExecutionContext, table: TableRef, result: Result, figures: Mapping[str, Any]
) -> None:
    """Log the event of the asset, and of each partition that changed."""
    snapshot = table.log().snapshot()
    # Report an earlier commit again, because its run may have been killed before its event.
    versions = (result.version, _earlier_version(result))
    changes = [v for v in versions if v is not None and rows_changed(table.log(), v, v)]
    is_change = bool(changes)
    for version in changes:
        _materialize_partitions(context, table, snapshot, version, _description(result))
    event = dg.AssetMaterialization if is_change else dg.AssetObservation
    context.log_event(
        event(
            asset_key=table.asset_key,
            description=_description(result),
            metadata={
                **table_metadata(snapshot, table.name),
                "delta/rows_changed": is_change,
                **({"delta/dry_run": True} if result.dry_run else {}),
                **{
                    f"delta/{key}": value
                    for key, value in figures.items()
                    if _is_informative(value)
                },
            },
            tags={"dagster/data_version": data_version(snapshot)} if is_change else {},
        )
    )
    if not result.dry_run:
        log_check_results(context, table.asset_key, of_maintenance=not is_change)


def _is_informative(value: object) -> bool:
    """Whether to show a figure: each number, also 0; any other value unless it is empty."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number or bool(value)


def _materialize_partitions(
    context: dg.OpExecutionContext, table: TableRef, snapshot: Snapshot, version: int, what: str
) -> None:
    """Log a materialization of each partition that a commit changed.

    Assets that depend on single partitions thus see the new data version.
    """
    layout = layout_of(table, repository_of(context))
    log = table.log()
    commit = read_commit_if_there(log.storage, log.log_directory, version)
    if layout is None or commit is None:
        return
    changed = find_changed_partitions(changed_files(commit), snapshot, layout, context.instance)
    events = TableEvents(table.asset_key, snapshot, layout).partition_events(
        changed, (), version, data_version(snapshot), what, {}
    )
    for event in events:
        context.log_event(event)


def _earlier_version(result: Result) -> int | None:
    return result.earlier_version if isinstance(result, RepairResult) else None


def _description(result: Result) -> str:
    return sentence([_outcome(result)])


def _outcome(result: Result) -> str:
    if result.already_committed:
        return "done before; nothing was changed"
    if (
        result.version is not None
        and isinstance(result, RestoreResult)
        and not result.plan.has_work
    ):
        return f"nothing to do; version {result.version} records the request"
    if result.version is not None:
        missing = result.missing if isinstance(result, RestoreResult) else ()
        lost = f", without the rows of {count_text(len(missing), 'file')} that are gone"
        return f"committed as version {result.version}{lost if missing else ''}"
    if (earlier := _earlier_version(result)) is not None:
        return f"done before, as version {earlier}; nothing was changed"
    faults = _faults(result.plan) if isinstance(result, RepairResult) else ""
    if result.dry_run and result.plan.has_work:
        return f"dry run: {faults or _planned_change(result)}"
    return f"nothing was changed: {faults}" if faults else "nothing to do"


def _planned_change(result: Result) -> str:
    plan = result.plan
    if isinstance(plan, RepairPlan):
        return "would repair the table"
    verb = "restore" if isinstance(plan, RestorePlan) else "revert"
    added, removed = count_text(len(plan.adds), "file"), count_text(len(plan.removes), "file")
    return f"would {verb} version {plan.version}: adds {added} and removes {removed}"


def _faults(plan: RepairPlan) -> str:
    """The faults that a comparison with the files has found."""
    found = {
        "gone": len(plan.missing) + len(plan.missing_vectors),
        "cut off": len(plan.truncated),
        "without statistics": len(plan.without_statistics),
        "unknown to the log": len(plan.orphans),
    }
    return ", ".join(f"{count_text(n, 'file')} {what}" for what, n in found.items() if n)


def _restore_metadata(result: RestoreResult | RevertResult) -> dict[str, Any]:
    plan = result.plan
    is_restore = isinstance(plan, RestorePlan)
    return {
        "planned_on": plan.latest_version,
        "restored_version" if is_restore else "reverted_version": plan.version,
        "added_files": len(plan.adds),
        "added_bytes": sum(add.size for add in plan.adds),
        "removed_files": len(plan.removes),
        "removed_bytes": sum(add.size for add in plan.removes),
        "transactions": dict(plan.transactions),
        "already_committed": result.already_committed,
        "missing": list(result.missing) if isinstance(result, RestoreResult) else [],
    }


def _repair_metadata(result: RepairResult) -> dict[str, Any]:
    plan = result.plan
    return {
        "planned_on": plan.version,
        "missing": len(plan.missing),
        "missing_deletion_vectors": len(plan.missing_vectors),
        "truncated": len(plan.truncated),
        "without_statistics": len(plan.without_statistics),
        "orphans": len(plan.orphans),
        "missing_files": [add.path for add in plan.missing[:_SHOWN]],
        "orphan_files": [info.path for info in plan.orphans[:_SHOWN]],
        "described_files": result.described_files,
        "removed_files": result.removed_files,
        "already_committed": result.already_committed,
        "earlier_version": result.earlier_version,
        "failures": list(result.failures),
        "left": list(result.left),
    }
