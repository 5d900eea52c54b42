"""CHAR and VARCHAR columns in Spark: compared with padding, and limited to their length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from delta_ops.spark.schema import spark_schema_from_schema
from tests.support.limited_texts import FULL, LENGTHS, LONGER, create_limited, rows_of


@pytest.fixture
def limited(tmp_path: Path) -> DeltaLog:
    return create_limited(tmp_path)


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    values = [
        tuple(dict(each) if name == "m" and each else each for name, each in row.items())
        for row in rows.to_pylist()
    ]
    return spark.createDataFrame(values, spark_schema_from_schema(LENGTHS))


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path == "l.element" else pytest.mark.full) for path in LONGER],
)
def test_a_longer_value_than_the_type_allows_is_refused(
    spark: SparkSession, limited: DeltaLog, path: str
) -> None:
    column, value = path.partition(".")[0], LONGER[path]
    before = da.to_table(limited)
    longer = frame_of(spark, rows_of({**FULL, "id": 3}, {"id": 4, column: value}))
    merged = frame_of(spark, rows_of({"id": 2, column: value}))
    expected = rf"column {path} holds at most 3 characters, .*rows: 1"
    with pytest.raises(InvalidRequestError, match=expected):
        ds.write(longer, limited)
    with pytest.raises(InvalidRequestError, match=expected):
        ds.merge(
            limited, longer, "t.id = s.id", target_alias="t", source_alias="s"
        ).when_not_matched_insert_all().execute()
    with pytest.raises(InvalidRequestError, match=expected):
        ds.merge(
            limited, merged, "t.id = s.id", target_alias="t", source_alias="s"
        ).when_matched_update_all().execute()
    assert limited.snapshot().version == 1
    assert da.to_table(limited).equals(before)


@pytest.mark.full
def test_an_update_to_a_longer_value_is_refused(spark: SparkSession, limited: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match="column v holds at most 3 characters"):
        ds.update(spark, limited, {"v": "'abcd'"}, "id = 2")
    ds.update(spark, limited, {"v": "'éöü'", "c": "'a'"}, "id = 2")
    found = da.to_table(limited, ["c", "v"], col("id") == 2)
    assert found.to_pylist() == [{"c": "a  ", "v": "éöü"}]


@pytest.mark.full
@pytest.mark.parametrize("as_text", [True, pytest.param(False, marks=pytest.mark.full)])
def test_conditions_of_spark_compare_with_the_padding(
    spark: SparkSession, limited: DeltaLog, *, as_text: bool
) -> None:
    condition: Any = "c = 'éé'" if as_text else sf.col("c") == "éé"
    assert ds.read(spark, limited).filter(condition).count() == 1
    ds.update(spark, limited, {"v": "'new'"}, condition)
    assert da.to_table(limited, ["v"], col("id") == 1)["v"].to_pylist() == ["new"]
    source = frame_of(spark, rows_of({"id": 7, "c": "éé", "v": "mrg"}))
    matched = "t.c = 'éé' AND s.id = 7"
    merge = ds.merge(limited, source, matched, target_alias="t", source_alias="s")
    merge.when_matched_update({"v": "s.v"}).execute()
    assert da.to_table(limited, ["v"], col("id") == 1)["v"].to_pylist() == ["mrg"]
    ds.delete(spark, limited, condition)
    assert da.to_table(limited, ["id"])["id"].to_pylist() == [2]


def test_a_frame_says_the_type_in_sql(spark: SparkSession, limited: DeltaLog) -> None:
    described = ds.read(spark, limited).schema["c"]
    assert described.metadata == {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}


@pytest.mark.full
def test_a_merge_matches_a_key_only_with_its_padding(
    spark: SparkSession, limited: DeltaLog
) -> None:
    def upsert(key: str, on: str = "t.c = s.c") -> None:
        source = frame_of(spark, rows_of({"id": 7, "c": key, "v": "new"}))
        merge = ds.merge(limited, source, on, target_alias="t", source_alias="s")
        merge.when_matched_update({"v": "s.v"}).when_not_matched_insert_all().execute()

    upsert("éé ")
    assert da.to_table(limited, ["id"], col("v") == "new")["id"].to_pylist() == [1]
    with pytest.raises(InvalidRequestError, match=r"a shorter c than its .*spaces to 3 characters"):
        upsert("éé")
    for _ in range(2):
        upsert("b", "t.c = rpad(s.c, 3, ' ')")
    assert da.to_table(limited, ["c"], col("id") == 7)["c"].to_pylist() == ["b  "]
