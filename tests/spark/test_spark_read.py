"""Tables in Spark, read by the file index and by the list of files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import DataFileError, InvalidRequestError, OutsideFileError
from delta_ops.log.commit_file import create_commit
from delta_ops.planning.recorded_reads import recorded_reads
from delta_ops.protocol.file_paths import encode_path
from delta_ops.protocol.predicate import Predicate, to_arrow
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    ArrayType,
    MapType,
    StructField,
    StructType,
    schema_to_json,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.spark.expressions.columns import to_column
from delta_ops.spark.read import file_index
from delta_ops.spark.read.file_index import ROW, FileGroup
from delta_ops.spark.schema import spark_schema_from_schema
from tests.arrow.foreign_table import create as create_foreign
from tests.arrow.foreign_table import data_file as foreign_file
from tests.arrow.foreign_table import inline_vector
from tests.spark.added_files import add_file
from tests.spark.conftest import switch_off_file_index
from tests.spark.frames import make_nan, plan_of, rows_of, rows_of_each
from tests.support.clones import content_of, prefix_naming, shallow_clone
from tests.support.column_less import create_without_columns
from tests.support.tables import PROTOCOL, metadata, rows

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", None], "x": [1.0, None, 3.0, 4.0]})
TIME_ZONE = "spark.sql.session.timeZone"
CASE_SENSITIVE = "spark.sql.caseSensitive"
LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def test_columns_come_in_the_tables_order_with_its_types(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    snapshot = DeltaLog(tmp_path).snapshot()
    assert ds.read(spark, snapshot).schema == spark_schema_from_schema(snapshot.schema)
    assert ds.read(spark, snapshot, columns=["X", "P"]).columns == ["x", "p"]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "way", ["file index", pytest.param("file list", marks=pytest.mark.full)], indirect=True
)
def test_a_table_without_columns_has_its_rows(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    table = create_without_columns(tmp_path, 3)
    for rows_read in (
        ds.read(spark, table),
        ds.read(spark, table, columns=[]),
        ds.read_changes(spark, table, 0, columns=[]),
        spark.read.format("delta").load(str(table)),
    ):
        assert (rows_read.columns, rows_read.count()) == ([], 3)


def test_a_version_of_the_past_is_read_from_its_snapshot(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS)
    da.write(tmp_path, ROWS.slice(0, 1), mode="overwrite")
    assert ds.read(spark, DeltaLog(tmp_path).snapshot(version=0)).count() == 4
    assert ds.read(spark, DeltaLog(tmp_path)).count() == 1


@pytest.mark.parametrize(
    "way", ["file index", pytest.param("file list", marks=pytest.mark.full)], indirect=True
)
def test_a_read_records_its_predicate_if_the_table_requires_it(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS, configuration={"delta_ops.recordReads": "true"})
    log = DeltaLog(tmp_path)
    ds.read(spark, log).count()
    assert recorded_reads(log.storage) == []
    assert ds.read(spark, log, predicate=col("id") > 2).count() == 2
    (found,) = recorded_reads(log.storage)
    assert found.predicate == "`id` > 2"
    ds.delete(spark, log, col("id") == 1)
    assert recorded_reads(log.storage) == [found]


def test_a_version_is_read_by_its_number_or_its_time(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    for number in range(3):
        da.write(tmp_path, pa.table({"id": [number]}))
    times = {entry.version: entry.timestamp_ms for entry in DeltaLog(tmp_path).history()}
    at = datetime.fromtimestamp(times[1] / 1000, UTC)
    assert {row.id for row in ds.read(spark, tmp_path, version=1).collect()} == {0, 1}
    assert {row.id for row in ds.read(spark, str(tmp_path), timestamp=at).collect()} == {0, 1}
    with pytest.raises(InvalidRequestError, match="the source is a snapshot of version 2"):
        ds.read(spark, DeltaLog(tmp_path).snapshot(), version=1)
    with pytest.raises(InvalidRequestError, match="read: version is '1', of type str"):
        ds.read(spark, tmp_path, version="1")  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [["x", "x"], ["x", "p", "X"]], ids=", ".join)
def test_a_column_that_is_selected_twice_is_refused(
    tmp_path: Path, spark: SparkSession, columns: list[str]
) -> None:
    da.write(tmp_path, ROWS)
    with pytest.raises(InvalidRequestError, match="is selected twice; name it once"):
        ds.read(spark, tmp_path, columns)


def test_an_empty_table_has_its_columns(tmp_path: Path, spark: SparkSession) -> None:
    da.write(tmp_path, ROWS.slice(0, 0))
    assert ds.read(spark, tmp_path).columns == ["id", "p", "x"]
    assert ds.read(spark, tmp_path).count() == 0


def test_a_file_without_a_column_has_null_in_it(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS)
    add_file(tmp_path, pa.table({"id": [9]}), "elsewhere/nine.parquet")
    read = ds.read(spark, tmp_path, predicate=col("id") == 9)
    assert rows_of(read) == [{"id": 9, "p": None, "x": None}]


@pytest.mark.parametrize(
    "way", [pytest.param("file index", marks=pytest.mark.full), "file list"], indirect=True
)
def test_char_columns_are_read_and_compared_with_their_padding(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    char = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}
    schema = StructType(tuple(StructField(name, STRING, metadata=char) for name in ("c", "p")))
    log = DeltaLog(tmp_path)
    described = metadata(schema_string=schema_to_json(schema), partition_columns=("p",))
    create_commit(log.storage, log.log_directory, 0, [PROTOCOL, described])
    for p, texts in {"x": ["a", "abc"], "y  ": ["a  ", None]}.items():
        file = foreign_file(tmp_path, f"{p}.parquet", pa.table({"c": pa.array(texts, pa.string())}))
        version = log.snapshot().version + 1
        named = replace(file, path=encode_path(file.path), partition_values={"p": p})
        create_commit(log.storage, log.log_directory, version, [named])
    for predicate in (None, col("c") == "a", col("p") == "x", col("c").isin(["a", "abc  "])):
        assert rows_of(ds.read(spark, log, predicate=predicate)) == rows(
            da.to_table(log, predicate=predicate)
        )
    found = rows_of(ds.read(spark, log, predicate=(col("c") == "a") & (col("p") <= "x")))
    assert found == [{"c": "a  ", "p": "x  "}]


@pytest.mark.full
@pytest.mark.parametrize(
    "way", ["file index", pytest.param("file list", marks=pytest.mark.full)], indirect=True
)
def test_nested_char_values_are_read_and_compared_with_their_padding(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    sql_type = "struct<f.g:char(2),l:array<struct<e:char(3)>>,m:map<char(1),char(2)>>"
    inner = StructType((StructField("e", STRING),))
    nested = StructType(
        (
            StructField("f.g", STRING),
            StructField("l", ArrayType(inner)),
            StructField("m", MapType(STRING, STRING)),
        )
    )
    column = StructField("s", nested, metadata={"__CHAR_VARCHAR_TYPE_STRING": sql_type})
    schema = StructType((StructField("id", LONG), column))
    stored: list[object] = [
        None,
        {"f.g": "a", "l": [{"e": "x"}, None], "m": [("", "y")]},
        {"f.g": None, "l": [], "m": None},
    ]
    s_type = arrow_schema_from_schema(schema).field("s").type
    file = foreign_file(
        tmp_path, "x.parquet", pa.table({"id": [0, 1, 2], "s": pa.array(stored, s_type)})
    )
    log = DeltaLog(tmp_path)
    described = metadata(schema_string=schema_to_json(schema))
    create_commit(log.storage, log.log_directory, 0, [PROTOCOL, described, file])
    for predicate in (None, col("s", "f.g") == "a ", col("s", "f.g") > "a"):
        assert rows_of(ds.read(spark, log, predicate=predicate)) == rows(
            da.to_table(log, predicate=predicate)
        )
    (found,) = rows_of(ds.read(spark, log, predicate=col("s", "f.g") == "a "))
    assert found["s"]["f.g"] == "a "
    assert found["s"]["l"][0]["e"] == "x  "


def test_the_logs_partition_value_wins_over_the_files(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    data = pa.table({"id": [9], "p": ["of the file"], "x": [0.5]})
    add_file(tmp_path, data, "p=of the path/nine.parquet", p="of the log")
    read = ds.read(spark, tmp_path, predicate=col("id") == 9)
    assert rows_of(read) == [{"id": 9, "p": "of the log", "x": 0.5}]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("way", "zone"),
    [
        ("file index", "America/New_York"),
        ("file list", "America/New_York"),
        ("file index", "-05:00"),
        ("file list", "UTC"),
    ],
    indirect=["way"],
)
def test_a_time_without_a_zone_in_the_log_is_of_the_sessions(
    tmp_path: Path, spark: SparkSession, way: str, request: pytest.FixtureRequest, zone: str
) -> None:
    schema = pa.schema([("id", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    da.write(tmp_path, schema.empty_table(), partition_by=["t"])
    for number, text in enumerate(["2024-01-01 00:00:00", "2024-01-01T05:00:00.000000Z"]):
        add_file(tmp_path, pa.table({"id": [number]}), f"{number}.parquet", t=text)
    spark.conf.set(TIME_ZONE, zone)
    request.addfinalizer(lambda: spark.conf.set(TIME_ZONE, "UTC"))
    five = datetime(2024, 1, 1, 5, tzinfo=UTC)
    midnight = five if zone != "UTC" else datetime(2024, 1, 1, tzinfo=UTC)
    expected = [{"id": 0, "t": midnight}, {"id": 1, "t": five}]
    assert rows_of(ds.read(spark, tmp_path)) == expected
    assert rows_of(ds.read(spark, tmp_path, predicate=col("t") == five)) == [
        row for row in expected if row["t"] == five
    ]


NAMES = (
    "a b", "50%", "50%25", "x=y", "a+b", "#1", "q?", "[a]{b,c}*", "züri\u00a0東京", "a:b", "~",
    "'\"", "\\n",
)  # fmt: skip


def test_paths_may_hold_any_letter(tmp_path: Path, spark: SparkSession, way: str) -> None:
    root = tmp_path.joinpath(*NAMES)
    da.write(root, ROWS, partition_by=["p"])
    expected = ROWS.to_pylist()
    for number, name in enumerate(NAMES, start=9):
        data = pa.table({"id": [number], "x": [0.5]})
        add_file(root, data, f"w/{name}/f.parquet", p=name)
        expected.append({"id": number, "p": name, "x": 0.5})
    read = sorted(rows_of(ds.read(spark, root)), key=lambda row: row["id"])
    assert read == expected


def test_a_file_may_lie_outside_of_the_table(tmp_path: Path, spark: SparkSession, way: str) -> None:
    da.write(tmp_path / "one", ROWS)
    da.write(tmp_path / "two", ROWS.slice(0, 0))
    (add,) = DeltaLog(tmp_path / "one").snapshot().add_files()
    outside = replace(add, path=f"file://{tmp_path}/one/{add.path}")
    log = DeltaLog(tmp_path / "two")
    create_commit(log.storage, log.log_directory, 1, [outside])
    assert rows_of(ds.read(spark, tmp_path / "two")) == rows(ROWS)


@pytest.mark.parametrize(
    ("way", "way_up"),
    [
        pytest.param("file index", False, id="absolute, by the index"),
        pytest.param("file list", True, id="by steps up, by the list"),
        pytest.param("file index", True, id="by steps up, by the index", marks=pytest.mark.full),
    ],
    indirect=["way"],
)
def test_a_shallow_clone_has_the_rows_of_its_source(
    tmp_path: Path, spark: SparkSession, way: str, way_up: bool
) -> None:
    source, clone = DeltaLog(tmp_path / "a b"), DeltaLog(tmp_path / "clone")
    da.write(source, ROWS, partition_by=["p"])
    name = prefix_naming("../a%20b" if way_up else (tmp_path / "a b").as_uri().replace("///", "/"))
    shallow_clone(source.snapshot(), clone, name)
    before = content_of(tmp_path / "a b")
    assert rows(pa.Table.from_pylist(rows_of(ds.read(spark, clone)))) == rows(ROWS)
    found = rows_of(ds.read(spark, clone, ["id"], col("p") == "b"))
    assert found == [{"id": 3}]
    more = spark.createDataFrame([(9, "b", 9.0)], "id long, p string, x double")
    ds.write(more, clone, mode="overwrite", replace_where=col("id") >= 3)
    assert sorted(row["id"] for row in rows_of(ds.read(spark, clone))) == [1, 2, 9]
    assert content_of(tmp_path / "a b") == before


def test_a_file_outside_that_spark_may_not_or_cannot_read_is_named(
    tmp_path: Path, spark: SparkSession
) -> None:
    source = DeltaLog(tmp_path / "source")
    da.write(source, ROWS)
    clone = shallow_clone(source.snapshot(), DeltaLog(tmp_path / "c"), prefix_naming("../source"))
    (add,) = source.snapshot().add_files()
    with pytest.raises(OutsideFileError, match='outside="read"') as error:
        ds.read(spark, DeltaLog(clone.uri, outside="refuse"))
    assert error.value.file == f"{source.uri}/{add.path}"
    log = DeltaLog(tmp_path / "d", outside={"memory://b/": {}})
    in_memory = shallow_clone(source.snapshot(), log, prefix_naming("memory://b/t"))
    with pytest.raises(InvalidRequestError, match=r"memory://b.*use delta_ops\.arrow"):
        ds.read(spark, in_memory)


def test_a_pipe_outside_of_the_table_is_not_waited_for(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    add = replace(foreign_file(tmp_path, "t/x", ROWS), path=f"file:{tmp_path}/pipe")
    log = DeltaLog(tmp_path / "t")
    da.write(log, ROWS)
    create_commit(log.storage, log.log_directory, 1, [add])
    with pytest.raises(OutsideFileError, match="it is not a regular file"):
        ds.read(spark, log)


HIDDEN = ["_hidden.parquet", ".hidden.parquet", "_metadata", "_common_metadata", "x._COPYING_"]


UNUSUAL = ["_dir/f.parquet", ".dir/f.parquet", "_a=b.parquet"]


@pytest.mark.full
@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["", "partitioned"])
def test_files_are_read_whatever_their_names_as_delta_spark_does(
    tmp_path: Path, spark: SparkSession, way: str, partition_by: list[str]
) -> None:
    da.write(tmp_path, ROWS, partition_by=partition_by)
    data = ROWS.drop_columns(partition_by)
    for name in [*HIDDEN, *UNUSUAL] if way == "file index" else UNUSUAL:
        add_file(tmp_path, data, name, **dict.fromkeys(partition_by, "a"))
    log = DeltaLog(tmp_path)
    for predicate in (None, col("p") == "a", col("id") > 2):
        found = ds.read(spark, log, predicate=predicate)
        assert rows_of(found) == rows(da.to_table(log, predicate=predicate))


@pytest.mark.parametrize("name", HIDDEN)
def test_a_hidden_name_is_refused_where_files_are_listed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    switch_off_file_index(monkeypatch)
    da.write(tmp_path, ROWS)
    add_file(tmp_path, ROWS, name)
    with pytest.raises(DataFileError, match="has a hidden name, and this session has no file"):
        ds.read(spark, tmp_path)


def test_a_file_with_a_hidden_name_is_known_to_sparks_metadata(
    tmp_path: Path, spark: SparkSession
) -> None:
    da.write(tmp_path, ROWS)
    add_file(tmp_path, ROWS.slice(0, 3), "_hidden.parquet")
    read = ds.read(spark, tmp_path)
    name = read.metadataColumn("_metadata").getField("file_name")
    assert read.filter(name == "_hidden.parquet").count() == 3
    assert read.filter(name != "_hidden.parquet").count() == 4


def test_a_session_that_ignores_names_loses_no_file(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS)
    setting = "spark.sql.files.ignoredPathSegmentRegex"
    spark.conf.set(setting, "part")
    try:
        assert ds.read(spark, tmp_path).count() == 4
    finally:
        spark.conf.unset(setting)


def test_a_file_of_no_size_has_the_rows_that_are_in_it(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS)
    log = DeltaLog(tmp_path)
    untold = foreign_file(tmp_path, "untold.parquet", ROWS)
    create_commit(log.storage, log.log_directory, 1, [replace(untold, size=0)])
    assert rows_of(ds.read(spark, log)) == rows(da.to_table(log))
    (tmp_path / "untold.parquet").write_bytes(b"")
    assert rows_of(ds.read(spark, log)) == rows(ROWS)  # as by delta-spark
    (tmp_path / "untold.parquet").unlink()
    with pytest.raises(DataFileError, match=r"data file untold\.parquet is missing"):
        ds.read(spark, log)


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with case-sensitive column names."""
    spark.conf.set(CASE_SENSITIVE, "true")
    yield spark
    spark.conf.unset(CASE_SENSITIVE)


