"""Filters of DataFrames and of SQL: only files that can hold matching rows are opened."""

from __future__ import annotations

import gc
import math
import shutil
import weakref
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.ddl import set_properties
from delta_ops.maintenance import create_index, create_scan_cache
from tests.support.tables import destroy_files_without

pytestmark = pytest.mark.spark

FILES = 12
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("flag", pa.bool_()),
        ("place", pa.struct([("city.name", pa.string())])),
    ]
)
Query = Callable[[SparkSession, Path, str], DataFrame]


def row(number: int) -> dict[str, Any]:
    """A row; every seventh has nulls, and some have odd numbers."""
    odd = {3: math.nan, 4: -0.0, 5: 0.0, 6: math.inf}.get(number % 50)
    if number % 7 == 0:
        return {"id": number}
    return {
        "id": number,
        "name": f"{'long ' * 20}{number}",
        "x": number / 2 if odd is None else odd,
        "f": number / 10 if odd is None else odd,
        "price": Decimal(number) / 100,
        "day": date.fromordinal(719_000 + number),
        "at": datetime(2026, 1, 1, number % 24, 0, 0, number, UTC),
        "local": datetime(2026, 1, 1, number % 24, 0, 0, number),
        "flag": number % 3 == 0,
        "place": {"city.name": f"city {number % 11}"},
    }


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose bounds of `id` overlap."""
    root = tmp_path_factory.mktemp("origin") / "t"
    for number in range(FILES):
        numbers = [0, *range(number * 10 + 1, number * 10 + 10), 1000]
        da.write(root, pa.Table.from_pylist([row(each) for each in numbers], SCHEMA))
    return root


@pytest.fixture
def table(origin: Path, tmp_path: Path) -> Path:
    shutil.copytree(origin, tmp_path / "t")
    return tmp_path / "t"


def read(spark: SparkSession, root: Path, condition: str) -> DataFrame:
    return ds.read(spark, root).filter(condition)


def load(spark: SparkSession, root: Path, condition: str) -> DataFrame:
    ds.register(spark)
    return spark.read.format("delta").load(str(root)).filter(condition)


def query(spark: SparkSession, root: Path, condition: str) -> DataFrame:
    ds.register(spark)
    return spark.sql(f"SELECT * FROM delta.`{root}` WHERE {condition}")


def query_named(spark: SparkSession, root: Path, condition: str) -> DataFrame:
    ds.register(spark)
    spark.sql("DROP TABLE IF EXISTS filtered")
    spark.sql(f"CREATE TABLE filtered USING delta LOCATION '{root}'")
    return spark.table("filtered").filter(condition)


def ids(rows: DataFrame) -> list[int]:
    return sorted(each.id for each in rows.select("id").collect())


@pytest.mark.parametrize(
    "make_query",
    [
        read,
        *(pytest.param(each, marks=pytest.mark.full) for each in (load, query, query_named)),
    ],
)
def test_a_filter_opens_only_files_of_the_index(
    table: Path, spark: SparkSession, make_query: Query
) -> None:
    create_index(table, "by_id", "id")
    destroy_files_without(table, [15, 55])
    assert ids(make_query(spark, table, "id IN (15, 55, 500)")) == [15, 55]


@pytest.mark.full
def test_statistics_are_used_without_an_index(table: Path, spark: SparkSession) -> None:
    destroy_files_without(table, [])
    assert ids(read(spark, table, "id > 2000")) == []
    with pytest.raises((PySparkException, Py4JJavaError), match="SparkException"):
        read(spark, table, "id = 15").collect()


CONDITIONS = [
    "id = 35",
    "35 < id AND id <= 41",
    "id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, NULL)",
    "id <=> 35 OR name <=> NULL",
    "NOT (id = 35)",
    "id = 35 OR length(name) = 102",
    "name = concat(repeat('long ', 20), '36') AND id + 0 = 36",
    "name IS NULL",
    "name IS NOT NULL AND id < 5",
    "x = double('NaN')",
    "x > double('inf')",
    "x = 0",
    "f = -0.0",
    "f = float(0.1)",
    "f <= float(1.3)",
    "price = 0.36",
    "price IN (0.11, 0.12, 99)",
    "day = DATE'1969-08-05'",
    "day < DATE'1969-08-01'",
    "at = TIMESTAMP'2026-01-01 12:00:00.000036Z'",
    "at >= '2026-01-01 23:00:00'",
    "local = TIMESTAMP_NTZ'2026-01-01 12:00:00.000036'",
    "flag AND id < 50",
    "flag = false AND id < 50",
    "place.`city.name` = 'city 3'",
    "place IS NULL",
    "id = (SELECT max(id) - 900 FROM range(1, 1000))",
]


@pytest.mark.full
@pytest.mark.parametrize("state", ["no index", "indexes", "stale", "damaged", "cached", "vectors"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_the_rows_are_those_of_a_full_scan(
    table: Path, spark: SparkSession, state: str, zone: str, request: pytest.FixtureRequest
) -> None:
    name = "spark.sql.session.timeZone"
    former = str(spark.conf.get(name))
    request.addfinalizer(lambda: spark.conf.set(name, former))
    spark.conf.set(name, zone)
    if state != "no index":
        for column in ("id", "name", "x", "f", "price", "day", "at", "local", "place.`city.name`"):
            create_index(table, "by_" + "".join(filter(str.isalpha, column)), column)
    if state == "stale":
        da.write(table, pa.Table.from_pylist([row(35), row(7)], SCHEMA))
    if state == "cached":
        create_scan_cache(table)
    if state == "damaged":
        for path in (table / "_delta_ops/indexes").rglob("*.parquet"):
            held = bytearray(path.read_bytes())
            held[len(held) // 2] ^= 0xFF
            path.write_bytes(held)
    if state == "vectors":
        set_properties(table, {"delta.enableDeletionVectors": "true"})
        da.delete(table, "id IN (33, 53)")
    snapshot = DeltaLog(table).snapshot()
    everything = ds.read(spark, snapshot).collect()
    full = spark.createDataFrame(everything, ds.read(spark, snapshot).schema)
    for condition in CONDITIONS:
        found = ids(ds.read(spark, snapshot).filter(condition))
        assert found == ids(full.filter(condition)), condition


@pytest.mark.full
def test_a_snapshot_ends_with_its_last_query(table: Path, spark: SparkSession) -> None:
    snapshot = DeltaLog(table).snapshot()
    rows = ds.read(spark, snapshot).filter("id = 15")
    known = weakref.ref(snapshot)
    del snapshot
    gc.collect()
    assert ids(rows) == [15]
    del rows
    for _ in range(20):
        gc.collect()
        spark.sparkContext._jvm.System.gc()  # type: ignore[union-attr]
        spark.range(1).collect()
        if known() is None:
            break
    assert known() is None


@pytest.mark.full
def test_rows_in_memory_are_found_again(table: Path, spark: SparkSession) -> None:
    snapshot = DeltaLog(table).snapshot()
    kept = ds.read(spark, snapshot).cache()
    try:
        assert kept.count() == FILES * 11
        plan = ds.read(spark, snapshot).filter("id = 15")._jdf.queryExecution().executedPlan()
        assert "InMemoryTableScan" in plan.toString()
    finally:
        kept.unpersist()


@pytest.mark.full
def test_a_name_of_spark_is_not_taken_for_a_column(tmp_path: Path, spark: SparkSession) -> None:
    for number in range(FILES):
        rows = pa.table({"id": [number], "file_name": ["none"], "file_size": [0]})
        da.write(tmp_path / "t", rows)
    names = [Path(path).name for path in ds.read(spark, tmp_path / "t").inputFiles()]
    found = ds.read(spark, tmp_path / "t").filter(f"_metadata.file_name = '{names[3]}'")
    assert len(ids(found)) == 1
    assert len(ids(ds.read(spark, tmp_path / "t").filter("_metadata.file_size > 0"))) == FILES


@pytest.mark.full
def test_a_literal_that_is_not_utf_8_keeps_all_files(tmp_path: Path, spark: SparkSession) -> None:
    for number in range(FILES):  # sorts above U+FFFD, the character for unreadable bytes
        da.write(tmp_path / "t", pa.table({"id": [number], "name": ["\U0001f600"]}))
    for condition in (
        "name < CAST(X'FF' AS STRING)",
        "name IN ('a', CAST(X'FF' AS STRING), '\U0001f600')",
    ):
        assert len(ids(read(spark, tmp_path / "t", condition))) == FILES


def test_a_file_with_nan_or_negative_zero_is_found(tmp_path: Path, spark: SparkSession) -> None:
    names = pa.table({"id": [1, 2, 3], "a.x": [1.0, math.nan, -0.0]})
    da.write(tmp_path / "t", names.append_column("s", pa.array([{"f": 1.0}] * 3)))
    found = ds.read(spark, tmp_path / "t")
    assert ids(found.filter("`a.x` > 5 AND s.f = 1")) == [2]
    assert ids(found.filter("`a.x` IN (0.0D, 7.0D)")) == [3]
