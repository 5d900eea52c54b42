"""When the pipeline runs: files that arrived start the ingestion, changed rows start what follows.

Both questions are put to the tables, not to a memory of what was done: a file is pending while
`flights_raw` does not hold its generation, and a day is out of date when a commit to `flights_raw`
touched it.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import dagster as dg

from delta_ops.log import DeltaLog
from delta_ops.orchestration import DeltaLogResource, changed_values, source_txn
from examples.flights.assets import (
    days,
    delay_by_origin,
    flights,
    flights_quarantine,
    flights_raw,
)
from examples.flights.settings import FlightsInput
from examples.flights.sources import InputFile

ingest_job = dg.define_asset_job("ingest_flights", [flights_raw])
refresh_job = dg.define_asset_job("refresh_flights", [flights, delay_by_origin])
quarantine_job = dg.define_asset_job("refresh_quarantine", [flights_quarantine])


UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRun:
    """A run of a job over days in a row."""

    job: str
    first: date
    last: date

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags by which Dagster runs a range of partitions as one run."""
        return {
            "dagster/asset_partition_range_start": self.first.isoformat(),
            "dagster/asset_partition_range_end": self.last.isoformat(),
        }


def pending_files(log: DeltaLog, files: Iterable[InputFile]) -> list[InputFile]:
    """The files whose generation `flights_raw` does not hold."""
    snapshot = log.snapshot_if_exists()
    done = snapshot.transactions() if snapshot is not None else {}
    pending = []
    for file in files:
        txn = source_txn(flights_raw.key, file.name, file.generation)
        if txn.app_id not in done or done[txn.app_id].version < txn.version:
            pending.append(file)
    return pending


def ingest_runs(files: Iterable[InputFile]) -> list[DayRun]:
    """The runs that bring these files in."""
    return list(_runs("ingest_flights", {file.arrival_day for file in files}))


def refresh_runs(log: DeltaLog, after_version: int | None) -> tuple[list[DayRun], int]:
    """The runs that changes of `flights_raw` after a version ask for, and up to which version."""
    flight_days = changed_values(log, "flight_day", after_version)
    arrival_days = changed_values(log, "arrival_day", after_version)
    known = {day for day in flight_days.values if days.has_partition_key(day.isoformat())}
    runs = [
        *_runs("refresh_flights", known),
        *_runs("refresh_quarantine", set(arrival_days.values)),
    ]
    return runs, min(flight_days.version, arrival_days.version)


@dg.sensor(job=ingest_job, minimum_interval_seconds=30)
def arrivals(
    context: dg.SensorEvaluationContext, delta_log: DeltaLogResource, flights_input: FlightsInput
) -> dg.SensorResult:
    """Ingests files as they arrive."""
    pending = pending_files(delta_log.log("flights_raw"), flights_input.files())
    newest = max((file.generation for file in pending), default=0)
    requests = [
        dg.RunRequest(run_key=f"{run.first}:{run.last}:{newest}:{_retry()}", tags=dict(run.tags))
        for run in ingest_runs(pending)
        if not _runs_of(context.instance, run, UNFINISHED)
    ]
    return dg.SensorResult(run_requests=requests, skip_reason=None if requests else "no new files")


@dg.sensor(jobs=[refresh_job, quarantine_job], minimum_interval_seconds=30)
def late_records(
    context: dg.SensorEvaluationContext, delta_log: DeltaLogResource
) -> dg.SensorResult:
    """Materialises again the days that new or corrected records belong to."""
    log = delta_log.log("flights_raw")
    if not log.exists():
        return dg.SensorResult(skip_reason="flights_raw does not exist yet")
    runs, version = refresh_runs(log, int(context.cursor) if context.cursor else None)
    tag = {"flights/raw_version": str(version)}
    succeeded = [dg.DagsterRunStatus.SUCCESS]
    missing = [run for run in runs if not _runs_of(context.instance, run, succeeded, **tag)]
    if not missing:
        return dg.SensorResult(cursor=str(version), skip_reason="every day is up to date")
    # The cursor stays until all have succeeded: what a failed run left undone is asked for again.
    requests = [
        dg.RunRequest(
            run_key=f"{run.job}:{run.first}:{run.last}@{version}:{_retry()}",
            job_name=run.job,
            tags={**run.tags, **tag},
        )
        for run in missing
        if not _runs_of(context.instance, run, UNFINISHED)
    ]
    return dg.SensorResult(
        run_requests=requests, skip_reason=None if requests else "the runs are under way"
    )


def _runs_of(
    instance: dg.DagsterInstance, run: DayRun, statuses: list[dg.DagsterRunStatus], **tags: str
) -> bool:
    """Whether Dagster has such a run in one of these states."""
    wanted = dg.RunsFilter(job_name=run.job, tags={**run.tags, **tags}, statuses=statuses)
    return bool(instance.get_run_records(wanted, limit=1))


def _retry() -> int:
    """Changes every ten minutes: until then a run that failed is not asked for again."""
    return int(time.time()) // 600


def _runs(job: str, wanted: set[date]) -> Iterator[DayRun]:
    """Runs over the longest ranges of days in a row."""
    ordered = sorted(wanted)
    first = 0
    for i, day in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] - day > timedelta(days=1):
            yield DayRun(job=job, first=ordered[first], last=day)
            first = i + 1
