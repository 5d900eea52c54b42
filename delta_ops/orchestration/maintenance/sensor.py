"""Maintenance sensor: reads the logs of many tables without runs, and requests few runs.

Tables whose logs alone need work share a run, in batches. A table whose data files need a rewrite
gets a run of its own, which also maintains its log. A table with an unfinished run is skipped: for
one day at most, or as long as the run is queued.

A tick reads tables until its time is over and leaves the rest to the next tick. The cursor is the
name of the next table. A table that cannot be read does not stop the others: a sentence in the
tick's reason and in its log says why.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from queue import Empty, SimpleQueue
from typing import NamedTuple

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.clock import HOUR_MS, Clock, system_clock
from delta_ops.errors import DeltaOpsError, InvalidRequestError, TableNotFoundError
from delta_ops.maintenance import HealthReport, Operation
from delta_ops.maintenance.fleet.failures import failure_of
from delta_ops.orchestration.checks.check_ops import OwnChecks
from delta_ops.orchestration.checks.check_results import AssessedTable, changed_evaluations
from delta_ops.orchestration.dagster_compat import sensor_location
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation
from delta_ops.orchestration.maintenance.jobs import LOG_OPERATIONS, is_gone
from delta_ops.orchestration.maintenance.unfinished_runs import run_sentence, unfinished_runs
from delta_ops.orchestration.policies.choice import PolicyJobs, due_operations, jobs_of
from delta_ops.orchestration.policies.maintenance_config import maintenance_config
from delta_ops.orchestration.policies.policy import MaintenancePolicy
from delta_ops.orchestration.tables import TableRef
from delta_ops.orchestration.tags import TABLE_TAG
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead
from delta_ops.units import count_text

_GRACE = 1.25
"""An assessment must end within this multiple of the tick's time."""
_LONGEST_RUN_MS = 24 * HOUR_MS
"""An unfinished run blocks its tables no longer than this, unless it is queued."""
_SHOWN_NOTES = 20
"""Notes in the reason of a tick, which Dagster stores. The log of the tick has all notes."""


class _Place(NamedTuple):
    """A table, and the jobs of its policy."""

    table: TableRef
    jobs: PolicyJobs


@dataclass(frozen=True, slots=True, kw_only=True)
class TickLimits:
    """Limits of one tick; the next tick continues."""

    seconds: int = 40
    """After this time a tick reads no further tables. Dagster ends a tick after one minute."""
    batch_size: int = 100
    """Tables whose logs one run maintains."""
    max_runs: int = 100
    """Runs for single tables that one tick requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assessment:
    """A tick's assessment of a table."""

    table: TableRef
    jobs: PolicyJobs
    version: int = -1
    operations: tuple[Operation, ...] = ()
    report: HealthReport | None = None
    warning: str | None = None
    error: Exception | None = None

    @property
    def text(self) -> str:
        return f"{self.table.name}@{self.version}:{'+'.join(self.operations)}"

    @property
    def is_for_batch(self) -> bool:
        return self.jobs.log_job is not None and set(self.operations) <= set(LOG_OPERATIONS)