def in_other_cases(root: Path, **changes: Any) -> DeltaLog:
    """A table with files whose column names differ in case."""
    point = StructType((StructField("x", LONG), StructField("Y", LONG)))
    schema = StructType((StructField("Id", LONG), StructField("s", ArrayType(point))))
    data = pa.table({"S": [[{"X": 1, "y": 2}, None], None], "iD": [3, 4]})
    return create_foreign(root, schema, [foreign_file(root, "f.parquet", data, **changes)])


@pytest.mark.parametrize("deleted", [None, [0]], ids=["", "with a vector"])
def test_columns_are_found_whatever_their_case_in_files(
    tmp_path: Path, case_sensitive: SparkSession, deleted: list[int] | None
) -> None:
    vector = None if deleted is None else inline_vector(deleted)
    log = in_other_cases(tmp_path, deletion_vector=vector)
    assert rows_of(ds.read(case_sensitive, log)) == rows(da.to_table(log))
    found = ds.read(case_sensitive, log, ["ID"], col("ID") == 4)
    assert rows_of(found) == [{"Id": 4}]
    assert "EqualTo(Id,4)" in plan_of(found)
    assert case_sensitive.conf.get(CASE_SENSITIVE) == "true"


def test_a_session_that_would_miss_columns_of_another_case_is_refused(
    tmp_path: Path, case_sensitive: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = in_other_cases(tmp_path)
    switch_off_file_index(monkeypatch)
    with pytest.raises(InvalidRequestError, match=r"set spark\.sql\.caseSensitive to false"):
        ds.read(case_sensitive, log)
    case_sensitive.conf.set(CASE_SENSITIVE, "false")
    assert rows_of(ds.read(case_sensitive, log)) == rows(da.to_table(log))


def test_a_column_by_sparks_name_for_numbers_of_rows(tmp_path: Path, spark: SparkSession) -> None:
    da.write(tmp_path, pa.table({ROW: ["a"], "id": [1]}))
    reported = (
        rf"has the column {ROW}, a name that Spark's reader reserves for row numbers; read it with"
    )
    with pytest.raises(InvalidRequestError, match=reported):
        ds.read(spark, tmp_path)


def test_columns_that_differ_only_in_case(
    tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    schema = StructType((StructField("id", LONG), StructField("ID", LONG)))
    data = pa.table({"id": [1], "ID": [2]})
    log = create_foreign(tmp_path, schema, [foreign_file(tmp_path, "f.parquet", data)])
    reported = r"has the columns id and ID, which .* cannot distinguish; set spark\.sql\.case"
    with pytest.raises(InvalidRequestError, match=reported):
        ds.read(spark, log)
    reporting: SparkSession = request.getfixturevalue("case_sensitive")
    assert rows_of(ds.read(reporting, log)) == [{"id": 1, "ID": 2}] == rows(da.to_table(log))
    of_log = foreign_file(tmp_path, "p/f", data.drop_columns(["ID"]), partition_values={"ID": "3"})
    partitioned = create_foreign(tmp_path / "p", schema, [replace(of_log, path="f")], {}, ("ID",))
    assert rows_of(ds.read(reporting, partitioned)) == [{"id": 1, "ID": 3}]


def test_a_column_that_spark_would_match_twice_is_an_error(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    schema = StructType((StructField("id", LONG),))
    data = pa.table({"id": [1], "ID": [2]})
    log = create_foreign(tmp_path, schema, [foreign_file(tmp_path, "f.parquet", data)])
    with pytest.raises(Exception, match=r'Found duplicate field\(s\) "id": \[id, ID\]'):
        ds.read(spark, log).collect()


def test_a_file_that_is_gone_fails_the_read_whatever_the_session_says(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    next(tmp_path.glob("p=b/*.parquet")).unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=r"PATH_NOT_FOUND|FILE_NOT_EXIST|is missing"):
            ds.read(spark, tmp_path).collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_settings_of_the_session_are_as_before(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    before = spark.conf.get(LISTING)
    ds.read(spark, tmp_path).collect()
    assert spark.conf.get(LISTING) == before


def test_files_are_pruned_by_the_log_before_spark_sees_them(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    for data_file in (*tmp_path.glob("p=a/*"), *tmp_path.glob("p=__HIVE*/*")):
        data_file.unlink()
    read = ds.read(spark, tmp_path, columns=["x"], predicate=(col("p") == "b") & (col("id") > 2))
    assert rows_of(read) == [{"x": 3.0}]


def test_spark_prunes_partitions_of_the_index_at_planning(
    tmp_path: Path, spark: SparkSession
) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    read = ds.read(spark, tmp_path)
    shutil.rmtree(tmp_path / "p=a")
    assert rows_of(read.filter("p = 'b'").select("id")) == [{"id": 3}]


def test_the_index_survives_a_refresh(tmp_path: Path, spark: SparkSession) -> None:
    da.write(tmp_path, ROWS)
    ds.read(spark, tmp_path).createOrReplaceTempView("refreshed")
    spark.catalog.refreshTable("refreshed")
    spark.catalog.refreshByPath(str(tmp_path))
    assert spark.table("refreshed").count() == 4


def test_a_scan_can_be_joined_with_itself_and_cached(tmp_path: Path, spark: SparkSession) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    read = ds.read(spark, tmp_path).cache()
    joined = read.alias("a").join(read.alias("b"), "id")
    assert joined.count() == 4
    read.unpersist()


@pytest.mark.full
@pytest.mark.parametrize(
    "way", ["file index", pytest.param("file list", marks=pytest.mark.full)], indirect=True
)
def test_a_cached_scan_stays_at_its_version(tmp_path: Path, spark: SparkSession, way: str) -> None:
    da.write(tmp_path, ROWS)
    cached = ds.read(spark, tmp_path).cache()
    assert cached.count() == 4
    ds.write(spark.sql("SELECT 5L AS id"), tmp_path)
    assert (cached.count(), ds.read(spark, tmp_path).count()) == (4, 5)
    ds.write(spark.sql("SELECT 5L AS id"), tmp_path, mode="overwrite")
    assert (cached.count(), ds.read(spark, tmp_path).count()) == (4, 1)
    cached.unpersist()


def test_storage_that_spark_cannot_reach_is_refused(spark: SparkSession) -> None:
    da.write("memory://spark-reads-no-memory", ROWS)
    with pytest.raises(InvalidRequestError, match=r"is not on a local disk.*delta_ops\.arrow"):
        ds.read(spark, "memory://spark-reads-no-memory")


NAN = float("nan")
VALUES = pa.table(
    {
        "x": pa.array([1.0, -0.0, 0.0, NAN, float("inf"), None, 3.0]),
        "f": pa.array([1.5, 0.1, 0.0, NAN, None, None, -1.0], pa.float32()),
        "s": ["a", "é", "z", "", None, "a", "Z"],
        "d": [date(1, 1, 1), date(9999, 12, 31), date(2024, 1, 1), None, None, None, None],
        "t": pa.array(
            [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 3, 10, 7, 30, tzinfo=UTC)] + [None] * 5,
            pa.timestamp("us", "UTC"),
        ),
        "n": pa.array([datetime(2024, 3, 10, 2, 30)] + [None] * 6, pa.timestamp("us")),
        "c": pa.array([Decimal("1.50"), Decimal("-1.5")] + [None] * 5, pa.decimal128(9, 2)),
        "b": [b"a", b"\xff", b"", None, None, None, None],
        "o": [True, False, None, None, None, None, None],
        "l": [2**62, -1, 0, None, None, None, None],
        "r": [{"a.b": 1}, {"a.b": None}, None, None, None, None, None],
    }
)
PREDICATES: list[Predicate] = [
    *(
        compared
        for name in ("x", "f")
        for number in (0.0, 1.5, 0.1, NAN)
        for compared in (
            col(name) == number,
            col(name) != number,
            col(name) < number,
            col(name) <= number,
            col(name) > number,
            col(name) >= number,
        )
    ),
    col("x").isin([0.0, NAN]),
    col("x").isin([*range(20), None]),
    col("s") > "Z",
    col("s").isin(["a", None]),
    col("s") == "é",
    col("d") == date(1, 1, 1),
    col("d") <= "9999-12-31",
    col("t") == datetime(2024, 3, 10, 7, 30, tzinfo=UTC),
    col("t") < datetime(2, 1, 1, tzinfo=UTC),
    col("n") == datetime(2024, 3, 10, 2, 30),
    col("c") == Decimal("1.5"),
    col("b") == b"\xff",
    col("b") > b"a",
    col("o") == True,  # noqa: E712
    col("l") > 2**61,
    col("r", "a.b") == 1,
    col("r", "a.b").is_null(),
    col("r").is_not_null(),
    (col("x") > 1) & (col("s") == "a") | (col("l") == 0),
    col("s").isin([]),
]
PREDICATES += [~predicate for predicate in PREDICATES]


@pytest.mark.full
def test_predicates_say_the_same_of_rows_as_in_arrow(
    tmp_path: Path, in_new_york: SparkSession
) -> None:
    log, schema = write_values(tmp_path)
    by_arrow = da.to_table(log)
    computed = ds.read(in_new_york, log).select(
        "x", "s", *(to_column(p, schema).alias(str(i)) for i, p in enumerate(PREDICATES))
    )
    found = {repr((row["x"], row["s"])): row for row in rows_of(computed)}
    names = {str(i): to_arrow(p, schema) for i, p in enumerate(PREDICATES)}
    for row, values in zip(
        pa.dataset.dataset(by_arrow).to_table(columns=names).to_pylist(),
        by_arrow.to_pylist(),
        strict=True,
    ):
        of_spark = found[repr((values["x"], values["s"]))]
        differing = [str(PREDICATES[int(i)]) for i in row if row[i] != of_spark[i]]
        assert differing == [], values


@pytest.mark.full
def test_conditions_that_partition_values_decide_read_no_row(
    tmp_path: Path, spark: SparkSession
) -> None:
    rows_by_values = pa.table(
        {
            "d": pa.array([date(2026, 1, 1), date(2026, 1, 2), None, date(2026, 1, 2)]),
            "f": [-7.25, -0.0, 1.5, None],
            "s": ["a ", "a", "B", None],
            "x": [1, 2, 3, 4],
        }
    )
    frame = spark.createDataFrame(rows_by_values)
    ds.write(frame, tmp_path, partition_by=["d", "f", "s"])
    make_nan(tmp_path, "f", "-7.25")
    log = DeltaLog(tmp_path)
    decided: list[Predicate] = [
        col("d") == date(2026, 1, 2),
        ~(col("d") == date(2026, 1, 2)),
        col("f") == NAN,
        col("f") >= 0.0,
        col("s").isin(["a", "B"]),
        col("s").is_null() | (col("f") > 1.0),
        (col("d") > date(2026, 1, 1)) & (col("s") < "b"),
        col("d") > date(2030, 1, 1),
    ]
    requests: list[Predicate] = [
        (col("s") == "a") & (col("x") == 2),
        (col("s") == "a") | (col("x") == 3),
    ]
    predicates = [*decided, *requests]
    frames = [ds.read(spark, log, predicate=each) for each in predicates]
    for predicate, frame, found in zip(predicates, frames, rows_of_each(frames), strict=True):
        expected = rows(da.to_table(log, predicate=predicate))
        assert (predicate, repr(found)) == (predicate, repr(expected))
        is_required = any(predicate is each for each in requests)
        assert (predicate, " Filter (" in plan_of(frame)) == (predicate, is_required)


@pytest.mark.full
def test_a_predicate_loses_no_row_of_a_file_whose_statistics_hide_nan(
    tmp_path: Path, spark: SparkSession
) -> None:
    da.write(tmp_path, pa.table({"x": [2.0, 2.0, NAN]}))
    compared: list[Predicate] = [
        found
        for number in (2.0, 5.0, NAN)
        for found in (
            col("x") == number,
            col("x") != number,
            col("x") < number,
            col("x") <= number,
            col("x") > number,
            col("x") >= number,
        )
    ]
    predicates = (*compared, *(~each for each in compared))
    log = DeltaLog(tmp_path)
    found = rows_of_each([ds.read(spark, log, predicate=each) for each in predicates])
    for predicate, of_spark in zip(predicates, found, strict=True):
        expected = rows(da.to_table(log, predicate=predicate))
        assert (predicate, repr(of_spark)) == (predicate, repr(expected))


def write_values(root: Path) -> tuple[DeltaLog, StructType]:
    da.write(root, VALUES)
    log = DeltaLog(root)
    return log, log.snapshot().schema


def test_an_index_makes_the_map_of_its_partitions_once(spark: SparkSession) -> None:
    # Spark requests it once per partition; rebuilt each time, it took 98 s for 20,000 partitions.
    partitions = spark_types.StructType().add("p", "long")
    data = spark_types.StructType().add("x", "long")
    groups = [FileGroup(values=(str(i),), files=[(f"file:/t/{i}", 1, 0)]) for i in range(3)]
    scan = file_index.relation(spark, "file:/t", groups, data, partitions, {}, folds_case=True)
    jvm: Any = spark._jvm
    index = scan._jdf.queryExecution().analyzed().relation().location()
    none = spark._sc._gateway.new_array(jvm.java.lang.Class, 0)  # type: ignore[union-attr]
    method = index.getClass().getDeclaredMethod("leafDirToChildrenFiles", none)
    method.setAccessible(True)
    nothing = spark._sc._gateway.new_array(jvm.java.lang.Object, 0)  # type: ignore[union-attr]
    made = {jvm.java.lang.System.identityHashCode(method.invoke(index, nothing)) for _ in range(3)}
    assert len(made) == 1
