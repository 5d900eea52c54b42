"""`format("delta")`: Spark's readers and writers use delta_ops for this format only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter

import delta_ops.spark as ds
from delta_ops import DeltaLog, ddl
from delta_ops.errors import InvalidRequestError, TableExistsError, TableNotFoundError
from tests.spark.frames import files_under

pytestmark = pytest.mark.spark


@pytest.fixture
def delta(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with its own settings; its `delta` format is ours."""
    ds.register(spark)
    yield spark.newSession()
    ds.unregister(spark)


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


def load(session: SparkSession, root: Path, **options: Any) -> DataFrame:
    return session.read.load(str(root), format="delta", **options)


def numbers(session: SparkSession, *arguments: int) -> DataFrame:
    return session.createDataFrame([(n, n % 2) for n in arguments], "id long, p long")


def commit_info(root: Path) -> dict[str, Any]:
    return dict(next(iter(DeltaLog(root).history())).commit_info or {})


def test_rows_that_were_saved_are_loaded(tmp_path: Path, delta: SparkSession) -> None:
    rows = numbers(delta, 1, 2, 3)
    rows.write.format("delta").partitionBy("P").save(str(tmp_path))
    rows.write.save(str(tmp_path), format="DELTA", mode="append")
    rows.write.mode("append").format("delta").option("path", str(tmp_path)).save()
    assert DeltaLog(tmp_path).snapshot().partition_columns == ("p",)
    reader = delta.read.format("delta").options(path=str(tmp_path))
    assert ids(reader.load()) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert ids(reader.option("versionAsOf", 0).load()) == [1, 2, 3]
    assert ids(delta.read.table(f"delta.`{tmp_path}`")) == ids(load(delta, tmp_path))
    assert ids(load(delta, Path(f"{tmp_path}@v1"))) == [1, 1, 2, 2, 3, 3]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("append", [1, 2], id="append adds rows"),
        pytest.param("OVERWRITE", [2], id="overwrite replaces them"),
        pytest.param("ignore", [1], id="ignore leaves a table as it is"),
    ],
)
def test_modes(tmp_path: Path, delta: SparkSession, mode: str, expected: list[int]) -> None:
    numbers(delta, 1).write.format("delta").mode(mode).save(str(tmp_path))
    numbers(delta, 2).write.format("delta").mode(mode).save(str(tmp_path))
    assert ids(load(delta, tmp_path)) == expected


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("mode", [None, "error", "errorIfExists", "default"])
def test_a_table_that_is_there_is_an_error_by_default(
    tmp_path: Path, delta: SparkSession, mode: str | None
) -> None:
    numbers(delta, 1).write.format("delta").save(str(tmp_path), mode=mode)
    with pytest.raises(TableExistsError):
        numbers(delta, 2).write.format("delta").save(str(tmp_path), mode=mode)
    assert ids(load(delta, tmp_path)) == [1]


def test_each_task_of_the_data_writes_a_file(tmp_path: Path, delta: SparkSession) -> None:
    delta.range(100).repartition(10).write.format("delta").save(str(tmp_path))
    assert DeltaLog(tmp_path).snapshot().num_files == 10


def test_files_hold_as_many_rows_as_they_may(tmp_path: Path, delta: SparkSession) -> None:
    writer = delta.range(100).coalesce(1).write.format("delta")
    writer.option("maxRecordsPerFile", 30).save(str(tmp_path))
    assert DeltaLog(tmp_path).snapshot().num_files == 4


@pytest.mark.full
def test_a_stream_honours_the_options_for_files(tmp_path: Path, delta: SparkSession) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    delta.range(100).coalesce(1).write.format("delta").save(str(source))
    rows = delta.readStream.format("delta").load(str(source)).writeStream.format("delta")
    rows = rows.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True)
    query = rows.options(maxRecordsPerFile=30, compression="gzip").start(str(target))
    query.awaitTermination()
    assert codecs_of(target) == ["GZIP"] * 4


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("argument", [None, "ZSTD", "none", "lz4"])
def test_files_are_compressed_as_the_writer_says_or_the_table(
    tmp_path: Path, delta: SparkSession, argument: str | None
) -> None:
    writer = delta.range(9).coalesce(1).write.format("delta")
    writer = writer.option("delta.parquet.compression.codec", "gzip")
    (writer if argument is None else writer.option("compression", argument)).save(str(tmp_path))
    expected = {None: "GZIP", "ZSTD": "ZSTD", "none": "UNCOMPRESSED", "lz4": "LZ4"}
    assert codecs_of(tmp_path) == [expected[argument]]


