"""One streaming query, run by delta-spark and by us in turn, from the same checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.maintenance import optimize
from tests.peers.delta_spark import DeltaSpark
from tests.spark.streams import append

pytestmark = pytest.mark.spark


@pytest.mark.full
@pytest.mark.parametrize(
    "first", [pytest.param("delta-spark", marks=pytest.mark.full), "delta_ops"]
)
def test_a_query_goes_on_from_the_checkpoint_of_the_other(
    spark: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, first: str
) -> None:
    source, target, checkpoint = (tmp_path / name for name in ("source", "target", "checkpoint"))
    for number in range(3):
        append(source, 10 * number, 10 * number + 3)
    for turn in range(3):
        if (first == "delta-spark") is (turn % 2 == 0):
            delta_spark.stream(source, target, checkpoint, maxFilesPerTrigger="2")
        else:
            stream = ds.read_stream(spark, source, max_files_per_trigger=2)
            query = ds.write_stream(
                stream, target, checkpoint_location=str(checkpoint), available_now=True
            )
            query.awaitTermination()
        found = sorted(da.to_table(target)["n"].to_pylist())
        assert found == sorted(da.to_table(source)["n"].to_pylist())
        append(source, 100 * turn + 50, 100 * turn + 51)
        if turn == 1:
            optimize(DeltaLog(source))
    operations = {entry.operation for entry in DeltaLog(target).history()}
    assert operations == {"STREAMING UPDATE"}
    assert len(DeltaLog(target).snapshot().transactions()) == 1
