"""Numbers that Spark's hash sends to a chosen partition, as Spark itself computes them."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from delta_ops.spark import versions
from delta_ops.spark.versions import arrow_of, hash_of, numbers_by_hash, repartition_by_id


@pytest.mark.parametrize("num_partitions", [1, 2, 7, 200, 3001])
def test_each_partition_gets_its_number(num_partitions: int) -> None:
    found = np.mod(hash_of(numbers_by_hash(num_partitions)), num_partitions)
    assert found.tolist() == list(range(num_partitions))


@pytest.mark.spark
def test_the_hash_is_that_of_spark(spark: SparkSession) -> None:
    numbers = spark.range(-500, 500).selectExpr("CAST(id * 4294967 AS INT) AS n")
    found = arrow_of(numbers.selectExpr("n", "hash(n) AS h"))
    assert hash_of(found["n"].to_numpy()).tolist() == found["h"].to_pylist()


@pytest.mark.spark
def test_before_4_1_each_row_comes_into_the_partition_of_its_number(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "VERSION", (4, 0))
    rows = spark.range(100).withColumn("part", (sf.col("id") % 9).cast("int"))
    placed = repartition_by_id(rows, 9, sf.col("part"))
    found = placed.select("part", sf.spark_partition_id().alias("at")).distinct().collect()
    assert sorted(map(tuple, found)) == [(number, number) for number in range(9)]
