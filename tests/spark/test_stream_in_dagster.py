"""A streaming query as an asset, on an instance of Dagster."""

from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.orchestration import run_available_now
from tests.spark.streams import append

pytestmark = pytest.mark.spark


def test_each_run_of_an_asset_writes_what_was_committed_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", DeltaLog(tmp_path / "target")

    @dg.asset
    def copied(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        stream = ds.read_stream(spark, source, max_files_per_trigger=1)
        return run_available_now(
            context, stream, target, checkpoint_location=str(tmp_path / "checkpoint")
        )

    reported: list[dict[str, object]] = []
    with dg.DagsterInstance.ephemeral() as instance:
        for number in (0, 1, 1):
            append(source, 10 * number, 10 * number + 1)
            append(source, 10 * number + 2, 10 * number + 2)
            assert dg.materialize([copied], instance=instance).success
            (record,) = instance.fetch_materializations(copied.key, limit=1).records
            event = record.asset_materialization
            assert event is not None
            assert event.tags is not None
            values = {name: each.value for name, each in event.metadata.items()}
            reported.append({**values, "data_version": event.tags["dagster/data_version"]})
        assert dg.materialize([copied], instance=instance).success

    assert sorted(da.to_table(target)["n"].to_pylist()) == [0, 1, 2, 10, 10, 11, 11, 12, 12]
    assert [each["delta/rows_written"] for each in reported] == [3, 3, 3]
    assert [each["dagster/row_count"] for each in reported] == [3, 6, 9]
    assert reported[-1]["data_version"] == f"{target.snapshot().metadata.id[:8]}@5"
    assert target.snapshot().version == 5
