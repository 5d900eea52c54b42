"""Partition values written by Spark, read by Spark, Arrow and other engines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.protocol.schema import STRING, StructField, find_field
from delta_ops.protocol.values.partition_values import serialize
from delta_ops.spark.partitioning import partition_text_checks
from delta_ops.spark.read import file_index
from delta_ops.spark.read.file_index import IndexUnavailableError
from tests.spark.frames import files_under, make_nan, rows_of
from tests.support.tables import rows, rows_by_deltalake, rows_by_polars

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("way_of_writing")]

VALUES = {
    "texts": "'a/b', '50%', 'x=y', 'a b', 'züri 東京', '[*]{?}', ' ', 'A', null",
    "whole numbers": "-1, 2147483647, null",
    "small numbers": "cast(-128 as tinyint), cast(127 as tinyint), null",
    "large numbers": "-9223372036854775808, 9223372036854775807, null",
    "decimals": "12.340BD, 0.001BD, 99999.999BD, null",
    "tiny decimals": "cast(1E-9BD as decimal(18,9)), cast(0 as decimal(18,9)), null",
    "doubles": "1.5D, 2E-3D, 1E23D, 4.9E-324D, -7.25D, double('-Infinity'), -0.0D, null",
    "floats": "float('1.1'), float('1E10'), float('-7.25'), null",
    "booleans": "true, false, null",
    "dates": "date'0001-01-01', date'9999-12-31', date'2024-02-29', null",
    "timestamps": (
        "timestamp'2024-11-03T05:30:00Z', timestamp'2024-11-03T06:30:00Z', "  # 01:30, both of them
        "timestamp'0001-01-02T00:00:00Z', timestamp'9999-12-30T23:59:59.999999Z', "
        "timestamp'1969-12-31T23:59:59.000001Z', null"
    ),
    "timestamps without time zone": (
        "timestamp_ntz'2024-03-10 02:30:00', "  # an hour that New York's clocks skip
        "timestamp_ntz'0001-01-01 00:00:00', timestamp_ntz'9999-12-31 23:59:59.999999', null"
    ),
    "bytes": "X'6162', X'2F253D', X'C3A9', null",
}
UNREADABLE_BY = {
    # polars reads partition values from paths as CSV, which has no bytes.
    rows_by_polars: {"bytes"},
    rows_by_deltalake: set(),
}


def frame_of(spark: SparkSession, values: str) -> DataFrame:
    rows_sql = ", ".join(f"({i}, {value})" for i, value in enumerate(values.split(", ")))
    return spark.sql(f"SELECT * FROM VALUES {rows_sql} AS t(id, p)")


@contextmanager
def without_file_index(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def unavailable(*_args: object, **_options: object) -> None:
        raise IndexUnavailableError("switched off")

    with monkeypatch.context() as patch:
        patch.setattr(file_index, "relation", unavailable)
        yield


IN_EACH_RUN = ("texts", "doubles", "timestamps", "bytes")


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in IN_EACH_RUN else pytest.mark.full) for kind in VALUES],
)
def test_partition_values_of_every_type_come_back_in_every_engine(
    tmp_path: Path, in_new_york: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    frame = frame_of(in_new_york, VALUES[kind])
    expected = rows_of(frame)
    ds.write(frame, tmp_path, partition_by=["p"])
    assert_texts_are_those_of_arrow(tmp_path)
    if "-7.25" in VALUES[kind]:
        make_nan(tmp_path, "p", "-7.25")
        expected = [row | ({"p": math.nan} if row["p"] == -7.25 else {}) for row in expected]
    assert repr(rows(da.to_table(DeltaLog(tmp_path)))) == repr(expected).replace("-0.0", "0.0")
    expected = rows(da.to_table(DeltaLog(tmp_path)))
    assert repr(rows_of(ds.read(in_new_york, tmp_path))) == repr(expected)
    with without_file_index(monkeypatch):
        assert repr(rows_of(ds.read(in_new_york, tmp_path))) == repr(expected)
    for read, unreadable in UNREADABLE_BY.items():
        if kind not in unreadable:
            assert repr(read(tmp_path)) == repr(expected), read.__name__


def assert_texts_are_those_of_arrow(root: Path) -> None:
    """The log has the Arrow engine's texts for these values."""
    snapshot = DeltaLog(root).snapshot()
    data_type = find_field(snapshot.schema, "p").data_type
    texts = {serialize(row["p"], data_type) for row in da.to_table(snapshot).to_pylist()}
    assert {add.partition_values["p"] for add in snapshot.add_files()} == texts


def test_nan_is_refused_as_a_new_partition(tmp_path: Path, spark: SparkSession) -> None:
    nan, one = (frame_of(spark, f"double('{value}'), 1D") for value in ("NaN", "-7.25"))
    refused = pytest.raises(InvalidRequestError, match=r"'p' has the value NaN.*rows: 1")
    with refused:
        ds.write(nan, tmp_path, partition_by=["p"])
    assert files_under(tmp_path) == set()
    ds.write(one, tmp_path, partition_by=["p"])
    make_nan(tmp_path, "p", "-7.25")
    before = files_under(tmp_path)
    with refused:
        ds.write(nan, tmp_path, "overwrite")
    assert files_under(tmp_path) == before


