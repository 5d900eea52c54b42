"""Spark jobs end with the call that waits for them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest
from dagster import DagsterExecutionInterruptedError
from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops.spark.session import jobs
from tests.spark.frames import files_under
from tests.support.tables import rows_by_deltalake

pytestmark = pytest.mark.spark

SOON_S = 120
"""Seconds: a cancelled job ends sooner; the endless job never would."""


def endless(spark: SparkSession) -> DataFrame:
    """Rows that keep two tasks busy for weeks; some of them are written at once."""
    return spark.range(0, 10**15, 1, 2).filter("id % 1000000 = 0")


@contextmanager
def interrupted_at_a_job(
    spark: SparkSession, error: type[BaseException], num_jobs: int = 1
) -> Iterator[Callable[[], float]]:
    """Raise the error in this thread by a signal while jobs run; return the seconds since then."""
    sent_at: list[float] = []
    left = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        raise error

    def send() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not left.is_set() and len(tracker.getActiveJobsIds()) < num_jobs:
            time.sleep(0.05)
        time.sleep(0.5)
        sent_at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, handle)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield lambda: time.monotonic() - sent_at[0]
    finally:
        left.set()
        sender.join()
        signal.signal(signal.SIGTERM, before)


def assert_idle_and_usable(spark: SparkSession) -> None:
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    assert spark.range(3).count() == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, DagsterExecutionInterruptedError])
def test_an_interrupted_write_cancels_its_job_and_leaves_nothing(
    tmp_path: Path, spark: SparkSession, error: type[BaseException]
) -> None:
    with interrupted_at_a_job(spark, error) as seconds_since, pytest.raises(error):
        ds.write(endless(spark), tmp_path)
    assert seconds_since() < SOON_S
    assert_idle_and_usable(spark)
    assert files_under(tmp_path) == set()
    ds.write(spark.range(2), tmp_path)
    assert rows_by_deltalake(tmp_path) == [{"id": 0}, {"id": 1}]


@pytest.mark.full
def test_an_interrupted_write_leaves_other_jobs_alone(tmp_path: Path, spark: SparkSession) -> None:
    interrupted = tmp_path / "interrupted"

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while not interrupted.exists():
            time.sleep(0.05)
        yield from batches

    waiting = spark.range(0, 3, 1, 1).mapInArrow(wait, "id long")
    counted: list[int] = []
    other = threading.Thread(target=lambda: counted.append(waiting.count()))
    on_one_core = spark.range(0, 10**15, 1, 1).filter("id % 1000000 = 0")

    def write_beside_the_other() -> None:
        other.start()
        ds.write(on_one_core, tmp_path / "t")

    with interrupted_at_a_job(spark, KeyboardInterrupt, 2), pytest.raises(KeyboardInterrupt):
        write_beside_the_other()
    assert other.is_alive()
    interrupted.touch()
    other.join()
    assert counted == [3]


def test_a_call_inherits_the_job_group_of_its_thread(spark: SparkSession) -> None:
    spark.sparkContext.setJobGroup("of the caller", "")
    try:
        jobs.run(spark, spark.range(3).collect)
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("of the caller")) == 1


def test_a_call_leaves_no_thread_and_no_tag(spark: SparkSession) -> None:
    threads = set(threading.enumerate())
    tagged = jobs.run(spark, lambda: list(spark.sparkContext.getJobTags()))
    assert len(tagged) == 1
    assert list(spark.sparkContext.getJobTags()) == []
    assert set(threading.enumerate()) <= threads


def test_an_error_of_the_call_passes_as_it_is(spark: SparkSession) -> None:
    def fails() -> None:
        raise ZeroDivisionError("its own")

    with pytest.raises(ZeroDivisionError, match="its own"):
        jobs.run(spark, fails)


def test_a_call_is_made_while_its_thread_does_something_else(spark: SparkSession) -> None:
    may_end = threading.Event()
    with jobs.background_call(spark, partial(may_end.wait, SOON_S)) as result:
        may_end.set()
        assert result()


def test_an_error_meanwhile_cancels_the_jobs(spark: SparkSession) -> None:
    def fail_beside_jobs() -> None:
        with jobs.background_call(spark, endless(spark).count):
            while not spark.sparkContext.statusTracker().getActiveJobsIds():
                time.sleep(0.05)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_beside_jobs()
    assert_idle_and_usable(spark)


def test_jobs_of_all_threads_are_cancelled_whoever_is_done_before(spark: SparkSession) -> None:
    with jobs.together(spark) as calls, ThreadPoolExecutor(2) as threads:
        count = partial(jobs.run, spark, spark.range(3).count)
        assert threads.submit(calls.bind(count)).result() == 3
        count = partial(jobs.run, spark, endless(spark).count)
        running = [threads.submit(calls.bind(count)) for _ in range(2)]
        while len(spark.sparkContext.statusTracker().getActiveJobsIds()) < 2:
            time.sleep(0.05)
        calls.cancel()
        for each in running:
            assert "cancelled" in str(each.exception(timeout=60))
    assert not spark.sparkContext.getJobTags()
    assert spark.range(3).count() == 3


def test_threads_have_what_the_caller_has_set(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "of maintenance")
    try:
        with jobs.together(spark) as calls, ThreadPoolExecutor(1) as threads:
            look = partial(context.getLocalProperty, "spark.scheduler.pool")
            assert threads.submit(calls.bind(look)).result() == "of maintenance"
            assert calls.bind(look)() == "of maintenance"
    finally:
        context.setLocalProperty("spark.scheduler.pool", "default")
