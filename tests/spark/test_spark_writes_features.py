"""Tables with writer features, written by Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin, col, ddl
from delta_ops.arrow.read.scan import read_kept
from delta_ops.ddl import NewColumn
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.maintenance import optimize
from delta_ops.protocol.columns.mapping import field_id, physical_name
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.protocol.schema import (
    DATE,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    StructField,
    StructType,
)
from tests.support.tables import rows

MODE = "delta.columnMapping.mode"
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKING = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def create(root: Path, *fields: StructField, **configuration: str) -> None:
    transaction = begin(DeltaLog(root))
    transaction.create_table(StructType(fields), configuration=configuration)
    transaction.commit(operation="CREATE TABLE")


def by_id(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows(table), key=lambda row: row["id"])


def ids_in_file(schema: pa.Schema | pa.DataType) -> Iterator[tuple[str, int]]:
    for each in schema:
        if number := (each.metadata or {}).get(b"PARQUET:field_id"):
            yield each.name, int(number)
        inner = each.type
        while pa.types.is_list(inner) or pa.types.is_map(inner):
            inner = inner.item_type if pa.types.is_map(inner) else inner.value_type
        if pa.types.is_struct(inner):
            yield from ids_in_file(inner)


def ids_in_schema(snapshot: Snapshot) -> set[tuple[str, int]]:
    def walk(value: Any) -> Iterator[tuple[str, int]]:
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, dict) and "delta.columnMapping.id" in each:
                yield each["delta.columnMapping.physicalName"], each["delta.columnMapping.id"]
            elif isinstance(each, dict | list):
                yield from walk(each)

    return set(walk(json.loads(snapshot.metadata.schema_string)))


NESTED = "s struct<{}:long,inner:array<struct<z:long>>>, m map<string,struct<v:long>>"


def nested(spark: SparkSession, name: str, field: str, *ids: int, part: str) -> DataFrame:
    values = [(i, part, (i, [(i,)]), {"k": (i,)}) for i in ids]
    return spark.createDataFrame(values, f"`{name}` long, part string, {NESTED.format(field)}")


@pytest.mark.parametrize("mode", [pytest.param("name", marks=pytest.mark.full), "id"])
def test_mapped_columns_have_their_names_and_ids_in_files(
    tmp_path: Path, spark: SparkSession, way_of_writing: str, mode: str
) -> None:
    first = nested(spark, "my id", "x", 1, 2, part="a")
    ds.write(first, tmp_path, partition_by=["part"], configuration={MODE: mode})
    log = DeltaLog(tmp_path)
    ddl.rename_column(log, "s.x", "y")
    ddl.rename_column(log, "my id", "id")
    ds.write(nested(spark, "id", "y", 3, part="b"), log)
    da.write(log, pa.table({"id": [4], "part": ["a"]}))
    other = nested(spark, "id", "y", 5, part="b")
    ds.write(other, log, "overwrite", replace_where=col("part") == "b")
    ds.write(
        other.withColumn("id", sf.lit(7)), log, "overwrite", replace_where=col("id").isin([2, 7])
    )
    before = log.snapshot()
    for add in before.add_files():
        assert add.partition_values.keys() == {physical_name(before.schema.fields[1])}
        found = set(ids_in_file(pq.read_schema(tmp_path / add.path)))
        assert found | {(physical_name(before.schema.fields[1]), 2)} == ids_in_schema(before)
        assert field_id(before.schema.fields[1]) == 2
    optimize(log, engine=ds.rewrite(spark))
    after = log.snapshot()
    assert len(list(after.add_files())) < len(list(before.add_files()))
    expected = [
        {
            "id": i,
            "part": part,
            "s": n and {"y": n, "inner": [{"z": n}]},
            "m": n and [("k", {"v": n})],
        }
        for i, part, n in ((1, "a", 1), (4, "a", None), (5, "b", 5), (7, "b", 5))
    ]
    for snapshot in (before, after):
        assert by_id(da.to_table(snapshot)) == expected
        assert {row["id"] for row in ds.read(spark, snapshot).collect()} == {1, 4, 5, 7}
        assert da.to_table(snapshot, predicate=col("s", "y") == 5).num_rows == 2


def test_a_table_becomes_mapped_in_the_commit_of_its_rows(
    tmp_path: Path, spark: SparkSession
) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    transaction = begin(DeltaLog(tmp_path))
    transaction.set_properties({MODE: "name"})
    ds.write(spark.range(5, 6), transaction)
    assert by_id(da.to_table(tmp_path)) == [{"id": 1}, {"id": 5}]


@pytest.mark.parametrize(
    "way", ["file index", pytest.param("file list", marks=pytest.mark.full)], indirect=True
)
def test_rows_that_stay_keep_their_ids(
    tmp_path: Path, spark: SparkSession, way: str, way_of_writing: str
) -> None:
    def ids() -> dict[int, tuple[int, int]]:
        snapshot = DeltaLog(tmp_path).snapshot()
        names = row_columns(snapshot.definition, snapshot.uri)
        assert names is not None
        found = read_kept(snapshot, snapshot.add_files(), ["id", *names])
        return {
            row[0]: row[1:] for b in found for row in map(tuple, map(dict.values, b.to_pylist()))
        }

    first = spark.range(6).coalesce(1)
    ds.write(first, tmp_path, configuration={**TRACKING, **VECTORS})
    assert ids() == {i: (i, 0) for i in range(6)}
    da.delete(tmp_path, col("id") == 1)
    ds.write(spark.range(40, 41), tmp_path)
    ds.write(spark.range(50, 51), tmp_path, "overwrite", replace_where=col("id").isin([3, 50]))
    kept = {0: (0, 0), 2: (2, 0), 4: (4, 0), 5: (5, 0)}
    ours = {key: value for key, value in ids().items() if key < 10}
    assert ours == kept
    new = {key: value for key, value in ids().items() if key >= 10}
    assert {key: version for key, (_, version) in new.items()} == {40: 2, 50: 3}
    optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark))
    assert ids() == {**kept, **new}
    assert DeltaLog(tmp_path).snapshot().version == 4


@pytest.mark.parametrize("mode", [pytest.param("none", marks=pytest.mark.full), "name"])
def test_replaced_rows_are_in_the_feed(
    tmp_path: Path, spark: SparkSession, way_of_writing: str, mode: str
) -> None:
    first = spark.range(4).withColumn("p", sf.lit("a"))
    ds.write(first, tmp_path, partition_by=["p"], configuration={**FEED, **VECTORS, MODE: mode})
    da.delete(tmp_path, col("id") == 3)
    wider = spark.range(8, 9).withColumn("p", sf.lit("b")).withColumn("n", sf.lit(7))
    replaced = col("id") >= 2
    ds.write(wider, tmp_path, "overwrite", replace_where=replaced, merge_schema=True)
    found = da.read_changes(tmp_path, 2)
    assert sorted((r["_change_type"], r["id"], r["p"], r["n"]) for r in rows(pa.table(found))) == [
        ("delete", 2, "a", None),
        ("insert", 8, "b", 7),
    ]
    reported = list((tmp_path / "_change_data").rglob("*.parquet"))
    assert len(reported) == 2 + 1  # the delete's vectors, and the two partitions here


def test_files_of_changes_go_with_a_commit_that_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    ds.write(spark.range(4), tmp_path, configuration=FEED)
    before = sorted(tmp_path.rglob("*"))
    transaction = begin(DeltaLog(tmp_path))
    da.write(tmp_path, pa.table({"id": [0]}), "overwrite")
    with pytest.raises(CommitConflictError):
        ds.write(spark.range(9, 10), transaction, "overwrite", replace_where=col("id") > 2)
    left = [p for p in set(tmp_path.rglob("*.parquet")) - set(before) if p.is_file()]
    assert [p.relative_to(tmp_path).parts[0] for p in left] == [
        add.path for add in DeltaLog(tmp_path).snapshot().add_files()
    ]


IDENTITY = {
    "delta.identity.start": 10,
    "delta.identity.step": -5,
    "delta.identity.allowExplicitInsert": False,
}


def test_identity_columns_are_counted_on_by_both_engines(
    tmp_path: Path, spark: SparkSession, way_of_writing: str
) -> None:
    create(tmp_path, StructField("id", LONG, metadata=IDENTITY), StructField("v", LONG))
    many = spark.range(100, numPartitions=3).withColumnRenamed("id", "v")
    ds.write(many, tmp_path)
    da.write(tmp_path, pa.table({"v": [-1]}))
    ds.write(many.limit(0), tmp_path)
    ds.write(many.limit(3), tmp_path)
    found = da.to_table(tmp_path)
    ids = found["id"].to_pylist()
    assert len(set(ids)) == 104
    assert [each for each in ids if each > 10 or each % 5] == []
    (field, _) = DeltaLog(tmp_path).snapshot().schema.fields
    assert field.metadata["delta.identity.highWaterMark"] == min(ids)
    of_arrow = found["id"].to_pylist()[found["v"].to_pylist().index(-1)]
    assert sorted(ids, reverse=True).index(of_arrow) == 100
    with pytest.raises(InvalidRequestError, match="always generated"):
        ds.write(spark.range(1).withColumn("v", sf.lit(1)), tmp_path)


def test_insert_clauses_of_a_merge_count_the_same_column(
    tmp_path: Path, spark: SparkSession
) -> None:
    identity = IDENTITY | {"delta.identity.allowExplicitInsert": True}
    create(tmp_path, StructField("id", LONG, metadata=identity), StructField("v", LONG))
    rows = spark.range(40, numPartitions=2).withColumnRenamed("id", "v")
    merge = ds.merge(tmp_path, rows, "target.v = source.v")
    for remainder in range(2):
        merge = merge.when_not_matched_insert({"v": "source.v"}, f"source.v % 4 = {remainder}")
    merge = merge.when_not_matched_insert({"v": "source.v", "id": "7"}, "source.v % 4 = 2")
    merge.when_not_matched_insert_all().execute()
    ids = da.to_table(tmp_path)["id"].to_pylist()
    counted = [each for each in ids if each != 7]
    assert len(set(counted)) == len(counted) == 30
    assert ids.count(7) == 10
    assert max(counted) <= 10


def test_identity_values_past_the_last_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    near = {**IDENTITY, "delta.identity.start": -(2**63) + 8}
    create(tmp_path, StructField("id", LONG, metadata=near), StructField("v", LONG))
    ds.write(spark.range(0).withColumnRenamed("id", "v"), tmp_path)
    rows_of_task = spark.range(20, numPartitions=1).withColumnRenamed("id", "v")
    with pytest.raises(InvalidRequestError, match="no values of its type left"):
        ds.write(rows_of_task, tmp_path)
    assert not list(tmp_path.rglob("*.parquet"))
    used_up = {**near, "delta.identity.highWaterMark": -(2**63)}
    create(tmp_path / "u", StructField("id", LONG, metadata=used_up), StructField("v", LONG))
    with pytest.raises(InvalidRequestError, match="no values of its type left"):
        ds.write(rows_of_task, tmp_path / "u")


@pytest.mark.parametrize(
    ("data_type", "text", "expected"),
    [
        pytest.param(LONG, "7", 7, marks=pytest.mark.full),
        (STRING, "concat('a', upper('b'))", "aB"),
        pytest.param(
            TIMESTAMP,
            "TIMESTAMP '2026-01-31 10:00:00Z'",
            datetime(2026, 1, 31, 10, tzinfo=UTC),
            marks=pytest.mark.full,
        ),
        pytest.param(STRING, "NULL", None, marks=pytest.mark.full),
    ],
)
def test_defaults_are_for_columns_that_the_data_leave_out(
    tmp_path: Path, spark: SparkSession, data_type: DataType, text: str, expected: object
) -> None:
    default = StructField("d", data_type, metadata={"CURRENT_DEFAULT": text})
    supported = {"delta.feature.allowColumnDefaults": "supported"}
    create(tmp_path, StructField("id", LONG), default, **supported)
    ds.write(spark.range(1), tmp_path)
    ds.write(spark.range(1, 2).withColumn("D", sf.lit(None)), tmp_path)
    ds.write(spark.range(2, 3), tmp_path, "overwrite", replace_where=col("id").isin([2, 7]))
    assert [row["d"] for row in by_id(da.to_table(tmp_path))] == [expected, None, expected]


def test_null_is_a_default_of_any_type(tmp_path: Path, spark: SparkSession) -> None:
    nested = StructType((StructField("a b", LONG),))
    null = {"CURRENT_DEFAULT": "NULL"}
    struct = StructField("s", nested, metadata=null)
    array = StructField("many", ArrayType(STRING), metadata=null)
    create(tmp_path, StructField("id", LONG), struct, array, **{MODE: "name"})
    ds.write(spark.range(1), tmp_path)
    assert rows(da.to_table(tmp_path)) == [{"id": 0, "s": None, "many": None}]


def test_a_file_without_ids_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(spark.range(3).coalesce(1), tmp_path, configuration=TRACKING)
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        for key in ("baseRowId", "defaultRowCommitVersion"):
            line.get("add", {}).pop(key, None)
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InvalidRequestError, match="has no row ids"):
        ds.write(spark.range(1), tmp_path, "overwrite", replace_where=col("id") == 0)


def test_a_default_of_the_day_is_that_of_the_write(tmp_path: Path, spark: SparkSession) -> None:
    default = StructField("d", DATE, metadata={"CURRENT_DEFAULT": "current_date()"})
    create(tmp_path, StructField("id", LONG), default)
    before = datetime.now(UTC).date()
    ds.write(spark.range(1), tmp_path)
    assert before <= da.to_table(tmp_path)["d"][0].as_py() <= datetime.now(UTC).date()


@pytest.mark.parametrize(
    "text",
    ["rand() * 7", "id", "(SELECT 1)", "nonsense(", "1.5", "'abc'", "length(current_database())"],
)
def test_defaults_that_are_not_the_same_everywhere_are_refused(
    tmp_path: Path, spark: SparkSession, text: str
) -> None:
    default = StructField("d", LONG, metadata={"CURRENT_DEFAULT": text})
    # A reference to a column is detected when the table is created, and other errors by Spark.

    def make_and_write() -> None:
        create(tmp_path, StructField("id", LONG), default)
        ds.write(spark.range(1), tmp_path)

    with pytest.raises(InvalidRequestError, match="the default of column d"):
        make_and_write()
    assert not list(tmp_path.rglob("*.parquet"))


def test_columns_that_come_later_do_not_take_their_default_in_rows_that_stay(
    tmp_path: Path, spark: SparkSession
) -> None:
    supported = {"delta.feature.allowColumnDefaults": "supported"}
    ds.write(spark.range(3).coalesce(1), tmp_path, configuration=supported)
    ddl.add_columns(DeltaLog(tmp_path), [NewColumn(name="d", data_type=LONG)])
    ddl.set_default(DeltaLog(tmp_path), "d", "7")
    ds.write(spark.range(9, 10), tmp_path, "overwrite", replace_where=col("id").isin([2, 9]))
    assert [row["d"] for row in by_id(da.to_table(tmp_path))] == [None, None, 7]


def test_clustering_columns_get_statistics_in_any_case(tmp_path: Path, spark: SparkSession) -> None:
    few = {"delta.dataSkippingNumIndexedCols": "0"}
    ddl.create_table(
        tmp_path,
        StructType((StructField("id", LONG), StructField("v", LONG))),
        cluster_by=["v"],
        properties=few,
    )
    ds.write(spark.range(3).withColumn("v", sf.lit(5).cast("long")), tmp_path)
    optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark))
    for add in DeltaLog(tmp_path).snapshot().add_files():
        assert json.loads(add.stats or "")["minValues"] == {"v": 5}


def test_a_widened_table_takes_the_wider_values(tmp_path: Path, spark: SparkSession) -> None:
    widening = {"delta.enableTypeWidening": "true"}
    ds.write(spark.range(2).select(sf.col("id").cast("int")), tmp_path, configuration=widening)
    ddl.change_type(DeltaLog(tmp_path), "id", "bigint")
    ds.write(spark.createDataFrame([(2**40,)], "id long"), tmp_path)
    optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark))
    assert [row["id"] for row in by_id(da.to_table(tmp_path))] == [0, 1, 2**40]