@pytest.mark.full
def test_nan_is_refused_as_a_partition_that_rows_move_to(
    tmp_path: Path, spark: SparkSession
) -> None:
    nan, one = (frame_of(spark, f"double('{value}'), 1D") for value in ("NaN", "-7.25"))
    refused = pytest.raises(InvalidRequestError, match=r"'p' has the value NaN.*rows: 1")
    ds.write(one, tmp_path, partition_by=["p"])
    make_nan(tmp_path, "p", "-7.25")
    before = files_under(tmp_path)
    with refused:
        ds.update(spark, tmp_path, {"p": "double('NaN')"}, "id = 1")
    with refused:
        merge = ds.merge(
            tmp_path, nan.select(sf.col("id") + 5, "p").toDF("id", "p"), "target.id = source.id"
        )
        merge.when_not_matched_insert_all().execute()
    assert files_under(tmp_path) == before
    # Rows of such an existing partition are changed and leave the partition.
    ds.update(spark, tmp_path, {"id": "id + 7"}, "p = double('NaN')")
    ds.update(spark, tmp_path, {"p": "3D"}, "id = 7")
    assert rows_of(ds.read(spark, tmp_path)) == [{"id": 1, "p": 1.0}, {"id": 7, "p": 3.0}]


@pytest.mark.parametrize("empty", ["''", "X''"])
def test_an_empty_value_is_null(tmp_path: Path, spark: SparkSession, empty: str) -> None:
    ds.write(frame_of(spark, empty), tmp_path, partition_by=["p"])
    expected = [{"id": 0, "p": None}]
    assert rows_of(ds.read(spark, tmp_path)) == expected == rows_by_deltalake(tmp_path)


@pytest.mark.parametrize(
    ("data_type", "empty", "filled"),
    [(pa.string(), "''", "'a'"), (pa.binary(), "X''", "X'61'")],
    ids=["text", "bytes"],
)
def test_an_empty_value_is_refused_where_the_table_says_not_null(
    tmp_path: Path, spark: SparkSession, data_type: pa.DataType, empty: str, filled: str
) -> None:
    required = pa.schema([("id", pa.int32()), pa.field("p", data_type, nullable=False)])
    da.write(tmp_path, required.empty_table(), partition_by=["p"])
    before = files_under(tmp_path)
    with pytest.raises(InvalidRequestError, match=r"'p' has an empty value.*NOT NULL.*rows: 1"):
        ds.write(frame_of(spark, f"{empty}, {filled}"), tmp_path)
    assert files_under(tmp_path) == before


def test_two_partition_columns_are_distinguished(tmp_path: Path, spark: SparkSession) -> None:
    frame = spark.sql("SELECT id, id % 2 AS a, concat('x=', id % 3) AS b FROM range(12)")
    ds.write(frame, tmp_path, partition_by=["b", "a"])
    assert rows_of(ds.read(spark, tmp_path)) == rows_of(frame) == rows_by_deltalake(tmp_path)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("'__HIVE_DEFAULT_PARTITION__'", id="the name that means null"),
        pytest.param("concat('a', char(0))", id="a NUL character"),
        pytest.param("X'FF'", id="bytes that are no UTF-8"),
        pytest.param("cast(X'FF' as string)", id="a text that is no UTF-8"),
    ],
)
def test_a_value_that_no_directory_can_be_named_by_is_refused(
    tmp_path: Path, spark: SparkSession, value: str
) -> None:
    frame = spark.sql(f"SELECT 1 AS id, {value} AS p")
    with pytest.raises(InvalidRequestError, match="partition column 'p' has a value"):
        ds.write(frame, tmp_path, partition_by=["p"])
    assert files_under(tmp_path) == set()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("date_add(date'9999-12-31', 1)", "10000-01-01", id="a date after 9999"),
        pytest.param(
            "timestamp'9999-12-31T23:59:59.5Z' + INTERVAL 1 SECOND",
            "10000-01-01T00:00:00.500000Z",
            id="a time after 9999",
        ),
        pytest.param(
            "timestamp'0001-01-01T00:00:00Z' - INTERVAL 1 YEAR",
            "0000-01-01T00:00:00.000000Z",
            id="a time before the year 1",
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_year_that_python_lacks_is_refused_as_a_partition(
    tmp_path: Path, spark: SparkSession, value: str, text: str
) -> None:
    frame = spark.sql(f"SELECT 1 AS id, {value} AS p")
    with pytest.raises(InvalidRequestError, match=rf"partition column 'p'.*{text}"):
        ds.write(frame, tmp_path, partition_by=["p"])
    assert files_under(tmp_path) == set()


def test_a_value_that_is_too_long_for_a_directory_is_named(
    tmp_path: Path, spark: SparkSession
) -> None:
    frame = spark.sql("SELECT 1 AS id, repeat('x', 300) AS p")
    with pytest.raises(StorageError, match="no partition value is longer") as refused:
        ds.write(frame, tmp_path, partition_by=["p"])
    assert len(str(refused.value)) < 500
    assert files_under(tmp_path) == set()


@pytest.mark.parametrize(
    ("values", "num_broken"),
    [
        pytest.param("'a', 'b', null", 0, id="other letters"),
        pytest.param("'a', 'A', 'É', 'é'", 2, id="letters that differ in case"),
    ],
)
def test_values_that_would_share_a_directory_are_found_where_names_have_no_case(
    spark: SparkSession, values: str, num_broken: int
) -> None:
    _, check = partition_text_checks(sf.col("p"), StructField("p", STRING), folds_case=True)
    assert frame_of(spark, values).agg(check.num_broken).collect()[0][0] == num_broken
