"""Types widened by the data of a write or a merge, as in delta-spark."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from tests.peers.delta_spark import DeltaSpark

WIDENING = {"delta.enableTypeWidening": "true"}
BIG = 5_000_000_000


def rows(ids: list[int], whole: pa.DataType, real: pa.DataType, exact: pa.DataType) -> pa.Table:
    value = BIG if whole == pa.int64() else 7
    nested = pa.struct([("a", whole), ("l", pa.list_(whole)), ("m", pa.map_(pa.string(), whole))])
    struct = {"a": value, "l": [value, None], "m": [("k", value)]}
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "i": pa.array([value] * len(ids), whole),
            "f": pa.array([0.5] * len(ids), real),
            "d": pa.array([Decimal(1)] * len(ids), exact),
            "s": pa.array([struct] * len(ids), nested),
        }
    )


NARROW = rows([1, 2], pa.int32(), pa.float32(), pa.decimal128(5, 2))
WIDE = rows([2, 3], pa.int64(), pa.float64(), pa.decimal128(9, 3))


def twins(root: Path) -> tuple[Path, Path, Path]:
    first, second, third = (root / name for name in ("theirs", "arrow", "spark"))
    da.write(first, NARROW, configuration=WIDENING)
    for each in (second, third):
        shutil.copytree(first, each)
    return first, second, third


def schema_of(table: Path) -> Any:
    return json.loads(DeltaLog(table).snapshot().metadata.schema_string)


def by_id(table: Path) -> list[dict[str, Any]]:
    return list(da.to_table(table).sort_by("id").to_pylist())


@pytest.fixture
def wide_frame(spark: SparkSession, tmp_path: Path) -> Any:
    pq.write_table(WIDE, tmp_path / "wide.parquet")
    return spark.read.parquet(str(tmp_path / "wide.parquet"))


@pytest.mark.full
def test_an_append_widens_as_delta_sparks_does(
    delta_spark: DeltaSpark, tmp_path: Path, wide_frame: Any
) -> None:
    theirs, by_arrow, by_spark = twins(tmp_path)
    delta_spark.write(theirs, WIDE, mergeSchema="true")
    da.write(by_arrow, WIDE, merge_schema=True)
    ds.write(wide_frame, by_spark, merge_schema=True)
    for table in (by_arrow, by_spark):
        assert schema_of(table) == schema_of(theirs)
        assert by_id(table) == by_id(theirs)
        assert delta_spark.read(table).num_rows == 4


@pytest.mark.full
def test_a_merge_widens_as_delta_sparks_does(
    delta_spark: DeltaSpark, tmp_path: Path, wide_frame: Any
) -> None:
    theirs, by_arrow, by_spark = twins(tmp_path)
    delta_spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{theirs}` t USING "
        f"parquet.`{tmp_path / 'wide.parquet'}` s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    for merge in (
        da.merge(by_arrow, WIDE, "target.id = source.id", merge_schema=True),
        ds.merge(by_spark, wide_frame, "target.id = source.id", merge_schema=True),
    ):
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    for table in (by_arrow, by_spark):
        assert schema_of(table) == schema_of(theirs)
        assert by_id(table) == by_id(theirs)
    assert [row["i"] for row in by_id(theirs)] == [7, BIG, BIG]


def test_a_type_stays_unless_the_table_and_the_call_allow_widening(
    tmp_path: Path, wide_frame: Any
) -> None:
    table, _, plain = twins(tmp_path)
    shutil.rmtree(plain)
    da.write(plain, NARROW)
    before = schema_of(plain)
    for target, merge_schema in ((table, False), (plain, True)):
        with pytest.raises(InvalidRequestError, match=r"column 'i' is int32 .* does not fit"):
            da.write(target, WIDE, merge_schema=merge_schema)
        with pytest.raises(InvalidRequestError, match=r"column 'i' is integer .* does not fit"):
            ds.write(wide_frame.drop("s"), target, merge_schema=merge_schema)
    assert schema_of(plain) == before
    checked = {**WIDENING, "delta.constraints.small": "i < 100"}
    used = tmp_path / "used"
    da.write(used, NARROW, configuration=checked)
    with pytest.raises(InvalidRequestError, match="column 'i' is int32"):
        da.write(used, WIDE, merge_schema=True)
    narrow = rows([5], pa.int8(), pa.float32(), pa.decimal128(3, 1))
    da.write(table, narrow, merge_schema=True)
    assert schema_of(table) == before
