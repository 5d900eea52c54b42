"""Sessions with the Spark engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.versioning import begin_session

pytestmark = pytest.mark.spark


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def test_spark_writes_into_a_session_and_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2, 3]}))
    session = begin_session(tmp_path)
    ds.write(spark.range(10, 13), session.fork("append"))
    ds.delete(spark, session.fork("delete"), "id = 2")
    source = spark.createDataFrame([(3,), (50,)], "id long")
    merge = ds.merge(session.fork("merge"), source, "source.id = target.id")
    merge.when_matched_delete().when_not_matched_insert_all().execute()
    assert ids(ds.read(spark, tmp_path)) == [1, 2, 3]
    assert ids(ds.read(spark, tmp_path, ref=session.ref)) == [1, 10, 11, 12, 50]
    assert ids(ds.read(spark, session.snapshot())) == [1, 10, 11, 12, 50]
    assert session.commit().version == 1
    assert ids(ds.read(spark, tmp_path)) == [1, 10, 11, 12, 50]
    assert sorted(da.to_table(tmp_path)["id"].to_pylist()) == [1, 10, 11, 12, 50]
