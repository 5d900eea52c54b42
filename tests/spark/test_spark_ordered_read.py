"""Ordered reads: partitions that follow each other in order, without a shuffle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize

pytestmark = pytest.mark.spark


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def keys_of(rows: Sequence[Any], names: Sequence[str]) -> list[list[tuple[int, Any]]]:
    """The place of each row: nulls first, NaN last."""

    def key(value: Any) -> tuple[int, Any]:
        if value is None:
            return 0, 0
        if isinstance(value, float) and math.isnan(value):
            return 2, 0
        return 1, value.encode() if isinstance(value, str) else value

    return [[key(row[name]) for name in names] for row in rows]


def write_days(table: Path) -> None:
    """Ten files that overlap in pairs."""
    for day in range(10):
        ids = [(each * 7) % 150 + day // 2 * 200 for each in range(150)]
        da.write(table, pa.table({"id": ids, "v": [day] * 150}), configuration=KEY)


KEY = {"delta_ops.sortKey": "id", "delta.enableDeletionVectors": "true"}


def test_an_ordered_read_sorts_chains_of_files_without_a_shuffle(
    tmp_path: Path, spark: SparkSession
) -> None:
    write_days(tmp_path)
    frame = ds.read(spark, tmp_path, ["v", "id"], order_by=["id", "v"])
    plan = plan_of(frame)
    assert "Exchange" not in plan
    assert plan.count("Sort [") == 5
    assert frame.rdd.getNumPartitions() == 5
    rows = frame.collect()
    assert rows == ds.read(spark, tmp_path, ["v", "id"]).orderBy("id", "v").collect()


@pytest.mark.full
@pytest.mark.parametrize(
    "names", [["id"], ["v", "id"], ["f"], ["s", "f"], ["t"], ["c"], ["p", "s"]]
)
def test_an_ordered_read_is_a_sort(
    tmp_path: Path, spark: SparkSession, way: str, names: list[str]
) -> None:
    lots = Random(1)
    values = [None, 0.0, -0.0, 1.5, math.inf, -math.inf, math.nan]
    texts = [None, "", "a", "é", "z" * 40, "z" * 41]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("v", pa.int32()),
            ("f", pa.float64()),
            ("s", pa.string()),
            ("t", pa.timestamp("us", "UTC")),
            pa.field("c", pa.string(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}),
            ("p", pa.string()),
        ]
    )
    for number in range(8):
        rows = [
            {
                "id": lots.choice([None, number * 10 + lots.randrange(15)])
                if number < 2
                else number * 10 + lots.randrange(15),
                "v": number // 3,
                "f": lots.choice(values),
                "s": lots.choice(texts),
                "t": datetime(2026, 1, 1 + number, lots.randrange(24), 0, 0, 1, UTC),
                "c": lots.choice(["a", "b ", "b"]),
                "p": lots.choice(["x", "y", None]),
            }
            for _ in range(12)
        ]
        da.write(
            tmp_path,
            pa.Table.from_pylist(rows, schema),
            partition_by=["p"],
            configuration={"delta.enableDeletionVectors": "true"},
        )
    da.delete(tmp_path, col("id") == 25)
    frame = ds.read(spark, tmp_path, order_by=names)
    assert "Exchange" not in plan_of(frame) or way == "file list"
    found = frame.collect()
    keys = keys_of(found, names)
    assert keys == sorted(keys)
    expected = ds.read(spark, tmp_path).collect()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    some = ds.read(spark, tmp_path, ["v"], "id > 30 and v % 2 = 0", order_by=names).collect()
    assert len(some) == ds.read(spark, tmp_path, ["v"], "id > 30 and v % 2 = 0").count()


@pytest.mark.full
def test_a_merge_by_spark_leaves_sorted_runs(tmp_path: Path, spark: SparkSession) -> None:
    write_days(tmp_path)
    da.delete(tmp_path, col("id") == 0)
    rows = ds.read(spark, tmp_path).orderBy("id", "v").collect()
    optimize(tmp_path, engine=ds.rewrite(spark), full=True, target_size=2_000)
    adds = DeltaLog(tmp_path).snapshot().add_files()
    assert len(adds) > 1
    assert {add.tags["delta_ops.sortedBy"] for add in adds if add.tags} == {'["id"]'}
    assert len({add.tags["delta_ops.run"] for add in adds if add.tags}) == 1
    assert optimize(tmp_path, engine=ds.rewrite(spark), full=True).version is None
    found = [
        each for batch in da.to_batches(tmp_path, order_by=["id"]) for each in batch.to_pylist()
    ]
    assert [row["id"] for row in found] == [row.id for row in rows]
    assert ds.read(spark, tmp_path, order_by=["id", "v"]).collect() == rows


@pytest.mark.full
def test_an_ordered_read_of_an_empty_table_has_no_row(tmp_path: Path, spark: SparkSession) -> None:
    da.write(tmp_path, pa.table({"id": pa.array([], pa.int64())}))
    assert ds.read(spark, tmp_path, order_by=["id"]).collect() == []


@pytest.mark.full
def test_a_wrong_order_is_rejected(tmp_path: Path, spark: SparkSession) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="does not exist"):
        ds.read(spark, tmp_path, order_by=["no"])
    with pytest.raises(InvalidRequestError, match="names no column"):
        ds.read(spark, tmp_path, order_by=[])
