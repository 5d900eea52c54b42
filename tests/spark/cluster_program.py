"""The driver of the tests on a cluster; a process of its own.

    python -m tests.spark.cluster_program MASTER FOLDER STEP...

Executors share the folder with the driver, and have no delta_ops. Each step writes one table below
the folder, with NUM_ROWS rows that must each exist once. A task that fails on purpose leaves a mark
in `FOLDER/marks`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Literal

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import StorageError
from delta_ops.events import Event, OnEvent, ignore
from delta_ops.protocol.schema import LONG, StructField, StructType
from tests.arrow.foreign_table import create, data_file, inline_vector

NUM_ROWS = 400_000
SPLITS = 8
DEATHS = ("WriteStarted", "a task at work", "DataFilesStaged", "CommitAttempted", "Committed")
"""Events that kill the driver in turn, while it writes one batch repeatedly."""
Place = Literal["before its file", "in its file", "after its rows"]
EXECUTOR_DEATHS: Mapping[str, tuple[Place, int, int]] = {
    "before a file": ("before its file", 1, 1),
    "in a file": ("in its file", 1, 1),
    "after the rows of a file": ("after its rows", 1, 1),
    "after other files": ("in its file", SPLITS - 2, 1),
    "twice in one split": ("in its file", 1, 2),
}
"""Kills of executors: the place within a task, the task's split, and the number of attempts."""
SPECULATE, FULL = "speculate", "full disk"
SOON_S = 60


def main(master: str, folder: str, steps: list[str]) -> None:
    """Do each step in one session."""
    complaints = Complaints()
    logging.getLogger("delta_ops").addHandler(complaints)
    spark = start_session(master, steps)
    for step in steps:
        STEPS[step](spark, Path(folder))
        print(step, flush=True)
    spark.stop()
    assert not complaints.texts, complaints.texts


class Complaints(logging.Handler):
    """Warnings; there is one if the commit protocol is unavailable."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.texts.append(record.getMessage())


def session_builder(master: str, cores: int) -> SparkSession.Builder:
    """The common settings of sessions on the cluster."""
    return (
        SparkSession.builder.master(master)
        .appName("delta_ops tests on a cluster")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.cores.max", str(cores))
    )


def start_session(master: str, steps: list[str]) -> SparkSession:
    """A session with retries, and with speculation for the steps that need it.

    Each core is an executor.
    """
    speculates = SPECULATE in steps
    cores = 1 if any(step.startswith("die") for step in steps) else 2
    session = (
        session_builder(master, cores)
        .config("spark.speculation", str(speculates).lower())
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
    """Write without faults."""
    ds.write(numbers(spark), folder / "plain")
    assert_no_garbage(folder / "plain")


def read_vectors(spark: SparkSession, folder: Path) -> None:
    """Executors look rows up in deletion vectors."""
    table = folder / "vectors"
    table.mkdir()
    file = data_file(table, "f.parquet", pa.table({"id": range(1_000)}))
    vector = inline_vector(range(0, 1_000, 4))
    schema = StructType((StructField("id", LONG),))
    log = create(table, schema, [replace(file, deletion_vector=vector)])
    ids = [row.id for row in ds.read(spark, log).collect()]
    assert sorted(ids) == [number for number in range(1_000) if number % 4]


def write_partitions(spark: SparkSession, folder: Path) -> None:
    """Write partitions without faults."""
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
    """One task hangs, and a second attempt starts beside it."""

    def hang(attempt: int) -> None:
        if attempt == 0:
            time.sleep(600)

    write_disturbed(spark, folder, SPECULATE, hang)
    # For another split both attempts may have completed, so one of them left a whole file.
    assert_no_garbage(folder / SPECULATE, "part-00001-*")


def lose_executor(point: str) -> Callable[[SparkSession, Path], None]:
    """One task kills its executor."""
    place, split, times = EXECUTOR_DEATHS[point]

    def kill(attempt: int) -> None:
        if attempt < times:  # the parent is a daemon, and its parent the executor
            status = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)
            time.sleep(600)

    def write(spark: SparkSession, folder: Path) -> None:
        write_disturbed(spark, folder, executor_step(point), kill, place=place, split=split)

    return write


def executor_step(point: str) -> str:
    """The name of the step and of its table for a killed executor."""
    return f"lose executor {point}"


def fill_disks(spark: SparkSession, folder: Path) -> None:
    """Some workers cannot write a whole file; if none can, the write fails clearly."""
    table = folder / FULL
    try:
        ds.write(numbers(spark).coalesce(2), table)  # few files, so that each is large
    except StorageError as error:
        (folder / "marks" / FULL).write_text(str(error))
        assert not DeltaLog(table).exists()
        deadline = time.monotonic() + SOON_S
        while left := [path for path in table.glob("**/*") if path.is_file()]:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


def die(point: str) -> Callable[[SparkSession, Path], None]:
    """Write a batch as one transaction of an application, and be killed at the event."""

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
    """End this process and its JVM like a power failure."""
    jvm: Any = spark.sparkContext._jvm
    os.kill(jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def write_disturbed(
    spark: SparkSession,
    folder: Path,
    step: str,
    disturb: Callable[[int], None],
    place: Place = "in its file",
    split: int = 1,
    txn: tuple[str, int] | None = None,
    on_event: OnEvent = ignore,
) -> None:
    """Write the numbers; the task of a split calls `disturb` with its attempt at that point."""
    table = folder / step

    def disturb_at(here: Place, context: TaskContext) -> None:
        if context.partitionId() != split or here != place:
            return
        while place != "before its file" and not list(table.glob(f"w-*/part-{split:05d}-*")):
            time.sleep(0.05)
        attempt = context.attemptNumber()
        (folder / "marks" / f"{step} {attempt}").touch()
        disturb(attempt)

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        try:
            import delta_ops  # noqa: F401
        except ImportError:
            pass
        else:
            assert "local" in os.environ.get("EXECUTORS", ""), "executors are to have no delta_ops"
        disturb_at("before its file", context)
        yield from (next(batches), next(batches))
        disturb_at("in its file", context)
        yield from batches
        disturb_at("after its rows", context)

    frame = numbers(spark)
    ds.write(frame.mapInArrow(pass_on, frame.schema), table, txn=txn, on_event=on_event)


def assert_no_garbage(table: Path, name: str = "*") -> None:
    """Assert that files of failed attempts are deleted soon, for files with such names."""
    paths = DeltaLog(table).snapshot().files(["path"])["path"].to_pylist()
    live = {path for path in paths if PurePath(path).match(name)}
    deadline = time.monotonic() + SOON_S
    while True:
        files = [path for path in table.glob(f"w-*/**/{name}") if path.is_file()]
        found = {str(path.relative_to(table)) for path in files}
        if found == live:
            return
        assert time.monotonic() < deadline, found ^ live
        time.sleep(0.1)


STEPS: dict[str, Callable[[SparkSession, Path], None]] = {
    "plain": write_plain,
    "partitions": write_partitions,
    "vectors": read_vectors,
    "retry": retry,
    SPECULATE: speculate,
    FULL: fill_disks,
    **{executor_step(point): lose_executor(point) for point in EXECUTOR_DEATHS},
    "die": die(""),
    **{f"die at {point}": die(point) for point in DEATHS},
}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
