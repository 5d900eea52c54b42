"""A column `a.b` beside a struct a with a field b, on Spark; see `test_names_with_dots`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.tables import DeltaTable
from tests.arrow.test_names_with_dots import MEETING, ROWS, first

pytestmark = pytest.mark.spark


@pytest.mark.full
def test_keys_and_columns_mean_what_they_mean_in_conditions(
    spark: SparkSession, tmp_path: Path
) -> None:
    da.write(tmp_path, ROWS)
    ds.update(spark, tmp_path, {"a.b": 7, "`a.b`": 8}, "id = 1 AND a.b = 1 AND `a.b` = 10")
    assert first(tmp_path) == {"id": 1, "a.b": 8, "a": {"b": 7, "c": 2}}
    rows = ds.read(spark, tmp_path, columns=["`a.b`"]).collect()
    assert sorted(row[0] for row in rows) == [8, 20]
    with pytest.raises(InvalidRequestError, match="is a field of column a"):
        ds.read(spark, tmp_path, columns=["a.b"])


def test_the_class_of_delta_spark_sets_the_field(spark: SparkSession, tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    source = spark.createDataFrame([(1, 100)], "id long, `a.b` long")
    table = DeltaTable.forPath(spark, str(tmp_path))
    merge = table.alias("target").merge(source.alias("source"), MEETING)
    merge.whenMatchedUpdate(set={"target.a.b": "source.`a.b`"}).execute()
    assert first(tmp_path) == {"id": 1, "a.b": 10, "a": {"b": 100, "c": 2}}


@pytest.mark.usefixtures("registered")
def test_plain_names_of_partitions(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, 10, (1,))], "id long, `a.b` long, a struct<b: long>")
    rows.write.format("delta").partitionBy("a.b").save(str(tmp_path / "t"))
    assert DeltaLog(tmp_path / "t").snapshot().partition_columns == ("a.b",)
    with pytest.raises(InvalidRequestError, match="is a field of column a"):
        ds.write(rows, tmp_path / "u", partition_by=["a.b"])
    ds.write(rows, tmp_path / "u", partition_by=["`a.b`"])
    assert DeltaLog(tmp_path / "u").snapshot().partition_columns == ("a.b",)
