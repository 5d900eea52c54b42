"""Fleets as a Dagster job: find tables, and look after them in batches.

Three ops. The first one finds the tables and cuts them into batches, the second does for a batch
what the tables' health asks for, the third adds up. A table that fails does not stop the rest: the
batch's run goes on, and the last op fails with what failed. What was found, planned, done, skipped,
left to a person and saved stands in the metadata of each batch. Unlike `build_maintenance_job` it
needs no asset for a table, so that nothing is observed.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import dagster as dg
from pydantic import Field

from delta_ops.errors import DeltaOpsError
from delta_ops.events import Progress
from delta_ops.log import DeltaLog
from delta_ops.maintenance import (
    HealthFigures,
    HealthThresholds,
    MaintenanceRules,
    TableMaintenance,
    find_tables,
    maintain_fleet,
)
from delta_ops.orchestration.maintenance.op_outputs import (
    IO_MANAGER_KEY,
    handover_resources,
    no_output,
    op_name,
)
from delta_ops.orchestration.policies.choice import rules_by_policies
from delta_ops.orchestration.policies.policy import MaintenancePolicy
from delta_ops.orchestration.storage_options import resolve_options, resolve_text
from delta_ops.orchestration.tables import TableRef
from delta_ops.orchestration.tags import JOB_TAG
from delta_ops.storage.paths import redact
from delta_ops.units import count_text

FIND_OP, MAINTAIN_OP, SUMMARY_OP = "find_tables", "maintain_batch", "report_fleet"


class FleetConfig(dg.Config):
    """Where the tables are."""

    tables: list[str] = Field(
        default=[],
        description="Tables, and prefixes below which all tables are taken; the root of the lake "
        "if empty.",
    )
    nested: bool = Field(
        default=False, description="Look for tables in the directories of tables too."
    )
    batch_size: int = Field(default=50, ge=1, description="Tables in a batch.")


class FleetMaintenanceConfig(dg.Config):
    """What is done for each table; a threshold that is not given is that of the job's policy."""

    dry_run: bool = Field(default=False, description="Say what would be done, and do nothing.")
    at_once: int = Field(default=2, ge=1, le=256, description="Tables maintained at once.")
    small_files: int | None = Field(default=None, ge=0, description="So many are put together.")
    clustering_depth: int | None = Field(
        default=None, ge=0, description="So many files of a clustered table that overlap."
    )
    commits_since_checkpoint: int | None = Field(
        default=None, ge=0, description="So many; the table's delta.checkpointInterval by default."
    )
    commit_bytes_since_checkpoint: int | None = Field(default=None, ge=0)
    expired_tombstones: int | None = Field(
        default=None, ge=0, description="So many are vacuumed, if their files are there."
    )
    expired_log_files: int | None = Field(default=None, ge=0)
    stats_coverage: float | None = Field(
        default=None, ge=0, le=1, description="Below this share of files, statistics are filled in."
    )
    deleted_rows: float | None = Field(
        default=None, ge=0, le=1, description="From this share on, files are purged."
    )
    partition_skew: float | None = Field(default=None, ge=0)
    file_size_skew: float | None = Field(default=None, ge=0)
    promised_time_travel_ms: int | None = Field(
        default=None, ge=0, description="Where retentions promise less, a person is told."
    )

    def thresholds(self, defaults: HealthThresholds | None = None) -> HealthThresholds:
        """The thresholds that were given, and the defaults of the others."""
        given = self.model_dump(exclude={"dry_run", "at_once"}, exclude_none=True)
        return replace(defaults or HealthThresholds(), **given)


