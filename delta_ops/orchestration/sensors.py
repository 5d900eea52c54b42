"""Sensors: commits of other writers as events, and maintenance only where there is work.

The daemon reports events before it saves the cursor, so an event may come twice: each carries the
version, and a sensor that was interrupted begins again at the version it had saved.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.clock import Clock, system_clock
from delta_ops.errors import DeltaOpsError, TableNotFoundError
from delta_ops.log import DeltaLog
from delta_ops.log.commit_file import Commit
from delta_ops.maintenance import plan_maintenance
from delta_ops.orchestration.changes import changes_rows
from delta_ops.orchestration.maintenance_jobs import maintenance_run
from delta_ops.orchestration.tables import TableRef

_MAX_COMMITS_PER_TICK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCommits:
    """What a tick found in one table."""

    events: tuple[dg.AssetMaterialization | dg.AssetObservation, ...]
    version: int
    """All commits up to here have been looked at."""


def build_maintenance_sensor(
    job: dg.JobDefinition,
    tables: Sequence[TableRef],
    *,
    name: str = "delta_maintenance_sensor",
    minimum_interval_seconds: int = 300,
    clock: Clock = system_clock,
) -> dg.SensorDefinition:
    """Requests a run of the maintenance job for each table whose plan has work."""

    @dg.sensor(name=name, job=job, minimum_interval_seconds=minimum_interval_seconds)
    def maintenance_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        requests, idle = [], []
        for table in tables:
            try:
                plan = plan_maintenance(table.log(), clock=clock)
            except TableNotFoundError:
                idle.append(f"{table.name} does not exist yet")
                continue
            except DeltaOpsError as error:
                context.log.error(f"{table.name}: {error}")
                continue
            if not plan.has_work:
                idle.append(f"{table.name} needs nothing")
            elif _is_running(context, table):
                idle.append(f"{table.name} is being maintained")
            else:
                requests.append(maintenance_run(table, plan, now_ms=clock()))
        if requests:
            return dg.SensorResult(run_requests=requests)
        return dg.SensorResult(skip_reason="; ".join(idle) or "no table could be planned")

    return maintenance_sensor


def build_commit_sensor(
    tables: Sequence[TableRef],
    *,
    name: str = "delta_commit_sensor",
    minimum_interval_seconds: int = 60,
) -> dg.SensorDefinition:
    """Reports the commits that Dagster did not make: as materializations where rows changed, as
    observations where they did not. The first tick reports nothing and remembers where it stands.
    """

    @dg.sensor(name=name, minimum_interval_seconds=minimum_interval_seconds)
    def commit_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        seen: dict[str, int] = json.loads(context.cursor) if context.cursor else {}
        events: list[Any] = []
        for table in tables:
            try:
                found = foreign_commits(table, seen.get(table.name))
            except TableNotFoundError:
                continue
            except DeltaOpsError as error:
                context.log.error(f"{table.name}: {error}")
                continue
            events.extend(found.events)
            seen[table.name] = found.version
        return dg.SensorResult(
            asset_events=events,
            cursor=json.dumps(seen, separators=(",", ":")),
            skip_reason=None if events else "no commits of other writers",
        )

    return commit_sensor


def foreign_commits(table: TableRef, after_version: int | None) -> ForeignCommits:
    """The commits after a version that no Dagster run made; none where there is no version yet."""
    log = table.log()
    snapshot = log.snapshot()
    if after_version is None or after_version > snapshot.version:
        return ForeignCommits(events=(), version=snapshot.version)
    last = min(snapshot.version, after_version + _MAX_COMMITS_PER_TICK)
    table_id = snapshot.metadata.id[:8]
    return ForeignCommits(
        events=tuple(_events(log, table, table_id, after_version, last)), version=last
    )


def _events(
    log: DeltaLog, table: TableRef, table_id: str, after_version: int, last: int
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    for commit in log.commits(after_version + 1, last):
        if _is_made_by_dagster(commit):
            continue
        event = dg.AssetMaterialization if changes_rows(commit) else dg.AssetObservation
        values = commit.info.values if commit.info else {}
        yield event(
            asset_key=table.asset_key,
            description=f"{values.get('operation', 'commit')} by another writer",
            metadata={
                "dagster/uri": dg.MetadataValue.text(log.uri),
                "delta/version": commit.version,
                "delta/operation": str(values.get("operation")),
                "delta/engine": str(values.get("engineInfo")),
                "delta/files_added": len(commit.adds),
                "delta/files_removed": len(commit.removes),
            },
            tags={"dagster/data_version": f"{table_id}@{commit.version}"},
        )


def _is_made_by_dagster(commit: Commit) -> bool:
    text = commit.info.values.get("userMetadata") if commit.info else None
    return isinstance(text, str) and '"dagster/run_id"' in text


def _is_running(context: dg.SensorEvaluationContext, table: TableRef) -> bool:
    unfinished = [
        dg.DagsterRunStatus.QUEUED,
        dg.DagsterRunStatus.NOT_STARTED,
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
    ]
    runs = dg.RunsFilter(tags={"delta_ops/table": table.name}, statuses=unfinished)
    return bool(context.instance.get_run_records(runs, limit=1))
