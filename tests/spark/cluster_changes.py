"""The driver of the tests that change rows on a cluster; a process of its own.

    python -m tests.spark.cluster_changes MASTER FOLDER KIND MOMENTS

The cluster runs each command on a copy of one table, and the Arrow engine on another copy; both
copies must then have the same rows. MOMENTS, as JSON, are fractions of the time that a command
takes: at each, an executor is killed while the command runs again. The command must then be done,
or be rejected with an unchanged table and succeed in a second run. The outcome of each is printed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import StorageError
from delta_ops.maintenance import optimize
from delta_ops.spark.versions import frame_of_arrow
from delta_ops.transaction.merge import Merge
from tests.spark.cluster_program import session_builder

NUM_ROWS, NUM_FILES = 12_000, 6
KINDS: Mapping[str, Mapping[str, str]] = {
    "files": {"delta.enableRowTracking": "true"},
    "vectors": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
}
ON_ID = "target.id = source.id"
SOURCE = pa.table(
    {
        "id": pa.array(range(0, NUM_ROWS + 1_200, 11), pa.int64()),
        "v": pa.array((each % 97 for each in range(0, NUM_ROWS + 1_200, 11)), pa.int64()),
        "name": pa.array(f"new {each % 7}" for each in range(0, NUM_ROWS + 1_200, 11)),
    }
)


def upsert(merge: Merge) -> Merge:
    return merge.when_matched_update_all().when_not_matched_insert_all()


def sync(merge: Merge) -> Merge:
    """Deletes by conditions, and of rows that match none."""
    return (
        merge.when_matched_delete("source.v > 90")
        .when_matched_update({"v": "target.v + source.v"})
        .when_not_matched_insert_all("source.v < 50")
        .when_not_matched_by_source_update({"name": "'alone'"}, "target.id % 5000 = 1")
    )


MERGES: Mapping[str, Callable[[Merge], Merge]] = {
    "upsert": upsert,
    "sync": sync,
    "insert": Merge.when_not_matched_insert_all,
    "delete by merge": Merge.when_matched_delete,
}
CONDITION = "id % 10 = 3 AND name <> 'old 2'"
COMMANDS = ("delete", "update", *MERGES, "compact", "z-order")


def change(spark: SparkSession, command: str, table: Path) -> None:
    """Do a command on the cluster."""
    if command == "delete":
        ds.delete(spark, table, CONDITION)
    elif command == "update":
        ds.update(spark, table, {"v": "v + 1", "name": "upper(name)"}, CONDITION)
    elif command in MERGES:
        source = frame_of_arrow(spark, SOURCE)
        if command == "sync":
            source = source.repartition(3)
        MERGES[command](ds.merge(table, source, ON_ID)).execute()
    else:
        by = ["name", "id"] if command == "z-order" else None
        optimize(table, zorder_by=by, engine=ds.rewrite(spark))


def change_by_arrow(command: str, table: Path) -> None:
    """Do the same with the Arrow engine."""
    if command == "delete":
        da.delete(table, CONDITION)
    elif command == "update":
        da.update(table, {"v": "v + 1", "name": "upper(name)"}, CONDITION)
    elif command in MERGES:
        MERGES[command](da.merge(table, SOURCE, ON_ID)).execute()


def make_table(table: Path, properties: Mapping[str, str]) -> None:
    size = NUM_ROWS // NUM_FILES
    for first in range(0, NUM_ROWS, size):
        ids = pa.array(range(first, first + size), pa.int64())
        names = pa.array(f"old {each % 3}" for each in range(size))
        rows = pa.table({"id": ids, "v": pa.array([1] * size, pa.int64()), "name": names})
        da.write(table, rows, mode="append", configuration=None if first else properties)


def contents(table: Path) -> list[Any]:
    """The rows, and the newest version's changes if the table has the feed."""
    log = DeltaLog(table)
    found = [da.to_table(log).sort_by([("id", "ascending")])]
    snapshot = log.snapshot()
    if snapshot.definition.has_change_feed:
        changes = da.read_changes(log, start_version=snapshot.version)
        reported = pa.table(changes).drop_columns(["_commit_timestamp"])
        found.append(reported.sort_by([(name, "ascending") for name in reported.column_names]))
    return found


def executors(spark: SparkSession) -> list[int]:
    """The processes of this session's executors."""
    application = spark.sparkContext.applicationId.encode()
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:  # the process has ended
                continue
            if application in words and any(b"CoarseGrainedExecutor" in each for each in words):
                found.append(int(place.name))
    return found


def kill_executor(spark: SparkSession, after_s: float) -> threading.Timer:
    """Kill one after some time."""

    def kill() -> None:
        os.kill(executors(spark)[0], signal.SIGKILL)

    timer = threading.Timer(after_s, kill)
    timer.start()
    return timer


def wait_for_executors(spark: SparkSession, number: int) -> None:
    deadline = time.monotonic() + 60
    while len(executors(spark)) < number:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # A task for each executor, so that the driver knows all of them.
    spark.range(0, 100, 1, 2 * number).selectExpr("sum(id)").collect()


def main(master: str, folder: Path, kind: str, moments: list[float]) -> None:
    """Do every command."""
    spark = (
        session_builder(master, cores=2)
        .config("spark.executor.cores", "1")
        .config("spark.sql.shuffle.partitions", "3")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    made, table, twin = folder / "made", folder / "table", folder / "twin"
    make_table(made, KINDS[kind])
    wait_for_executors(spark, 2)
    for command in COMMANDS:
        shutil.copytree(made, twin)
        change_by_arrow(command, twin)
        wanted = contents(twin)
        shutil.rmtree(twin)
        taken_s = 0.0
        for moment in (None, *moments):
            shutil.copytree(made, table)
            version = DeltaLog(table).snapshot().version
            wait_for_executors(spark, 2)
            started = time.monotonic()
            timer = None if moment is None else kill_executor(spark, moment * taken_s)
            refused = ""
            try:
                change(spark, command, table)
            except StorageError as error:
                refused = str(error)
            if refused:
                assert timer is not None, refused
                assert DeltaLog(table).snapshot().version == version
                change(spark, command, table)
            if timer is None:
                taken_s = time.monotonic() - started
            else:
                timer.join()
            found = contents(table)
            assert found[:1] == wanted[:1], (command, moment)
            if command in MERGES or command in ("delete", "update"):
                assert found == wanted, (command, moment)
            print(json.dumps([command, moment, refused]), flush=True)
            shutil.rmtree(table)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
