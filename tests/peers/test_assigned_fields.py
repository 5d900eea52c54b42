"""Assignments to struct fields: the same statements in delta-spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.expression import parse_expression
from tests.peers.delta_spark import DeltaSpark

INNER = pa.struct([("c", pa.string()), ("d.e", pa.float64())])
STRUCT = pa.struct([("a", pa.int32()), ("b", INNER)])
VALUES = [
    {"a": 1, "b": {"c": "x", "d.e": 1.5}},
    {"a": 2, "b": None},
    None,
    {"a": None, "b": {"c": None, "d.e": 2.0}},
]
SOURCE = pa.table({"id": [1, 3, 9], "v": ["one", "three", "nine"]})

UPDATES: dict[str, dict[str, str]] = {
    "a field": {"s.a": "s.a + 1"},
    "two fields at two depths": {"s.a": "id", "s.b.c": "upper(s.b.c)"},
    "a name in backticks": {"`s`.`b`.`d.e`": "7.5D"},
    "in other letters": {"S.B.C": "'new'", "ID": "id + 10"},
    "null": {"s.a": "NULL"},
    "a whole struct within": {"s.b": "NULL"},
}


def make_tables(root: Path, *names: str) -> list[Path]:
    """Copies of one table."""
    first, *others = (root / name for name in names)
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "s": pa.array(VALUES, STRUCT)})
    da.write(first, rows)
    for each in others:
        shutil.copytree(first, each)
    return [first, *others]


def by_id(table: Path) -> list[dict[str, Any]]:
    return list(da.to_table(table).sort_by("id").to_pylist())


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "two fields at two depths" else pytest.mark.full)
        for name in UPDATES
    ],
)
def test_an_update_of_fields_is_that_of_delta_spark(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path, name: str
) -> None:
    theirs, by_arrow, by_spark = make_tables(tmp_path, "theirs", "arrow", "spark")
    recorded = ", ".join(f"{column} = {value}" for column, value in UPDATES[name].items())
    delta_spark.sql(f"UPDATE delta.`{theirs}` SET {recorded} WHERE id <> 4")
    da.update(by_arrow, UPDATES[name], parse_expression("id <> 4"))
    ds.update(spark, by_spark, UPDATES[name], "id <> 4")
    assert by_id(by_arrow) == by_id(theirs)
    assert by_id(by_spark) == by_id(theirs)


@pytest.mark.full
def test_a_merge_of_fields_is_that_of_delta_spark(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path
) -> None:
    theirs, by_arrow, by_spark = make_tables(tmp_path, "theirs", "arrow", "spark")
    delta_spark.sql(
        f"MERGE INTO delta.`{theirs}` t USING (SELECT * FROM VALUES (1, 'one'), (3, 'three'), "
        "(9, 'nine') AS x(id, v)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.s.b.c = s.v, "
        "s.a = t.s.a + 5 WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.s.b.`d.e` = 0.5D"
    )
    matched = {"t.s.b.c": "x.v", "s.a": "t.s.a + 5"}
    others = {"t.s.b.`d.e`": "0.5D"}
    frame = spark.createDataFrame(SOURCE.to_pylist(), "id long, v string")
    merges: list[Callable[..., Any]] = [
        lambda **aliases: da.merge(by_arrow, SOURCE, "t.id = x.id", **aliases),
        lambda **aliases: ds.merge(by_spark, frame, "t.id = x.id", **aliases),
    ]
    for begin_merge in merges:
        merge = begin_merge(target_alias="t", source_alias="x")
        merge.when_matched_update(matched).when_not_matched_by_source_update(others).execute()
    assert by_id(by_arrow) == by_id(theirs)
    assert by_id(by_spark) == by_id(theirs)


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ({"s.a": "1", "s": "NULL"}, "column s is set twice"),
        ({"s.b": "NULL", "s.b.c": "'x'"}, "column s.b is set twice"),
        ({"s.a": "1", "S.A": "2"}, "column s.a is set twice"),
        ({"s.nope": "1"}, "no column nope"),
        ({"id.x": "1"}, "has no field x"),
        ({"s.a": "'x'"}, "cast it"),
    ],
)
def test_fields_that_cannot_be_assigned_are_refused(
    spark: SparkSession, tmp_path: Path, updates: dict[str, str], message: str
) -> None:
    (table,) = make_tables(tmp_path, "t")
    with pytest.raises(InvalidRequestError, match=message):
        da.update(table, updates)
    with pytest.raises(InvalidRequestError, match=message):
        ds.update(spark, table, updates)
    insert = da.merge(table, SOURCE, "target.id = source.id")
    with pytest.raises(InvalidRequestError, match="an insert sets only whole columns"):
        insert.when_not_matched_insert({"s.a": "1"}).execute()