def codecs_of(root: Path) -> list[str]:
    """The codec of each file."""
    footers = [pq.read_metadata(path) for path in root.rglob("*.parquet")]
    return [
        each.row_group(0).column(0).compression
        for path, each in zip(root.rglob("*.parquet"), footers, strict=True)
        if "_delta_log" not in path.parts
    ]


@pytest.mark.full
def test_a_rewrite_reports_no_changes_to_streams(tmp_path: Path, delta: SparkSession) -> None:
    for n in (1, 2, 3, 4):
        writer = numbers(delta, n, n).write.format("delta").mode("append").partitionBy("p")
        writer.save(str(tmp_path))
    mended = load(delta, tmp_path).coalesce(1).write.format("delta").mode("overwrite")
    mended.option("dataChange", False).save(str(tmp_path))
    part = load(delta, tmp_path).where("id < 3 AND p = 1").write.format("delta")
    part = part.mode("overwrite").option("replaceWhere", "id < 3 AND p = 1")
    part.option("dataChange", "false").save(str(tmp_path))
    log = DeltaLog(tmp_path)
    assert ids(load(delta, tmp_path)) == [1, 1, 2, 2, 3, 3, 4, 4]
    commits = list(log.commits(4, 5))
    for files in (each for commit in commits for each in (commit.adds, commit.removes)):
        assert set(files["dataChange"].to_pylist()) == {False}
    changes = delta.readStream.format("delta").option("startingVersion", 4).load(str(tmp_path))
    query = changes.writeStream.format("memory").queryName("told").trigger(availableNow=True)
    query.option("checkpointLocation", f"{tmp_path}/c").start().awaitTermination()
    assert delta.table("told").count() == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("changed", "properties", "reason"),
    [
        pytest.param("SELECT 1L id, 1L p", {}, "differ from the 2 rows", id="a row is missing"),
        pytest.param(
            "VALUES (1L, 1L), (2L, 1L) t(id, p)", {}, "differ from", id="a row is changed"
        ),
        pytest.param("VALUES (1L, 1L), (1L, 1L) t(id, p)", {}, "differ from", id="one row twice"),
        pytest.param(
            "VALUES (1L, 1L), (2L, 0L) t(id, p)",
            {"delta.enableRowTracking": "true"},
            "ids",
            id="rows that have ids",
        ),
    ],
)
def test_a_rearrangement_that_changes_rows_is_refused(
    tmp_path: Path,
    delta: SparkSession,
    changed: str,
    properties: dict[str, str],
    reason: str,
) -> None:
    numbers(delta, 1, 2).write.format("delta").options(**properties).save(str(tmp_path))
    before = files_under(tmp_path)
    rows = delta.sql(changed if changed.startswith("SELECT") else f"SELECT * FROM {changed}")
    writer = rows.write.format("delta").mode("overwrite").option("dataChange", "false")
    with pytest.raises(InvalidRequestError, match=reason):
        writer.save(str(tmp_path))
    assert files_under(tmp_path) == before
    with pytest.raises(InvalidRequestError, match="mode overwrite"):
        writer.mode("append").save(str(tmp_path))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"REPLACEWHERE": "P = 1 AND id < 4"}, [2, 3, 4, 5], id="where"),
        pytest.param({"partitionOverwriteMode": "DYNAMIC"}, [2, 3, 4], id="dynamically"),
        pytest.param({}, [3], id="all"),
    ],
)
def test_an_overwrite_replaces_what_it_says(
    tmp_path: Path, delta: SparkSession, options: dict[str, str], expected: list[int]
) -> None:
    numbers(delta, 1, 2, 3, 4, 5).write.format("delta").partitionBy("p").save(str(tmp_path))
    numbers(delta, 3).write.save(str(tmp_path), format="delta", mode="overwrite", **options)
    assert ids(load(delta, tmp_path)) == expected


def test_rows_that_others_have_added_are_not_overwritten_by_what_was_read_before(
    tmp_path: Path, delta: SparkSession
) -> None:
    numbers(delta, 1, 2).write.format("delta").save(str(tmp_path))
    before = load(delta, tmp_path).filter("id > 1").join(delta.range(9), "id")
    before.write.format("delta").mode("overwrite").save(str(tmp_path))
    assert ids(load(delta, tmp_path)) == [2]
    stale = before.write.format("delta").mode("overwrite")
    with pytest.raises(
        InvalidRequestError, match=r"from version 0 of this table, and .* version 1"
    ):
        stale.save(str(tmp_path))
    stale.option("replaceWhere", "id > 1").save(str(tmp_path))
    past = load(delta, tmp_path, versionAsOf=0)
    past.write.format("delta").mode("overwrite").save(str(tmp_path))
    assert ids(load(delta, tmp_path)) == [1, 2]


