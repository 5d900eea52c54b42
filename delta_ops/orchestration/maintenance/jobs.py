"""Maintenance as Dagster jobs: one op that looks after a batch of tables.

A run costs seconds and a process, so that work on logs, which takes little, is done for many tables
in one run, and rewrites get a run for each table: see `build_log_maintenance_job` and
`maintenance_sensor`. A table that fails does not stop the rest, and the run fails at its end with
what failed. What was done is an observation of the table's asset, not a materialization: its rows
are the same.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

import dagster as dg

from delta_ops.errors import DeltaOpsError, TableNotFoundError
from delta_ops.events import CheckpointDamaged, CommitLost, Progress
from delta_ops.log import DeltaLog
from delta_ops.maintenance import MaintenanceResult, Operation, maintain
from delta_ops.maintenance.fleet.maintain import failure_of
from delta_ops.maintenance.operation import OperationEntry
from delta_ops.maintenance.registry import OPERATIONS
from delta_ops.orchestration.commits.reported_commits import run_user_metadata
from delta_ops.orchestration.maintenance.op_outputs import build_single_op_job, no_output, op_name
from delta_ops.orchestration.maintenance.report import (
    TableRun,
    maintenance_observation,
    raise_failures,
    run_summary,
)
from delta_ops.orchestration.maintenance.unfinished_runs import run_sentence, unfinished_runs
from delta_ops.orchestration.policies.choice import Due, PolicyTables, due_operations
from delta_ops.orchestration.policies.maintenance_config import (
    MAINTENANCE_OP,
    MaintenanceSettings,
    maintenance_config_class,
)
from delta_ops.orchestration.policies.policy import MaintenancePolicy
from delta_ops.orchestration.tables import TableRef
from delta_ops.orchestration.tags import JOB_TAG
from delta_ops.storage.concurrency import run_ahead

LOG_OPERATIONS: tuple[Operation, ...] = tuple(
    entry.name for entry in OPERATIONS if not entry.opens_data_files
)
"""Operations that open no data file."""


def build_maintenance_job(
    tables: Sequence[TableRef],
    *,
    name: str = "delta_maintenance",
    policy: MaintenancePolicy | None = None,
    others: Sequence[PolicyTables] = (),
) -> dg.JobDefinition:
    """A job that does what is due for these tables, or for those that its config names.

    Args:
        policy: What is due, and how it is done; the tables that it names do not count here. None:
            whatever there is to do is due.
        others: Other policies, and their tables. A table that names its policy by a property is
            looked after by the job of that one, if the config names no tables.
    """
    said = "Vacuum, rewrites, checkpoints and clean-up of the log, where they are due"
    return _build_job(tables, name, policy, others, OPERATIONS, "tables", said)


def build_log_maintenance_job(
    tables: Sequence[TableRef],
    *,
    name: str = "delta_log_maintenance",
    policy: MaintenancePolicy | None = None,
    others: Sequence[PolicyTables] = (),
) -> dg.JobDefinition:
    """A job that does what is due for the logs of many tables in one run: no data file is opened.

    Args:
        policy: As for `build_maintenance_job`.
        others: As for `build_maintenance_job`.
    """
    entries = [entry for entry in OPERATIONS if entry.name in LOG_OPERATIONS]
    said = "Vacuum, checkpoints and clean-up of the log, where they are due; rewrites nothing"
    return _build_job(tables, name, policy, others, entries, "logs", said)


def build_maintenance_schedule(
    job: dg.JobDefinition,
    *,
    cron_schedule: str = "0 3 * * *",
    timezone: str = "UTC",
    default_status: dg.DefaultScheduleStatus = dg.DefaultScheduleStatus.STOPPED,
) -> dg.ScheduleDefinition:
    """Runs the job for all its tables; the net below the sensor, which can be off."""
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=cron_schedule,
        execution_timezone=timezone,
        description=f"Runs {job.name} for all of its tables, whether or not the sensor is on.",
        default_status=default_status,
    )


def is_gone(instance: dg.DagsterInstance, table: TableRef) -> bool:
    """Whether a table that is not there was there once, by Dagster's events of it."""
    newest = (
        record.event_log_entry
        for fetch in (instance.fetch_materializations, instance.fetch_observations)
        for record in fetch(table.asset_key, limit=1).records
    )
    events = (entry.asset_materialization or entry.asset_observation for entry in newest)
    return any(event is not None and "delta/version" in event.metadata for event in events)


