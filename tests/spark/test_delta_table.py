"""DeltaTable: opens, changes and describes tables with delta-spark's API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.errors import CommitConflictError, InvalidRequestError, StorageError
from delta_ops.spark.engine import SparkEngine
from delta_ops.tables import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    DeltaTable,
    MetadataChangedException,
    ProtocolChangedException,
    configure_spark_with_delta_pip,
    delta_table,
)
from delta_ops.tables.exceptions import exception_of
from delta_ops.transaction.dml import delete_rows
from delta_ops.transaction.requests import DeleteRequest
from tests.support.tables import rows

pytestmark = pytest.mark.spark

ITEMS = pa.table({"key": ["a", "b", "c", "d"], "value": [1, 2, 3, 4]})


@pytest.fixture
def items(spark: SparkSession, tmp_path: Path) -> DeltaTable:
    da.write(tmp_path / "items", ITEMS)
    return DeltaTable.forPath(spark, str(tmp_path / "items"))


def values(table: DeltaTable) -> dict[str, int]:
    return {row["key"]: row["value"] for row in table.toDF().collect()}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("argument", ["value < 3", "t.value < 3", "T.`value` < 3 and t.key != 'z'"])
def test_rows_are_deleted_by_a_text_with_and_without_the_alias(
    items: DeltaTable, argument: str
) -> None:
    items.alias("t").delete(argument)
    assert values(items) == {"c": 3, "d": 4}


@pytest.mark.full
def test_rows_are_deleted_by_a_column(items: DeltaTable) -> None:
    items.alias("t").delete(sf.col("t.key") == "a")
    items.delete(sf.col("key") == "b")
    assert values(items) == {"c": 3, "d": 4}
    items.delete()
    assert values(items) == {}


@pytest.mark.parametrize("is_column", [False, True], ids=["a text", "a Column"])
def test_files_are_left_out_by_a_condition_that_has_the_alias(
    spark: SparkSession, tmp_path: Path, is_column: bool
) -> None:
    for day in (1, 2):
        da.write(tmp_path, pa.table({"day": [day], "x": [day]}), partition_by=["day"])
    kept = DeltaLog(tmp_path).snapshot().files(predicate=None).num_rows
    (tmp_path / "day=1").rename(tmp_path / "gone")
    column = (sf.col("t.day") == 2) & sf.expr("t.x = 2")
    condition = column if is_column else "t.day = 2 AND t.x + 0 = 2"
    DeltaTable.forPath(spark, str(tmp_path)).alias("t").delete(condition)
    assert (kept, DeltaLog(tmp_path).snapshot().num_files) == (2, 1)


def test_columns_get_values_of_texts_and_columns_under_the_alias(items: DeltaTable) -> None:
    items.update("key = 'a'", {"value": "value + 10"})
    items.alias("t").update(sf.col("t.key") == "b", {"t.value": sf.col("t.value") * 10})
    items.update(set={"key": "upper(key)"})
    assert values(items) == {"A": 11, "B": 20, "C": 3, "D": 4}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        pytest.param(lambda t: t.delete(1), TypeError, "Column or a string", id="a condition"),
        pytest.param(lambda t: t.update("a"), ValueError, "cannot be None", id="no values"),
        pytest.param(lambda t: t.update(set=1), TypeError, "must be a dict", id="no dict"),
        pytest.param(lambda t: t.update(set={1: "1"}), TypeError, "Keys of dict", id="a key"),
        pytest.param(lambda t: t.update(set={"v": 1}), TypeError, "Values of dict", id="a value"),
        pytest.param(lambda t: t.restoreToVersion("0"), ValueError, "an int", id="a version"),
        pytest.param(lambda t: t.restoreToTimestamp(0), ValueError, "a string", id="a time"),
        pytest.param(
            lambda t: t.upgradeTableProtocol("1", 3), ValueError, "readerVersion", id="a protocol"
        ),
        pytest.param(
            lambda t: t.addFeatureSupport(7), ValueError, "featureName needs", id="a feature"
        ),
        pytest.param(lambda t: t.clone("x", 1), ValueError, "isShallow", id="a clone"),
    ],
)
def test_a_value_of_another_type_is_refused(
    items: DeltaTable, call: Callable[[DeltaTable], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call(items)


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        pytest.param(lambda t: t.delete("nope = 1"), AnalysisException, "nope", id="a name"),
        pytest.param(
            lambda t: t.restoreToVersion(9), AnalysisException, "version 9", id="no version"
        ),
        pytest.param(
            lambda t: t.restoreToTimestamp("05/04/1999"),
            AnalysisException,
            r"The provided timestamp \('05/04/1999'\) cannot be converted to a valid timestamp",
            id="no time",
        ),
        pytest.param(
            lambda t: t.addFeatureSupport("abc"),
            AnalysisException,
            "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
            id="no feature",
        ),
        pytest.param(
            lambda t: t.upgradeTableProtocol(4, 8), AnalysisException, "4", id="no protocol"
        ),
        pytest.param(
            lambda t: t.generate("x"), IllegalArgumentException, "symlink", id="no manifest"
        ),
        pytest.param(lambda t: t.clone("x"), IllegalArgumentException, "shallow", id="deep clone"),
    ],
)
def test_a_call_that_cannot_be_carried_out_fails_as_with_delta_spark(
    items: DeltaTable, call: Callable[[DeltaTable], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call(items)
    assert values(items) == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_where_there_is_no_table_none_is_opened(spark: SparkSession, tmp_path: Path) -> None:
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path))
    with pytest.raises(AnalysisException, match="is not a Delta table"):
        DeltaTable.forPath(spark, str(tmp_path))
    with pytest.raises(AnalysisException, match="forPath"):
        DeltaTable.forName(spark, "nowhere")
    da.write(tmp_path, ITEMS)
    assert DeltaTable.isDeltaTable(spark, str(tmp_path))
    assert values(DeltaTable.forName(spark, f"delta.`{tmp_path}`"))["d"] == 4


def test_settings_belong_to_file_systems(spark: SparkSession, tmp_path: Path) -> None:
    da.write(tmp_path, ITEMS)
    table = DeltaTable.forPath(spark, str(tmp_path), {"fs.file.impl.disable.cache": "true"})
    assert values(table)["a"] == 1
    with pytest.raises(AnalysisException, match=r"x\.y"):
        DeltaTable.forPath(spark, str(tmp_path), {"x.y": "z"})


def test_the_history_says_who_did_what_when(items: DeltaTable) -> None:
    items.delete("value = 1")
    newest, oldest = items.history().collect()
    assert [newest["version"], oldest["version"]] == [1, 0]
    assert (newest["operation"], newest["operationParameters"]["predicate"]) == (
        "DELETE",
        '["value = 1"]',
    )
    assert (oldest["operationParameters"]["mode"], oldest["isBlindAppend"]) == ("Append", True)
    assert newest["operationMetrics"]["numDeletedRows"] == "1"
    assert [row["version"] for row in items.history(1).collect()] == [1]


def test_the_details_match_the_table(items: DeltaTable, tmp_path: Path) -> None:
    (found,) = items.detail().collect()
    snapshot = DeltaLog(tmp_path / "items").snapshot()
    created = snapshot.metadata.created_time or 0
    assert found["location"] == f"file:{tmp_path}/items"
    assert (found["format"], found["id"]) == ("delta", snapshot.metadata.id)
    assert found["createdAt"].timestamp() == pytest.approx(created / 1000, abs=0.002)
    assert (found["numFiles"], found["sizeInBytes"]) == (1, snapshot.size_bytes)
    assert (found["minReaderVersion"], found["minWriterVersion"]) == (1, 2)
    assert found["tableFeatures"] == ["appendOnly", "invariants"]


def test_a_vacuum_goes_by_hours_and_by_the_session(
    spark: SparkSession, items: DeltaTable, tmp_path: Path
) -> None:
    leftover = tmp_path / "items" / "leftover.parquet"
    leftover.write_text("rows")
    assert items.vacuum().columns == []
    items.vacuum(1000)
    with pytest.raises(AnalysisException, match="retention"):
        items.vacuum(0)
    assert leftover.exists()
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        assert items.vacuum(0.0).collect() == []
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert not leftover.exists()
    assert values(items)["a"] == 1


@pytest.mark.parametrize("schema", ["p int", None], ids=["partitioned", "plain"])
def test_a_directory_of_parquet_files_becomes_a_table(
    spark: SparkSession, tmp_path: Path, schema: str | None
) -> None:
    made = spark.range(4).selectExpr("id", "id % 2 AS p").write
    (made.partitionBy("p") if schema else made).parquet(str(tmp_path / "files"))
    table = DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path}/files`", schema)
    found = table.toDF()
    assert sorted(row["id"] for row in found.collect()) == [0, 1, 2, 3]
    assert dict(found.dtypes)["p"] == ("int" if schema else "bigint")


def test_partition_columns_that_are_not_named_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(2).selectExpr("id", "id AS p").write.partitionBy("p").parquet(f"{tmp_path}/files")
    with pytest.raises(AnalysisException, match="directories have p"):
        DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path}/files`")
    with pytest.raises(AnalysisException, match=r"parquet\.`/path`"):
        DeltaTable.convertToDelta(spark, f"{tmp_path}/files")


def test_a_table_is_restored_to_a_version_and_to_a_time_of_the_session(
    in_new_york: SparkSession, items: DeltaTable
) -> None:
    (first,) = items.history().select(sf.unix_micros("timestamp").alias("at")).collect()
    items.delete("value > 1")
    (done,) = items.restoreToVersion(0).collect()
    assert (done["num_restored_files"], done["num_removed_files"]) == (1, 1)
    assert done["num_of_files_after_restore"] == 1
    assert values(items) == {"a": 1, "b": 2, "c": 3, "d": 4}
    items.delete("value > 1")
    moment = sf.timestamp_micros(sf.lit(first["at"])).cast("string")
    shown = in_new_york.range(1).select(moment).first()
    assert shown
    items.restoreToTimestamp(shown[0])
    assert values(items) == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_a_protocol_is_raised_and_never_lowered(items: DeltaTable) -> None:
    def protocol() -> tuple[int, int, list[str]]:
        (found,) = items.detail().collect()
        return found["minReaderVersion"], found["minWriterVersion"], found["tableFeatures"]

    items.upgradeTableProtocol(1, 3)
    assert protocol() == (1, 3, ["appendOnly", "checkConstraints", "invariants"])
    items.upgradeTableProtocol(1, 2)
    assert protocol()[:2] == (1, 3)
    items.addFeatureSupport("DELETIONVECTORS")
    assert protocol()[:2] == (3, 7)
    items.dropFeatureSupport("deletionVectors")
    assert protocol()[:2] == (1, 3)


def test_a_manifest_lists_the_files(items: DeltaTable, tmp_path: Path) -> None:
    items.generate("SYMLINK_FORMAT_MANIFEST")
    listed = (tmp_path / "items" / "_symlink_format_manifest" / "manifest").read_text()
    assert [Path(line).exists() for line in listed.splitlines()] == [True]


@pytest.mark.full
def test_a_shallow_clone_is_a_table_of_its_own(items: DeltaTable, tmp_path: Path) -> None:
    items.delete("value = 1")
    clone = items.cloneAtVersion(0, f"{tmp_path}/clone", True, properties={"owner": "me"})
    assert clone.history().count() == 1
    clone.delete("value = 2")
    assert (values(clone), values(items)) == (
        {"a": 1, "c": 3, "d": 4},
        {"b": 2, "c": 3, "d": 4},
    )
    (found,) = clone.detail().collect()
    assert found["properties"] == {"owner": "me"}
    with pytest.raises(AnalysisException, match="already a table"):
        items.clone(f"{tmp_path}/clone", True)
    with pytest.raises(AnalysisException, match="drop"):
        items.clone(f"{tmp_path}/clone", True, True)


@pytest.mark.full
def test_each_commit_keeps_what_the_session_says(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.commitInfo.userMetadata", "job 7")
    place = f"{tmp_path}/items"
    made = DeltaTable.create(session).location(place).addColumn("key", "string")
    items = made.addColumn("value", "long").execute()
    source = session.createDataFrame([("a", 1), ("b", 2), ("c", 3)], "key string, value long")
    items.merge(source.coalesce(1), "false").whenNotMatchedInsertAll().execute()
    items.update("key = 'a'", {"value": "0"})
    items.delete("key = 'b'")
    items.optimize().executeZOrderBy("value")
    items.addFeatureSupport("deletionVectors")
    items.upgradeTableProtocol(1, 4)
    items.restoreToVersion(1)
    items.vacuum()
    clone = items.clone(f"{tmp_path}/clone", True)
    source.write.parquet(f"{tmp_path}/plain")
    converted = DeltaTable.convertToDelta(session, f"parquet.`{tmp_path}/plain`")
    for table in (items, clone, converted):
        recorded = {row["operation"]: row["userMetadata"] for row in table.history().collect()}
        assert set(recorded.values()) == {"job 7"}, recorded
    operations = {row["operation"] for row in items.history().collect()}
    assert {"CREATE TABLE", "MERGE", "UPDATE", "DELETE", "OPTIMIZE", "RESTORE"} <= operations


@pytest.mark.parametrize(
    ("kind", "exception"),
    [
        ("protocol", ProtocolChangedException),
        ("metadata", MetadataChangedException),
        ("txn", ConcurrentTransactionException),
        ("concurrent append", ConcurrentAppendException),
        ("delete read", ConcurrentDeleteReadException),
        ("delete delete", ConcurrentDeleteDeleteException),
        ("", ConcurrentWriteException),
        ("vacuum", DeltaConcurrentModificationException),
        ("domain", DeltaConcurrentModificationException),
    ],
)
def test_a_conflict_is_caught_by_the_name_that_delta_spark_has_for_it(
    kind: str, exception: type[Exception]
) -> None:
    found = exception_of(CommitConflictError("t", 3, "did something", kind))
    assert type(found) is exception
    assert isinstance(found, PySparkException)
    assert "version 3 was committed first" in str(found)


def test_errors_without_a_delta_spark_type_stay_unchanged() -> None:
    assert exception_of(StorageError("s3://b/x", "read", "no permission")) is None
    assert isinstance(exception_of(InvalidRequestError("no")), AnalysisException)


def test_a_lost_race_is_raised_by_that_name(
    items: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(engine: SparkEngine, request: DeleteRequest) -> Any:
        stale = begin(tmp_path / "items")
        da.delete(tmp_path / "items")
        return delete_rows(engine, replace(request, target=stale))

    monkeypatch.setattr(delta_table, "delete_rows", late)
    with pytest.raises((ConcurrentDeleteReadException, ConcurrentDeleteDeleteException)) as caught:
        items.delete("value = 1")
    assert isinstance(caught.value.__cause__, CommitConflictError)
    assert rows(da.to_table(tmp_path / "items")) == []


def test_times_match_the_commits(items: DeltaTable) -> None:
    (found,) = items.history().select(sf.unix_millis("timestamp").alias("ms")).collect()
    age_ms = datetime.now(UTC).timestamp() * 1000 - found["ms"]
    assert -5_000 < age_ms < 600_000


def test_a_configured_session_has_the_format_delta(spark: SparkSession, tmp_path: Path) -> None:
    import delta_ops.spark as ds

    requested = SparkSession.builder.config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    ).config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    try:
        session = configure_spark_with_delta_pip(requested).getOrCreate()
        session.range(3).write.format("delta").save(str(tmp_path / "t"))
        assert session.read.format("delta").load(str(tmp_path / "t")).count() == 3
    finally:
        ds.unregister(spark)
    with pytest.raises(TypeError, match="builder"):
        configure_spark_with_delta_pip("local")  # type: ignore[arg-type]
