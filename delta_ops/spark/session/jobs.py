"""Jobs: runs a call with Spark jobs, and cancels them if the waiting thread is interrupted.

A Python thread has one connection to the JVM. An orchestrator interrupts the thread when it
terminates a run. If the thread then waits on the connection, the job keeps running, and the
connection is left in the middle of an answer. The next call would hang until the job ends. The call
therefore runs in its own thread, and the interrupted thread can cancel it.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from delta_ops.spark.session.progress import INTERVAL_S, OnTasks, watch_tasks
from delta_ops.spark.versions import arrow_of, is_connect, thread_target

_T = TypeVar("_T")
_P = ParamSpec("_P")
_LONGEST_WAIT_S = 60
"""Limit for cancelled jobs to end. Files that they write later are garbage."""
_BETWEEN_CANCELS_S = 0.5


def run(spark: SparkSession, call: Callable[[], _T], on_tasks: OnTasks | None = None) -> _T:
    """Run a call and return its result; an interrupt of this thread cancels the call's jobs first.

    Args:
        on_tasks: Receives the progress of the call's jobs from time to time, in this thread. An
            exception in it cancels the jobs.
    """
    with background_call(spark, call, on_tasks) as result:
        return result()


def load(rows: DataFrame, on_tasks: OnTasks | None = None) -> pa.Table:
    """Load rows; see `run`."""
    return run(rows.sparkSession, partial(arrow_of, rows), on_tasks)


@contextlib.contextmanager
def background_call(
    spark: SparkSession, call: Callable[[], _T], on_tasks: OnTasks | None = None
) -> Iterator[Callable[[], _T]]:
    """Run a call while this thread does other work.

    Yields a function that waits for the result or error of the call; the caller must use it. On
    Spark Connect the call only starts in that function. An error or interrupt of this thread
    cancels the jobs.

    Args:
        on_tasks: As for `run`; called while the function waits.
    """
    tag = f"delta_ops-{uuid.uuid4().hex}"
    if is_connect(spark):
        yield partial(_run_remotely, spark, call, tag, on_tasks)
        return
    outcome: Future[_T] = Future()

    def call_tagged() -> _T:
        # Not a session tag: `interruptTag` does not find jobs that another thread started.
        spark.sparkContext.addJobTag(tag)
        try:
            return call()
        finally:
            spark.sparkContext.removeJobTag(tag)

    inherited = thread_target(spark, call_tagged)

    def work() -> None:
        try:
            outcome.set_result(inherited())
        except BaseException as error:
            outcome.set_exception(error)

    def result() -> _T:
        if on_tasks is not None:
            _report_until_done(spark, tag, outcome, on_tasks)
        return outcome.result()

    thread = threading.Thread(target=work, name=tag, daemon=True)
    try:
        thread.start()
        yield result
    except BaseException:
        if not outcome.done():
            _cancel(spark, tag, thread)
        raise


def is_sent_whole(rows: DataFrame) -> bool:
    """Whether Spark would broadcast these rows in a join; false on Spark Connect."""
    if is_connect(rows.sparkSession):
        return False
    query: Any = rows
    num_bytes = query._jdf.queryExecution().withCachedData().stats().sizeInBytes()
    settings = query._jdf.sparkSession().sessionState().conf()
    return bool(num_bytes <= settings.autoBroadcastJoinThreshold())


class Together:
    """Calls in several threads whose jobs can be cancelled together; created by `together`."""

    def __init__(self, spark: SparkSession, cancel_jobs: Callable[[], object]) -> None:
        self._spark, self._cancel_jobs = spark, cancel_jobs
        self._home = threading.get_ident()
        self._under_way: set[object] = set()
        self._canceller: threading.Thread | None = None

    def bind(self, call: Callable[_P, _T]) -> Callable[_P, _T]:
        """Wrap a call that any thread can run once, with the session settings of this thread."""
        inherited = thread_target(self._spark, call)

        def call_noted(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            # In this thread the call runs directly, with the current settings. The wrapper would
            # apply the settings at the time of binding.
            called = call if threading.get_ident() == self._home else inherited
            self._under_way.add(called)
            try:
                return called(*args, **kwargs)
            finally:
                self._under_way.discard(called)

        return call_noted

    def cancel(self) -> None:
        """Cancel the jobs of all calls, including jobs that start meanwhile."""
        if self._canceller is None:
            self._canceller = threading.Thread(target=self._cancel_until_done, daemon=True)
            self._canceller.start()

    def _cancel_until_done(self) -> None:
        deadline = time.monotonic() + _LONGEST_WAIT_S
        while self._under_way and time.monotonic() < deadline:
            with contextlib.suppress(Exception):  # a session that has ended has no jobs
                self._cancel_jobs()
            time.sleep(_BETWEEN_CANCELS_S)


@contextlib.contextmanager
def together(spark: SparkSession) -> Iterator[Together]:
    """Context for calls in several threads. The thread that waits for them enters it."""
    tag = f"delta_ops-{uuid.uuid4().hex}"
    session: Any = spark
    if is_connect(spark):
        add, remove, cancel = session.addTag, session.removeTag, session.interruptTag
    else:
        context = session.sparkContext
        add, remove, cancel = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
    add(tag)  # bound calls inherit it
    try:
        yield Together(spark, partial(cancel, tag))
    finally:
        remove(tag)


def _report_until_done(
    spark: SparkSession, tag: str, outcome: Future[_T], on_tasks: OnTasks
) -> None:
    # Another thread polls, because an interrupt here could break a JVM call.
    latest: list[tuple[int, int]] = []
    with watch_tasks(spark, lambda done, total: latest.append((done, total)), tag):
        while not wait([outcome], timeout=INTERVAL_S).done:
            if latest:
                on_tasks(*latest[-1])
                latest.clear()


def _run_remotely(spark: Any, call: Callable[[], _T], tag: str, on_tasks: OnTasks | None) -> _T:
    """Run a call on a Connect session, where an interrupt breaks no JVM connection."""
    with contextlib.ExitStack() as entered:
        spark.addTag(tag)
        entered.callback(spark.removeTag, tag)
        if on_tasks is not None:
            entered.enter_context(watch_tasks(spark, on_tasks))
        try:
            return call()
        except PySparkException:  # an error of the server: no job is running
            raise
        except BaseException:
            spark.interruptTag(tag)
            raise


def _cancel(spark: SparkSession, tag: str, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while thread.is_alive() and time.monotonic() < deadline:
        spark.sparkContext.cancelJobsWithTag(tag)  # again, for jobs that started meanwhile
        thread.join(_BETWEEN_CANCELS_S)
