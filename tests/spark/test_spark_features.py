"""Tables with reader features in Spark: read natively, or rejected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import DataFileError, DeltaOpsError, InvalidRequestError
from delta_ops.protocol.schema import (
    LONG,
    VARIANT,
    ArrayType,
    StructField,
    StructType,
)
from delta_ops.protocol.variant import field_names
from tests.arrow.foreign_table import data_file, inline_vector, stored_vector, vector_file
from tests.spark import made_tables
from tests.spark.conftest import switch_off_file_index
from tests.spark.frames import plan_of, rows_of
from tests.spark.made_tables import create
from tests.support import variants
from tests.support.variants import dictionary, encode

pytestmark = pytest.mark.spark

IDS = "spark.sql.parquet.fieldId.read.enabled"


def test_a_scan_with_vectors_stays_native(tmp_path: Path, spark: SparkSession) -> None:
    plain = data_file(
        tmp_path, "plain.parquet", made_tables.numbers(0, 10), partition_values={"p": "x"}
    )
    other = data_file(
        tmp_path, "other.parquet", made_tables.numbers(10, 10), partition_values={"p": "x"}
    )
    log = create(
        tmp_path,
        made_tables.NUMBERS,
        [plain, replace(other, deletion_vector=inline_vector([0, 3]))],
        partition_by=("p",),
    )
    frame = ds.read(spark, log, ["p"], col("n") > 2)
    plan = plan_of(frame)
    assert plan.count("GreaterThan(n,2)") >= 2
    assert plan.count("ReadSchema: struct<n:bigint") >= 1
    assert "Python" not in plan
    assert "SortMergeJoin" not in plan
    assert frame.count() == 15


@pytest.mark.parametrize("deleted", [None, [1]], ids=["", "with a vector"])
def test_fields_of_structs_are_read_and_compared_alone(
    tmp_path: Path, spark: SparkSession, deleted: list[int] | None
) -> None:
    point = StructType((StructField("x", LONG), StructField("y", LONG)))
    schema = StructType((StructField("s", point), StructField("l", ArrayType(point))))
    one = {"x": 1, "y": 2}
    data = pa.table({"s": [one, None], "l": [[one], None]})
    vector = None if deleted is None else inline_vector(deleted)
    log = create(tmp_path, schema, [data_file(tmp_path, "f", data, deletion_vector=vector)])
    plan = plan_of(ds.read(spark, log, predicate=col("s", "x") > 0).select("s.x", "l.y"))
    assert "GreaterThan(s.x,0)" in plan
    assert "ReadSchema: struct<s:struct<x:bigint>,l:array<struct<y:bigint>>" in plan
    assert not [each for each in ("Python", "InArrow", "InPandas") if each in plan]


def test_a_vector_that_is_gone_is_an_error_before_any_row(
    tmp_path: Path, spark: SparkSession
) -> None:
    add = data_file(tmp_path, "f.parquet", made_tables.numbers(0, 10), partition_values={"p": "x"})
    vector = stored_vector(tmp_path, [1])
    log = create(
        tmp_path, made_tables.NUMBERS, [replace(add, deletion_vector=vector)], partition_by=("p",)
    )
    vector_file(tmp_path).unlink()
    with pytest.raises(DataFileError, match="has a deletion vector that is missing"):
        ds.read(spark, log)


def test_columns_that_go_by_ids_need_a_setting_where_files_are_listed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off_file_index(monkeypatch)
    log = made_tables.mapped_columns(tmp_path, "id").log
    with pytest.raises(InvalidRequestError, match=f"set {IDS} to true"):
        ds.read(spark, log)


def test_a_field_of_no_type_is_null_at_every_depth(tmp_path: Path, spark: SparkSession) -> None:
    log = made_tables.columns_of_no_type(tmp_path, deletion_vector=None).log
    first, *_ = rows_of(ds.read(spark, log))
    void = {"a": 1, "n": None, "b": 2}
    assert (first["v"], first["s"], first["l"]) == (None, void, [void, None])
    assert (first["m"], first["only"]) == ([("k", {"s": void}), ("l", None)], None)
    mapped = made_tables.mapped_fields_of_no_type(tmp_path / "mapped", "name").log
    assert rows_of(ds.read(spark, mapped))[0]["place"] == {"x": 2, "y": 1, "nothing": None}


@pytest.fixture
def shredded(tmp_path: Path) -> DeltaLog:
    """Variants with shredded numbers and two shredded object fields."""
    known = field_names(dictionary(["a", "b", "c"]))
    names = dictionary(["a", "b", "c"])
    number = [variants.row(5), variants.row(None, encode("x", known), names), None]
    of_fields = variants.fields(a=pa.int64(), b=pa.string())
    whole = {"a": {"value": None, "typed_value": 1}, "b": {"value": None, "typed_value": "é"}}
    part = {
        "a": {"value": encode([None, True], known), "typed_value": None},
        "b": {"value": None, "typed_value": None},
    }
    objects = [
        variants.row(whole, None, names),
        variants.row(part, encode({"c": 1.5}, known), names),
        variants.row(None, encode(7, known), names),
    ]
    stored = pa.table(
        {
            "v": pa.array(number, variants.shredded_type(pa.int64())),
            "o": pa.array(objects, variants.shredded_type(of_fields)),
        }
    )
    schema = StructType((StructField("v", VARIANT), StructField("o", VARIANT)))
    return variants.write(tmp_path, stored, schema)


VALUES = [
    [5, {"a": 1, "b": "é"}],
    ["x", {"a": [None, True], "c": 1.5}],
    [None, 7],
]


def values_of(found: list[dict[str, Any]]) -> list[Any]:
    """The variants' values, as JSON has them."""
    return [
        [each and variants.decode(each["value"], each["metadata"]) for each in row.values()]
        for row in found
    ]


