"""Streams of tables on Spark: each row once, as in the table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.ddl import rename_column
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.maintenance import optimize
from tests.spark.frames import rows_of
from tests.spark.streams import all_rows, append, numbers, read_available

pytestmark = pytest.mark.spark

KINDS = {
    "plain": {},
    "vectors": {"delta.enableDeletionVectors": "true"},
    "mapped": {"delta.columnMapping.mode": "name"},
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind == "vectors" else pytest.mark.full) for kind in KINDS],
)
def test_a_stream_reads_what_is_there_and_then_what_is_committed(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = DeltaLog(tmp_path / "t")
    rows = pa.table({"n": pa.array(range(8), pa.int64()), "p": list("aabbaabb")})
    da.write(table, rows, partition_by=["p"], configuration=KINDS[kind])
    da.delete(table, col("n") == 3)
    before = rows_of(ds.read(spark, table))

    stream = ds.read_stream(spark, table, max_files_per_trigger=1)
    first = read_available(stream, tmp_path / "c")
    append(table, 8, 9, p="c")
    optimize(table)
    append(table, 10, 10, p="a")
    second = read_available(stream, tmp_path / "c")

    assert len(first) > 1
    assert sorted(map(repr, all_rows(first))) == sorted(map(repr, before))
    assert all_rows(second) == [
        {"n": 8, "p": "c"},
        {"n": 9, "p": "c"},
        {"n": 10, "p": "a"},
    ]


def test_a_query_reads_only_its_columns_and_rows(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path / "t", 0, 9, s="text", u="more")
    stream = ds.read_stream(spark, tmp_path / "t").filter("n > 3").select("s")
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    done = query.trigger(availableNow=True).start()
    done.awaitTermination()
    plan = done._jsq.explainInternal(False)
    assert "ReadSchema: struct<n:bigint,s:string>" in plan
    assert "GreaterThan(n,3)" in plan
    assert done.recentProgress[0]["numInputRows"] > 0


def test_a_commit_that_deletes_stops_the_query_behind_what_came_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, checkpoint = DeltaLog(tmp_path / "t"), tmp_path / "c"
    append(table, 0, 1)
    stream = ds.read_stream(spark, table)
    assert numbers(read_available(stream, checkpoint)) == [[0, 1]]
    append(table, 2, 2)
    da.delete(table, col("n") == 2)
    append(table, 3, 3)

    with pytest.raises(StreamingQueryException, match=r"version 2 deletes rows \(DELETE"):
        read_available(stream, checkpoint)

    # The batch before it was read and is not read again.
    passing = ds.read_stream(spark, table, ignore_deletes=True)
    assert numbers(read_available(passing, checkpoint)) == [[3]]


def test_a_change_of_columns_stops_the_query_and_a_new_frame_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, checkpoint = DeltaLog(tmp_path / "t"), tmp_path / "c"
    append(table, 0, 0)
    stream = ds.read_stream(spark, table)
    assert numbers(read_available(stream, checkpoint)) == [[0]]
    append(table, 1, 1)
    da.write(table, pa.table({"n": [2], "x": ["new"]}), merge_schema=True)

    with pytest.raises(StreamingQueryException, match="version 2 changes the table's columns"):
        read_available(stream, checkpoint)

    anew = ds.read_stream(spark, table)
    assert read_available(anew, checkpoint) == [[{"n": 2, "x": "new"}]]


def test_rows_of_before_a_column_was_renamed_have_its_new_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = DeltaLog(tmp_path / "t")
    rows = pa.table({"n": pa.array([1], pa.int64())})
    da.write(table, rows, configuration={"delta.columnMapping.mode": "name"})
    rename_column(table, "n", "m")
    da.write(table, pa.table({"m": pa.array([2], pa.int64())}))
    stream = ds.read_stream(spark, table, starting_version=0)
    assert read_available(stream, tmp_path / "c") == [[{"m": 1}, {"m": 2}]]


@pytest.mark.parametrize(
    "starting_version",
    [pytest.param(0, marks=pytest.mark.full), None],
    ids=["from its first commit", "snapshot"],
)
def test_a_stream_of_changes_equals_read_changes(
    spark: SparkSession, tmp_path: Path, starting_version: int | None
) -> None:
    table = DeltaLog(tmp_path / "t")
    rows = pa.table({"n": pa.array(range(4), pa.int64()), "p": ["a", "b"] * 2})
    feed = {"delta.enableChangeDataFeed": "true"}
    da.write(table, rows, partition_by=["p"], configuration=feed)
    options: dict[str, Any] = {"starting_version": starting_version, "max_files_per_trigger": 1}
    stream = ds.read_stream(spark, table, read_change_feed=True, **options)
    found = all_rows(read_available(stream, tmp_path / "c"))
    da.update(table, {"n": "n + 10"}, col("n") == 1)
    da.delete(table, col("p") == "a")
    append(table, 7, 7, p="c")
    batches = read_available(stream, tmp_path / "c")

    found += all_rows(batches)

    wanted = rows_of(ds.read_changes(spark, table, 0))
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    kinds = [{row["_change_type"] for row in batch} for batch in batches]
    assert {"update_preimage", "update_postimage"} in kinds


def test_a_running_query_reads_what_is_committed_meanwhile(
    spark: SparkSession, tmp_path: Path
) -> None:
    append(tmp_path / "t", 0, 0)
    stream = ds.read_stream(spark, tmp_path / "t", starting_version="latest")
    found: list[int] = []
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "c"))
    writer = writer.trigger(processingTime="100 milliseconds")
    query = writer.foreachBatch(lambda rows, _: found.extend(r["n"] for r in rows_of(rows))).start()
    try:
        _wait_until(lambda: query.lastProgress is not None)
        for number in (1, 2):
            append(tmp_path / "t", number, number)
            _wait_until(lambda: query.exception() is not None or found[-1:] == [number])  # noqa: B023
    finally:
        query.stop()
    assert found == [1, 2]


@pytest.mark.full
def test_a_table_joins_its_own_stream_and_aggregates_are_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    append(tmp_path / "t", 0, 5)
    stream = ds.read_stream(spark, tmp_path / "t", max_files_per_trigger=1)
    joined = stream.join(ds.read(spark, tmp_path / "t"), "n")
    counted = joined.groupBy((sf.col("n") % 2).alias("n")).count()
    kept: list[list[dict[str, Any]]] = []

    def run() -> None:
        writer = counted.writeStream.option("checkpointLocation", str(tmp_path / "c"))
        writer = writer.outputMode("complete").trigger(availableNow=True)
        writer.foreachBatch(lambda rows, _: kept.append(rows_of(rows))).start().awaitTermination()

    run()
    append(tmp_path / "t", 6, 6)
    joined = stream.join(ds.read(spark, tmp_path / "t"), "n")
    counted = joined.groupBy((sf.col("n") % 2).alias("n")).count()
    run()
    assert kept[0] == [{"n": 0, "count": 3}, {"n": 1, "count": 3}]
    assert kept[-1] == [{"n": 1, "count": 3}, {"n": 0, "count": 4}]


def test_the_checkpoint_of_another_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("t", "u"):
        append(tmp_path / name, 0, 0)
    read_available(ds.read_stream(spark, tmp_path / "t"), tmp_path / "c")
    with pytest.raises(StreamingQueryException, match="on the table with the id"):
        read_available(ds.read_stream(spark, tmp_path / "u"), tmp_path / "c")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"starting_version": -1}, "from 0 on", id="a negative version"),
        pytest.param({"starting_version": "last"}, "starting_version is", id="another word"),
        pytest.param({"starting_timestamp": "soon"}, "not a timestamp", id="no time"),
        pytest.param(
            {"starting_version": 0, "starting_timestamp": "2020-01-01"}, "either", id="two starts"
        ),
        pytest.param({"max_files_per_trigger": 0}, "give 1 or more", id="no files"),
        pytest.param({"max_bytes_per_trigger": -3}, "give 1 or more", id="less than no bytes"),
        pytest.param({"exclude_regex": "("}, "not a regular expression", id="no expression"),
    ],
)
def test_an_option_that_is_none_is_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        ds.read_stream(spark, tmp_path / "t", **options)


def test_a_table_that_is_not_there_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        ds.read_stream(spark, tmp_path / "t")


def _wait_until(is_so: Any, timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)
