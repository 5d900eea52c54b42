"""Maintenance as a Dagster job: one op that looks after a batch of tables.

One run for a batch, since a run costs seconds; a table that fails does not stop the rest, and the
run fails at its end with what failed. What was done is an observation of the table's asset, not a
materialization: its rows are the same.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from delta_ops.clock import HOUR_MS
from delta_ops.errors import DeltaOpsError, TableNotFoundError
from delta_ops.events import CommitLost, Progress
from delta_ops.maintenance import (
    MaintenancePlan,
    MaintenanceResult,
    Operation,
    maintain,
    vacuum,
)
from delta_ops.orchestration.metadata import table_metadata
from delta_ops.orchestration.tables import TableRef

MAINTENANCE_OP = "maintain_tables"


class OperationName(Enum):
    """An operation, as the launchpad offers it."""

    vacuum = "vacuum"
    optimize = "optimize"
    repair = "repair"
    checkpoint = "checkpoint"
    clean_up_log = "clean_up_log"
    compact_log = "compact_log"


class VacuumModeName(Enum):
    """Where a vacuum looks: at the store, or at the log."""

    full = "full"
    lite = "lite"


class MaintenanceConfig(dg.Config):
    """What a run of the maintenance job does."""

    tables: list[str] = Field(default=[], description="Asset keys, as a/b; all of them if empty.")
    operations: list[OperationName] = Field(
        default=[], description="Run these, due or not; if empty, those that are due."
    )
    keep_versions: dict[str, list[int]] = Field(
        default={},
        description="Versions that log clean-up keeps readable, however old, by asset key as a/b.",
    )
    dry_run: bool = Field(default=False, description="Say what would be done, and do nothing.")
    vacuum_mode: VacuumModeName = Field(
        default=VacuumModeName.full,
        description="full lists the table; lite deletes only what the log says was removed.",
    )
    vacuum_keep_last: int = Field(
        default=0, ge=0, description="Versions that vacuum keeps readable, however old they are."
    )
    vacuum_log_commits: bool | None = Field(
        default=None,
        description="Commit VACUUM START and END; as delta_ops.vacuum.logging says if not given.",
    )


def build_maintenance_job(
    tables: Sequence[TableRef], *, name: str = "delta_maintenance"
) -> dg.JobDefinition:
    """A job that maintains these tables, or those that its config names."""
    by_name = {table.name: table for table in tables}

    @dg.op(name=MAINTENANCE_OP)
    def maintain_tables(context: dg.OpExecutionContext, config: MaintenanceConfig) -> None:
        unknown = [n for n in (*config.tables, *config.keep_versions) if n not in by_name]
        if unknown:
            raise dg.Failure(
                f"there is no table {unknown[0]!r}; choose from {', '.join(by_name)}",
                allow_retries=False,
            )
        failed = {}
        for table in [by_name[name] for name in config.tables or by_name]:
            why = _maintain(context, table, config)
            if why is not None:
                failed[table.name] = why
        if failed:
            raise dg.Failure(
                f"{len(failed)} of the tables could not be maintained: {', '.join(failed)}",
                metadata=failed,
                allow_retries=False,
            )

    @dg.job(name=name, executor_def=dg.in_process_executor)
    def maintenance() -> None:
        maintain_tables()

    return maintenance


def build_maintenance_schedule(
    job: dg.JobDefinition, *, cron_schedule: str = "0 3 * * *"
) -> dg.ScheduleDefinition:
    """Runs the job for all its tables; the net below the sensor, which can be off."""
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule", job=job, cron_schedule=cron_schedule, execution_timezone="UTC"
    )


def maintenance_run(table: TableRef, plan: MaintenancePlan, *, now_ms: int) -> dg.RunRequest:
    """A run for one table; what a failed one has left undone is asked for again an hour later."""
    return dg.RunRequest(
        run_key=f"{table.name}@{plan.version}:{'+'.join(plan.operations)}:{now_ms // HOUR_MS}",
        run_config=maintenance_config([table.name]),
        tags={"delta_ops/table": table.name, "dagster/priority": "-5"},
    )


def maintenance_config(tables: Sequence[str], **settings: Any) -> dict[str, Any]:
    """Run config of the maintenance job."""
    return {"ops": {MAINTENANCE_OP: {"config": {"tables": list(tables), **settings}}}}


def _maintain(
    context: dg.OpExecutionContext, table: TableRef, config: MaintenanceConfig
) -> str | None:
    """Look after a table and tell what was done; why it failed, if it did."""
    try:
        result = _attempt(context, table, config)
        observation = _observation(table, result)
    except TableNotFoundError:
        context.log.info(f"{table.name} does not exist yet")
        return None
    except DeltaOpsError as error:
        context.log.error(f"{table.name}: {error}")
        return str(error)
    context.log_event(observation)
    context.log.info(f"{table.name}: {observation.description}")
    if result.error is not None:
        return str(result.error)
    return f"could not delete or read all: {result.failures}" if result.failures else None


def _attempt(
    context: dg.OpExecutionContext, table: TableRef, config: MaintenanceConfig
) -> MaintenanceResult:
    operations: list[Operation] = [operation.value for operation in config.operations]

    def on_event(event: object) -> None:
        if isinstance(event, Progress):
            context.log.info(f"{table.name}: {event.operation}: {event.done} of {event.total}")
        if isinstance(event, CommitLost):
            context.log.warning(f"{table.name}: {event.advice}")

    return maintain(
        table.log(),
        operations=operations or None,
        dry_run=config.dry_run,
        vacuum_with=partial(
            vacuum,
            mode=config.vacuum_mode.value,
            keep_last=config.vacuum_keep_last,
            log_commits=config.vacuum_log_commits,
        ),
        keep_versions=config.keep_versions.get(table.name, ()),
        raise_errors=False,
        on_event=on_event,
    )


def _observation(table: TableRef, result: MaintenanceResult) -> dg.AssetObservation:
    return dg.AssetObservation(
        asset_key=table.asset_key,
        description=_sentence(result),
        metadata={**table_metadata(table.log().snapshot()), **_figures(result)},
    )


def _figures(result: MaintenanceResult) -> Mapping[str, Any]:
    return {
        "delta/due": ", ".join(result.plan.operations) or "nothing was due",
        "delta/dry_run": result.dry_run,
        "delta/small_files": result.plan.small_files,
        "delta/expired_tombstones": result.plan.expired_tombstones,
        **{f"delta/{name}": value for name, value in result.planned.items()},
        **{f"delta/{name}": value for name, value in result.figures.items()},
        **{f"delta/{name}_saved": value for name, value in result.saved.items()},
        "delta/left": list(result.left),
    }


def _sentence(result: MaintenanceResult) -> str:
    figures = result.planned if result.dry_run else result.figures
    done = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in figures.items() if n)
    if result.error is not None:
        return "; ".join(filter(None, [done, f"failed: {result.error}"]))
    if not result.results:
        return "nothing was due"
    if result.left:
        done = "; ".join(filter(None, [done, f"left to a person: {'; '.join(result.left)}"]))
    return f"{'dry run: ' if result.dry_run else ''}{done or 'nothing was left to do'}"
