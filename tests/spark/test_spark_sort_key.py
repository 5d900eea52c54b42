"""Sort key: the files that Spark writes are sorted within partitions and files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.maintenance import optimize

pytestmark = pytest.mark.spark


def sorted_keys(table: Path) -> list[list[int]]:
    """The keys of each live file, in the order of its rows."""
    adds = DeltaLog(table).snapshot().add_files()
    return [pq.read_table(table / add.path)["id"].to_pylist() for add in adds]


def test_spark_sorts_the_rows_of_each_file(tmp_path: Path, spark: SparkSession) -> None:
    frame = spark.range(0, 3000, 1, 2).selectExpr("(id * 7919) % 3000 AS id", "id % 2 AS p")
    ds.write(frame, tmp_path, partition_by=["p"], configuration={"delta_ops.sortKey": "id"})
    ds.update(spark, tmp_path, {"id": "id + 1"}, "id % 10 = 0")
    optimize(tmp_path, engine=ds.rewrite(spark), target_size=1 << 30)
    files = sorted_keys(tmp_path)
    assert len(files) == 2
    assert all(keys == sorted(keys) for keys in files)
    batches = da.to_batches(tmp_path, ["id"], order_by=["id"])
    found = [each for batch in batches for each in batch["id"].to_pylist()]
    assert found == sorted(each for keys in files for each in keys)