@pytest.mark.full
def test_a_session_says_how_partitions_are_overwritten(tmp_path: Path, delta: SparkSession) -> None:
    delta.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    numbers(delta, 1, 2).write.format("delta").partitionBy("p").save(str(tmp_path))
    writer = numbers(delta, 3).write.format("delta").mode("overwrite")
    writer.save(str(tmp_path))
    assert ids(load(delta, tmp_path)) == [2, 3]
    writer.option("replaceWhere", "id = 3").save(str(tmp_path))
    assert ids(load(delta, tmp_path)) == [2, 3]
    writer.option("replaceWhere", "id >= 2 AND p >= 0").save(str(tmp_path))
    assert ids(load(delta, tmp_path)) == [3]


def test_times_of_another_zone_are_not_replaced(tmp_path: Path, delta: SparkSession) -> None:
    delta.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = delta.sql("SELECT 1L AS id, TIMESTAMP'2026-01-01 00:00:00' AS at")
    rows.write.format("delta").save(str(tmp_path))
    writer = rows.write.format("delta").mode("overwrite")
    with pytest.raises(InvalidRequestError, match="time zone"):
        writer.option("replaceWhere", "at >= '2026-01-01'").save(str(tmp_path))


def test_a_table_takes_new_columns(tmp_path: Path, delta: SparkSession) -> None:
    numbers(delta, 1).write.format("delta").partitionBy("p").save(str(tmp_path))
    wider = numbers(delta, 2).selectExpr("*", "'x' AS more").write.format("delta").mode("append")
    with pytest.raises(InvalidRequestError, match="more"):
        wider.save(str(tmp_path))
    wider.option("mergeSchema", True).save(str(tmp_path))
    assert load(delta, tmp_path).columns == ["id", "p", "more"]
    other = delta.range(3).write.format("delta").mode("overwrite")
    other.options(overwriteSchema="true", mergeSchema="true").save(str(tmp_path))
    assert load(delta, tmp_path).columns == ["id"]
    assert DeltaLog(tmp_path).snapshot().partition_columns == ()
    delta.conf.set("spark.databricks.delta.schema.autoMerge.enabled", True)
    numbers(delta, 5).write.format("delta").mode("append").save(str(tmp_path))
    assert load(delta, tmp_path).columns == ["id", "p"]


