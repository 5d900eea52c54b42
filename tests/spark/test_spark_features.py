"""Tables with features of readers as Spark reads them: the same rows as by Arrow, natively."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
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
    STRING,
    VARIANT,
    VOID,
    ArrayType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.variant import field_names
from tests.arrow import foreign_table
from tests.arrow.foreign_table import data_file, inline_vector, stored_vector, vector_file
from tests.spark.frames import plan_of, rows_of
from tests.support import variants
from tests.support.tables import rows
from tests.support.tiers import seeded
from tests.support.variants import dictionary, encode

pytestmark = pytest.mark.spark

create = partial(
    foreign_table.create, features=("columnMapping", "deletionVectors", "typeWidening")
)
IDS = "spark.sql.parquet.fieldId.read.enabled"
N = StructType((StructField("n", LONG), StructField("p", STRING)))


def assert_as_by_arrow(spark: SparkSession, log: DeltaLog) -> None:
    by_arrow = da.to_table(log)
    by_spark = ds.read(spark, log)
    assert by_spark.columns == by_arrow.column_names
    assert sorted(map(repr, rows_of(by_spark))) == sorted(map(repr, rows(by_arrow)))


def numbers(first: int, count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(first, first + count), pa.int64())})


@pytest.mark.parametrize("seed", range(3))
def test_deleted_rows_are_those_of_the_vectors(
    tmp_path: Path, spark: SparkSession, way: str, seed: int
) -> None:
    drawn = seeded(seed)
    adds = []
    for number, count in enumerate((1, 70, 32_768, 32_769, 100_000, 5)):
        share = drawn.choice((0.0, 0.001, 0.3, 1.0))
        deleted = [row for row in range(count) if drawn.random() < share]
        add = data_file(
            tmp_path,
            f"f{number}.parquet",
            numbers(number << 20, count),
            partition_values={"p": drawn.choice(("x", "y z", None))},
            options={"row_group_size": 9_000},
        )
        vector = stored_vector(tmp_path, deleted) if number % 2 else inline_vector(deleted)
        adds.append(replace(add, deletion_vector=vector) if deleted else add)
    log = create(tmp_path, N, adds, partition_by=("p",))
    assert_as_by_arrow(spark, log)
    kept = col("n") >= 4 << 20
    assert ds.read(spark, log, predicate=kept).count() == da.count_rows(log, kept)
    assert ds.read(spark, log, ["p"]).count() == da.count_rows(log)


def test_more_files_have_vectors_than_a_map_of_paths_holds(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    adds = [
        data_file(
            tmp_path,
            f"{number}.parquet",
            numbers(10 * number, 3),
            partition_values={"p": str(number)},
            deletion_vector=inline_vector([number % 3]),
        )
        for number in range(70)
    ]
    assert_as_by_arrow(spark, create(tmp_path, N, adds, partition_by=("p",)))


@pytest.mark.parametrize("vectors", [[[1], [], [0, 2], []], [[]]], ids=["beside others", "alone"])
def test_a_vector_that_deletes_nothing_does_not_hide_those_after_it(
    tmp_path: Path, spark: SparkSession, way: str, vectors: list[list[int]]
) -> None:
    adds = [
        data_file(
            tmp_path,
            f"{number}.parquet",
            numbers(10 * number, 3),
            partition_values={"p": "x"},
            deletion_vector=inline_vector(deleted),
        )
        for number, deleted in enumerate(vectors)
    ]
    assert_as_by_arrow(spark, create(tmp_path, N, adds, partition_by=("p",)))


def test_a_column_of_the_name_of_sparks_own_does_not_tell_the_rows(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    row = StructType((StructField("row_index", LONG), StructField("file_path", STRING)))
    data = pa.table({"_metadata": [{"row_index": 2 - i, "file_path": "x"} for i in range(3)]})
    vector = inline_vector([0])
    add = data_file(
        tmp_path, "f.parquet", data, partition_values={"p": "y"}, deletion_vector=vector
    )
    schema = StructType((StructField("_metadata", row), StructField("p", STRING)))
    assert_as_by_arrow(spark, create(tmp_path, schema, [add], partition_by=("p",)))


def test_a_scan_with_vectors_stays_native(tmp_path: Path, spark: SparkSession) -> None:
    plain = data_file(tmp_path, "plain.parquet", numbers(0, 10), partition_values={"p": "x"})
    other = data_file(tmp_path, "other.parquet", numbers(10, 10), partition_values={"p": "x"})
    log = create(
        tmp_path,
        N,
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
    add = data_file(tmp_path, "f.parquet", numbers(0, 10), partition_values={"p": "x"})
    vector = stored_vector(tmp_path, [1])
    log = create(tmp_path, N, [replace(add, deletion_vector=vector)], partition_by=("p",))
    vector_file(tmp_path).unlink()
    with pytest.raises(DataFileError, match="has a deletion vector that is gone"):
        ds.read(spark, log)


def mapped(name: str, physical: str, number: int, data_type: object = LONG) -> StructField:
    return StructField(
        name,
        data_type,  # type: ignore[arg-type]
        True,
        {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical},
    )


POINT = StructType((mapped("x", "col-x", 11), mapped("y", "col-y", 12)))
MAPPED = StructType(
    (
        mapped("a", "b", 1),  # each has the other's name in files
        mapped("b", "a", 2),
        mapped("point", "col-p", 3, POINT),
        mapped("points", "col-ps", 4, ArrayType(POINT, True)),
        mapped("by name", "col-m", 5, MapType(STRING, POINT, True)),
        mapped("part", "col-part", 6, STRING),
    )
)
STORED_POINT = pa.struct(
    [
        pa.field("col-y", pa.int64(), metadata={"PARQUET:field_id": "12"}),
        pa.field("col-x", pa.int64(), metadata={"PARQUET:field_id": "11"}),
    ]
)


def stored(names: dict[str, str]) -> pa.Table:
    """Rows with ids in all columns, which are called as `names` says."""
    types = {
        "b": (1, pa.int64(), [1, 2, None]),
        "a": (2, pa.int64(), [10, 20, 30]),
        "col-p": (3, STORED_POINT, [{"col-y": 1, "col-x": 2}, None, {"col-y": None, "col-x": 3}]),
        "col-ps": (4, pa.list_(STORED_POINT), [[{"col-y": 1, "col-x": 2}, None], [], None]),
        "col-m": (
            5,
            pa.map_(pa.string(), STORED_POINT),
            [[("k", {"col-y": 1, "col-x": 2})], [], None],
        ),
    }
    fields = [
        pa.field(names.get(name, name), data_type, metadata={"PARQUET:field_id": str(number)})
        for name, (number, data_type, _) in types.items()
    ]
    arrays = [pa.array(values, data_type) for _, data_type, values in types.values()]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_found_by_what_files_call_them(
    tmp_path: Path, spark: SparkSession, way: str, mode: str
) -> None:
    # By id another program may have called its columns as it likes.
    names = {"a": "b", "b": "a", "col-p": "odd"} if mode == "id" else {}
    add = data_file(tmp_path, "f.parquet", stored(names), partition_values={"col-part": "north"})
    vector = inline_vector([1])
    late = data_file(
        tmp_path,
        "late.parquet",
        stored({}).select(["a"]),
        partition_values={"col-part": None},
        deletion_vector=vector,
    )
    configuration = {"delta.columnMapping.mode": mode}
    log = create(tmp_path, MAPPED, [add, late], configuration, partition_by=("part",))
    if mode == "id" and way == "file list":
        with pytest.raises(InvalidRequestError, match=f"set {IDS} to true"):
            ds.read(spark, log)
        spark.conf.set(IDS, "true")
    try:
        assert_as_by_arrow(spark, log)
        for predicate in (col("a") == 1, col("b") == 1, col("part") == "north"):
            found = ds.read(spark, log, predicate=predicate)
            assert found.count() == da.count_rows(log, predicate)
    finally:
        spark.conf.unset(IDS)


ONLY_VOID = StructType((StructField("n", VOID),))
WITH_VOID = StructType((StructField("a", LONG), StructField("n", VOID), StructField("b", LONG)))
VOIDS = StructType(
    (
        StructField("v", VOID),
        StructField("id", LONG),
        StructField("s", WITH_VOID),
        StructField("l", ArrayType(WITH_VOID)),
        StructField("m", MapType(STRING, StructType((StructField("s", WITH_VOID),)))),
        StructField("only", ONLY_VOID),
        StructField("p", VOID),
    )
)


@pytest.mark.parametrize("deleted", [None, [1]], ids=["", "with a vector"])
def test_a_column_of_no_type_is_null_at_every_depth(
    tmp_path: Path, spark: SparkSession, way: str, deleted: list[int] | None
) -> None:
    point = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    one = {"a": 1, "b": 2}
    stored = pa.table(
        {
            "id": [1, 2, 3],
            "s": pa.array([one, None, {"a": None, "b": None}], point),
            "l": pa.array([[one, None], [], None], pa.list_(point)),
            "m": pa.array(
                [[("k", {"s": one}), ("l", None)], [], None],
                pa.map_(pa.string(), pa.struct([("s", point)])),
            ),
        }
    )
    vector = None if deleted is None else inline_vector(deleted)
    add = data_file(
        tmp_path, "f.parquet", stored, partition_values={"p": None}, deletion_vector=vector
    )
    log = create(tmp_path, VOIDS, [add], partition_by=("p",))
    assert_as_by_arrow(spark, log)
    first, *_ = rows_of(ds.read(spark, log))
    void = {"a": 1, "n": None, "b": 2}
    assert (first["v"], first["s"], first["l"]) == (None, void, [void, None])
    assert (first["m"], first["only"]) == ([("k", {"s": void}), ("l", None)], None)
    assert ds.read(spark, log, ["v"], col("v").is_null()).count() == da.count_rows(log)
    kept = col("s", "a") == 1
    assert ds.read(spark, log, ["v", "id"], kept).count() == da.count_rows(log, kept) == 1


def test_a_table_of_columns_of_no_type_has_its_rows(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    schema = StructType((StructField("v", VOID), StructField("only", ONLY_VOID)))
    log = create(tmp_path, schema, [data_file(tmp_path, "f.parquet", numbers(0, 3))])
    assert_as_by_arrow(spark, log)
    assert ds.read(spark, log).count() == 3


@pytest.mark.parametrize("mode", ["name", "id"])
def test_fields_of_no_type_and_of_other_names_in_files(
    tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    place = StructType((*POINT.fields, mapped("nothing", "col-n", 13, VOID)))
    schema = StructType((mapped("b", "a", 2), mapped("place", "col-p", 3, place)))
    add = data_file(tmp_path, "f.parquet", stored({}))
    log = create(tmp_path, schema, [add], {"delta.columnMapping.mode": mode})
    assert_as_by_arrow(spark, log)
    assert rows_of(ds.read(spark, log))[0]["place"] == {"x": 2, "y": 1, "nothing": None}


@pytest.fixture
def shredded(tmp_path: Path) -> DeltaLog:
    """Variants of which numbers, and two fields of objects, have columns of their own."""
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


SAID = [
    [5, {"a": 1, "b": "é"}],
    ["x", {"a": [None, True], "c": 1.5}],
    [None, 7],
]


def say(found: list[dict[str, Any]]) -> list[Any]:
    """What the variants say, as JSON has it."""
    return [
        [each and variants.decode(each["value"], each["metadata"]) for each in row.values()]
        for row in found
    ]


def test_shredded_variants_say_what_they_say_by_arrow(
    shredded: DeltaLog, spark: SparkSession, way: str
) -> None:
    key = repr
    assert sorted(say(da.to_table(shredded).to_pylist()), key=key) == sorted(SAID, key=key)
    assert sorted(say(rows_of(ds.read(spark, shredded))), key=key) == sorted(SAID, key=key)
    field = ds.read(spark, shredded).selectExpr("try_variant_get(o, '$.a', 'int') AS a")
    assert {row["a"] for row in rows_of(field)} == {1, None}


def test_a_session_that_would_miss_parts_of_variants_is_told(
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
    add = data_file(tmp_path, "f.parquet", stored({}), partition_values={"col-part": "x"})
    configuration = {"delta.columnMapping.mode": "name"}
    log = create(tmp_path, MAPPED, [add], configuration, partition_by=("part",))
    plan = plan_of(ds.read(spark, log, ["b"], col("b") > 10))
    assert "GreaterThan(a,10)" in plan
    assert "ReadSchema: struct<a:bigint>" in plan
    assert "Python" not in plan


def test_a_file_without_ids_is_refused_where_columns_go_by_id(
    tmp_path: Path, spark: SparkSession
) -> None:
    add = data_file(tmp_path, "f.parquet", pa.table({"b": [1]}), partition_values={"col-part": "x"})
    configuration = {"delta.columnMapping.mode": "id"}
    log = create(tmp_path, MAPPED, [add], configuration, partition_by=("part",))
    with pytest.raises(DeltaOpsError, match="no ids"):
        da.to_table(log)
    with pytest.raises(Exception, match=r"(?i)field.?ids"):
        ds.read(spark, log).collect()
