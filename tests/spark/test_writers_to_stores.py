"""Writes by Spark to S3 and Azure: killed writes, and concurrent writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.maintenance import vacuum
from tests.spark.killed_writers import DEATHS, NUM_ROWS
from tests.support.servers.azure import AzureServer
from tests.support.servers.s3 import Failure, S3Server

pytestmark = pytest.mark.spark

PROJECT = Path(__file__).resolve().parents[2]


def new_table(request: pytest.FixtureRequest, store: str) -> DeltaLog:
    """A place for a table, in its own bucket."""
    if store == "azure":
        azure: AzureServer = request.getfixturevalue("azure_server")
        return DeltaLog(f"abfs://{azure.new_container()}/t", azure.storage_options)
    s3: S3Server = request.getfixturevalue("s3_server")
    return DeltaLog(f"s3://{s3.new_bucket()}/t", s3.storage_options)


def write_and_die(log: DeltaLog, options: dict[str, object], point: str) -> int:
    program = [sys.executable, "-m", "tests.spark.killed_writers", log.uri]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        [*program, json.dumps(options), point],
        env=environment,
        cwd=PROJECT,
        timeout=240,
        check=False,
    ).returncode


@pytest.mark.usefixtures("store_spark")
@pytest.mark.parametrize(
    ("store", "points"),
    [
        pytest.param("s3", DEATHS[1:2], id="S3, one point", marks=pytest.mark.full),
        pytest.param("s3", DEATHS, id="S3, every point", marks=pytest.mark.long),
        pytest.param("azure", DEATHS, id="Azure, every point", marks=pytest.mark.long),
    ],
)
def test_a_batch_is_there_once_whenever_its_writer_is_killed(
    request: pytest.FixtureRequest, store: str, points: Sequence[str]
) -> None:
    log = new_table(request, store)
    options = dict(log.storage.client_options)
    for point in points:
        assert write_and_die(log, options, point) == -signal.SIGKILL
        assert log.exists() == (point == "Committed")
    assert write_and_die(log, options, "") == 0
    assert log.snapshot().version == 0
    ids = da.to_table(log)["id"]
    assert (len(ids), pc.count_distinct(ids).as_py()) == (NUM_ROWS, NUM_ROWS)
    left = {file.path for file in log.storage.list_tree("") if file.path.endswith(".parquet")}
    live = set(log.snapshot().files(["path"])["path"].to_pylist())
    assert left > live  # files of the killed writers
    vacuum(log, clock=lambda: system_clock() + 10 * DAY_MS)
    left = {file.path for file in log.storage.list_tree("") if file.path.endswith(".parquet")}
    assert left == live


@pytest.mark.full
@pytest.mark.parametrize("store", ["s3", pytest.param("azure", marks=pytest.mark.full)])
def test_writers_at_the_same_time_all_commit(
    request: pytest.FixtureRequest, store_spark: SparkSession, store: str
) -> None:
    log = new_table(request, store)
    ds.write(store_spark.range(0), log)

    def append(number: int) -> int | None:
        rows = store_spark.range(number * 10, number * 10 + 10, 1, 2)
        return ds.write(rows, DeltaLog(log.uri, log.storage.client_options)).version

    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(append, range(4)))
    assert sorted(version or 0 for version in versions) == list(range(1, 5))
    assert sorted(da.to_table(log)["id"].to_pylist()) == list(range(40))


LOST = Failure(500, "InternalError", lands=True)
REFUSED = Failure(503, "SlowDown")


@pytest.mark.full
@pytest.mark.full
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(LOST, id="lost answer"),
        pytest.param(REFUSED, id="busy store", marks=pytest.mark.full),
    ],
)
def test_failed_answers_to_data_files_of_executors_lose_and_double_nothing(
    store_spark: SparkSession, s3_server: S3Server, failure: Failure
) -> None:
    log = DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    rows = store_spark.range(40, numPartitions=2).selectExpr("id", "id % 2 AS p")
    of_data = failure._replace(of=".parquet")
    with s3_server.recording() as requests:
        with s3_server.failing(of_data, of_data):
            ds.write(rows, log, partition_by=["p"])
        with s3_server.failing(of_data, of_data):
            ds.update(store_spark, log, {"id": "id + 100"}, "id % 10 = 1")
    paths = [each.path for each in requests if each.kind == "PUT" and ".parquet" in each.path]
    assert len(paths) >= len(set(paths)) + 4  # each failed write was sent again
    expected = sorted(each + 100 if each % 10 == 1 else each for each in range(40))
    assert sorted(da.to_table(log)["id"].to_pylist()) == expected


@pytest.mark.full
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(LOST, id="lost answer"),
        pytest.param(REFUSED, id="busy store"),
    ],
)
def test_failed_answers_to_the_checkpoint_of_a_stream_lose_and_double_nothing(
    store_spark: SparkSession, s3_server: S3Server, failure: Failure
) -> None:
    bucket = s3_server.new_bucket()
    source, target = (
        DeltaLog(f"s3://{bucket}/{name}", s3_server.storage_options) for name in ("in", "out")
    )
    for number in range(3):
        da.write(source, pa.table({"id": [number]}))

    ds.read(store_spark, source).count()  # puts the settings of the bucket into the session

    def run() -> None:
        query = ds.write_stream(
            ds.read_stream(store_spark, source, max_files_per_trigger=1),
            target,
            checkpoint_location=f"s3a://{bucket}/progress",
            available_now=True,
        )
        query.awaitTermination()

    files = ("metadata", "offsets/", "commits/", "sources/")
    failures = [failure._replace(of=f"progress/{each}") for each in files]
    failing = s3_server.failing(*failures)
    with s3_server.recording() as requests, failing, suppress(StreamingQueryException):
        run()
    puts = [each.path for each in requests if each.kind == "PUT" and "/progress/" in each.path]
    assert len(puts) > len(set(puts))  # failed writes were sent again
    run()
    assert sorted(da.to_table(target)["id"].to_pylist()) == [0, 1, 2]