def test_settings_without_an_effect_are_reported(
    tmp_path: Path, delta: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    numbers(delta, 1).write.format("delta").save(str(tmp_path))
    assert caplog.messages == []
    writer = numbers(delta, 2).write.format("delta").mode("append")
    writer.options(**{"overwriteSchema": "true", "delta.appendOnly": "true"}).save(str(tmp_path))
    ignored, kept = sorted(caplog.messages, key=lambda text: "delta.appendOnly" in text)
    assert ignored.startswith("overwriteSchema has no effect")
    assert "delta.appendOnly = 'true' is for a new table" in kept


def test_a_write_is_done_once(tmp_path: Path, delta: SparkSession) -> None:
    writer = numbers(delta, 1).write.format("delta").mode("append").option("userMetadata", "why")
    for version in (1, 1, 0, 2):
        writer.options(txnAppId="loader", txnVersion=version).save(str(tmp_path))
    assert ids(load(delta, tmp_path)) == [1, 1]
    assert commit_info(tmp_path)["userMetadata"] == "why"


def test_properties_of_a_new_table_are_its_sessions_and_the_writers(
    tmp_path: Path, delta: SparkSession
) -> None:
    delta.conf.set("spark.databricks.delta.properties.defaults.appendOnly", "true")
    delta.conf.set("spark.databricks.delta.commitInfo.userMetadata", "nightly")
    writer = numbers(delta, 1).write.format("delta")
    writer.option("delta.enableChangeDataFeed", "true").option("delta.minWriterVersion", 4)
    writer.save(str(tmp_path))
    snapshot = DeltaLog(tmp_path).snapshot()
    assert snapshot.metadata.configuration == {
        "delta.appendOnly": "true",
        "delta.enableChangeDataFeed": "true",
    }
    assert commit_info(tmp_path)["userMetadata"] == "nightly"


@pytest.mark.skipif(not hasattr(DataFrameWriter, "clusterBy"), reason="this Spark has no clusterBy")
def test_a_writer_clusters_a_new_table(tmp_path: Path, delta: SparkSession) -> None:
    numbers(delta, 1).write.format("delta").clusterBy("id").save(str(tmp_path))
    assert DeltaLog(tmp_path).snapshot().definition.has("clustering")


def test_changes_are_read(tmp_path: Path, delta: SparkSession) -> None:
    writer = numbers(delta, 1).write.option("delta.enableChangeDataFeed", "true")
    writer.format("delta").save(str(tmp_path))
    ds.delete(delta, tmp_path, "id = 1")
    changes = delta.read.format("delta").option("readChangeFeed", "true")
    found = changes.options(startingVersion=0, endingVersion=1).load(str(tmp_path))
    assert sorted(found.select("_change_type", "_commit_version").collect()) == [
        ("delete", 1),
        ("insert", 0),
    ]
    with pytest.raises(InvalidRequestError, match="versionAsOf"):
        changes.option("versionAsOf", 0).load(str(tmp_path))
    ddl.set_properties(tmp_path, {"delta.enableChangeDataFeed": "false"})
    cure = r"on from version 0 to 1, so end with option\(\"endingVersion\", \"1\"\)"
    with pytest.raises(InvalidRequestError, match=cure):
        load(delta, tmp_path, readChangeFeed="true", startingVersion=0)
    with pytest.raises(InvalidRequestError, match="readChangeFeed"):
        load(delta, tmp_path, startingVersion=0)


def test_a_time_is_one_of_the_session(tmp_path: Path, delta: SparkSession) -> None:
    numbers(delta, 1).write.format("delta").save(str(tmp_path))
    numbers(delta, 2).write.format("delta").mode("append").save(str(tmp_path))
    latest = next(iter(DeltaLog(tmp_path).history()))
    at = delta.sql(f"SELECT timestamp_millis({latest.timestamp_ms}) AS at")
    for zone in ("UTC", "Asia/Tokyo"):
        delta.conf.set("spark.sql.session.timeZone", zone)
        text = at.selectExpr("CAST(at AS STRING)").first()
        assert text is not None
        assert ids(load(delta, tmp_path, timestampAsOf=text[0])) == [1, 2]


def test_streams_go_from_table_to_table(tmp_path: Path, delta: SparkSession) -> None:
    source, sink = str(tmp_path / "source"), str(tmp_path / "sink")
    numbers(delta, 1, 2).coalesce(1).write.format("delta").save(source)
    for more in (3, 4):
        numbers(delta, more).write.format("delta").mode("append").save(source)
        rows = delta.readStream.format("delta").options(maxBytesPerTrigger="1k").load(source)
        writer = rows.writeStream.format("delta").partitionBy("p").trigger(availableNow=True)
        query = writer.start(sink, checkpointLocation=str(tmp_path / "checkpoint"))
        assert query.awaitTermination(120)
    assert ids(load(delta, Path(sink))) == [1, 2, 3, 4]
    assert DeltaLog(sink).snapshot().partition_columns == ("p",)


@pytest.mark.full
def test_other_formats_stay_sparks(tmp_path: Path, delta: SparkSession) -> None:
    rows, root = numbers(delta, 1, 2), str(tmp_path / "files")
    rows.write.format("delta").format("parquet").option("anything", "goes").save(root)
    rows.write.mode("append").parquet(root)
    rows.write.save(root, mode="append")
    assert ids(delta.read.load(root)) == [1, 1, 1, 2, 2, 2]
    rows.write.csv(str(tmp_path / "text"), header=True)
    read = delta.read.option("header", True).csv(str(tmp_path / "text"), inferSchema=True)
    assert ids(read) == [1, 2]
    rows.writeTo("registered").using("parquet").create()
    rows.write.insertInto("registered")
    assert ids(delta.table("registered")) == [1, 1, 2, 2]
    delta.sql("DROP TABLE registered")
    seen: list[int] = []
    stream = delta.readStream.schema(rows.schema).parquet(root)
    query = stream.writeStream.foreachBatch(lambda batch, _: seen.extend(ids(batch)))
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert sorted(seen) == [1, 1, 1, 2, 2, 2]


def test_the_sessions_own_format_may_be_delta(tmp_path: Path, delta: SparkSession) -> None:
    delta.conf.set("spark.sql.sources.default", "delta")
    numbers(delta, 1).write.save(str(tmp_path))
    assert ids(delta.read.load(str(tmp_path))) == [1]
    assert DeltaLog(tmp_path).exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"replaceWere": "id = 1"}, "the closest name is replaceWhere", id="a slip"),
        pytest.param({"where": "id = 1"}, "has no option where", id="an unknown one"),
        pytest.param({"replaceUsing": "id"}, "ds.merge", id="one that is not supported"),
        pytest.param({"mergeSchema": "yes"}, "true or false", id="no flag"),
        pytest.param({"txnAppId": "loader"}, "both txnAppId", id="half an identity"),
        pytest.param({"dataChange": "false"}, "on an existing table", id="rows of no table"),
        pytest.param({"compression": "lzo"}, "one of uncompressed", id="no such codec"),
        pytest.param({"partitionOverwriteMode": "x"}, "static or dynamic", id="no such mode"),
        pytest.param(
            {"partitionOverwriteMode": "dynamic", "replaceWhere": "id = 1"},
            "both choose the rows",
            id="two that contradict each other",
        ),
    ],
)
def test_options_that_cannot_be_carried_out_write_nothing(
    tmp_path: Path, delta: SparkSession, options: dict[str, str], reason: str
) -> None:
    writer = numbers(delta, 1).write.format("delta").mode("overwrite")
    with pytest.raises(InvalidRequestError, match=reason):
        writer.save(str(tmp_path), **options)
    assert files_under(tmp_path) == set()