def build_fleet_maintenance_job(
    *,
    name: str = "delta_fleet_maintenance",
    root: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    executor_def: dg.ExecutorDefinition = dg.in_process_executor,
    io_manager: dg.IOManagerDefinition | dg.ConfigurableIOManagerFactory[Any] | None = None,
    policy: MaintenancePolicy | None = None,
    policies: Sequence[MaintenancePolicy] = (),
    assets: Sequence[TableRef] = (),
) -> dg.JobDefinition:
    """A job over the tables that its config names.

    Args:
        name: The job's.
        root: Prefix that is looked into where the config names none; may be a `dg.EnvVar`.
        storage_options: For fsspec's file system; they stand in no config and in no metadata.
            `dg.EnvVar`s in them, at any depth, are asked for by the ops.
        executor_def: By what batches run; one that has several processes runs them side by side.
        io_manager: By what the ops give tables and counts to each other; not the location's. If
            None, by files in the instance's folder: an executor that runs batches on other machines
            needs one that all of them reach.
        policy: By which the tables are looked after, and whose owners, tags and pool the job has.
        policies: Each table is looked after by its own of them, as if its path below the root were
            its key; by `policy` if there are none.
        assets: Tables of assets, which have their keys wherever they lie.
    """
    options = dict(storage_options or {})
    settings = policy or MaintenancePolicy()

    @dg.op(
        name=op_name(name, FIND_OP),
        out=dg.DynamicOut(list[str], io_manager_key=IO_MANAGER_KEY),
    )
    def find(
        context: dg.OpExecutionContext, config: FleetConfig
    ) -> Iterator[dg.DynamicOutput[list[str]]]:
        tables: dict[str, None] = {}
        for place in config.tables or _default_places(root):
            try:
                found = find_tables(place, resolve_options(options), nested=config.nested)
            except DeltaOpsError as error:
                context.log.error(f"{redact(place)}: {error}")
                tables[place] = None  # where the error stands in the row of a table
                continue
            context.log.info(f"{redact(place)}: {count_text(len(found.tables), 'table')}")
            tables.update(dict.fromkeys([*found.tables, *found.failures] or [place]))
        uris = list(tables)
        for number, start in enumerate(range(0, len(uris), config.batch_size)):
            batch = uris[start : start + config.batch_size]
            yield dg.DynamicOutput(
                batch,
                mapping_key=f"batch_{number}",
                metadata={"delta/tables": [redact(table) for table in batch]},
            )

    @dg.op(
        name=op_name(name, MAINTAIN_OP),
        out=dg.Out(dict[str, Any], io_manager_key=IO_MANAGER_KEY),
        pool=settings.pool,
    )
    def maintain_batch(
        context: dg.OpExecutionContext, config: FleetMaintenanceConfig, tables: list[str]
    ) -> dict[str, Any]:
        def on_event(event: object) -> None:
            if isinstance(event, Progress):
                context.log.info(f"{event.table}: {event.count}")

        by_policies = None
        if policies:
            key_of = _keys(assets, root, resolve_options(options))
            by_policies = rules_by_policies(policies, key_of)

        def rules_of(uri: str, figures: HealthFigures) -> MaintenanceRules:
            rules = by_policies(uri, figures) if by_policies else settings.rules
            return replace(rules, thresholds=config.thresholds(rules.thresholds))

        rows = list(
            maintain_fleet(
                tables,
                resolve_options(options),
                rules_of=rules_of,
                dry_run=config.dry_run,
                max_concurrency=config.at_once,
                on_event=on_event,
            )
        )
        for row in rows:
            if row.failure is not None:
                context.log.error(f"{row.table}: {row.failure.message}")
        context.add_output_metadata(batch_metadata(rows))
        return _counts(rows)

    @dg.op(name=op_name(name, SUMMARY_OP), out=no_output())
    def report(context: dg.OpExecutionContext, batches: list[dict[str, Any]]) -> None:
        total = {n: sum(batch["counts"][n] for batch in batches) for n in _COUNTS}
        failed = {t: why for batch in batches for t, why in batch["failed"].items()}
        counts = {f"delta/{name}": value for name, value in total.items()}
        context.add_output_metadata(counts)
        if failed:
            raise dg.Failure(
                f"{len(failed)} of {total['tables']} tables could not be maintained",
                metadata={
                    **counts,
                    **{f"{number}: {table}": why for number, (table, why) in _number(failed)},
                },
                allow_retries=False,
            )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # owners of a job are new

        @dg.job(
            name=name,
            description="Finds the tables below prefixes, whether or not an asset stands for them, "
            "and does what their health asks for, in batches.",
            owners=list(settings.owners) or None,
            tags={JOB_TAG: "fleet", **settings.tags},
            executor_def=executor_def,
            resource_defs=handover_resources(io_manager or dg.FilesystemIOManager()),
        )
        def fleet_maintenance() -> None:
            batches = find.alias(FIND_OP)().map(maintain_batch.alias(MAINTAIN_OP))
            report.alias(SUMMARY_OP)(batches.collect())

    return fleet_maintenance


