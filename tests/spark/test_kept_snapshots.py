"""A snapshot that is read several times: its files are sent to Spark once."""

from __future__ import annotations

import gc
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.spark.read import file_index
from tests.spark.added_files import add_file

TIME_ZONE = "spark.sql.session.timeZone"
ROWS = pa.table({"p": ["a", "b"], "x": [1, 2]})


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaLog:
    """A table that sends its files to Spark through a temporary file."""
    monkeypatch.setattr(file_index, "SENT_BYTES", 0)
    da.write(tmp_path / "t", ROWS, partition_by=["p"])
    return DeltaLog(tmp_path / "t")


@contextmanager
def nothing_handed_over() -> Iterator[None]:
    def refuse(**_options: object) -> None:
        raise AssertionError("files were handed to Spark")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "NamedTemporaryFile", refuse)
        yield


def rows_in(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_files_are_handed_over_once_and_by_a_table_each_time(
    spark: SparkSession, log: DeltaLog
) -> None:
    snapshot = log.snapshot()
    assert rows_in(ds.read(spark, snapshot)) == [("a", 1), ("b", 2)]
    with nothing_handed_over():
        assert rows_in(ds.read(spark, snapshot.refresh())) == [("a", 1), ("b", 2)]
        assert rows_in(ds.read(spark, snapshot, ["x"]).filter("p = 'b'")) == [(2,)]
        with pytest.raises(AssertionError, match="handed"):
            ds.read(spark, log)
        with pytest.raises(AssertionError, match="handed"):
            ds.read(spark, snapshot, predicate=col("p") == "a")


def test_two_reads_of_a_snapshot_can_be_joined(spark: SparkSession, log: DeltaLog) -> None:
    snapshot = log.snapshot()
    one, other = ds.read(spark, snapshot), ds.read(spark, snapshot)
    assert rows_in(one.join(other, one["x"] == other["x"] + 1)) == [("b", 2, "a", 1)]


def test_concurrent_commits_are_read_after_a_refresh(spark: SparkSession, log: DeltaLog) -> None:
    snapshot = log.snapshot()
    before = ds.read(spark, snapshot)
    da.write(log, pa.table({"p": ["c"], "x": [3]}))
    assert rows_in(ds.read(spark, snapshot.refresh())) == [("a", 1), ("b", 2), ("c", 3)]
    assert rows_in(ds.read(spark, snapshot)) == rows_in(before) == [("a", 1), ("b", 2)]


def test_a_time_without_a_zone_is_of_the_zone_of_each_read(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    schema = pa.schema([("x", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    da.write(tmp_path, schema.empty_table(), partition_by=["at"])
    add_file(tmp_path, pa.table({"x": [1]}), "1.parquet", at="2026-01-31 05:00:00")
    snapshot = DeltaLog(tmp_path).snapshot()
    request.addfinalizer(lambda: spark.conf.set(TIME_ZONE, "UTC"))
    for zone, hour in [("UTC", 5), ("Asia/Tokyo", -4), ("UTC", 5)]:
        spark.conf.set(TIME_ZONE, zone)
        moment = datetime(2026, 1, 31, tzinfo=UTC) + timedelta(hours=hour)
        read = ds.read(spark, snapshot).selectExpr("unix_seconds(at)")
        assert rows_in(read) == [(moment.timestamp(),)]


def test_a_snapshot_is_let_go_with_what_is_kept_of_it(spark: SparkSession, log: DeltaLog) -> None:
    snapshot = log.snapshot()
    rows = ds.read(spark, snapshot)
    left = weakref.ref(snapshot)
    del snapshot
    gc.collect()
    assert left() is None
    assert rows.count() == 2
