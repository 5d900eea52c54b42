"""When the pipeline runs: arrived files start the ingestion, and changed rows start the refresh.

Both checks read the tables and Dagster's events, not a memory of earlier requests: a file is
pending while `flights_raw` does not hold its generation, and a day is late if its rows changed
after they were last read. So all ways to run are equal: the sensors, the demo, a backfill, a
re-execution. A run is requested once; a failed run waits for a manual re-execution, or for the next
change.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import dagster as dg

from delta_ops.log import DeltaLog
from delta_ops.orchestration import DeltaLogResource, changed_values, source_txn
from examples.flights.assets import (
    START,
    days,
    delay_by_origin,
    flights,
    flights_quarantine,
    flights_raw,
)
from examples.flights.settings import FlightsInput, flights_path
from examples.flights.sources import InputError, InputFile

# A run whose process died is retried; `dagster.yaml` disables retries of step errors.
_TAGS = {"dagster/max_retries": "2"}
ingest_job = dg.define_asset_job(
    "ingest_flights",
    [flights_raw, flights_quarantine],
    description="Reads the files of some days into tables.",
    tags=_TAGS,
)
refresh_job = dg.define_asset_job(
    "refresh_flights",
    [flights, delay_by_origin],
    description="Computes the flights and delays of some days again.",
    tags=_TAGS,
)
quarantine_job = dg.define_asset_job(
    "refresh_quarantine",
    [flights_quarantine],
    description="Collects the bad records of some days again.",
    tags=_TAGS,
)
check_job = dg.define_asset_job(
    "check_tables",
    dg.AssetSelection.all_asset_checks(),
    description="Runs the checks of all tables.",
)

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """An asset whose days each depend on rows of an upstream table."""

    job: str
    asset: dg.AssetKey
    upstream: dg.AssetKey
    column: str
    """The upstream table's column with the day of a row."""


