"""Definitions: jobs, sensors, schedules and checks for the tables of assets.

`delta_ops_definitions` returns definitions to merge with a location's own definitions:

    <name>_maintenance        job: due operations for a table, including rewrites
    <name>_log_maintenance    job: due operations for the logs of many tables
    <name>_restore, <name>_revert, <name>_repair
                              jobs, each for one table of its config
    <name>_fleet_maintenance  job: all tables below a prefix, with or without an asset
    <name>_maintenance_schedule
    <name>_maintenance_sensor, <name>_commit_sensor
    asset checks              the health of each table

A policy for only some tables has its own maintenance jobs and schedule. Their names end with the
policy's name. Loading the location reads no table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import HealthThresholds
from delta_ops.orchestration.arrays.array_settings import CHUNKS_KEY
from delta_ops.orchestration.checks.change_checks import column_check, row_count_check
from delta_ops.orchestration.checks.check_ops import check_op
from delta_ops.orchestration.checks.check_results import HEALTH
from delta_ops.orchestration.checks.table_checks import MEASURES, health_checks
from delta_ops.orchestration.commits.commit_sensor import build_commit_sensor
from delta_ops.orchestration.io_manager.output_settings import KEYS_OF_DEFINITIONS, is_audited
from delta_ops.orchestration.io_manager.setting_values import validate_keys
from delta_ops.orchestration.maintenance.fleet_job import build_fleet_maintenance_job
from delta_ops.orchestration.maintenance.jobs import (
    build_log_maintenance_job,
    build_maintenance_job,
)
from delta_ops.orchestration.maintenance.restore_jobs import (
    build_repair_job,
    build_restore_job,
    build_revert_job,
)
from delta_ops.orchestration.maintenance.schedule import build_maintenance_schedule
from delta_ops.orchestration.maintenance.sensor import Sweep, build_sweep_sensor
from delta_ops.orchestration.policies.choice import (
    PolicyJobs,
    PolicyTables,
    assign_policies,
    general_policy,
)
from delta_ops.orchestration.policies.policy import MaintenancePolicy
from delta_ops.orchestration.resources import DeltaLogResource
from delta_ops.orchestration.tables import TableRef, table_parts, uri_elsewhere

CheckKind = Literal["health", "measures", "columns", "row_count"]
"""Checks of a table: one check of its health; one check for each measure of its health; whether its
columns are unchanged; whether its row count is plausible."""
_KEYS = (*KEYS_OF_DEFINITIONS, CHUNKS_KEY)
DeltaAsset = dg.AssetsDefinition | dg.AssetSpec | dg.SourceAsset | TableRef


def delta_ops_definitions(
    lake: DeltaLogResource,
    assets: Sequence[DeltaAsset],
    policies: Sequence[MaintenancePolicy] = (),
    *,
    name: str = "delta",
    resource_key: str = "delta_log",
    with_checks: bool | Collection[CheckKind] = True,
    switched_on: bool = False,
) -> dg.Definitions:
    """Jobs, sensors, schedules, checks and the resource `delta_log` for the tables of assets.

    The assets and the IO manager are not included: merge these definitions with the location's own
    definitions by `dg.Definitions.merge`.

    Args:
        lake: The resource for the tables.
        assets: Assets to maintain. The table of an asset is at `<root>/<asset key>`, or at the
            `delta/table` or `dagster/uri` in its metadata. A `TableRef` names any other table, for
            example in another lake. The table of an audited asset belongs to its publish asset.
        policies: Maintenance policies; see `MaintenancePolicy`. The policy for all tables sets
            owners, tags and pool of the jobs for any table.
        name: Prefix of the names of jobs, sensors and schedules; must differ for each lake of a
            location.
        resource_key: Resource key of the lake; must differ for each lake of a location.
        with_checks: The asset checks of each table. True: the check `health`; False: no checks;
            else the kinds of checks. They also run when the table's asset is materialized.
        switched_on: Whether sensors and schedules are on by default; otherwise switch them on in
            Dagster's UI.

    Raises:
        InvalidRequestError: An argument has another type, two assets with the same key have
            different table locations, metadata of an asset have an unknown key of delta_ops, a
            policy does not fit the tables, or a kind of check is unknown.

    Examples:
        >>> @dg.asset
        ... def visits() -> pa.Table:
        ...     return pa.table({"page": ["/"]})
        >>> maintenance = delta_ops_definitions(DeltaLogResource(root="lake"), [visits])
        >>> sorted(job.name for job in maintenance.jobs)[:2]
        ['delta_fleet_maintenance', 'delta_log_maintenance']
    """
    validate_arguments(delta_ops_definitions, locals())
    kinds = _check_kinds(with_checks)
    tables = tables_of(lake, assets)
    assigned = assign_policies(tables, policies)
    jobs = [_policy_jobs(each, assigned, name) for each in assigned]
    general = general_policy(policies)
    return dg.Definitions(
        jobs=[
            *(job for each in jobs for job in (each.job, each.log_job) if job is not None),
            build_restore_job(tables, name=f"{name}_restore", policy=general),
            build_revert_job(tables, name=f"{name}_revert", policy=general),
            build_repair_job(tables, name=f"{name}_repair", policy=general),
            build_fleet_maintenance_job(
                name=f"{name}_fleet_maintenance",
                root=lake.root,
                storage_options=lake.storage_options,
                policy=general,
                policies=policies,
                assets=tables,
            ),
        ],
        schedules=list(_schedules(jobs, switched_on)),
        sensors=_sensors(tables, jobs, name, switched_on),
        asset_checks=list(_checks(jobs, kinds)) if kinds else [],
        resources={resource_key: lake},
    )


def tables_of(lake: DeltaLogResource, assets: Sequence[DeltaAsset]) -> list[TableRef]:
    """The tables of assets, in their order, each once.

    Raises:
        InvalidRequestError: As for `delta_ops_definitions`.
    """
    found: dict[str, TableRef] = {}
    audited: list[TableRef] = []
    for table, is_of_audited in (each for asset in assets for each in _tables_of(lake, asset)):
        if is_of_audited:
            audited.append(table)
            continue
        known = found.setdefault(table.name, table)
        if known.uri != table.uri:
            raise InvalidRequestError(
                f"the asset {table.name} occurs twice, with tables at two locations; leave one of "
                "them out"
            )
    for table in audited:
        if all(each.uri != table.uri for each in found.values()):
            raise InvalidRequestError(
                f"the asset {table.name} is audited, and the assets lack the asset that publishes "
                "it; add the asset of build_publish_asset"
            )
    return list(found.values())


def _tables_of(lake: DeltaLogResource, asset: DeltaAsset) -> Iterator[tuple[TableRef, bool]]:
    """The tables of an asset, and whether each is the table of an audited asset."""
    match asset:
        case TableRef():
            yield asset, False
        case dg.AssetSpec() | dg.SourceAsset():
            yield _table(lake, asset.key, asset.metadata), is_audited(asset.key, asset.metadata)
        case dg.AssetsDefinition():
            for spec in asset.specs:
                yield _table(lake, spec.key, spec.metadata), is_audited(spec.key, spec.metadata)


def _table(lake: DeltaLogResource, key: dg.AssetKey, metadata: Mapping[str, Any]) -> TableRef:
    place = f"the metadata of asset {key.to_user_string()}"
    validate_keys(place, metadata, _KEYS, outcome="Nothing was loaded")
    table = replace(lake.table(table_parts(key, metadata) or key), asset_key=key)
    uri = uri_elsewhere(key, metadata, table.uri)
    return table if uri is None else replace(table, uri=uri)


def _policy_jobs(
    assigned: PolicyTables, all_assigned: Sequence[PolicyTables], name: str
) -> PolicyJobs:
    policy, tables = assigned
    others = [each for each in all_assigned if each is not assigned]
    job_name = maintenance_job_name(name, policy)
    job = build_maintenance_job(tables, name=job_name, policy=policy, others=others)
    log_job = None
    if policy.has_work:
        log_name = f"{name}_log_maintenance{job_name.removeprefix(f'{name}_maintenance')}"
        log_job = build_log_maintenance_job(tables, name=log_name, policy=policy, others=others)
    return PolicyJobs(policy=policy, tables=tables, job=job, log_job=log_job)


def maintenance_job_name(name: str, policy: MaintenancePolicy) -> str:
    """The name of a policy's maintenance job.

    Args:
        name: As for `delta_ops_definitions`.
    """
    return f"{name}_maintenance{f'_{policy.suffix}' if policy.suffix else ''}"


def _schedules(
    policies: Sequence[PolicyJobs], switched_on: bool
) -> Iterator[dg.ScheduleDefinition]:
    status = dg.DefaultScheduleStatus.RUNNING if switched_on else dg.DefaultScheduleStatus.STOPPED
    for each in policies:
        if each.policy is not None and each.policy.has_work and each.policy.cron is not None:
            yield build_maintenance_schedule(
                each.job,
                cron_schedule=each.policy.cron,
                timezone=each.policy.timezone,
                default_status=status,
            )


def _sensors(
    tables: Sequence[TableRef],
    policies: Sequence[PolicyJobs],
    name: str,
    switched_on: bool,
) -> list[dg.SensorDefinition]:
    status = dg.DefaultSensorStatus.RUNNING if switched_on else dg.DefaultSensorStatus.STOPPED
    sensors = [build_commit_sensor(tables, name=f"{name}_commit_sensor", default_status=status)]
    if any(each.has_work for each in policies):
        sensor_name = f"{name}_maintenance_sensor"
        sensors.append(
            build_sweep_sensor(
                Sweep(policies=policies, with_checks=True),
                name=sensor_name,
                default_status=status,
            )
        )
    return sensors


def _check_kinds(with_checks: bool | Collection[CheckKind]) -> Collection[CheckKind]:
    if isinstance(with_checks, bool):
        return ["health"] if with_checks else []
    for kind in with_checks:
        if kind not in get_args(CheckKind):
            raise InvalidRequestError(
                f"with_checks has {kind!r}, which is not a kind of check; choose from "
                f"{', '.join(get_args(CheckKind))}"
            )
    return with_checks


def _health_names(kinds: Collection[CheckKind]) -> list[str]:
    health = [HEALTH] if "health" in kinds else []
    return [*health, *(MEASURES if "measures" in kinds else ())]


def _checks(
    jobs: Sequence[PolicyJobs], kinds: Collection[CheckKind]
) -> Iterator[dg.AssetChecksDefinition]:
    """Build one check op for each table: with three ops each, 1,000 tables take 5 s to load."""
    names = _health_names(kinds)
    for table in (table for each in jobs for table in each.tables):
        checks = []
        if names:
            thresholds = HealthThresholds()
            checks.append(health_checks(table, names=names, thresholds=thresholds, policies=jobs))
        if "columns" in kinds:
            checks.append(column_check(table))
        if "row_count" in kinds:
            checks.append(row_count_check(table))
        yield check_op(table, "delta_checks", *checks)