class _Decider:
    """Decides whether a table is the job's, and what is due for it."""

    def __init__(self, policy: MaintenancePolicy | None, others: Sequence[PolicyTables]) -> None:
        self.policy = policy
        self._all = [policy, *(other.policy for other in others)] if policy and others else []
        self.has_others = bool(others)
        self._homes = {table.name: other.policy for other in others for table in other.tables}

    def decide(self, table: TableRef, log: DeltaLog, *, is_named: bool) -> Due:
        """What is due for a table, and by which policy.

        Args:
            is_named: The run is for this very table, whatever policy it has.
        """
        if is_named:
            return due_operations(log, self.policy)
        home = self._homes.get(table.name, self.policy)
        return due_operations(log, home, name=table.name, others=self._all)


def _build_job(
    tables: Sequence[TableRef],
    name: str,
    policy: MaintenancePolicy | None,
    others: Sequence[PolicyTables],
    entries: Sequence[OperationEntry[Any]],
    kind: str,
    said: str,
) -> dg.JobDefinition:
    settings = policy or MaintenancePolicy()
    guests = [table for other in others for table in other.tables if other.may_leave(table)]
    by_name = {table.name: table for table in [*tables, *(guests if settings.name else ())]}
    decider = _Decider(policy, others)

    def maintain_tables(context: dg.OpExecutionContext, config: MaintenanceSettings) -> None:
        _validate_names(by_name, [*config.tables, *config.keep_versions])
        todo = [by_name[name] for name in config.tables or by_name]
        _tell_of_other_runs(context, todo, {name: by_name})
        look_after = partial(_maintain, context, config=config, decider=decider, entries=entries)
        runs, seen = [], 0
        for run in _look_after_each(look_after, todo, settings):
            seen += 1
            if run is not None:
                runs.append(_report(context, run, is_asked_for=bool(config.tables)))
        left = todo[seen:]
        context.add_output_metadata(run_summary(runs, left))
        if left:
            context.log.warning(
                f"{settings.budget_s} seconds are over; {len(left)} of {len(todo)} tables are left "
                f"to the next run, from {left[0].name} on"
            )
        raise_failures(runs)

    maintain_tables.__annotations__["config"] = maintenance_config_class(entries, settings.options)
    decorate = dg.op(
        name=op_name(name, MAINTENANCE_OP),
        description=f"{said}.",
        out=no_output(),
        pool=settings.pool,
    )
    return build_single_op_job(
        decorate(maintain_tables),
        name,
        step=MAINTENANCE_OP,
        description=f"{said}. Tables: {_names_text(tables, settings)}.",
        owners=settings.owners,
        tags={JOB_TAG: kind, **settings.tags},
    )


def _names_text(tables: Sequence[TableRef], policy: MaintenancePolicy) -> str:
    names = [table.name for table in tables] or [f"those that name the policy {policy.name}"]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"{', '.join(names[:10])}{more}"


def _validate_names(by_name: dict[str, TableRef], names: Sequence[str]) -> None:
    unknown = next((name for name in names if name not in by_name), None)
    if unknown is not None:
        raise dg.Failure(
            f"there is no table {unknown!r}; choose from {', '.join(by_name)}", allow_retries=False
        )


def _tell_of_other_runs(
    context: dg.OpExecutionContext, tables: Sequence[TableRef], by_job: dict[str, Any]
) -> None:
    """Tell which tables another run is at work on: both are right, and one of them in vain."""
    for name, record in unfinished_runs(context.instance, by_job, context.run.run_id).items():
        if record.dagster_run.status is dg.DagsterRunStatus.STARTED and name in {
            table.name for table in tables
        }:
            context.log.warning(
                f"{name} {run_sentence(record)} too. Nothing is lost by that: whoever commits "
                "second finds the work done, or does what is left of it"
            )


