"""Maintenance sensor: looks at the logs of many tables without runs, and asks for few of those.

Tables whose logs alone need work share a run, in batches; one whose data files are to be rewritten
gets a run of its own, which does the rest for it, too. A table with a run that waits or is under
way is left out; for a day at most, unless the run is in the queue.

A tick looks at tables until its time is over and leaves the rest to the next: the cursor is the
name of the table that comes first then. A table that cannot be looked at does not keep the others
from it: a sentence in the tick's reason and in its log says why.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from queue import Empty, SimpleQueue

import dagster as dg

from delta_ops.clock import HOUR_MS, Clock, system_clock
from delta_ops.errors import DeltaOpsError, InvalidRequestError, TableNotFoundError
from delta_ops.maintenance import HealthReport, Operation
from delta_ops.maintenance.fleet.maintain import failure_of
from delta_ops.orchestration.checks.check_results import SeenTable, changed_evaluations
from delta_ops.orchestration.dagster_compat import sensor_location
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

_LAST_LOOK = 1.25
"""By how much of its time a tick is longer for a look that has begun."""
_LONGEST_RUN_MS = 24 * HOUR_MS
"""After so long a run of which nothing was heard keeps no table from the next one."""
_TOLD_NOTES = 20
"""Notes in the reason of a tick, which Dagster keeps; the tick's log has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What a look at a table has found."""

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
    """Requests a run of the maintenance job for each table that needs one.

    Args:
        log_job: As `build_log_maintenance_job` makes it; looks after the tables whose logs alone
            need work.
        policy: What is due; that of the jobs. None: whatever there is to do is due.
    """
    jobs = PolicyJobs(policy, tables, job, log_job)
    return build_sweep_sensor(
        [jobs], name=name, minimum_interval_seconds=minimum_interval_seconds, clock=clock
    )


def build_sweep_sensor(
    policies: Sequence[PolicyJobs],
    *,
    name: str = "delta_maintenance_sensor",
    minimum_interval_seconds: int = 300,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
    with_checks: bool = False,
    tick_seconds: int = 40,
    batch_size: int = 100,
    max_runs: int = 100,
    clock: Clock = system_clock,
) -> dg.SensorDefinition:
    """Requests runs of the policies' jobs for the tables that need work.

    Args:
        with_checks: Tell the health checks of the tables what was found, where it is not what
            they said last.
        tick_seconds: A tick that has taken so long leaves the rest to the next; Dagster ends one
            after a minute.
        batch_size: Tables whose logs are looked after in one run.
        max_runs: Runs for a single table that a tick asks for; the rest is left to the next.
    """
    places = [
        (table, jobs)
        for jobs in policies
        for table in jobs.tables
        if jobs.has_work or any(each.can_take(table, jobs) for each in policies)
    ]
    definitions = [job for each in policies for job in (each.job, each.log_job) if job is not None]
    tables_by_job = {
        job.name: [table.name for table in each.tables]
        for each in policies
        for job in (each.job, each.log_job)
        if job is not None
    }

    @dg.sensor(
        name=name,
        jobs=definitions,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=(
            f"Looks at the logs of {count_text(len(places), 'table')}, and requests a run where "
            "there is work."
        ),
    )
    def maintenance_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now_ms = clock()
        ends_ms = now_ms + 1000 * tick_seconds
        after = datetime.fromtimestamp((now_ms - _LONGEST_RUN_MS) / 1000, UTC)
        under_way = unfinished_runs(context.instance, tables_by_job, after=after)
        in_turn = _rotate(places, context.cursor)
        notes = _Notes(context)
        due: list[_Look] = []
        seen: list[_Look] = []
        singles = 0
        looks = _looks(in_turn, policies, ends_ms, clock)
        for look in _take_in_time(looks, in_turn, tick_seconds):
            seen.append(look)
            if look.warning is not None:
                notes.add(f"{look.table.name}: {look.warning}")
            if look.error is not None:
                notes.add_failure(look)
            elif not look.operations:
                notes.idle += 1
            elif look.table.name in under_way:
                notes.add(f"{look.table.name} {run_sentence(under_way[look.table.name])}")
            else:
                due.append(look)
                singles += not look.is_for_batch
            if singles >= max_runs:
                break
        left = in_turn[len(seen) :]
        requests = list(_requests(due, batch_size, clock()))
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else notes.text(len(left)),
            cursor=left[0][0].name if left else "",
            asset_events=_evaluations(context, seen) if with_checks else (),
        )

    return maintenance_sensor


def _rotate(
    places: Sequence[tuple[TableRef, PolicyJobs]], first: str | None
) -> list[tuple[TableRef, PolicyJobs]]:
    start = next((n for n, (table, _) in enumerate(places) if table.name == first), 0)
    return [*places[start:], *places[:start]]


