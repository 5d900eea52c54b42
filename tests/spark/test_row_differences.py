"""`ds.diff_rows` finds the rows that only one of two versions has."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, UnknownColumnError
from tests.support.tiers import seeded

pytestmark = pytest.mark.spark
ODD = pa.schema(
    {
        "id": pa.int64(),
        "a.b`c": pa.string(),
        "x": pa.float64(),
        "f": pa.float32(),
        "n": pa.struct({"x": pa.float64(), "l": pa.list_(pa.float32())}),
        "d": pa.decimal128(10, 2),
        "t": pa.timestamp("us", "UTC"),
        "b": pa.binary(),
    }
)


def odd_row(drawn: random.Random) -> dict[str, Any]:
    """A row of a few values, so that many rows are alike."""
    floats = [None, math.nan, 0.0, -0.0, 1.5]
    return {
        "id": drawn.choice([1, 2]),
        "a.b`c": drawn.choice([None, "", "é"]),
        "x": drawn.choice(floats),
        "f": drawn.choice(floats),
        "n": drawn.choice([None, {"x": drawn.choice(floats), "l": [drawn.choice(floats)]}]),
        "d": drawn.choice([None, Decimal("-0.10")]),
        "t": drawn.choice([None, datetime(1500, 1, 1, tzinfo=UTC)]),
        "b": drawn.choice([None, b""]),
    }


def counted(rows: pa.Table) -> Counter[str]:
    """The rows, without a difference between 0.0 and -0.0."""
    return Counter(repr(each).replace("-0.0", "0.0") for each in rows.to_pylist())


def both(spark: SparkSession, *versions: Any, **options: Any) -> Counter[str]:
    """The differing rows, which both engines find."""
    by_spark = ds.diff_rows(spark, *versions, **options).toArrow()
    by_arrow = da.diff_rows(*versions, **options)
    found = by_spark.cast(by_arrow.schema)
    assert counted(found) == counted(by_arrow)
    return counted(found)


def test_both_engines_find_the_rows_in_which_versions_differ(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = {"id": [1, 2, 2, 3], "s": ["a", "b", "b", None], "x": [0.5, math.nan, 1.0, -0.0]}
    da.write(tmp_path, pa.table(rows), configuration={"delta.enableDeletionVectors": "true"})
    log = DeltaLog(tmp_path)
    da.delete(log, "id = 1")
    da.update(log, {"s": "'c'"}, "x = 1.0")
    da.write(log, pa.table({"id": [4], "s": ["d"], "x": [2.0], "new": [1]}), merge_schema=True)
    assert both(spark, log.snapshot(2), log.snapshot(2)) == Counter()
    for old, new in [(0, 2), (2, 3), (3, 0)]:
        for options in ({}, {"columns": ["s", "id"]}, {"predicate": "id > 1"}):
            assert both(spark, log.snapshot(old), log.snapshot(new), **options), (old, new)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_both_engines_compare_odd_values_alike(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    drawn = seeded(seed)
    for number in range(2):
        rows = pa.Table.from_pylist([odd_row(drawn) for _ in range(400)], ODD)
        da.write(tmp_path / str(number), rows)
    for columns in (None, ["x"], ["n"], ["a.b`c", "t"]):
        both(spark, tmp_path / "0", tmp_path / "1", columns=columns)
    assert both(spark, tmp_path / "0", tmp_path / "1")


@pytest.mark.full
def test_nulls_nans_and_zeros_of_both_signs_do_not_differ(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, zero in [("old", 0.0), ("new", -0.0)]:
        values = [None, math.nan, zero]
        nested = [{"l": [each]} for each in values]
        da.write(tmp_path / name, pa.table({"x": values, "n": nested}))
    assert both(spark, tmp_path / "old", tmp_path / "new") == Counter()


def test_a_column_that_spark_cannot_compare_is_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    da.write(tmp_path / "a", pa.table({"id": [1], "x": ["1"]}))
    da.write(tmp_path / "b", pa.table({"id": [1], "x": [[1]]}))
    with pytest.raises(InvalidRequestError, match="leave the column out with columns"):
        ds.diff_rows(spark, tmp_path / "a", tmp_path / "b")
    assert ds.diff_rows(spark, tmp_path / "a", tmp_path / "b", ["id"]).count() == 0
    with pytest.raises(UnknownColumnError, match="no version has the column 'no'"):
        ds.diff_rows(spark, tmp_path / "a", tmp_path / "b", ["no"])