def _keys(
    tables: Sequence[TableRef], root: str | None, options: dict[str, Any]
) -> Callable[[str], str]:
    """The keys of tables by their URIs; of one that is no asset, its path below the root."""
    keys = {table.log().uri: table.name for table in tables}
    above = DeltaLog(resolve_text(root, "root"), options).uri if root is not None else None

    def key_of(uri: str) -> str:
        is_below = above is not None and uri.startswith(f"{above}/")
        return keys.get(uri, uri.removeprefix(f"{above}/") if is_below else "")

    return key_of


def _default_places(root: str | None) -> list[str]:
    if root is None:
        raise dg.Failure(
            "the config names no tables; give tables, and prefixes below which all are taken",
            allow_retries=False,
        )
    return [resolve_text(root, "root")]


def fleet_config(tables: Sequence[str], **settings: Any) -> dict[str, Any]:
    """Run config of the fleet's job.

    Args:
        tables: Tables and prefixes.
        settings: Fields of `FleetConfig` and `FleetMaintenanceConfig`.
    """
    of_find = {n: settings.pop(n) for n in ("nested", "batch_size") if n in settings}
    return {
        "ops": {
            FIND_OP: {"config": {"tables": list(tables), **of_find}},
            MAINTAIN_OP: {"config": settings},
        }
    }


def batch_metadata(rows: Sequence[TableMaintenance]) -> dict[str, Any]:
    """What was found, planned, done, skipped and saved for each table of a batch."""
    return {
        **{f"delta/{name}": value for name, value in _counts(rows)["counts"].items()},
        "delta/found": _values_by_table(rows, _finding_values),
        "delta/planned": _values_by_table(
            rows, lambda row: list(row.report.operations if row.report else ())
        ),
        "delta/planned_figures": _values_by_table(rows, _planned_figures),
        "delta/done": _values_by_table(rows, _done_figures),
        "delta/skipped": _values_by_table(rows, lambda row: list(row.skipped)),
        "delta/left": _values_by_table(rows, lambda row: list(row.left)),
        "delta/saved": _values_by_table(
            rows, lambda row: {n: v for n, v in row.saved.items() if v}
        ),
        "delta/failed": dg.MetadataValue.json(_failures_by_table(rows)),
    }


_COUNTS = (
    "tables",
    "tables_with_work",
    "tables_skipped",
    "tables_left",
    "tables_failed",
    "bytes_saved",
    "live_files_saved",
)


def _counts(rows: Sequence[TableMaintenance]) -> dict[str, Any]:
    saved = [row.saved for row in rows]
    failed = _failures_by_table(rows)
    return {
        "counts": {
            "tables": len(rows),
            "tables_with_work": sum(row.result is not None for row in rows),
            "tables_skipped": sum(bool(row.skipped) for row in rows),
            "tables_left": sum(bool(row.left) for row in rows),
            "tables_failed": len(failed),
            "bytes_saved": sum(each["bytes"] for each in saved),
            "live_files_saved": sum(each["live_files"] for each in saved),
        },
        "failed": failed,
    }


def _values_by_table(rows: Sequence[TableMaintenance], value: Any) -> dg.MetadataValue[Any]:
    """The values by table, where there is anything to say."""
    values = ((row.table, value(row)) for row in rows)
    return dg.MetadataValue.json({table: each for table, each in values if each})


def _finding_values(row: TableMaintenance) -> dict[str, Any]:
    findings = row.report.findings if row.report else ()
    return {f.measure: asdict(f)["value"] for f in findings if f.verdict != "ok"}


def _planned_figures(row: TableMaintenance) -> dict[str, int]:
    planned = row.result.planned if row.result else {}
    return {name: value for name, value in planned.items() if value}


def _done_figures(row: TableMaintenance) -> dict[str, int]:
    if row.result is None or row.result.dry_run:
        return {}
    return {name: value for name, value in row.result.figures.items() if value}


def _failures_by_table(rows: Sequence[TableMaintenance]) -> dict[str, str]:
    failed = {row.table: row.failure.message for row in rows if row.failure is not None}
    for row in rows:
        if row.result is not None and row.result.failures:
            failed.setdefault(row.table, f"could not delete or read all: {row.result.failures}")
    return failed


def _number(failed: Mapping[str, str]) -> Iterator[tuple[int, tuple[str, str]]]:
    return enumerate(failed.items(), 1)
