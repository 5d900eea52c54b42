"""Tables with a void column that the Arrow engine wrote, in Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.errors import UnsupportedFeatureError


def test_spark_reads_a_void_column_and_does_not_write_to_its_table(
    tmp_path: Path, spark: SparkSession
) -> None:
    da.write(tmp_path, pa.table({"x": [1], "v": pa.nulls(1)}))
    frame = ds.read(spark, tmp_path)
    assert [tuple(row) for row in frame.collect()] == [(1, None)]
    with pytest.raises(UnsupportedFeatureError, match="type void of column v"):
        ds.write(spark.range(1).toDF("x"), tmp_path, mode="append")
    da.write(tmp_path, pa.table({"x": [2], "v": ["a"]}), mode="append", merge_schema=True)
    assert {tuple(row) for row in ds.read(spark, tmp_path).collect()} == {(1, None), (2, "a")}
    ds.write(spark.createDataFrame([(3, "b")], ["x", "v"]), tmp_path, mode="append")
    assert da.count_rows(tmp_path) == 3