def test_a_reader_passes_over_what_it_does_not_know_and_refuses_slips(
    tmp_path: Path, delta: SparkSession
) -> None:
    numbers(delta, 1).write.format("delta").save(str(tmp_path))
    assert ids(load(delta, tmp_path, inferSchema=True, mergeSchema=True)) == [1]
    with pytest.raises(InvalidRequestError, match="the closest name is versionAsOf"):
        load(delta, tmp_path, version_as_of=0)
    with pytest.raises(InvalidRequestError, match="is not the table's"):
        delta.read.format("delta").schema("id int").load(str(tmp_path))


def test_names_of_a_view_are_refused_with_the_way_by_path(delta: SparkSession) -> None:
    rows = numbers(delta, 1)
    rows.createOrReplaceTempView("t")
    delta.sql("CREATE VIEW kept AS SELECT 1 AS a")
    stream = delta.readStream.format("rate").load().writeStream.format("delta")
    try:
        for call in (
            lambda: rows.write.format("delta").saveAsTable("kept"),
            lambda: rows.write.format("delta").insertInto("t"),
            lambda: rows.writeTo("kept").using("delta").create(),
            lambda: stream.toTable("kept"),
        ):
            with pytest.raises(InvalidRequestError, match=r"by path.* ?df"):
                call()
    finally:
        delta.sql("DROP VIEW kept")
    with pytest.raises(TableNotFoundError):
        rows.writeTo("delta.`/t`").append()


def test_invalid_definitions_of_a_table_are_refused(tmp_path: Path, delta: SparkSession) -> None:
    rows = numbers(delta, 1)
    with pytest.raises(InvalidRequestError, match="bucketBy"):
        rows.write.format("delta").bucketBy(2, "id").sortBy("id").save(str(tmp_path))
    with pytest.raises(InvalidRequestError, match="2 paths"):
        delta.read.format("delta").load([str(tmp_path), "/other"])
    with pytest.raises(InvalidRequestError, match="leave one out"):
        delta.read.format("delta").option("path", "/other").load(str(tmp_path))
    with pytest.raises(InvalidRequestError, match="needs a path"):
        rows.write.format("delta").save()
    stream = delta.readStream.format("rate").load().writeStream.format("delta")
    with pytest.raises(InvalidRequestError, match="checkpointLocation"):
        stream.start(str(tmp_path))
    assert files_under(tmp_path) == set()


def test_registering_is_undone(tmp_path: Path, spark: SparkSession) -> None:
    before = {
        (each, name): value
        for each in (DataFrameReader, DataFrameWriter)
        for name, value in vars(each).items()
    }
    ds.register(spark)
    ds.register(spark)
    assert DataFrameReader.load is not before[DataFrameReader, "load"]
    writer = spark.range(1).write.format("delta")
    ds.unregister(spark)
    ds.unregister(spark)
    assert all(vars(each)[name] is value for (each, name), value in before.items())
    with pytest.raises(Exception, match="is not registered"):
        writer.save(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.extensions", "other.Extension,io.delta.sql.DeltaSparkSessionExtension"),
        ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
    ],
)
def test_a_session_set_up_for_delta_spark_is_refused(
    spark: SparkSession, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = type(spark.conf)
    get = settings.get
    monkeypatch.setattr(
        settings, "get", lambda self, key, *rest: value if key == name else get(self, key, *rest)
    )
    with pytest.raises(InvalidRequestError, match="set up for delta-spark"):
        ds.register(spark)
