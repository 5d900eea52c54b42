"""Variants, written by both engines."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize
from delta_ops.protocol.variant import field_names
from tests.support.variants import NO_NAMES, dictionary, encode

VALUES = ['{"a":1,"b":[true,null]}', "7", '"text"', "null"]


def texts(spark: SparkSession, table: Path) -> dict[int, str | None]:
    rows = ds.read(spark, table).select("id", sf.to_json("v").alias("t")).collect()
    return {row.id: row.t for row in rows}


def test_variants_are_written_by_both_engines(
    tmp_path: Path, spark: SparkSession, way_of_writing: str
) -> None:
    frame = spark.createDataFrame([*enumerate(VALUES), (4, None)], "id long, t string")
    ds.write(frame.select("id", sf.parse_json("t").alias("v")), tmp_path)
    snapshot = DeltaLog(tmp_path).snapshot()
    assert "variantType" in (snapshot.protocol.reader_features or ())
    expected = {**dict(enumerate(VALUES)), 4: None}
    assert texts(spark, tmp_path) == expected
    value = encode({"c": "x"}, field_names(dictionary(["c"])))
    data = pa.array([{"metadata": dictionary(["c"]), "value": value}, None])
    da.write(tmp_path, pa.table({"id": [5, 6], "v": data}))
    da.update(tmp_path, {"id": "id + 10"}, col("id").isin([0, 5]))
    da.delete(tmp_path, col("id") == 1)
    ds.write(frame.limit(0).select("id"), tmp_path, "overwrite", replace_where=col("id") == 2)
    expected = {10: VALUES[0], 3: VALUES[3], 4: None, 15: '{"c":"x"}', 6: None}
    assert texts(spark, tmp_path) == expected
    optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark))
    ds.write(spark.range(7, 8), tmp_path)
    optimize(DeltaLog(tmp_path))
    assert texts(spark, tmp_path) == {**expected, 7: None}
    (add,) = DeltaLog(tmp_path).snapshot().add_files()
    assert "v" not in json.loads(add.stats or "")["minValues"]
    for path in tmp_path.rglob("*.parquet"):
        if "_delta_log" not in path.parts:
            columns = pq.ParquetFile(path).schema
            names = {columns.column(i).path for i in range(len(columns))}
            assert names <= {"id", "v.metadata", "v.value"}


def test_a_variant_without_its_dictionary_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(spark.range(1).select("id", sf.parse_json(sf.lit("1")).alias("v")), tmp_path)
    value = encode(1, field_names(NO_NAMES))
    for data in ({"value": value}, {"metadata": None, "value": value}, {"x": 1}):
        table = pa.table({"id": [1], "v": pa.array([data])})
        with pytest.raises(InvalidRequestError):
            da.write(tmp_path, table)
    assert DeltaLog(tmp_path).snapshot().version == 0
    assert len(list(tmp_path.glob("**/*.parquet"))) == 1


def test_nothing_is_partitioned_or_clustered_by_variants(
    tmp_path: Path, spark: SparkSession
) -> None:
    frame = spark.range(1).select("id", sf.parse_json(sf.lit("1")).alias("v"))
    with pytest.raises(InvalidRequestError, match="is a variant"):
        ds.write(frame, tmp_path, partition_by=["v"])
    assert not list(tmp_path.rglob("*.parquet"))
