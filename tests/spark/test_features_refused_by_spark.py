"""Features that the Arrow engine alone writes: Spark refuses them before it touches a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin
from delta_ops.errors import UnsupportedFeatureError
from delta_ops.maintenance import optimize

CONFIGURATIONS = {
    "materializePartitionColumns": {"delta.feature.materializePartitionColumns": "supported"},
}


@pytest.mark.parametrize("feature", CONFIGURATIONS)
def test_a_table_that_another_engine_writes(
    tmp_path: Path, spark: SparkSession, feature: str
) -> None:
    configuration, rows = CONFIGURATIONS[feature], spark.range(2)
    with pytest.raises(UnsupportedFeatureError, match=feature):
        ds.write(rows, tmp_path / "new", configuration=configuration)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    table = tmp_path / "t"
    for n in range(2):
        da.write(table, pa.table({"id": [n]}), configuration=configuration)
    with pytest.raises(UnsupportedFeatureError, match=feature):
        ds.write(rows, table)
    with pytest.raises(UnsupportedFeatureError, match=feature):
        optimize(DeltaLog(table), engine=ds.rewrite(spark))
    assert DeltaLog(table).snapshot().version == 1
    assert sorted(row["id"] for row in ds.read(spark, table).collect()) == [0, 1]


def test_a_table_that_gets_the_feature_in_the_same_commit(
    tmp_path: Path, spark: SparkSession
) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    transaction = begin(DeltaLog(tmp_path))
    transaction.set_properties(CONFIGURATIONS["materializePartitionColumns"])
    with pytest.raises(UnsupportedFeatureError, match="materializePartitionColumns"):
        ds.write(spark.range(1), transaction)
    assert DeltaLog(tmp_path).snapshot().version == 0