FOLLOWERS = [
    Follower(
        job=refresh_job.name, asset=flights.key, upstream=flights_raw.key, column="flight_day"
    ),
    Follower(
        job=refresh_job.name, asset=delay_by_origin.key, upstream=flights.key, column="flight_day"
    ),
    Follower(
        job=quarantine_job.name,
        asset=flights_quarantine.key,
        upstream=flights_raw.key,
        column="arrival_day",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRun:
    """A run of a job over consecutive days."""

    job: str
    first: date
    last: date

    @property
    def tags(self) -> Mapping[str, str]:
        """Dagster's tags for one run over a range of partitions."""
        return {
            "dagster/asset_partition_range_start": self.first.isoformat(),
            "dagster/asset_partition_range_end": self.last.isoformat(),
        }

    @property
    def days(self) -> str:
        """The first and the last day."""
        return str(self.first) if self.first == self.last else f"{self.first} ... {self.last}"


def pending_files(log: DeltaLog, files: Iterable[InputFile]) -> list[InputFile]:
    """The files whose generation is not in `flights_raw`."""
    snapshot = log.snapshot_if_exists()
    done = snapshot.transactions() if snapshot is not None else {}
    pending = []
    for file in files:
        txn = source_txn(flights_raw.key, file.name, file.generation)
        if txn.app_id not in done or done[txn.app_id].version < txn.version:
            pending.append(file)
    return pending


def ingest_runs(files: Iterable[InputFile]) -> list[DayRun]:
    """The runs that ingest these files.

    Raises:
        InputError: The arrival day of a file has no partition.
    """
    arrived = {file.arrival_day: file for file in files}
    for day, file in arrived.items():
        if not days.has_partition_key(day.isoformat()):
            raise InputError(
                file.path,
                f"was last modified on {day}, and the pipeline's days are {START} to tomorrow",
                "touch it, or set FIRST_DAY to an earlier one",
            )
    return list(_runs(ingest_job.name, set(arrived)))


def refresh_runs(
    instance: dg.DagsterInstance, tables: DeltaLogResource, known: Mapping[str, int]
) -> tuple[list[DayRun], dict[str, int]]:
    """The runs over late days, and the table versions used to find them.

    Args:
        known: Returned versions without late days; only later commits are read.
    """
    versions: dict[str, int] = {}
    late = defaultdict[str, set[date]](set)
    for follower in FOLLOWERS:
        log = tables.log(follower.upstream)
        if log.exists():
            name = follower.upstream.to_user_string()
            found, version = _late_days(instance, log, follower, known.get(name))
            late[follower.job] |= found
            versions[name] = min(version, versions.get(name, version))
    return [run for job, wanted in late.items() for run in _runs(job, wanted)], versions


@dg.sensor(
    job=ingest_job,
    minimum_interval_seconds=30,
    description=f"Ingests files as they arrive in {flights_path()[0]}",
)
def arrivals(
    context: dg.SensorEvaluationContext, delta_log: DeltaLogResource, flights_input: FlightsInput
) -> dg.SensorResult:
    """Requests the ingestion of arrived files."""
    pending = pending_files(delta_log.log(flights_raw.key), flights_input.files())
    requests, notes = [], []
    for run in ingest_runs(pending):
        generations = [f.generation for f in pending if run.first <= f.arrival_day <= run.last]
        key = f"{run.first}:{run.last}:{max(generations)}:{len(generations)}"
        found = _find_run(context.instance, run, key)
        if found is None:
            requests.append(dg.RunRequest(run_key=key, tags=dict(run.tags)))
        else:
            notes.append(f"files of {run.days}: {_status(found)}")
    reason = "; ".join(notes) or "flights_raw holds every file"
    return dg.SensorResult(run_requests=requests, skip_reason=None if requests else reason)


@dg.sensor(
    jobs=[refresh_job, quarantine_job],
    minimum_interval_seconds=30,
    description="Materializes again the days of new or corrected records.",
)
def late_records(
    context: dg.SensorEvaluationContext, delta_log: DeltaLogResource
) -> dg.SensorResult:
    """Materializes again the days of new or corrected records."""
    jobs = {ingest_job.name, refresh_job.name, quarantine_job.name}
    for record in context.instance.get_run_records(dg.RunsFilter(statuses=UNFINISHED)):
        if record.dagster_run.job_name in jobs:
            return dg.SensorResult(skip_reason=_status(record))
    known = json.loads(context.cursor) if context.cursor else {}
    runs, versions = refresh_runs(context.instance, delta_log, known)
    if not runs:
        return dg.SensorResult(cursor=json.dumps(versions), skip_reason="no day is late")
    requests, notes = [], []
    for run in runs:
        # The key names only flights_raw: a run changes flights itself, and would be requested
        # endlessly.
        key = f"{run.job}:{run.first}:{run.last}@{versions['flights_raw']}"
        found = _find_run(context.instance, run, key)
        if found is None:
            requests.append(dg.RunRequest(run_key=key, job_name=run.job, tags=dict(run.tags)))
        else:
            notes.append(f"{run.days} is late: {_status(found)}")
    return dg.SensorResult(
        run_requests=requests, skip_reason=None if requests else "; ".join(notes)
    )


def _late_days(
    instance: dg.DagsterInstance, log: DeltaLog, follower: Follower, after_version: int | None
) -> tuple[set[date], int]:
    """The days with rows changed after the follower read them, and the checked version."""
    changed = changed_values(log, follower.column, after_version)
    late = {day for day in changed.values if days.has_partition_key(day.isoformat())}
    # A day may have lost all its rows: then only its follower still has the day.
    wanted = None if after_version is None else late
    created_ms = log.snapshot().metadata.created_time or 0
    for version, read in _read_days(instance, follower, wanted, created_ms / 1000).items():
        again = read & set(changed_values(log, follower.column, version).values)
        late = late - read | again
    return late, changed.version


def _read_days(
    instance: dg.DagsterInstance, follower: Follower, wanted: set[date] | None, created: float
) -> Mapping[int, set[date]]:
    """The days, by the upstream version of their last read.

    Args:
        wanted: None for all days that were read.
        created: When the upstream table was created; earlier reads were of another table.
    """
    name = f"delta/input_version/{follower.upstream.to_user_string()}"
    keys = None if wanted is None else sorted(day.isoformat() for day in wanted)
    chosen = dg.AssetRecordsFilter(follower.asset, asset_partitions=keys, after_timestamp=created)
    seen = set[str | None]()
    read = defaultdict[int, set[date]](set)
    cursor, has_more = None, keys != []
    while has_more and (keys is None or len(seen) < len(keys)):
        page = instance.fetch_materializations(chosen, limit=_PAGE, cursor=cursor)
        cursor, has_more = page.cursor, page.has_more
        for record in page.records:
            event, key = record.asset_materialization, record.partition_key
            if event is None or key is None or key in seen:
                continue
            seen.add(key)
            version = event.metadata.get(name)
            if version is not None:
                read[int(str(version.value))].add(date.fromisoformat(key))
    return read


def _find_run(instance: dg.DagsterInstance, run: DayRun, key: str) -> dg.RunRecord | None:
    """The newest run with this run key."""
    filters = dg.RunsFilter(job_name=run.job, tags={"dagster/run_key": key})
    return next(iter(instance.get_run_records(filters, limit=1)), None)


def _status(record: dg.RunRecord) -> str:
    run = record.dagster_run
    if run.status in UNFINISHED:
        return f"run {run.run_id[:8]} of {run.job_name} is under way"
    ended = f"run {run.run_id[:8]} of {run.job_name} ended with {run.status.value}"
    return ended if run.is_success else f"{ended}; re-execute it"


def _runs(job: str, wanted: set[date]) -> Iterator[DayRun]:
    """Runs over the longest ranges of consecutive days."""
    ordered = sorted(wanted)
    first = 0
    for i, day in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] - day > timedelta(days=1):
            yield DayRun(job=job, first=ordered[first], last=day)
            first = i + 1
