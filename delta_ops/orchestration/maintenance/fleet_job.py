"""Fleet job: finds tables below prefixes, and maintains them in batches.

The first of its three ops finds the tables and splits them into batches. The second op maintains
the tables of one batch as their health requires. The third op adds up the counts. A table that
fails does not stop the others, and the last op fails with all failures. The metadata of each batch
show findings, planned, done and skipped work, work left to a person, and savings. Unlike the tables
of `build_maintenance_job`, the tables need no assets, so there are no observations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dagster as dg
from pydantic import Field

from delta_ops.arguments import validate_arguments
from delta_ops.errors import DeltaOpsError
from delta_ops.events import OnEvent, Progress
from delta_ops.log import DeltaLog
from delta_ops.maintenance import (
    FoundTables,
    HealthFigures,
    HealthThresholds,
    MaintenanceRules,
    TableMaintenance,
    find_tables,
    maintain_fleet,
)
from delta_ops.option_words import Surface, spoken_on
from delta_ops.orchestration.checks.check_ops import log_check_results
from delta_ops.orchestration.maintenance.op_outputs import (
    build_job,
    no_output,
    op_name,
)
from delta_ops.orchestration.maintenance.report import (
    batch_counts,
    batch_metadata,
    fleet_metadata,
    raise_fleet_failures,
)
from delta_ops.orchestration.policies.choice import rules_by_policies
from delta_ops.orchestration.policies.maintenance_config import ALL
from delta_ops.orchestration.policies.policy import MaintenancePolicy
from delta_ops.orchestration.run_config import StrictConfig
from delta_ops.orchestration.storage_options import resolve_options, resolve_text
from delta_ops.orchestration.tables import TableRef
from delta_ops.orchestration.tags import JOB_TAG
from delta_ops.storage.paths import redact
from delta_ops.units import count_text

FIND_OP, MAINTAIN_OP, SUMMARY_OP = "find_tables", "maintain_batch", "report_fleet"


class FleetConfig(StrictConfig):
    """Where the tables are.

    Examples:
        >>> config = FleetConfig(tables=["s3://bucket/lake"], batch_size=20)
    """

    tables: list[str] = Field(
        default=[ALL],
        description=(
            'Tables, and prefixes whose tables are all included. ["*"]: all tables below the root '
            "of the job."
        ),
    )
    nested: bool = Field(default=False, description="Also look for tables inside of tables.")
    batch_size: int = Field(default=50, ge=1, description="Tables in a batch.")


def _threshold(description: str, at_most: float | None = None) -> Any:
    """A config field for a threshold; the default comes from the policy of the job."""
    return Field(default=None, ge=0, le=at_most, description=description)


class FleetMaintenanceConfig(StrictConfig):
    """How each table is maintained. Thresholds that are not set come from the job's policy.

    Examples:
        >>> config = FleetMaintenanceConfig(dry_run=True, small_files=50)
    """

    dry_run: bool = Field(default=False, description="Only report what would be done.")
    at_once: int = Field(default=2, ge=1, le=256, description="Tables maintained at once.")
    small_files: int | None = _threshold("Optimize from this number of small files on.")
    clustering_depth: int | None = _threshold(
        "Optimize a table with clustering columns or a sort key from this number of overlapping "
        "files on."
    )
    unindexed_files: int | None = _threshold(
        "Refresh indexes from this number of files on that an index does not cover."
    )
    index_selectivity: float | None = _threshold(
        "Report an index if its values are in this share of the files, from 0 to 1.", at_most=1
    )
    commits_since_checkpoint: int | None = _threshold(
        "Write a checkpoint from this number of commits on; if not set, from the table's "
        "delta.checkpointInterval on."
    )
    commit_bytes_since_checkpoint: int | None = _threshold(
        "Write a checkpoint from this many bytes of commits on."
    )
    commits_since_scan_cache: int | None = _threshold(
        "Write a scan cache from this number of commits on; if not set, from the table's "
        "delta_ops.scanCacheInterval on."
    )
    scan_cache_files: int | None = _threshold(
        "Write a scan cache of a table without one from this number of live files on."
    )
    expired_tombstones: int | None = _threshold(
        "Vacuum from this number of removed files past their retention on."
    )
    expired_log_files: int | None = _threshold(
        "Clean up the log from this number of files past their retention on."
    )
    stats_coverage: float | None = _threshold(
        "Add statistics if a smaller share of the files has them, from 0 to 1.", at_most=1
    )
    deleted_rows: float | None = _threshold(
        "Purge if deletion vectors mark this share of the rows, from 0 to 1.", at_most=1
    )
    partition_skew: float | None = _threshold(
        "Report a largest partition of this many times the mean size."
    )
    file_size_skew: float | None = _threshold(
        "Report a largest file of this many times the target size."
    )
    promised_time_travel_ms: int | None = _threshold(
        "Report a table that promises time travel for less than this, in milliseconds."
    )

    def thresholds(self, defaults: HealthThresholds | None = None) -> HealthThresholds:
        """The thresholds that were set; other thresholds keep their defaults."""
        values = self.model_dump(exclude={"dry_run", "at_once"}, exclude_none=True)
        return replace(defaults or HealthThresholds(), **values)


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
        name: Name of the job.
        root: Prefix that is searched if the config names no tables; may be a `dg.EnvVar`.
        storage_options: For fsspec's file system. They appear in no config and in no metadata. The
            ops resolve each `dg.EnvVar` in them, at any depth.
        executor_def: Runs the batches; side by side if it has several processes.
        io_manager: Passes tables and counts between the ops. None stores them as files in the
            folder of the instance; an executor on several machines needs a shared place.
        policy: Rules for the tables, and the owners, tags and pool of the job.
        policies: Rules for single tables. They match the path below `root` as an asset key. Without
            them `policy` holds for all tables.
        assets: Tables of assets, which keep their asset keys wherever they are stored.

    Examples:
        >>> job = build_fleet_maintenance_job()
        >>> job.execute_in_process(run_config=fleet_config(["lake"], dry_run=True)).success
        True
    """
    checked = {"root": root, "policy": policy, "policies": policies, "assets": assets}
    validate_arguments(build_fleet_maintenance_job, checked)
    fleet = _Fleet(
        root=root,
        storage_options=dict(storage_options or {}),
        policy=policy or MaintenancePolicy(),
        policies=policies,
        assets=assets,
    )
    find, maintain, report = _find_op(name, fleet), _maintain_op(name, fleet), _report_op(name)

    def compose() -> None:
        batches = find.alias(FIND_OP)().map(maintain.alias(MAINTAIN_OP))
        report.alias(SUMMARY_OP)(batches.collect())

    return build_job(
        compose,
        name,
        description=(
            "Finds the tables below prefixes, with or without assets, and runs their due "
            "maintenance "
            "in batches."
        ),
        owners=fleet.policy.owners,
        tags={JOB_TAG: "fleet", **fleet.policy.tags},
        executor_def=executor_def,
        io_manager=io_manager or dg.FilesystemIOManager(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fleet:
    """The tables of a job, and the rules for them."""

    root: str | None
    storage_options: Mapping[str, Any] = field(repr=False)
    policy: MaintenancePolicy
    policies: Sequence[MaintenancePolicy]
    assets: Sequence[TableRef]

    def places(self, config: FleetConfig) -> list[str]:
        """The tables and prefixes that a run searches."""
        named = [place for place in config.tables if place != ALL]
        if named and ALL not in config.tables:
            return named
        if self.root is None:
            raise dg.Failure(
                "the config names no tables, and the job has no root; give tables, or prefixes "
                "whose tables are all included",
                allow_retries=False,
            )
        return [resolve_text(self.root, "root"), *named]

    @spoken_on(Surface.RUN_CONFIG)
    def find(self, place: str, *, nested: bool) -> FoundTables:
        """The tables at a place or below it."""
        return find_tables(place, resolve_options(self.storage_options), nested=nested)

    @spoken_on(Surface.RUN_CONFIG)
    def maintain(
        self, tables: Sequence[str], config: FleetMaintenanceConfig, on_event: OnEvent
    ) -> list[TableMaintenance]:
        """Maintain tables by their policies and the thresholds of the run."""
        by_policies = rules_by_policies(self.policies, _Keys(self)) if self.policies else None

        def rules_of(uri: str, figures: HealthFigures) -> MaintenanceRules:
            rules = by_policies(uri, figures) if by_policies else self.policy.rules
            return replace(rules, thresholds=config.thresholds(rules.thresholds))

        rows = maintain_fleet(
            tables,
            resolve_options(self.storage_options),
            rules_of=rules_of,
            dry_run=config.dry_run,
            max_concurrency=config.at_once,
            on_event=on_event,
        )
        return list(rows)

    def maintained_assets(self, rows: Sequence[TableMaintenance]) -> list[dg.AssetKey]:
        """The assets whose tables a run changed."""
        changed = {row.table for row in rows if row.result is not None and not row.result.dry_run}
        return [each.asset_key for each in self.assets if each.log().uri in changed]


class _Keys:
    """Keys of tables by their URIs: asset keys, or paths below the root."""

    def __init__(self, fleet: _Fleet) -> None:
        self._keys = {table.log().uri: table.name for table in fleet.assets}
        self._prefix: str | None = None
        if fleet.root is not None:
            options = resolve_options(fleet.storage_options)
            self._prefix = DeltaLog(resolve_text(fleet.root, "root"), options).uri + "/"

    def __call__(self, uri: str) -> str:
        is_below = self._prefix is not None and uri.startswith(self._prefix)
        return self._keys.get(uri, uri.removeprefix(self._prefix or "") if is_below else "")


def _find_op(job: str, fleet: _Fleet) -> dg.OpDefinition:
    @dg.op(name=op_name(job, FIND_OP), out=dg.DynamicOut(list[str]))
    def find(
        context: dg.OpExecutionContext, config: FleetConfig
    ) -> Iterator[dg.DynamicOutput[list[str]]]:
        uris = _find_uris(context, fleet, config)
        for number, start in enumerate(range(0, len(uris), config.batch_size)):
            batch = uris[start : start + config.batch_size]
            yield dg.DynamicOutput(
                batch,
                mapping_key=f"batch_{number}",
                metadata={"delta/tables": [redact(table) for table in batch]},
            )

    return find


def _find_uris(context: dg.OpExecutionContext, fleet: _Fleet, config: FleetConfig) -> list[str]:
    """The tables, each once. A place that cannot be searched counts as a table, and fails later."""
    uris: dict[str, None] = {}
    for place in fleet.places(config):
        try:
            found = fleet.find(place, nested=config.nested)
        except DeltaOpsError as error:
            context.log.error(f"{redact(place)}: {error}")
            uris[place] = None
            continue
        context.log.info(f"{redact(place)}: {count_text(len(found.tables), 'table')}")
        uris.update(dict.fromkeys([*found.tables, *found.failures] or [place]))
    return list(uris)


def _maintain_op(job: str, fleet: _Fleet) -> dg.OpDefinition:
    @dg.op(
        name=op_name(job, MAINTAIN_OP),
        out=dg.Out(dict[str, Any]),
        pool=fleet.policy.pool,
    )
    def maintain_batch(
        context: dg.OpExecutionContext, config: FleetMaintenanceConfig, tables: list[str]
    ) -> dict[str, Any]:
        def on_event(event: object) -> None:
            if isinstance(event, Progress):
                context.log.info(f"{event.table}: {event.count}")

        rows = fleet.maintain(tables, config, on_event)
        for row in rows:
            if row.failure is not None:
                context.log.error(f"{row.table}: {row.failure.message}")
        for asset_key in fleet.maintained_assets(rows):
            log_check_results(context, asset_key)
        context.add_output_metadata(batch_metadata(rows))
        return batch_counts(rows)

    return maintain_batch


def _report_op(job: str) -> dg.OpDefinition:
    @dg.op(name=op_name(job, SUMMARY_OP), out=no_output())
    def report(context: dg.OpExecutionContext, batches: list[dict[str, Any]]) -> None:
        context.add_output_metadata(fleet_metadata(batches))
        raise_fleet_failures(batches)

    return report


def fleet_config(tables: Sequence[str], **settings: Any) -> dict[str, Any]:
    """Run config of the fleet's job.

    Args:
        tables: Tables and prefixes.
        settings: Fields of `FleetConfig` and `FleetMaintenanceConfig`.

    Examples:
        >>> config = fleet_config(["s3://bucket/lake"], batch_size=20, dry_run=True)
    """
    of_find = {n: settings.pop(n) for n in ("nested", "batch_size") if n in settings}
    return {
        "ops": {
            FIND_OP: {"config": {"tables": list(tables), **of_find}},
            MAINTAIN_OP: {"config": settings},
        }
    }
