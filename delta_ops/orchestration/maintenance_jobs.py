"""Maintenance as a Dagster job: one op that looks after a batch of tables.

One run for a batch, since a run costs seconds; a table that fails does not stop the rest, and the
run fails at its end with what failed. What was done is an observation of the table's asset, not a
materialization: its rows are the same.
"""

from collections.abc import Sequence
from enum import Enum
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, create_model

from delta_ops.clock import HOUR_MS
from delta_ops.errors import TableNotFoundError
from delta_ops.events import CommitLost, Progress
from delta_ops.maintenance import MaintenancePlan, MaintenanceResult, Operation, maintain
from delta_ops.maintenance.fleet import failure_of
from delta_ops.maintenance.operation import OperationEntry, Option
from delta_ops.maintenance.operations import OPERATIONS
from delta_ops.orchestration.handover import build_single_op_job, no_output
from delta_ops.orchestration.maintenance_report import maintenance_observation
from delta_ops.orchestration.tables import TableRef

MAINTENANCE_OP = "maintain_tables"


class MaintenanceSettings(dg.Config):
    """What a run of the maintenance job does, whichever operations there are."""

    tables: list[str] = Field(default=[], description="Asset keys, as a/b; all of them if empty.")
    operations: list[Any] = Field(
        default=[], description="Run these, due or not; if empty, those that are due."
    )
    keep_versions: dict[str, list[int]] = Field(
        default={},
        description="Versions that log clean-up keeps readable, however old, by asset key as a/b.",
    )
    dry_run: bool = Field(default=False, description="Say what would be done, and do nothing.")

    def chosen_operations(self) -> list[Operation]:
        """The operations to run, due or not; none: those that are due."""
        return [operation.value for operation in self.operations]

    def options(self, entry: OperationEntry[Any]) -> dict[str, Any]:
        """The options of an operation, by the names of its arguments."""
        values = {each.name: getattr(self, _field(entry, each)) for each in entry.options}
        return {n: v.value if isinstance(v, Enum) else v for n, v in values.items()}


def maintenance_config_class(
    entries: Sequence[OperationEntry[Any]],
) -> type[MaintenanceSettings]:
    """The config of a job that runs these operations; their options are fields of it."""
    names = _enum("OperationName", [entry.name for entry in entries])
    chosen = MaintenanceSettings.model_fields["operations"]
    fields: dict[str, Any] = {"operations": (GenericAlias(list, (names,)), chosen)}
    for entry in entries:
        for option in entry.options:
            name = _field(entry, option)
            kind, default = option.kind, option.default
            if option.choices:
                kind = _enum(f"{name.title().replace('_', '')}Name", option.choices)
                default = kind(default)
            fields[name] = (
                kind,
                Field(default=default, ge=option.at_least, description=option.description),
            )
    said = "What a run of the maintenance job does."
    return create_model("MaintenanceConfig", __base__=MaintenanceSettings, __doc__=said, **fields)


def _enum(name: str, values: Sequence[str]) -> Any:
    make: Any = Enum  # whose values mypy wants to read in the call
    return make(name, {value: value for value in values})


def _field(entry: OperationEntry[Any], option: Option) -> str:
    return f"{entry.name}_{option.name}"


if TYPE_CHECKING:
    MaintenanceConfig = MaintenanceSettings
else:
    MaintenanceConfig = maintenance_config_class(OPERATIONS)


def build_maintenance_job(
    tables: Sequence[TableRef], *, name: str = "delta_maintenance"
) -> dg.JobDefinition:
    """A job that maintains these tables, or those that its config names."""
    by_name = {table.name: table for table in tables}

    @dg.op(name=MAINTENANCE_OP, out=no_output())
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

    return build_single_op_job(maintain_tables, name)


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


def is_gone(instance: dg.DagsterInstance, table: TableRef) -> bool:
    """Whether a table that is not there was there once, by Dagster's events of it."""
    newest = (
        record.event_log_entry
        for fetch in (instance.fetch_materializations, instance.fetch_observations)
        for record in fetch(table.asset_key, limit=1).records
    )
    events = (entry.asset_materialization or entry.asset_observation for entry in newest)
    return any(event is not None and "delta/version" in event.metadata for event in events)


def _maintain(
    context: dg.OpExecutionContext, table: TableRef, config: MaintenanceConfig
) -> str | None:
    """Look after a table and tell what was done; why it failed, if it did."""
    try:
        result = _attempt(context, table, config)
        observation = maintenance_observation(table, result)
    except TableNotFoundError as error:
        if is_gone(context.instance, table):
            context.log.error(f"{table.name} is gone: {error}")
            return f"it is gone: {error}"
        context.log.info(f"{table.name} does not exist yet")
        return None
    except Exception as error:  # one table must not keep the others from maintenance
        message = failure_of(error).message
        context.log.error(f"{table.name}: {message}")
        return message
    context.log_event(observation)
    context.log.info(f"{table.name}: {observation.description}")
    if result.error is not None:
        return failure_of(result.error).message
    return f"could not delete or read all: {result.failures}" if result.failures else None


def _attempt(
    context: dg.OpExecutionContext, table: TableRef, config: MaintenanceConfig
) -> MaintenanceResult:
    def on_event(event: object) -> None:
        if isinstance(event, Progress):
            context.log.info(f"{table.name}: {event.operation}: {event.done} of {event.total}")
        if isinstance(event, CommitLost):
            context.log.warning(f"{table.name}: {event.advice}")

    return maintain(
        table.log(),
        operations=config.chosen_operations() or None,
        dry_run=config.dry_run,
        options={entry.name: config.options(entry) for entry in OPERATIONS if entry.options},
        keep_versions=config.keep_versions.get(table.name, ()),
        raise_errors=False,
        on_event=on_event,
    )
