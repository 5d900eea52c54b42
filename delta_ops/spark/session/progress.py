"""Progress: reports the number of finished Spark tasks while a call waits for them.

On a classic session, a thread polls the status tracker. A Connect server sends progress itself, to
the waiting thread.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from delta_ops.arguments import validate_arguments
from delta_ops.errors import MissingDependencyError
from delta_ops.events import OnEvent, Progress
from delta_ops.spark.versions import is_connect

INTERVAL_S = 0.5
"""Seconds between two polls of a session's stages; a poll takes a few JVM calls."""
_JOIN_S = 5.0

OnTasks = Callable[[int, int], None]
"""Receives the number of finished tasks, and of all tasks in the started stages."""


def show_progress(
    spark: SparkSession, on_event: OnEvent | None = None
) -> contextlib.AbstractContextManager[None]:
    """Show the progress of all the session's jobs inside the context.

    Args:
        on_event: Receives a `Progress` event in its own thread when more tasks are done. None: a
            progress bar on standard error, if that is a terminal.

    Raises:
        MissingDependencyError: The bar needs the package rich, which is not installed.

    Examples:
        >>> with ds.show_progress(spark):
        ...     ds.read(spark, "lake/orders").count()
        3
    """
    validate_arguments(show_progress, locals())
    return _show_progress(spark, on_event)


@contextlib.contextmanager
def _show_progress(spark: SparkSession, on_event: OnEvent | None) -> Iterator[None]:
    with contextlib.ExitStack() as entered:
        if on_event is not None:
            report = tasks_reporter(on_event, "", "Spark tasks")
        elif sys.stderr.isatty():
            report = entered.enter_context(_bar())
        else:
            yield
            return
        entered.enter_context(watch_tasks(spark, report))
        yield


def tasks_reporter(on_event: OnEvent, table: str, operation: str) -> OnTasks:
    """Create a callback that sends an event for each change."""
    last = (0, 0)

    def report(done: int, total: int) -> None:
        nonlocal last
        if (done, total) != last:
            last = (done, total)
            on_event(Progress(table=table, operation=operation, done=done, total=total))

    return report


@contextlib.contextmanager
def watch_tasks(spark: SparkSession, report: OnTasks, tag: str | None = None) -> Iterator[None]:
    """Report the tasks of the session's jobs inside the context.

    Args:
        tag: Tag of the jobs, on a classic session. None: all active jobs.
    """
    watch = _watch_connect if is_connect(spark) else _watch_classic
    with watch(spark, report, tag):
        yield


@contextlib.contextmanager
def _watch_classic(spark: SparkSession, report: OnTasks, tag: str | None) -> Iterator[None]:
    left, tasks = threading.Event(), _Tasks()

    def look() -> None:
        while not left.wait(INTERVAL_S):
            try:
                _look_at_stages(spark, tag, tasks)
            except (Py4JError, AttributeError, OSError):  # stopped, or other Spark internals
                return
            report(*tasks.sums())

    thread = threading.Thread(target=look, name="delta_ops progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join(_JOIN_S)


def _look_at_stages(spark: SparkSession, tag: str | None, tasks: _Tasks) -> None:
    tracker = spark.sparkContext.statusTracker()
    stages: list[int] = []
    if tag is None:
        stages += tracker.getActiveStageIds()
    else:
        for job in _jobs_of_tag(spark, tag):
            info = tracker.getJobInfo(job)
            stages += [] if info is None else info.stageIds
    for stage in stages:
        found = tracker.getStageInfo(stage)
        if found is not None:
            tasks.set(stage, found.numCompletedTasks, found.numTasks)


def _jobs_of_tag(spark: SparkSession, tag: str) -> list[int]:
    context: Any = spark.sparkContext
    return list(context._jsc.sc().statusTracker().getJobIdsForTag(tag))


@contextlib.contextmanager
def _watch_connect(spark: SparkSession, report: OnTasks, _tag: str | None) -> Iterator[None]:
    tasks = _Tasks()

    def handle(stages: Any, **_others: object) -> None:
        for stage in stages or ():
            tasks.set(stage.stage_id, stage.num_completed_tasks, stage.num_tasks)
        report(*tasks.sums())

    session: Any = spark
    session.registerProgressHandler(handle)
    try:
        yield
    finally:
        session.removeProgressHandler(handle)


class _Tasks:
    """Task counts of all seen stages; finished stages are not polled again."""

    def __init__(self) -> None:
        self._by_stage: dict[int, tuple[int, int]] = {}

    def set(self, stage: int, done: int, total: int) -> None:
        """Update the counts of a stage."""
        self._by_stage[stage] = (done, total)

    def sums(self) -> tuple[int, int]:
        """The number of finished tasks and the number of all tasks."""
        return sum(done for done, _ in self._by_stage.values()), sum(
            total for _, total in self._by_stage.values()
        )


@contextlib.contextmanager
def _bar() -> Iterator[OnTasks]:
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
    except ImportError as error:
        raise MissingDependencyError(
            "a bar on the terminal needs the package rich; install it with: pip install "
            "'delta_ops[cli]', or give show_progress an on_event"
        ) from error
    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Spark tasks", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