def build_maintenance_sensor(
    job: dg.JobDefinition,
    tables: Sequence[TableRef],
    *,
    log_job: dg.JobDefinition | None = None,
    policy: MaintenancePolicy | None = None,
    name: str = "delta_maintenance_sensor",
    minimum_interval_seconds: int = 300,
    clock: Clock = system_clock,
) -> dg.SensorDefinition:
    """Build a sensor that requests a run of the maintenance job for each table that needs work.

    Args:
        log_job: A job from `build_log_maintenance_job`, for tables whose logs alone need work.
        policy: Policy of the jobs, which decides what is due. None: any possible work is due.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> build_maintenance_sensor(build_maintenance_job([orders]), [orders]).name
        'delta_maintenance_sensor'
    """
    validate_arguments(build_maintenance_sensor, locals())
    sweep = Sweep(policies=[PolicyJobs(policy, tables, job, log_job)], clock=clock)
    return build_sweep_sensor(sweep, name=name, minimum_interval_seconds=minimum_interval_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The tables that a sensor reads in turn, with its settings."""

    policies: Sequence[PolicyJobs]
    with_checks: bool = False
    """Whether to evaluate the health checks of the code location, and report changed results."""
    limits: TickLimits = TickLimits()
    clock: Clock = system_clock

    def places(self) -> list[_Place]:
        """The tables that may need work.

        A table is included if its policy allows operations, or if a property of the table may name
        another policy that allows operations.
        """
        return [
            _Place(table, jobs)
            for jobs in self.policies
            for table in jobs.tables
            if jobs.has_work or any(each.can_take(table, jobs) for each in self.policies)
        ]

    def tables_by_job(self) -> dict[str, list[str]]:
        """Names of the tables that each job maintains."""
        return {
            job.name: [table.name for table in each.tables]
            for each in self.policies
            for job in each.all_jobs
        }


def build_sweep_sensor(
    sweep: Sweep,
    *,
    name: str = "delta_maintenance_sensor",
    minimum_interval_seconds: int = 300,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Build a sensor that requests runs of the policies' jobs for tables that need work."""
    places, tables_by_job = sweep.places(), sweep.tables_by_job()

    @dg.sensor(
        name=name,
        jobs=[job for each in sweep.policies for job in each.all_jobs],
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=(
            f"Reads the logs of {count_text(len(places), 'table')}, and requests a run for tables "
            "with work."
        ),
    )
    def maintenance_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        return _Tick(context, sweep, places, tables_by_job).run()

    return maintenance_sensor


class _Tick:
    """One tick: assesses tables in turn, and requests runs for tables that need work."""

    def __init__(
        self,
        context: dg.SensorEvaluationContext,
        sweep: Sweep,
        places: Sequence[_Place],
        tables_by_job: Mapping[str, Sequence[str]],
    ) -> None:
        self._context, self._sweep = context, sweep
        self._now_ms = sweep.clock()
        self._places = _rotate(places, context.cursor)
        after = datetime.fromtimestamp((self._now_ms - _LONGEST_RUN_MS) / 1000, UTC)
        self._unfinished = unfinished_runs(context.instance, tables_by_job, after=after)
        self._notes = _Notes(context)
        self._assessed: list[_Assessment] = []
        self._due: list[_Assessment] = []

    def run(self) -> dg.SensorResult:
        """Assess tables until the time is over or enough runs are due."""
        limits = self._sweep.limits
        num_single_runs = 0
        for each in _take_until_deadline(self._assess_places(), self._places, limits.seconds):
            self._assessed.append(each)
            if self._needs_run(each):
                self._due.append(each)
                num_single_runs += not each.is_for_batch
            if num_single_runs >= limits.max_runs:
                break
        left = self._places[len(self._assessed) :]
        requests = list(_requests(self._due, limits.batch_size, self._sweep.clock()))
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else self._notes.text(len(left)),
            cursor=left[0].table.name if left else "",
            asset_events=self._evaluations() if self._sweep.with_checks else (),
        )

    def _assess_places(self) -> Iterator[_Assessment]:
        """Assess the tables in order; begins no table after the time limit of the tick."""
        clock, ends_ms = self._sweep.clock, self._now_ms + 1000 * self._sweep.limits.seconds
        in_time = takewhile(lambda _: clock() < ends_ms, self._places)
        # Local disks do not wait, and threads that compute only slow each other down.
        if all(local_path_of(place.table.uri) is not None for place in self._places):
            return (_assess(place, self._sweep) for place in in_time)
        calls = ((1, partial(_assess, place, self._sweep)) for place in in_time)
        return run_ahead(calls, len(self._places), MAX_CONCURRENCY)

    def _needs_run(self, each: _Assessment) -> bool:
        """Whether to request a run for a table; if not, add a note with the reason."""
        name = each.table.name
        if each.warning is not None:
            self._notes.add(f"{name}: {each.warning}")
        if each.error is not None:
            self._notes.add_failure(each.table, each.error)
        elif not each.operations:
            self._notes.idle += 1
        elif name in self._unfinished:
            self._notes.add(f"{name} {run_sentence(self._unfinished[name])}")
        else:
            return True
        return False

    def _evaluations(self) -> list[AssetCheckEvaluation]:
        """Changed results of the health checks; none for a missing table."""
        checks = OwnChecks(self._context.repository_def)
        assessed = [
            AssessedTable(each.table, each.jobs.job.name, found, checks.names(each.table.asset_key))
            for each in self._assessed
            if isinstance(found := each.report or each.error, HealthReport | DeltaOpsError)
            and not isinstance(found, TableNotFoundError)
        ]
        context = self._context
        return changed_evaluations(context.instance, assessed, sensor_location(context))


def _rotate(places: Sequence[_Place], first: str | None) -> list[_Place]:
    start = next((n for n, place in enumerate(places) if place.table.name == first), 0)
    return [*places[start:], *places[:start]]


