"""Jobs: a call that runs Spark jobs, ended when the thread that waits for it is interrupted.

A Python thread has one connection to the JVM. An interrupt while it waits there, such as an
orchestrator's when a run is terminated, leaves the job running and the connection in the middle of
an answer, so that the next call hangs until the job has ended. So the call gets a thread of its
own, and the one that is interrupted can cancel it.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession, is_remote

_T = TypeVar("_T")
_LONGEST_WAIT_S = 60
"""For jobs to end that were cancelled; files that they write later are garbage."""
_BETWEEN_CANCELS_S = 0.5


def run(spark: SparkSession, call: Callable[[], _T]) -> _T:
    """What the call returns or raises; an interrupt of this thread cancels its jobs first."""
    if is_remote():  # no JVM to lose the connection to, and no way to its jobs
        return call()
    tag = f"delta_ops-{uuid.uuid4().hex}"
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

    thread = threading.Thread(target=work, name=tag, daemon=True)
    try:
        thread.start()
        return outcome.result()
    except BaseException:
        if not outcome.done():
            _cancel(spark, tag, thread)
        raise


def _cancel(spark: SparkSession, tag: str, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while thread.is_alive() and time.monotonic() < deadline:
        spark.sparkContext.cancelJobsWithTag(tag)  # once more for a job that started meanwhile
        thread.join(_BETWEEN_CANCELS_S)
