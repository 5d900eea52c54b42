"""Errors name options as callers of Spark's readers and writers, and of DeltaTable, write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.errors import InvalidRequestError
from delta_ops.tables import DeltaTable

pytestmark = pytest.mark.spark

LATE = "1L AS id, 2L AS late"


@pytest.fixture
def delta(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose `delta` format is ours."""
    ds.register(spark)
    yield spark
    ds.unregister(spark)


@pytest.fixture
def orders(tmp_path: Path) -> str:
    """A table whose second version rewrites a file."""
    place = str(tmp_path / "orders")
    da.write(place, pa.table({"id": [1, 2]}))
    da.delete(place, "id = 2")
    return place


def started(stream: DataFrame, target: Path, checkpoint: Path) -> StreamingQuery:
    """A query that writes what is there into a table."""
    writer = stream.writeStream.format("delta").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(checkpoint)).start(str(target))


def test_a_writer_names_its_option(delta: SparkSession, orders: str) -> None:
    rows = delta.sql(f"SELECT {LATE}")
    with pytest.raises(InvalidRequestError) as error:
        rows.write.format("delta").mode("append").save(orders)
    assert 'write with option("mergeSchema", "true") to add it' in str(error.value)
    with pytest.raises(InvalidRequestError, match="write with merge_schema=True to add it"):
        ds.write(rows, orders)


def test_a_stream_names_the_options_of_its_reader_and_its_writer(
    delta: SparkSession, orders: str, tmp_path: Path
) -> None:
    stream = delta.readStream.format("delta").option("startingVersion", 0).load(orders)
    query = started(stream, tmp_path / "copy", tmp_path / "a")
    with pytest.raises(StreamingQueryException) as error:
        query.awaitTermination()
    assert 'option("skipChangeCommits", "true")' in str(error.value)
    da.write(tmp_path / "late", pa.table({"id": [1], "late": [2]}))
    da.write(tmp_path / "target", pa.table({"id": [1]}))
    stream = delta.readStream.format("delta").load(str(tmp_path / "late"))
    query = started(stream, tmp_path / "target", tmp_path / "b")
    with pytest.raises(StreamingQueryException) as error:
        query.awaitTermination()
    assert 'write with option("mergeSchema", "true") to add it' in str(error.value)


def test_a_delta_table_names_its_settings(spark: SparkSession, orders: str) -> None:
    table = DeltaTable.forPath(spark, orders)
    setting = "spark.databricks.delta.retentionDurationCheck.enabled=false"
    with pytest.raises(AnalysisException, match=rf"turn the check off \({setting}\)"):
        table.vacuum(0)
