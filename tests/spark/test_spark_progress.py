"""Progress of Spark's tasks, reported while a call waits."""

from __future__ import annotations

import io
import sys
import threading
import time

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.spark as ds
from delta_ops.events import Event, Progress
from delta_ops.spark.session import jobs

pytestmark = pytest.mark.spark


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def slow_count(spark: SparkSession, num_tasks: int = 12) -> int:
    """Count with slow tasks, so that Spark reports the completed tasks before the end."""

    slowly = sf.udf(lambda x: (threading.Event().wait(0.4), x)[1], "long", useArrow=False)
    return spark.range(0, num_tasks, 1, num_tasks).filter(slowly("id") >= 0).count()


@pytest.mark.full
def test_a_call_reports_how_many_of_its_tasks_are_done(spark: SparkSession) -> None:
    seen: list[tuple[int, int]] = []
    threads = set[threading.Thread]()

    def on_tasks(done: int, total: int) -> None:
        seen.append((done, total))
        threads.add(threading.current_thread())

    assert jobs.run(spark, lambda: slow_count(spark), on_tasks) == 12
    assert threads == {threading.current_thread()}
    assert all(0 <= done <= total for done, total in seen)
    assert any(0 < done < total for done, total in seen)


@pytest.mark.full
def test_tasks_of_other_calls_do_not_count(spark: SparkSession) -> None:
    seen: list[tuple[int, int]] = []
    other = threading.Thread(target=lambda: slow_count(spark, 16))
    other.start()
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    jobs.run(spark, lambda: slow_count(spark, 4), lambda done, total: seen.append((done, total)))
    other.join()
    assert seen
    assert max(total for _, total in seen) <= 5  # four of the filter, one of the count


def test_an_error_of_a_listener_cancels_the_call(spark: SparkSession) -> None:
    def refuse(done: int, total: int) -> None:
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        jobs.run(spark, lambda: slow_count(spark, 1000), refuse)
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []


@pytest.mark.full
def test_progress_of_a_read_is_reported_to_a_listener(spark: SparkSession) -> None:
    events: list[Event] = []
    with ds.show_progress(spark, events.append):
        slow_count(spark)
    assert events
    assert all(isinstance(event, Progress) for event in events)
    done = [event.done for event in events if isinstance(event, Progress)]
    assert done == sorted(done)
    assert len(events) == len(set(map(str, events)))  # reported once each
    count = len(events)
    slow_count(spark, 1)
    assert len(events) == count


def test_a_terminal_shows_a_bar(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with ds.show_progress(spark):
        slow_count(spark, 4)
    assert "Spark tasks" in terminal.getvalue()


def test_output_that_is_no_terminal_gets_no_progress(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with ds.show_progress(spark):
        slow_count(spark, 4)
    assert file.getvalue() == ""
