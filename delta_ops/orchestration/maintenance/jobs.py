"""Maintenance jobs: one op that maintains a batch of tables.

A run costs seconds and a process. So one run does the cheap work on the logs of many tables, and a
rewrite gets a run for each table: see `build_log_maintenance_job` and `maintenance_sensor`. A table
that fails does not stop the others, and the run fails at its end with all failures. The work is an
observation of the table's asset, not a materialization, because the rows are the same.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.errors import DeltaOpsError, TableNotFoundError
from delta_ops.events import CheckpointDamaged, CommitLost, Progress
from delta_ops.log import DeltaLog
from delta_ops.maintenance import MaintenanceResult, Operation, maintain
from delta_ops.maintenance.fleet.failures import failure_of
from delta_ops.maintenance.operation import OperationEntry
from delta_ops.maintenance.registry import OPERATIONS
from delta_ops.option_words import Surface, spoken_on
from delta_ops.orchestration.checks.check_ops import log_check_results
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
    ALL,
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
    """A job that runs the due operations for these tables, or for the tables in its config.

    Args:
        policy: Decides which operations are due, and their options. Its field `tables` is ignored
            here. None: any possible work is due.
        others: Other policies, and their tables. If the config names no tables, a table whose
            property names a policy is maintained by the job of that policy.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> job = build_maintenance_job([orders])
        >>> job.execute_in_process(run_config=maintenance_config([], dry_run=True)).success
        True
    """
    validate_arguments(build_maintenance_job, locals())
    description = "Due vacuums, rewrites, checkpoints and log cleanups"
    work = _Work(kind="tables", entries=OPERATIONS, description=description)
    return _build_job(_JobTables(tables, policy, others), name, work)


def build_log_maintenance_job(
    tables: Sequence[TableRef],
    *,
    name: str = "delta_log_maintenance",
    policy: MaintenancePolicy | None = None,
    others: Sequence[PolicyTables] = (),
) -> dg.JobDefinition:
    """A job that runs the due operations on the logs of many tables. It opens no data file.

    Args:
        policy: As for `build_maintenance_job`.
        others: As for `build_maintenance_job`.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> build_log_maintenance_job([orders]).execute_in_process().success
        True
    """
    validate_arguments(build_log_maintenance_job, locals())
    entries = [entry for entry in OPERATIONS if entry.name in LOG_OPERATIONS]
    description = "Due vacuums, checkpoints and log cleanups, without rewrites"
    work = _Work(kind="logs", entries=entries, description=description)
    return _build_job(_JobTables(tables, policy, others), name, work)


def is_gone(instance: dg.DagsterInstance, table: TableRef) -> bool:
    """Whether Dagster's events show that a missing table existed once."""
    newest = (
        record.event_log_entry
        for fetch in (instance.fetch_materializations, instance.fetch_observations)
        for record in fetch(table.asset_key, limit=1).records
    )
    events = (entry.asset_materialization or entry.asset_observation for entry in newest)
    return any(event is not None and "delta/version" in event.metadata for event in events)


class _Work(NamedTuple):
    """The work of a job."""

    kind: str
    """Tag of the job."""
    entries: Sequence[OperationEntry[Any]]
    description: str


class _JobTables:
    """The tables of a job, and the policies that decide what is due for them.

    Args:
        policy: Policy of the job; None if any possible work is due.
        others: Other policies, and their tables, which may name the policy of the job.
    """

    def __init__(
        self,
        tables: Sequence[TableRef],
        policy: MaintenancePolicy | None,
        others: Sequence[PolicyTables],
    ) -> None:
        self.policy, self._tables = policy, tables
        self.settings = policy or MaintenancePolicy()
        self.has_others = bool(others)
        self._all = [policy, *(other.policy for other in others)] if policy and others else []
        self._homes = {table.name: other.policy for other in others for table in other.tables}
        guests = [table for other in others for table in other.tables if other.may_leave(table)]
        known = [*tables, *(guests if self.settings.name else ())]
        self.by_name = {table.name: table for table in known}

    @property
    def text(self) -> str:
        """The names of the first ten tables, and how many more there are."""
        names = [table.name for table in self._tables]
        names = names or [f"tables that name the policy {self.settings.name}"]
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        return f"{', '.join(names[:10])}{more}"

    def chosen_tables(self, config: MaintenanceSettings) -> list[TableRef]:
        """The tables of a run, each once.

        Raises:
            Failure: The config names an unknown table.
        """
        named = [name for name in config.tables if name != ALL]
        for name in (*named, *(config.keep_versions or ())):
            if name not in self.by_name:
                raise dg.Failure(
                    f"there is no table {name!r}; choose from {', '.join(self.by_name)}",
                    allow_retries=False,
                )
        names = dict.fromkeys(named) if config.names_tables else self.by_name
        return [self.by_name[name] for name in names]

    def due_work(self, table: TableRef, log: DeltaLog, *, is_named: bool) -> Due:
        """Find the due operations of a table, and the policy that decides.

        Args:
            is_named: Whether the config names the table; then the policy of the job decides.
        """
        if is_named:
            return due_operations(log, self.policy)
        home = self._homes.get(table.name, self.policy)
        return due_operations(log, home, name=table.name, others=self._all)


def _build_job(tables: _JobTables, name: str, work: _Work) -> dg.JobDefinition:
    settings = tables.settings

    def maintain_tables(context: dg.OpExecutionContext, config: MaintenanceSettings) -> None:
        _Run(context, config, tables, work).execute()

    maintain_tables.__annotations__["config"] = maintenance_config_class(
        work.entries, settings.options
    )
    decorate = dg.op(
        name=op_name(name, MAINTENANCE_OP),
        description=f"{work.description}.",
        out=no_output(),
        pool=settings.pool,
    )
    return build_single_op_job(
        decorate(maintain_tables),
        name,
        step=MAINTENANCE_OP,
        description=f"{work.description}. Tables: {tables.text}.",
        owners=settings.owners,
        tags={JOB_TAG: work.kind, **settings.tags},
    )


