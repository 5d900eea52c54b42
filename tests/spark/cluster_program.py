"""The driver of the tests on a cluster; a process of its own.

    python -m tests.spark.cluster_program MASTER FOLDER STEP...

Executors have the folder in common with the driver, and no delta_ops. Each step writes one table
below it; NUM_ROWS rows, of which each is to be there once. What a task did for the worse is marked
in `FOLDER/marks`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.events import Event, OnEvent, ignore

NUM_ROWS = 400_000
SPLITS = 8
DEATHS = ("WriteStarted", "a task at work", "DataFilesStaged", "Committed")
"""Points at which the driver is killed in turn, while it writes one batch again and again."""
SOON_S = 60


def main(master: str, folder: str, steps: list[str]) -> None:
    """Do each step in one session."""
    complaints = Complaints()
    logging.getLogger("delta_ops").addHandler(complaints)
    spark = start_session(master, 2 if any(not step.startswith("die") for step in steps) else 1)
    for step in steps:
        STEPS[step](spark, Path(folder))
        print(step, flush=True)
    spark.stop()
    assert not complaints.texts, complaints.texts


class Complaints(logging.Handler):
    """Warnings; there is one where the commit protocol could not be used."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.texts.append(record.getMessage())


def start_session(master: str, cores: int) -> SparkSession:
    """A session that retries and speculates at once; each core is an executor."""
    session = (
        SparkSession.builder.master(master)
        .appName("delta_ops tests on a cluster")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.cores.max", str(cores))
        .config("spark.speculation", str(master.startswith("spark://")).lower())
        .config("spark.speculation.interval", "100ms")
        .config("spark.speculation.multiplier", "1.5")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.efficiency.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def numbers(spark: SparkSession) -> DataFrame:
    """The rows that every step writes."""
    return spark.range(0, NUM_ROWS, 1, SPLITS).selectExpr("id", "id % 3 AS p")


def write_plain(spark: SparkSession, folder: Path) -> None:
    """Nothing goes wrong."""
    ds.write(numbers(spark), folder / "plain")
    assert_no_garbage(folder / "plain")


def write_partitions(spark: SparkSession, folder: Path) -> None:
    """Nothing goes wrong with partitions."""
    ds.write(numbers(spark), folder / "partitions", partition_by=["p"])
    assert_no_garbage(folder / "partitions")


def retry(spark: SparkSession, folder: Path) -> None:
    """One task fails twice in the middle of its file."""

    def fail(attempt: int) -> None:
        if attempt < 2:
            raise RuntimeError("in the middle of a file")

    write_disturbed(spark, folder, "retry", fail)
    assert_no_garbage(folder / "retry")


def speculate(spark: SparkSession, folder: Path) -> None:
    """One task does not go on, and a second attempt is started beside it."""

    def hang(attempt: int) -> None:
        if attempt == 0:
            time.sleep(600)

    write_disturbed(spark, folder, "speculate", hang)
    assert_no_garbage(folder / "speculate")


def lose_executor(spark: SparkSession, folder: Path) -> None:
    """One task kills its executor in the middle of its file."""

    def kill(attempt: int) -> None:
        if attempt == 0:  # the parent is a daemon, and its parent the executor
            status = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)
            time.sleep(600)

    write_disturbed(spark, folder, "lose_executor", kill)


def die(point: str) -> Callable[[SparkSession, Path], None]:
    """Write a batch as one transaction of an application, and be killed at the point."""

    def write_and_die(spark: SparkSession, folder: Path) -> None:
        def wait(attempt: int) -> None:
            if attempt == 0 and point == DEATHS[1]:
                time.sleep(600)

        if point == DEATHS[1]:
            threading.Thread(target=die_with_task, args=(spark, folder / "marks/die 0")).start()
        write_disturbed(
            spark, folder, "die", wait, txn=("batches", 7), on_event=killer(spark, point)
        )

    return write_and_die


def die_with_task(spark: SparkSession, mark: Path) -> None:
    """Wait for a task in the middle of its file, and end this process and its JVM."""
    while not mark.exists():
        time.sleep(0.05)
    kill_driver(spark)


def killer(spark: SparkSession, point: str) -> OnEvent:
    """A listener that ends this process and its JVM at the event of that name."""

    def on_event(event: Event) -> None:
        if type(event).__name__ == point:
            kill_driver(spark)

    return on_event


def kill_driver(spark: SparkSession) -> None:
    """End this process and its JVM as a lack of power does."""
    jvm: Any = spark.sparkContext._jvm
    os.kill(jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def write_disturbed(
    spark: SparkSession,
    folder: Path,
    step: str,
    disturb: Callable[[int], None],
    txn: tuple[str, int] | None = None,
    on_event: OnEvent = ignore,
) -> None:
    """Write the numbers; split 1 calls `disturb` with its attempt when its file is begun."""
    table = folder / step

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        try:
            import delta_ops  # noqa: F401
        except ImportError:
            pass
        else:
            assert "local" in os.environ.get("EXECUTORS", ""), "executors are to have no delta_ops"
        yield from (next(batches), next(batches))
        if context.partitionId() == 1:
            while not list(table.glob("w-*/part-00001-*")):
                time.sleep(0.05)
            attempt = context.attemptNumber()
            (folder / "marks" / f"{step} {attempt}").touch()
            disturb(attempt)
        yield from batches

    frame = numbers(spark)
    ds.write(frame.mapInArrow(pass_on, frame.schema), table, txn=txn, on_event=on_event)


def assert_no_garbage(table: Path) -> None:
    """What failed attempts wrote is gone, soon after."""
    live = set(DeltaLog(table).snapshot().files(["path"])["path"].to_pylist())
    deadline = time.monotonic() + SOON_S
    while True:
        found = {str(path.relative_to(table)) for path in table.glob("w-*/**/*") if path.is_file()}
        if found == live:
            return
        assert time.monotonic() < deadline, found ^ live
        time.sleep(0.1)


STEPS: dict[str, Callable[[SparkSession, Path], None]] = {
    "plain": write_plain,
    "partitions": write_partitions,
    "retry": retry,
    "speculate": speculate,
    "lose_executor": lose_executor,
    "die": die(""),
    **{f"die at {point}": die(point) for point in DEATHS},
}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
