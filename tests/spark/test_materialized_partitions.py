"""Tables whose data files also hold the partition columns, written by both engines."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import UnsupportedFeatureError
from delta_ops.maintenance import optimize
from delta_ops.protocol import features
from delta_ops.protocol.features import FEATURES, Feature
from delta_ops.protocol.properties import table_properties

REQUIRED = {"delta.feature.materializePartitionColumns": "supported"}
MODE = "delta.columnMapping.mode"
DAY = dt.date(2026, 2, 3)
DATA = pa.table(
    {
        "day": pa.array([DAY, DAY, None], pa.date32()),
        "id": [1, 2, 3],
        "text": ["a b", "", None],
        "text_directory": ["x", "y", "z"],
    }
)


def held(root: Path) -> list[dict[str, object]]:
    """The rows of all live files, by the files alone."""
    paths = DeltaLog(root).snapshot().files().column("path").to_pylist()
    return [
        row for path in paths for row in pq.read_table(root / path, partitioning=None).to_pylist()
    ]


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda row: int(row["id"]))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_both_engines_write_the_same(tmp_path: Path, spark: SparkSession, mode: str) -> None:
    by_spark, by_arrow = tmp_path / "spark", tmp_path / "arrow"
    how: dict[str, Any] = {
        "partition_by": ["day", "text"],
        "configuration": {**REQUIRED, MODE: mode},
    }
    ds.write(spark.createDataFrame(DATA), by_spark, **how)
    da.write(by_arrow, DATA, **how)
    found = [
        sorted(tuple(map(str, row.values())) for row in held(root)) for root in (by_spark, by_arrow)
    ]
    assert found[0] == found[1]
    assert {len(row) for row in found[0]} == {4}
    assert rows_of(da.to_table(by_spark)) == rows_of(da.to_table(by_arrow))
    values = [
        sorted(map(str, DeltaLog(root).snapshot().files().column("partition_values").to_pylist()))
        for root in (by_spark, by_arrow)
    ]
    assert len(values[0]) == len(values[1]) == 3
    if mode == "none":
        assert values[0] == values[1]


def test_they_stay_through_commands_and_compaction(tmp_path: Path, spark: SparkSession) -> None:
    for _ in range(2):
        ds.write(
            spark.createDataFrame(DATA), tmp_path, partition_by=["day"], configuration=REQUIRED
        )
    ds.update(spark, tmp_path, {"text": "'new'"}, col("id") == 1)
    ds.delete(spark, tmp_path, col("id") == 3)
    optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark))
    assert len(DeltaLog(tmp_path).snapshot().files()) == 1
    by_file = sorted(held(tmp_path), key=lambda row: (row["id"], str(row["text"])))
    assert [(row["day"], row["id"], row["text"]) for row in by_file] == [
        (DAY, 1, "new"),
        (DAY, 1, "new"),
        (DAY, 2, ""),
        (DAY, 2, ""),
    ]
    assert sorted(row["id"] for row in ds.read(spark, tmp_path).collect()) == [1, 1, 2, 2]


def test_features_of_another_engine_are_refused_before_a_file_is_touched(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Feature(name="arrowing", written_by=frozenset({"arrow"}))
    for module in (features, table_properties):
        monkeypatch.setattr(module, "FEATURES", (*FEATURES, row))
    requested, frame = {"delta.feature.arrowing": "supported"}, spark.range(2)
    with pytest.raises(UnsupportedFeatureError, match="arrowing"):
        ds.write(frame, tmp_path / "new", configuration=requested)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    table = tmp_path / "t"
    for n in range(2):
        da.write(table, pa.table({"id": [n]}))
    transaction = begin(DeltaLog(table))
    transaction.set_properties(requested)
    with pytest.raises(UnsupportedFeatureError, match="arrowing"):
        ds.write(frame, transaction)
    transaction = begin(DeltaLog(table))
    transaction.set_properties(requested)
    transaction.commit(operation="SET TBLPROPERTIES")
    with pytest.raises(UnsupportedFeatureError, match="arrowing"):
        ds.write(frame, table)
    with pytest.raises(UnsupportedFeatureError, match="arrowing"):
        optimize(DeltaLog(table), engine=ds.rewrite(spark))
    assert DeltaLog(table).snapshot().version == 2
    assert sorted(row["id"] for row in ds.read(spark, table).collect()) == [0, 1]