class _Run:
    """One run of a job: maintains its tables, and reports each of them to Dagster."""

    def __init__(
        self,
        context: dg.OpExecutionContext,
        config: MaintenanceSettings,
        tables: _JobTables,
        work: _Work,
    ) -> None:
        self._context, self._config, self._tables = context, config, tables
        self._entries = work.entries
        self._todo = tables.chosen_tables(config)

    @spoken_on(Surface.RUN_CONFIG)
    def execute(self) -> None:
        """Maintain the tables in their order, as long as the budget lasts.

        Raises:
            Failure: A table failed.
        """
        self._warn_of_other_runs()
        runs, num_begun = [], 0
        for run in self._table_runs():
            num_begun += 1
            if run is not None:
                runs.append(self._report(run))
        left = self._todo[num_begun:]
        self._context.add_output_metadata(run_summary(runs, left))
        if left:
            self._context.log.warning(
                f"{self._tables.settings.budget_s} seconds are over; {len(left)} of "
                f"{len(self._todo)} tables remain for the next run, from {left[0].name} on"
            )
        raise_failures(runs)

    def _warn_of_other_runs(self) -> None:
        """Warn of tables that another run maintains too: safe, but one run does useless work."""
        names = {table.name for table in self._todo}
        by_job = {self._context.job_name: self._tables.by_name}
        found = unfinished_runs(self._context.instance, by_job, self._context.run.run_id)
        for name, record in found.items():
            if record.dagster_run.status is dg.DagsterRunStatus.STARTED and name in names:
                self._context.log.warning(
                    f"{name} {run_sentence(record)} too. This is safe: the run that commits "
                    "second finds the work done, or does the rest"
                )

    def _table_runs(self) -> Iterator[TableRun | None]:
        """Maintain the tables in order, and yield the results; begins no table after the budget."""
        settings = self._tables.settings
        ends = time.monotonic() + settings.budget_s
        begun = takewhile(lambda _: time.monotonic() < ends, self._todo)
        if settings.tables_at_once == 1:
            return map(self._maintain, begun)
        calls = ((1, partial(self._maintain, table)) for table in begun)
        return run_ahead(calls, len(self._todo), settings.tables_at_once)

    def _maintain(self, table: TableRef) -> TableRun | None:
        """Maintain a table; None if another policy has it. Errors become a failure sentence."""
        began = time.monotonic()
        try:
            result = self._attempt(table)
        except TableNotFoundError as error:
            is_lost = is_gone(self._context.instance, table)
            return TableRun(table=table, failure=f"it is gone: {error}" if is_lost else None)
        except Exception as error:  # one table must not stop the maintenance of the others
            return TableRun(table=table, failure=failure_of(error).message)
        if result is None:
            return None
        failure = None
        if result.error is not None:
            failure = failure_of(result.error).message
        elif result.failures:
            failure = f"could not delete or read all: {result.failures}"
        seconds = time.monotonic() - began
        return TableRun(table=table, result=result, seconds=seconds, failure=failure)

    def _attempt(self, table: TableRef) -> MaintenanceResult | None:
        config, log = self._config, table.log()
        operations: Sequence[Operation] = config.chosen_operations()
        keep_versions = (config.keep_versions or {}).get(table.name, ())
        plan = None
        if config.runs_due or (self._tables.has_others and not config.names_tables):
            due = self._tables.due_work(table, log, is_named=config.names_tables)
            if due.warning is not None:
                self._context.log.warning(f"{table.name}: {due.warning}")
            if due.policy is not self._tables.policy:
                return None
            if not keep_versions:  # the plan was made without them
                plan = due.plan
            if config.runs_due:
                wanted = {*operations, *due.operations}
                operations = [entry.name for entry in self._entries if entry.name in wanted]
        return maintain(
            log,
            operations=operations,
            plan=plan,
            dry_run=config.dry_run,
            options=self._options(),
            keep_versions=keep_versions,
            raise_errors=False,
            user_metadata=run_user_metadata(self._context),
            on_event=partial(self._log_event, table.name),
        )

    def _options(self) -> dict[Operation, dict[str, Any]]:
        """The options of the operations; the config overrides the policy."""
        policy, config = self._tables.policy, self._config
        of_policy = policy.options if policy is not None else {}
        return {
            entry.name: {**of_policy.get(entry.name, {}), **config.options(entry)}
            for entry in self._entries
        }

    def _log_event(self, name: str, event: object) -> None:
        if isinstance(event, Progress):
            self._context.log.info(f"{name}: {event.operation}: {event.count}")
        if isinstance(event, CommitLost | CheckpointDamaged):
            self._context.log.warning(f"{name}: {event.advice}")

    def _report(self, run: TableRun) -> TableRun:
        """Report a table to Dagster; a table without work only if the config names it."""
        context, name = self._context, run.table.name
        if run.failure is not None:
            context.log.error(f"{name}: {run.failure}")
        elif run.result is None:
            context.log.info(f"{name} does not exist yet")
        if run.result is None:
            return run
        try:
            observation = maintenance_observation(run.table, run.result)
        except DeltaOpsError as error:
            context.log.error(f"{name} can no longer be opened: {error}")
            return replace(run, failure=run.failure or str(error))
        if run.result.operations or self._config.names_tables:
            context.log_event(observation)
            if not run.result.dry_run:
                log_check_results(context, run.table.asset_key)
        context.log.info(f"{name}: {observation.description}")
        return run
