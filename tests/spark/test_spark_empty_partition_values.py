"""An empty partition value is null in Spark too; see tests/arrow for each rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.ddl import add_constraint, create_table
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from tests.spark.frames import files_under, rows_of
from tests.support.tables import rows

pytestmark = pytest.mark.spark

EMPTY_AND_FILLED = pa.table({"id": [1, 2], "p": ["", "a"]})
NULL_AND_FILLED = [{"id": 1, "p": None}, {"id": 2, "p": "a"}]


@pytest.mark.full
def test_an_empty_text_of_deltalake_is_read_and_chosen_as_null(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    write_deltalake(tmp_path, EMPTY_AND_FILLED, partition_by=["p"])
    read = ds.read(spark, tmp_path)
    assert rows_of(read) == NULL_AND_FILLED
    assert read.filter("p = ''").count() == 0
    assert rows_of(ds.read(spark, tmp_path, predicate=col("p").is_null())) == NULL_AND_FILLED[:1]
    ds.delete(spark, tmp_path, "p = ''")
    ds.update(spark, tmp_path, {"id": "id + 6"}, "p IS NULL")
    assert rows_of(ds.read(spark, tmp_path)) == [NULL_AND_FILLED[1], {"id": 7, "p": None}]


@pytest.mark.full
def test_rules_and_generated_columns_see_null(spark: SparkSession, tmp_path: Path) -> None:
    made = {"g": "coalesce(p, 'none')", "q": "substring(s, 1, 1)"}
    generated = [
        StructField(name, STRING, metadata={"delta.generationExpression": text})
        for name, text in made.items()
    ]
    fields = (StructField("id", LONG), StructField("p", STRING), StructField("s", STRING))
    create_table(tmp_path, StructType((*fields, *generated)), partition_by=["p", "q"])
    add_constraint(tmp_path, "c", "id < 3 OR p IS NOT NULL")
    frame = spark.sql("SELECT 1L AS id, '' AS p, '' AS s")
    null = {"p": None, "s": "", "g": "none", "q": None}
    ds.write(frame, tmp_path)
    ds.write(frame, tmp_path, "overwrite", replace_where=col("p").is_null())
    ds.write(spark.sql("SELECT 2L AS id, 'a' AS p, 'b' AS s"), tmp_path)
    ds.update(spark, tmp_path, {"p": "''", "s": "''"}, "id = 2")
    assert rows_of(ds.read(spark, tmp_path)) == [{"id": 1, **null}, {"id": 2, **null}]
    with pytest.raises(InvalidRequestError, match=r"id < 3 OR p IS NOT NULL\) is not true"):
        ds.update(spark, tmp_path, {"id": "3", "p": "''"}, "id = 2")
    with pytest.raises(InvalidRequestError, match=r"outside of the replaced rows.*'p' is null"):
        ds.write(frame, tmp_path, "overwrite", replace_where=col("p") == "")


def test_a_merge_never_inserts_a_row_that_its_own_key_would_not_meet(
    spark: SparkSession, tmp_path: Path
) -> None:
    da.write(tmp_path, EMPTY_AND_FILLED, partition_by=["p"])
    before = files_under(tmp_path)
    frame = spark.createDataFrame(EMPTY_AND_FILLED)
    merge = ds.merge(tmp_path, frame, "target.p = source.p AND target.id = source.id")
    upsert = merge.when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(InvalidRequestError, match="rows with an empty p, which partition col"):
        upsert.execute()
    assert files_under(tmp_path) == before
    merge.when_not_matched_insert_all("source.p <> ''").execute()
    by_id = ds.merge(tmp_path, frame, "target.id = source.id").when_matched_update_all()
    by_id.when_not_matched_insert_all().execute()
    assert rows(da.to_table(tmp_path)) == NULL_AND_FILLED


BY_FUNCTION = "lower(target.p) = lower(source.p) AND target.id = source.id"
MEETING: dict[str, Callable[[], Any]] = {
    "of equal keys and more": lambda: BY_FUNCTION,
    "that only Spark understands": lambda: (
        "soundex(target.p) = soundex(source.p) AND target.id <=> source.id"
    ),
    "of columns": lambda: (
        sf.col("target.id").eqNullSafe(sf.col("source.id"))
        & (sf.collate("target.p", "UTF8_LCASE") == sf.collate("source.p", "UTF8_LCASE"))
    ),
    "without aliases": lambda: "id = n AND concat(p, '') <=> concat(q, '')",
}
"""Conditions that match two empty texts, but not two nulls."""


@pytest.mark.full
@pytest.mark.parametrize("message", MEETING)
def test_a_row_is_not_inserted_that_would_meet_its_source_if_it_were_not_null(
    spark: SparkSession, tmp_path: Path, message: str
) -> None:
    da.write(tmp_path, EMPTY_AND_FILLED, partition_by=["p"])
    before = files_under(tmp_path)
    names = ("n", "q") if message == "without aliases" else ("id", "p")
    frame = spark.createDataFrame(EMPTY_AND_FILLED).toDF(*names)
    values = {"id": f"source.{names[0]}", "p": f"source.{names[1]}"}
    upsert = ds.merge(tmp_path, frame, MEETING[message]()).when_not_matched_insert(values)
    with pytest.raises(InvalidRequestError, match="rows with an empty p, which partition col"):
        upsert.execute()
    assert files_under(tmp_path) == before


@pytest.mark.full
@pytest.mark.parametrize(
    "condition",
    [
        "coalesce(target.p, '') = coalesce(source.p, '') AND target.id = source.id",
        "target.id = source.id AND soundex('a') = soundex('a')",
        "target.id = source.id AND lower(target.p) = 'b'",
        "lower(target.p) = lower(source.p) AND target.id = source.id AND source.p = 'b'",
    ],
)
def test_an_empty_text_is_inserted_where_the_condition_does_not_turn_on_it(
    spark: SparkSession, tmp_path: Path, condition: str
) -> None:
    da.write(tmp_path, EMPTY_AND_FILLED.slice(1), partition_by=["p"])
    frame = spark.createDataFrame(EMPTY_AND_FILLED.slice(0, 1))
    ds.merge(tmp_path, frame, condition).when_not_matched_insert_all().execute()
    assert rows(da.to_table(tmp_path)) == NULL_AND_FILLED


@pytest.mark.full
@pytest.mark.parametrize("nullable", [True, False], ids=["nullable", "NOT NULL"])
def test_an_empty_text_of_a_char_partition_is_its_spaces(
    spark: SparkSession, tmp_path: Path, *, nullable: bool
) -> None:
    char = StructField("p", STRING, nullable, {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
    create_table(tmp_path, StructType((StructField("id", LONG), char)), partition_by=["p"])
    frame = spark.createDataFrame(EMPTY_AND_FILLED)
    ds.write(frame, tmp_path)
    da.write(tmp_path, pa.table({"id": [3], "p": [""]}))
    da.update(tmp_path, {"p": "''"}, "id = 2")
    ds.write(spark.sql("SELECT 4L AS id, 'a' AS p"), tmp_path)
    ds.update(spark, tmp_path, {"p": "''"}, "id = 4")
    spaces = [{"id": number, "p": "   "} for number in (1, 2, 3, 4)]
    assert rows_of(ds.read(spark, tmp_path)) == rows(da.to_table(tmp_path)) == spaces
    assert rows(da.to_table(tmp_path, predicate=col("p") == "")) == spaces
    assert rows_of(ds.read(spark, tmp_path, predicate=col("p") == "")) == spaces
    files = DeltaLog(tmp_path).snapshot().add_files()
    assert {each.partition_values["p"] for each in files} == {"   "}
    merges = [
        da.merge(tmp_path, EMPTY_AND_FILLED, "target.p = source.p AND target.id = source.id"),
        ds.merge(tmp_path, frame, "target.p = source.p AND target.id = source.id"),
        ds.merge(tmp_path, frame, BY_FUNCTION),
    ]
    for each in merges:
        with pytest.raises(InvalidRequestError, match=r"CHAR.*such rows never match"):
            each.when_not_matched_insert_all().execute()


@pytest.mark.parametrize("is_first", [True, pytest.param(False, marks=pytest.mark.full)])
def test_a_stream_refuses_a_batch_with_an_empty_key(
    spark: SparkSession, tmp_path: Path, *, is_first: bool
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    batches = [EMPTY_AND_FILLED] if is_first else [EMPTY_AND_FILLED.slice(1), EMPTY_AND_FILLED]
    options: dict[str, Any] = {"output_mode": "update", "keys": ["p", "id"], "partition_by": ["p"]}
    for batch in batches[:-1]:
        da.write(source, batch)
        run(spark, source, target, **options)
    da.write(source, batches[-1])
    with pytest.raises(StreamingQueryException, match=r"partition column p is empty.*\(rows: 1\)"):
        run(spark, source, target, **options)
    assert DeltaLog(target).exists() is not is_first


def run(spark: SparkSession, source: Path, target: Path, **options: Any) -> None:
    place, stream = str(target) + "_checkpoint", ds.read_stream(spark, source)
    query = ds.write_stream(
        stream, target, checkpoint_location=place, available_now=True, **options
    )
    query.awaitTermination()
