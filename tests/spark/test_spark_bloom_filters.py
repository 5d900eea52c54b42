"""Bloom filters: Spark writes them, and skips row groups by the filters of both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog

pytestmark = pytest.mark.spark

NUM_ROWS = 20_000


def scanned_rows(spark: SparkSession, table: Path, condition: str) -> int:
    """The number of rows that Spark's scan of files gives to the filter."""
    rows = spark.read.format("delta").load(str(table)).where(condition)
    plan = rows._jdf.queryExecution()
    rows.collect()
    executed = plan.executedPlan()
    leaves = executed.collectLeaves()
    return sum(
        int(leaves.apply(i).metrics().apply("numOutputRows").value()) for i in range(leaves.size())
    )


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_spark_skips_row_groups_without_the_value(
    tmp_path: Path, spark: SparkSession, engine: Literal["arrow", "spark"]
) -> None:
    ds.register(spark)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        for name, configuration in (
            ("filtered", {"delta_ops.bloomFilterColumns": "id"}),
            ("plain", {}),
        ):
            path = tmp_path / name
            if engine == "arrow":
                data = pa.table({"id": [each * 2 for each in range(NUM_ROWS)]})
                da.write(path, data, configuration=configuration)
            else:
                frame = spark.range(0, 2 * NUM_ROWS, 2, 1)
                ds.write(frame, path, configuration=configuration)
        assert scanned_rows(spark, tmp_path / "filtered", "id = 777") == 0
        assert scanned_rows(spark, tmp_path / "filtered", "id = 778") == NUM_ROWS
        assert scanned_rows(spark, tmp_path / "plain", "id = 777") == NUM_ROWS
        (add,) = DeltaLog(tmp_path / "filtered").snapshot().add_files()
        column = pq.read_metadata(tmp_path / "filtered" / add.path).row_group(0).column(0)
        assert 20_000 < column.bloom_filter_length < 70_000
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
        ds.unregister(spark)