def _take_until_deadline(
    assessments: Iterator[_Assessment], places: Sequence[_Place], tick_seconds: int
) -> Iterator[_Assessment]:
    """Yield assessments until one exceeds the deadline; the late table gets a failure.

    Otherwise Dagster would end such a tick, and each tick would start with the same table for ever.
    """
    found, is_over = SimpleQueue[_Assessment | None](), threading.Event()
    ends_s = time.monotonic() + _GRACE * tick_seconds
    fill = partial(_fill_queue, found, assessments, is_over)
    threading.Thread(target=fill, daemon=True).start()
    try:
        for table, jobs in places:
            try:
                each = found.get(timeout=max(0, ends_s - time.monotonic()))
            except Empty:
                error = InvalidRequestError(
                    "checking it takes longer than a tick; only its schedule maintains it"
                )
                yield _Assessment(table=table, jobs=jobs, error=error)
                return
            if each is None:
                return
            yield each
    finally:
        is_over.set()


def _fill_queue(
    queue: SimpleQueue[_Assessment | None],
    assessments: Iterator[_Assessment],
    is_over: threading.Event,
) -> None:
    """Put assessments into a queue until `is_over` is set; None ends the queue."""
    for each in assessments:
        queue.put(each)
        if is_over.is_set():
            break
    queue.put(None)


def _assess(place: _Place, sweep: Sweep) -> _Assessment:
    table, jobs = place
    others = [each.policy for each in sweep.policies if each.policy is not None]
    try:
        due = due_operations(
            table.log(), jobs.policy, name=table.name, others=others, clock=sweep.clock
        )
    except Exception as error:  # one table must not stop the maintenance of the others
        return _Assessment(table=table, jobs=jobs, error=error)
    return _Assessment(
        table=table,
        jobs=jobs_of(due.policy, sweep.policies) or jobs,
        version=due.version,
        operations=due.operations,
        report=due.report,
        warning=due.warning,
    )


def _requests(due: Sequence[_Assessment], batch_size: int, now_ms: int) -> Iterator[dg.RunRequest]:
    """Run requests for tables. Work that a failed run left is requested again an hour later."""
    hour = now_ms // HOUR_MS
    batches: dict[str, list[_Assessment]] = {}
    for each in due:
        job = each.jobs.log_job
        if job is not None and each.is_for_batch:
            batches.setdefault(job.name, []).append(each)
            continue
        yield dg.RunRequest(
            run_key=f"{each.text}:{hour}",
            job_name=each.jobs.job.name,
            run_config=maintenance_config([each.table.name]),
            tags={TABLE_TAG: each.table.name, "dagster/priority": "-5"},
        )
    for job_name, tables in batches.items():
        for start in range(0, len(tables), batch_size):
            batch = tables[start : start + batch_size]
            yield dg.RunRequest(
                run_key=f"{_digest(each.text for each in batch)}:{hour}",
                job_name=job_name,
                run_config=maintenance_config([each.table.name for each in batch]),
                tags={"dagster/priority": "-5"},
            )


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


class _Notes:
    """The notes of a tick; its log has all notes, its reason has the first notes."""

    def __init__(self, context: dg.SensorEvaluationContext) -> None:
        self._context = context
        self._failures: list[str] = []
        self._others: list[str] = []
        self.idle = 0
        """Tables without work."""

    def add(self, sentence: str) -> None:
        self._context.log.info(sentence)
        self._others.append(sentence)

    def add_failure(self, table: TableRef, error: Exception) -> None:
        """Note why a table could not be read."""
        if isinstance(error, TableNotFoundError) and not is_gone(self._context.instance, table):
            self.add(f"{table.name} does not exist yet")
            return
        sentence = f"{table.name}: {failure_of(error).message}"
        self._context.log.error(sentence)
        self._failures.append(sentence)

    def text(self, left: int) -> str:
        """The reason of the tick.

        Args:
            left: Tables that the tick did not reach.
        """
        sentences = self._failures + self._others
        shown = sentences[:_SHOWN_NOTES]
        more = len(sentences) - len(shown)
        return "; ".join(
            [
                *shown,
                *([f"{count_text(more, 'more sentence')} in the log of the tick"] if more else []),
                *([f"{count_text(left, 'table')} left to the next tick"] if left else []),
                f"nothing to do for {count_text(self.idle, 'table')}",
            ]
        )
