"""Streams into tables on Spark: each batch once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.events import Event
from tests.spark.streams import append
from tests.support.servers.s3 import S3Server
from tests.support.tables import rows

pytestmark = pytest.mark.spark

_STOPS_OTHER = "spark.sql.streaming.stopActiveRunOnRestart"
POINTS = ("WriteStarted", "DataFilesWritten", "DataFilesStaged", "CommitAttempted", "Committed")


class KilledError(Exception):
    """Stands for the end of a process."""


def kill_at(point: str) -> Any:
    """A listener that raises at the first event of this name."""

    def on_event(event: Event) -> None:
        if type(event).__name__ == point:
            raise KilledError(point)

    return on_event


def numbers_in(table: Path | DeltaLog) -> list[int]:
    return sorted(da.to_table(table, columns=["n"])["n"].to_pylist())


def run(spark: SparkSession, folder: Path, **options: Any) -> None:
    stream = ds.read_stream(spark, folder / "source", max_files_per_trigger=1)
    arguments = {"checkpoint_location": str(folder / "c"), "available_now": True, **options}
    ds.write_stream(stream, folder / "target", **arguments).awaitTermination()


@pytest.mark.parametrize(
    "point", [*(pytest.param(each, marks=pytest.mark.full) for each in POINTS[:-1]), POINTS[-1]]
)
def test_each_batch_is_there_once_wherever_the_query_was_killed(
    spark: SparkSession, tmp_path: Path, point: str
) -> None:
    append(tmp_path / "source", 0, 1)
    run(spark, tmp_path)
    append(tmp_path / "source", 2, 3)
    append(tmp_path / "source", 4, 5)
    with pytest.raises(StreamingQueryException, match=f"KilledError: {point}"):
        run(spark, tmp_path, on_event=kill_at(point))
    run(spark, tmp_path)
    assert numbers_in(tmp_path / "target") == [0, 1, 2, 3, 4, 5]


@pytest.mark.full
def test_properties_that_the_target_has_otherwise_are_reported_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append(tmp_path / "source", 0, 1)
    run(spark, tmp_path, configuration={"owner": "a team"})
    append(tmp_path / "source", 2, 3)
    append(tmp_path / "source", 4, 5)
    assert "for a new table" not in caplog.text
    run(spark, tmp_path, configuration={"owner": "another"})
    assert caplog.text.count("the property owner = 'another' is for a new table") == 1


def test_a_relative_checkpoint_is_where_a_relative_table_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path / "source", 0, 1)
    stream = ds.read_stream(spark, tmp_path / "source")
    monkeypatch.chdir(tmp_path)  # the JVM began elsewhere
    query = ds.write_stream(stream, "target", checkpoint_location="c", available_now=True)
    query.awaitTermination()
    assert (tmp_path / "c" / "metadata").is_file()
    assert numbers_in(tmp_path / "target") == [0, 1]


def test_a_commit_names_its_query_and_batch(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path / "source", 0, 1)
    stream = ds.read_stream(spark, tmp_path / "source")
    query = ds.write_stream(
        stream, tmp_path / "target", checkpoint_location=str(tmp_path / "c"), available_now=True
    )
    query.awaitTermination()
    log = DeltaLog(tmp_path / "target")
    (entry,) = log.history()
    assert (entry.operation, entry.operation_parameters) == (
        "STREAMING UPDATE",
        {"outputMode": "Append", "queryId": query.id, "epochId": "0"},
    )
    assert log.snapshot().transactions()[query.id].version == 0


def test_a_batch_without_rows_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path / "source", 0, 1)
    run(spark, tmp_path)
    ds.delete(spark, tmp_path / "source", "n = 77")
    da.write(DeltaLog(tmp_path / "source"), pa.table({"n": pa.array([], pa.int64())}))
    run(spark, tmp_path)
    assert DeltaLog(tmp_path / "target").snapshot().version == 0


def test_complete_replaces_all_rows_by_the_rows_of_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    for first in (0, 10):
        append(tmp_path / "source", first, first + 4)
        stream = ds.read_stream(spark, tmp_path / "source")
        counted = stream.groupBy((sf.col("n") % 2).alias("n")).count()
        options: dict[str, Any] = {"output_mode": "complete", "available_now": True}
        query = ds.write_stream(
            counted, tmp_path / "target", checkpoint_location=str(tmp_path / "c"), **options
        )
        query.awaitTermination()
    assert rows(da.to_table(tmp_path / "target")) == [
        {"n": 1, "count": 4},
        {"n": 0, "count": 6},
    ]


@pytest.mark.parametrize(
    "point",
    [pytest.param(None, marks=pytest.mark.full), "Committed"],
    ids=["undisturbed", "killed"],
)
def test_update_merges_rows_by_their_keys(
    spark: SparkSession, tmp_path: Path, point: str | None
) -> None:
    for first in (0, 10, 20):
        append(tmp_path / "source", first, first + 5)
    stream = ds.read_stream(spark, tmp_path / "source", max_files_per_trigger=1)
    counted = stream.groupBy((sf.col("n") % 3).alias("Key")).count()

    def start(**options: Any) -> None:
        query = ds.write_stream(
            counted,
            tmp_path / "target",
            checkpoint_location=str(tmp_path / "c"),
            output_mode="update",
            keys=["key"],
            available_now=True,
            **options,
        )
        query.awaitTermination()

    if point is not None:
        with pytest.raises(StreamingQueryException, match="KilledError"):
            start(on_event=kill_at(point))
    start()
    wanted = [{"Key": n, "count": 6} for n in range(3)]
    assert rows(da.to_table(tmp_path / "target")) == wanted


@pytest.mark.full
@pytest.mark.parametrize(
    ("key", "reported"),
    [
        ("key", r"rows whose key is null.*\(rows: 1\)"),
        pytest.param("id", "no column", marks=pytest.mark.full),
    ],
)
def test_a_first_batch_without_a_key_makes_no_table(
    spark: SparkSession, tmp_path: Path, key: str, reported: str
) -> None:
    append(tmp_path / "source", 2, 4)
    stream = ds.read_stream(spark, tmp_path / "source")
    query = ds.write_stream(
        stream.select(sf.when(sf.col("n") > 2, sf.col("n")).alias("key")),
        tmp_path / "target",
        checkpoint_location=str(tmp_path / "c"),
        output_mode="update",
        keys=[key],
        available_now=True,
    )
    with pytest.raises(StreamingQueryException, match=reported):
        query.awaitTermination()
    assert not [each for each in (tmp_path / "target").rglob("*") if each.is_file()]


@pytest.mark.full
def test_rows_without_a_key_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    stored = tmp_path / "target"

    def run_update() -> None:
        stream = ds.read_stream(spark, tmp_path / "source")
        key = sf.when(sf.col("n") > 2, sf.col("n")).alias("key")
        options: dict[str, Any] = {"output_mode": "update", "keys": ["key"], "available_now": True}
        query = ds.write_stream(
            stream.groupBy(key).count(), stored, checkpoint_location=str(tmp_path / "c"), **options
        )
        query.awaitTermination()

    append(tmp_path / "source", 3, 4)
    run_update()
    append(tmp_path / "source", 2, 3)
    with pytest.raises(StreamingQueryException, match=r"rows whose key is null.*\(rows: 1\)"):
        run_update()
    assert rows(da.to_table(stored)) == [{"key": 3, "count": 1}, {"key": 4, "count": 1}]


def test_the_first_batch_creates_the_table_and_later_batches_may_widen_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    append(tmp_path / "source", 0, 0, p="a")
    run(spark, tmp_path, partition_by=["p"], configuration={"delta.appendOnly": "true"})
    wider = pa.table({"n": [1], "p": ["b"], "x": ["new"]})
    da.write(DeltaLog(tmp_path / "source"), wider, merge_schema=True)
    run(spark, tmp_path, merge_schema=True)
    found = DeltaLog(tmp_path / "target").snapshot()
    assert found.partition_columns == ("p",)
    assert found.properties.append_only
    assert rows(da.to_table(found)) == [
        {"n": 0, "p": "a", "x": None},
        {"n": 1, "p": "b", "x": "new"},
    ]


@pytest.mark.full
@pytest.mark.parametrize("stops_other", ["true", pytest.param("false", marks=pytest.mark.full)])
def test_two_queries_on_one_checkpoint_never_run_at_once(
    spark: SparkSession, tmp_path: Path, stops_other: str
) -> None:
    append(tmp_path / "source", 0, 0)
    stream = ds.read_stream(spark, tmp_path / "source")
    options: dict[str, Any] = {"checkpoint_location": str(tmp_path / "c")}
    spark.conf.set(_STOPS_OTHER, stops_other)
    queries = [ds.write_stream(stream, tmp_path / "target", **options)]
    try:
        queries[0].processAllAvailable()
        if stops_other == "true":
            queries.append(ds.write_stream(stream, tmp_path / "target", **options))
            assert not queries[0].isActive
        else:
            with pytest.raises(Py4JJavaError, match="already active"):
                ds.write_stream(stream, tmp_path / "target", **options)
            assert queries[0].isActive
    finally:
        spark.conf.unset(_STOPS_OTHER)
        for query in queries:
            query.stop()
    assert numbers_in(tmp_path / "target") == [0]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"output_mode": "update"}, "needs keys", id="an update without keys"),
        pytest.param({"keys": ["n"]}, "needs keys", id="keys without an update"),
        pytest.param({"overwrite_schema": True}, "complete", id="a schema of an append"),
        pytest.param(
            {"available_now": True, "processing_time": "1 second"}, "not both", id="two triggers"
        ),
        pytest.param({"output_mode": "all"}, "'all' is unknown", id="another mode"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    append(tmp_path / "source", 0, 0)
    stream = ds.read_stream(spark, tmp_path / "source")
    with pytest.raises(InvalidRequestError, match=reason):
        ds.write_stream(stream, tmp_path / "t", checkpoint_location=str(tmp_path / "c"), **options)


def test_rows_that_are_no_stream_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="takes a streaming DataFrame"):
        ds.write_stream(spark.range(1), tmp_path / "t", checkpoint_location=str(tmp_path / "c"))


@pytest.mark.full
def test_a_stream_goes_from_one_bucket_to_another(
    store_spark: SparkSession, s3_server: S3Server, tmp_path: Path
) -> None:
    options = s3_server.storage_options
    source, target = (DeltaLog(f"s3://{s3_server.new_bucket()}/t", options) for _ in range(2))
    for first in (0, 10):
        append(source, first, first + 1)
        stream = ds.read_stream(store_spark, source)
        query = ds.write_stream(
            stream, target, checkpoint_location=str(tmp_path / "c"), available_now=True
        )
        query.awaitTermination()
    assert numbers_in(target) == [0, 1, 10, 11]