def _looks(
    places: Sequence[tuple[TableRef, PolicyJobs]],
    policies: Sequence[PolicyJobs],
    ends_ms: int,
    clock: Clock,
) -> Iterator[_Look]:
    """What is due for the tables, in their order, as far as there is time to look at them."""
    in_time = takewhile(lambda _: clock() < ends_ms, places)
    # A disk lets nobody wait, and threads that compute only hinder each other.
    if all(local_path_of(table.uri) is not None for table, _ in places):
        return (_look(table, jobs, policies, clock) for table, jobs in in_time)
    calls = ((1, partial(_look, table, jobs, policies, clock)) for table, jobs in in_time)
    return run_ahead(calls, len(places), MAX_CONCURRENCY)


def _take_in_time(
    looks: Iterator[_Look], places: Sequence[tuple[TableRef, PolicyJobs]], tick_seconds: int
) -> Iterator[_Look]:
    """The looks, up to one that does not end in time: it is a failure, and the last one.

    Dagster would end the tick, whose cursor would then begin with the same tables for ever.
    """
    found, is_over = SimpleQueue[_Look | None](), threading.Event()

    def look_on() -> None:
        for look in looks:
            found.put(look)
            if is_over.is_set():
                break
        found.put(None)

    ends_s = time.monotonic() + _LAST_LOOK * tick_seconds
    threading.Thread(target=look_on, daemon=True).start()
    try:
        for table, jobs in places:
            try:
                look = found.get(timeout=max(0, ends_s - time.monotonic()))
            except Empty:
                error = InvalidRequestError(
                    "it takes longer to look at than a tick may take; its schedule looks after it"
                )
                yield _Look(table=table, jobs=jobs, error=error)
                return
            if look is None:
                return
            yield look
    finally:
        is_over.set()


def _look(table: TableRef, jobs: PolicyJobs, policies: Sequence[PolicyJobs], clock: Clock) -> _Look:
    others = [each.policy for each in policies if each.policy is not None]
    try:
        due = due_operations(table.log(), jobs.policy, name=table.name, others=others, clock=clock)
    except Exception as error:  # one table must not keep the others from maintenance
        return _Look(table=table, jobs=jobs, error=error)
    return _Look(
        table=table,
        jobs=jobs_of(due.policy, policies) or jobs,
        version=due.version,
        operations=due.operations,
        report=due.report,
        warning=due.warning,
    )


def _evaluations(
    context: dg.SensorEvaluationContext, looks: Sequence[_Look]
) -> list[dg.AssetCheckEvaluation]:
    """What checks are to be told; of a table that is not there, nothing."""
    seen = [
        SeenTable(look.table, look.jobs.job.name, found)
        for look in looks
        if isinstance(found := look.report or look.error, HealthReport | DeltaOpsError)
        and not isinstance(found, TableNotFoundError)
    ]
    return changed_evaluations(context.instance, seen, sensor_location(context))


def _requests(due: Sequence[_Look], batch_size: int, now_ms: int) -> Iterator[dg.RunRequest]:
    """Runs for tables; what a failed one has left undone is asked for again an hour later."""
    hour = now_ms // HOUR_MS
    batches: dict[str, list[_Look]] = {}
    for look in due:
        job = look.jobs.log_job
        if job is not None and look.is_for_batch:
            batches.setdefault(job.name, []).append(look)
            continue
        yield dg.RunRequest(
            run_key=f"{look.text}:{hour}",
            job_name=look.jobs.job.name,
            run_config=maintenance_config([look.table.name]),
            tags={TABLE_TAG: look.table.name, "dagster/priority": "-5"},
        )
    for job_name, looks in batches.items():
        for start in range(0, len(looks), batch_size):
            batch = looks[start : start + batch_size]
            yield dg.RunRequest(
                run_key=f"{_digest(look.text for look in batch)}:{hour}",
                job_name=job_name,
                run_config=maintenance_config([look.table.name for look in batch]),
                tags={"dagster/priority": "-5"},
            )


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


class _Notes:
    """What a tick has to say: of each table in its log, of the first ones in its reason."""

    def __init__(self, context: dg.SensorEvaluationContext) -> None:
        self._context = context
        self._failures: list[str] = []
        self._others: list[str] = []
        self.idle = 0

    def add(self, sentence: str) -> None:
        self._context.log.info(sentence)
        self._others.append(sentence)

    def add_failure(self, look: _Look) -> None:
        """Tell why a table could not be looked at."""
        error, table = look.error, look.table
        assert error is not None
        if isinstance(error, TableNotFoundError) and not is_gone(self._context.instance, table):
            self.add(f"{table.name} does not exist yet")
            return
        sentence = f"{table.name}: {failure_of(error).message}"
        self._context.log.error(sentence)
        self._failures.append(sentence)

    def text(self, left: int) -> str:
        sentences = self._failures + self._others
        told = sentences[:_TOLD_NOTES]
        more = len(sentences) - len(told)
        return "; ".join(
            [
                *told,
                *([f"{count_text(more, 'more sentence')} in the log of the tick"] if more else []),
                *([f"{count_text(left, 'table')} left to the next tick"] if left else []),
                f"nothing to do for {count_text(self.idle, 'table')}",
            ]
        )
