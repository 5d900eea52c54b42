"""Jobs: a call that runs Spark jobs, ended when the thread that waits for it is interrupted.

A Python thread has one connection to the JVM. An interrupt while it waits there, such as an
orchestrator's when a run is terminated, leaves the job running and the connection in the middle of
an answer, so that the next call hangs until the job has ended. So the call gets a thread of its
own, and the one that is interrupted can cancel it.
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

from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from delta_ops.spark.session.progress import INTERVAL_S, OnTasks, watch_tasks
from delta_ops.spark.session.session import is_connect

_T = TypeVar("_T")
_P = ParamSpec("_P")
_LONGEST_WAIT_S = 60
"""For jobs to end that were cancelled; files that they write later are garbage."""
_BETWEEN_CANCELS_S = 0.5


def run(spark: SparkSession, call: Callable[[], _T], on_tasks: OnTasks | None = None) -> _T:
    """What the call returns or raises; an interrupt of this thread cancels its jobs first.

    Args:
        on_tasks: Told in this thread, now and then, how far the call's jobs are; what it raises
            cancels them.
    """
    with background_call(spark, call, on_tasks) as result:
        return result()


@contextlib.contextmanager
def background_call(
    spark: SparkSession, call: Callable[[], _T], on_tasks: OnTasks | None = None
) -> Iterator[Callable[[], _T]]:
    """Make a call while this thread does something else.

    The function that it gives waits for what the call returns or raises, and is to be called.
    On Spark Connect the call is made then. An error or interrupt of this thread cancels its jobs.

    Args:
        on_tasks: As for `run`, told while the function waits.
    """
    tag = f"delta_ops-{uuid.uuid4().hex}"
    if is_connect(spark):
        yield partial(_run_remotely, spark, call, tag, on_tasks)
        return
    outcome: Future[_T] = Future()

    def call_tagged() -> _T:
        # Not a tag of the session: `interruptTag` finds no job that another thread started.
        spark.sparkContext.addJobTag(tag)
        try:
            return call()
        finally:
            spark.sparkContext.removeJobTag(tag)

    inherited = inheritable_thread_target(spark)(call_tagged)

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
    """Whether Spark would send these rows whole to every task of a join; not on Spark Connect."""
    if is_connect(rows.sparkSession):
        return False
    query: Any = rows
    num_bytes = query._jdf.queryExecution().withCachedData().stats().sizeInBytes()
    settings = query._jdf.sparkSession().sessionState().conf()
    return bool(num_bytes <= settings.autoBroadcastJoinThreshold())


class Together:
    """Calls in several threads, of which all jobs can be cancelled; made by `together`."""

    def __init__(self, spark: SparkSession, cancel_jobs: Callable[[], object]) -> None:
        self._spark, self._cancel_jobs = spark, cancel_jobs
        self._home = threading.get_ident()
        self._under_way: set[object] = set()
        self._canceller: threading.Thread | None = None

    def bind(self, call: Callable[_P, _T]) -> Callable[_P, _T]:
        """The call for whatever thread, with what this one has set for its session; for one use."""
        inherited = inheritable_thread_target(self._spark)(call)

        def call_noted(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            # This thread has its settings, and would get those of the moment of binding.
            called = call if threading.get_ident() == self._home else inherited
            self._under_way.add(called)
            try:
                return called(*args, **kwargs)
            finally:
                self._under_way.discard(called)

        return call_noted

    def cancel(self) -> None:
        """Cancel the jobs of all calls, those too that start while the calls end."""
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
    """For calls in several threads; to be entered by the one that waits for them."""
    tag = f"delta_ops-{uuid.uuid4().hex}"
    session: Any = spark
    if is_connect(spark):
        add, remove, cancel = session.addTag, session.removeTag, session.interruptTag
    else:
        context = session.sparkContext
        add, remove, cancel = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
    add(tag)  # each call that is bound inherits it
    try:
        yield Together(spark, partial(cancel, tag))
    finally:
        remove(tag)


def _report_until_done(
    spark: SparkSession, tag: str, outcome: Future[_T], on_tasks: OnTasks
) -> None:
    # A thread of its own asks, for an interrupt may come in the middle of an answer.
    latest: list[tuple[int, int]] = []
    with watch_tasks(spark, lambda done, total: latest.append((done, total)), tag):
        while not wait([outcome], timeout=INTERVAL_S).done:
            if latest:
                on_tasks(*latest[-1])
                latest.clear()


def _run_remotely(spark: Any, call: Callable[[], _T], tag: str, on_tasks: OnTasks | None) -> _T:
    """What the call returns or raises, of a session without a JVM to lose the connection to."""
    with contextlib.ExitStack() as entered:
        spark.addTag(tag)
        entered.callback(spark.removeTag, tag)
        if on_tasks is not None:
            entered.enter_context(watch_tasks(spark, on_tasks))
        try:
            return call()
        except PySparkException:  # of the server, where nothing is at work any more
            raise
        except BaseException:
            spark.interruptTag(tag)
            raise


def _cancel(spark: SparkSession, tag: str, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while thread.is_alive() and time.monotonic() < deadline:
        spark.sparkContext.cancelJobsWithTag(tag)  # once more for a job that started meanwhile
        thread.join(_BETWEEN_CANCELS_S)
