"""A branch in the Spark engine: read and written through its handle."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.versioning import create_branch, open_branch, publish
from tests.support.tables import rows_by_deltalake


def test_spark_reads_writes_and_changes_a_branch(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "t"
    ds.write(spark.createDataFrame([(1,), (2,)], "id long"), root)
    create_branch(root, "x")
    branch = open_branch(root, "x")
    ds.write(spark.createDataFrame([(3,)], "id long"), branch)
    ds.delete(spark, branch, "id = 1")
    by_handle = ds.read(spark, branch).collect()
    by_ref = ds.read(spark, root, ref="branch:x").collect()
    assert sorted(row.id for row in by_handle) == [2, 3]
    assert sorted(by_handle) == sorted(by_ref)
    assert da.count_rows(root) == 2
    publish(root, "x")
    assert sorted(row["id"] for row in rows_by_deltalake(root)) == [2, 3]