def _look_after_each(
    look_after: Callable[[TableRef], TableRun | None],
    tables: Sequence[TableRef],
    policy: MaintenancePolicy,
) -> Iterator[TableRun | None]:
    """What becomes of the tables, in their order, as far as there is time to begin with them."""
    ends = time.monotonic() + policy.budget_s
    begun = takewhile(lambda _: time.monotonic() < ends, tables)
    if policy.tables_at_once == 1:
        return map(look_after, begun)
    calls = ((1, partial(look_after, table)) for table in begun)
    return run_ahead(calls, len(tables), policy.tables_at_once)


def _maintain(
    context: dg.OpExecutionContext,
    table: TableRef,
    *,
    config: MaintenanceSettings,
    decider: _Decider,
    entries: Sequence[OperationEntry[Any]],
) -> TableRun | None:
    """Look after a table; what failed is a sentence, and None a table of another policy."""
    began = time.monotonic()
    try:
        result = _attempt(context, table, config, decider, entries)
    except TableNotFoundError as error:
        is_lost = is_gone(context.instance, table)
        return TableRun(table=table, failure=f"it is gone: {error}" if is_lost else None)
    except Exception as error:  # one table must not keep the others from maintenance
        return TableRun(table=table, failure=failure_of(error).message)
    if result is None:
        return None
    failure = None
    if result.error is not None:
        failure = failure_of(result.error).message
    elif result.failures:
        failure = f"could not delete or read all: {result.failures}"
    return TableRun(table=table, result=result, seconds=time.monotonic() - began, failure=failure)


def _attempt(
    context: dg.OpExecutionContext,
    table: TableRef,
    config: MaintenanceSettings,
    decider: _Decider,
    entries: Sequence[OperationEntry[Any]],
) -> MaintenanceResult | None:
    def on_event(event: object) -> None:
        if isinstance(event, Progress):
            context.log.info(f"{table.name}: {event.operation}: {event.count}")
        if isinstance(event, CommitLost | CheckpointDamaged):
            context.log.warning(f"{table.name}: {event.advice}")

    log = table.log()
    operations: Sequence[Operation] = config.chosen_operations()
    keep_versions = config.keep_versions.get(table.name, ())
    plan = None
    if not operations or (decider.has_others and not config.tables):
        due = decider.decide(table, log, is_named=bool(config.tables))
        if due.warning is not None:
            context.log.warning(f"{table.name}: {due.warning}")
        if due.policy is not decider.policy:
            return None
        if not keep_versions:  # which the decider does not know of
            plan = due.plan
        names = {entry.name for entry in entries}
        operations = operations or [each for each in due.operations if each in names]
    given = decider.policy.options if decider.policy is not None else {}
    options = {entry.name: dict(given.get(entry.name, {})) for entry in entries}
    for entry in entries:
        options[entry.name] |= config.options(entry)
    return maintain(
        log,
        operations=operations,
        plan=plan,
        dry_run=config.dry_run,
        options=options,
        keep_versions=keep_versions,
        raise_errors=False,
        user_metadata=run_user_metadata(context),
        on_event=on_event,
    )


def _report(context: dg.OpExecutionContext, run: TableRun, *, is_asked_for: bool) -> TableRun:
    """Tell Dagster what became of a table; of one that needed nothing only if it was asked for."""
    name = run.table.name
    if run.failure is not None:
        context.log.error(f"{name}: {run.failure}")
    elif run.result is None:
        context.log.info(f"{name} does not exist yet")
    if run.result is None:
        return run
    try:
        observation = maintenance_observation(run.table, run.result)
    except DeltaOpsError as error:
        context.log.error(f"{name} cannot be opened any more: {error}")
        return replace(run, failure=run.failure or str(error))
    if run.result.operations or is_asked_for:
        context.log_event(observation)
    context.log.info(f"{name}: {observation.description}")
    return run
