"""Tables with features, written by our Spark engine and by delta-spark in turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin, col
from delta_ops.maintenance import optimize
from delta_ops.protocol.schema import LONG, STRING, StructField
from tests.peers.delta_spark import DeltaSpark
from tests.peers.test_features_written import (
    MODE,
    actions,
    changes_of,
    create,
    data,
    protocol_of,
    same_rows,
    schema_of,
    tracked_by_spark,
    tracked_by_us,
)
from tests.support.tables import rows
from tests.support.tiers import seeded


@pytest.mark.full
@pytest.mark.parametrize("mode", ["name", pytest.param("id", marks=pytest.mark.long)])
def test_mapped_tables_say_the_same(
    tmp_path: Path, spark: SparkSession, delta_spark: DeltaSpark, mode: str
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    first, wider = data(1, 2), data(3, new=pa.array([7], pa.int64()))
    configuration = {MODE: mode}
    one = frame(spark, first).coalesce(1)
    ds.write(one, ours, partition_by=["part"], configuration=configuration)
    delta_spark.write(theirs, first, partition_by=["part"], **{MODE: mode})
    assert changes_of(ours, 0) == changes_of(theirs, 0)
    for root in (ours, theirs):
        ds.write(frame(spark, wider), root, merge_schema=True)
        delta_spark.write(root, data(4, part="b"))
        ds.write(frame(spark, data(8)), root, "overwrite", replace_where=col("my id").isin([2, 8]))
        optimize(DeltaLog(root), engine=ds.rewrite(spark))
        delta_spark.write(root, data(5, part="b"))
    assert protocol_of(ours) == protocol_of(theirs)
    found = same_rows(delta_spark, ours)
    assert found == same_rows(delta_spark, theirs)
    assert sorted(row["my id"] for row in found) == [1, 3, 4, 5, 8]


@pytest.mark.full
def test_partition_columns_are_in_the_files_of_both(
    tmp_path: Path, spark: SparkSession, delta_spark: DeltaSpark
) -> None:
    table = tmp_path / "t"
    requested = {"delta.feature.materializePartitionColumns": "supported"}
    for n, p in enumerate("abb"):
        new = pa.table({"p": [p], "id": [n]})
        if n == 1:
            delta_spark.write(table, new)
        else:
            ds.write(frame(spark, new), table, partition_by=["p"], configuration=requested)
    assert [row["id"] for row in same_rows(delta_spark, table)] == [0, 1, 2]
    live = DeltaLog(table).snapshot().files().column("path").to_pylist()
    assert len(live) == 3
    assert all(sorted(pq.read_schema(table / path).names) == ["id", "p"] for path in live)


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table)


@pytest.mark.full
@pytest.mark.parametrize("mode", [pytest.param("none", marks=pytest.mark.long), "name"])
def test_the_change_data_feed_is_the_same(
    tmp_path: Path, spark: SparkSession, delta_spark: DeltaSpark, mode: str
) -> None:
    configuration = {"delta.enableChangeDataFeed": "true", MODE: mode}
    first = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})
    ds.write(frame(spark, first), tmp_path, partition_by=["p"], configuration=configuration)
    delta_spark.write(tmp_path, pa.table({"id": [4, 5], "p": ["a", "b"]}))
    new = frame(spark, pa.table({"id": [2, 8], "p": ["a", "c"]}))
    replaced = (col("id") >= 2) & (col("id") != 3)
    ds.write(new, tmp_path, "overwrite", replace_where=replaced)
    delta_spark.sql(f"DELETE FROM delta.`{tmp_path}` WHERE id = 8")
    last = frame(spark, pa.table({"id": [9], "p": ["a"]}))
    ds.write(last, tmp_path, "overwrite", partition_overwrite_mode="dynamic")
    compared = ["id", "p", "_change_type", "_commit_version"]
    theirs = delta_spark.changes(tmp_path, startingVersion="0").select(compared)
    ours: Any = da.read_changes(tmp_path, 0, columns=compared)
    assert rows(pa.table(ours)) == rows(theirs)
    assert [row["id"] for row in same_rows(delta_spark, tmp_path)] == [3, 9]


@pytest.mark.full
@pytest.mark.parametrize("vectors", [pytest.param("false", marks=pytest.mark.long), "true"])
def test_rows_keep_their_ids_in_turn(
    tmp_path: Path, spark: SparkSession, delta_spark: DeltaSpark, vectors: str
) -> None:
    properties = {
        "delta.enableRowTracking": "true",
        "delta.enableDeletionVectors": vectors,
        MODE: "name",
    }

    def write(*ids: int, **how: Any) -> None:
        table = pa.table({"id": ids, "p": ["a"] * len(ids)})
        ds.write(frame(spark, table).coalesce(1), tmp_path, **how)

    write(1, 2, 3, configuration=properties)
    delta_spark.write(tmp_path, pa.table({"id": [4, 5, 6], "p": ["d", "e", "f"]}))
    for change in (
        lambda: delta_spark.sql(f"DELETE FROM delta.`{tmp_path}` WHERE id IN (2, 5)"),
        lambda: write(7, 10, mode="overwrite", replace_where=col("id").isin([1, 7, 10])),
        lambda: delta_spark.sql(f"UPDATE delta.`{tmp_path}` SET p = 'y' WHERE id IN (3, 6)"),
        lambda: optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark)),
        lambda: write(8),
    ):
        change()
        assert tracked_by_us(tmp_path) == tracked_by_spark(delta_spark, tmp_path)
    ids = {number: row_id for number, row_id, _ in tracked_by_us(tmp_path)}
    assert {number: ids[number] for number in (3, 4, 6)} == {3: 2, 4: 3, 6: 5}
    same_rows(delta_spark, tmp_path)


@pytest.mark.full
def test_counted_and_default_columns_are_written_in_turn(
    tmp_path: Path, spark: SparkSession, delta_spark: DeltaSpark
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    identity = {
        "delta.identity.start": 10,
        "delta.identity.step": 5,
        "delta.identity.allowExplicitInsert": False,
    }
    create(
        ours,
        StructField("id", LONG, metadata=identity),
        StructField("v", STRING),
        StructField("d", STRING, metadata={"CURRENT_DEFAULT": "'it'"}),
    )
    delta_spark.sql(
        f"CREATE TABLE delta.`{theirs}` (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 "
        "INCREMENT BY 5), v STRING, d STRING DEFAULT 'it') USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    assert schema_of(ours) == schema_of(theirs)
    for root in (ours, theirs):
        for n in (2, 1):
            ds.write(frame(spark, pa.table({"v": ["o"] * n})), root)
            delta_spark.sql(f"INSERT INTO delta.`{root}` (v) VALUES {', '.join(['(0)'] * n)}")
        found = same_rows(delta_spark, root)
        assert len({row["id"] for row in found}) == 6
        assert all(row["id"] >= 10 and row["id"] % 5 == 0 and row["d"] == "it" for row in found)
        (field,) = (each for each in schema_of(root) if each["name"] == "id")
        mark = field["metadata"]["delta.identity.highWaterMark"]
        assert mark == max(row["id"] for row in found)


@pytest.mark.full
def test_a_clustered_table_is_written_in_turn(
    tmp_path: Path, spark: SparkSession, delta_spark: DeltaSpark
) -> None:
    delta_spark.sql(
        f"CREATE TABLE delta.`{tmp_path}` (id BIGINT, v STRING) USING delta CLUSTER BY (v)"
    )
    for n in range(2):
        ds.write(frame(spark, pa.table({"id": [n], "v": ["x"]})), tmp_path)
        delta_spark.write(tmp_path, pa.table({"id": [n + 10], "v": ["y"]}))
        delta_spark.sql(f"OPTIMIZE delta.`{tmp_path}`")
    assert [row["id"] for row in same_rows(delta_spark, tmp_path)] == [0, 1, 10, 11]


@pytest.mark.full
def test_variants_are_written_in_turn(
    tmp_path: Path, spark: SparkSession, delta_spark: DeltaSpark
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    delta_spark.sql(f"CREATE TABLE delta.`{theirs}` (id BIGINT, v VARIANT) USING delta")
    values = spark.createDataFrame([(1, '{"a":[1,2]}'), (2, None)], "id long, t string")
    ds.write(values.select("id", sf.parse_json("t").alias("v")).coalesce(1), ours)
    delta_spark.sql(f"INSERT INTO delta.`{theirs}` SELECT * FROM delta.`{ours}`")
    assert protocol_of(ours) == protocol_of(theirs)
    assert schema_of(ours) == schema_of(theirs)
    (of_ours,), (of_theirs,) = (actions(root, v, "add") for root, v in ((ours, 0), (theirs, 1)))
    assert json.loads(of_ours["stats"]) == json.loads(of_theirs["stats"])
    for root in (ours, theirs):
        delta_spark.sql(f"INSERT INTO delta.`{root}` SELECT 3L, parse_json('7')")
        kept = da.to_table(root, predicate=col("id") == 1)
        da.write(root, kept)
        optimize(DeltaLog(root), engine=ds.rewrite(spark))
        reported = delta_spark.sql(f"SELECT id, to_json(v) AS v FROM delta.`{root}` ORDER BY id")
        assert [row["v"] for row in reported] == ['{"a":[1,2]}', '{"a":[1,2]}', None, "7"]
        assert delta_spark.validate(root)


@pytest.mark.full
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))]
)
def test_null_counts_of_variants_are_the_same(
    tmp_path: Path, spark: SparkSession, delta_spark: DeltaSpark, seed: int
) -> None:
    by_spark, by_arrow, theirs = (tmp_path / name for name in ("spark", "arrow", "theirs"))
    delta_spark.sql(
        f"CREATE TABLE delta.`{theirs}` (id BIGINT, v VARIANT, s STRUCT<w: VARIANT>) USING delta"
    )
    chance = seeded(seed)
    texts = [None, "null", "7", '"x"', "[1, null]", '{"a": {"b": null}}', "{}"]
    data = [
        (number, chance.choice(texts), chance.choice(texts), chance.random() < 0.5)
        for number in range(chance.randrange(1, 40))
    ]
    texts_of = spark.createDataFrame(data, "id long, t string, u string, has_s boolean")
    inner = sf.when(sf.col("has_s"), sf.struct(sf.parse_json("u").alias("w")))
    rows = texts_of.select("id", sf.parse_json("t").alias("v"), inner.alias("s"))
    ds.write(rows.coalesce(1), by_spark)
    transaction = begin(DeltaLog(by_arrow))
    transaction.create_table(DeltaLog(by_spark).snapshot().schema)
    transaction.stage(da.stage_write(transaction, da.to_table(by_spark)))
    transaction.commit(operation="WRITE")
    delta_spark.sql(f"INSERT INTO delta.`{theirs}` SELECT * FROM delta.`{by_spark}`")
    recorded = [
        json.loads(add["stats"])["nullCount"]
        for root, version in ((by_spark, 0), (by_arrow, 0), (theirs, 1))
        for add in actions(root, version, "add")
    ]
    nulls = {
        "id": 0,
        "v": sum(text is None for _, text, _, _ in data),
        "s": {"w": sum(not has_s or text is None for _, _, text, has_s in data)},
    }
    assert recorded == [nulls] * 3