def test_shredded_variants_say_what_they_say_by_arrow(
    shredded: DeltaLog, spark: SparkSession, way: str
) -> None:
    key = repr
    assert sorted(values_of(da.to_table(shredded).to_pylist()), key=key) == sorted(VALUES, key=key)
    assert sorted(values_of(rows_of(ds.read(spark, shredded))), key=key) == sorted(VALUES, key=key)
    field = ds.read(spark, shredded).selectExpr("try_variant_get(o, '$.a', 'int') AS a")
    assert {row["a"] for row in rows_of(field)} == {1, None}


def test_a_session_that_would_miss_parts_of_variants_is_refused(
    shredded: DeltaLog, spark: SparkSession
) -> None:
    setting = "spark.sql.variant.allowReadingShredded"
    spark.conf.set(setting, "false")
    try:
        with pytest.raises(InvalidRequestError, match=f"set {setting} to true"):
            ds.read(spark, shredded)
    finally:
        spark.conf.unset(setting)


def test_a_mapped_column_is_pushed_down(tmp_path: Path, spark: SparkSession) -> None:
    add = data_file(
        tmp_path, "f.parquet", made_tables.stored({}), partition_values={"col-part": "x"}
    )
    configuration = {"delta.columnMapping.mode": "name"}
    log = create(tmp_path, made_tables.MAPPED, [add], configuration, partition_by=("part",))
    plan = plan_of(ds.read(spark, log, ["b"], col("b") > 10))
    assert "GreaterThan(a,10)" in plan
    assert "ReadSchema: struct<a:bigint>" in plan
    assert "Python" not in plan


def test_a_file_without_ids_is_refused_where_columns_go_by_id(
    tmp_path: Path, spark: SparkSession
) -> None:
    add = data_file(tmp_path, "f.parquet", pa.table({"b": [1]}), partition_values={"col-part": "x"})
    configuration = {"delta.columnMapping.mode": "id"}
    log = create(tmp_path, made_tables.MAPPED, [add], configuration, partition_by=("part",))
    with pytest.raises(DeltaOpsError, match="no ids"):
        da.to_table(log)
    with pytest.raises(Exception, match=r"(?i)field.?ids"):
        ds.read(spark, log).collect()
