"""File columns under the table's names."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops.arrow.read.file_columns import FileColumns
from delta_ops.protocol.schema import (
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DataType,
    StructField,
    StructType,
)


def mapped(name: str, physical: str, data_type: DataType, *, nullable: bool = True) -> StructField:
    """A column of a table with column mapping by name."""
    metadata = {"delta.columnMapping.physicalName": physical}
    return StructField(name, data_type, nullable, metadata)


def read(stored: pa.Array, column: StructField, mode: str = "name") -> list[Any]:
    """Read the stored column `c` as the given table column."""
    columns = FileColumns(schema=StructType((column,)), mode=mode)
    batch = pa.record_batch({"c": stored})
    (found,) = columns.converter(batch.schema)(batch.columns, len(batch))
    found.validate(full=True)
    values: list[Any] = found.to_pylist()
    return values


def test_a_struct_that_is_null_may_have_other_names_for_fields_that_are_not() -> None:
    inner = StructType((mapped("a", "col-1", INTEGER, nullable=False),))
    stored = pa.array(
        [{"col-1": 1}, None], pa.struct([pa.field("col-1", pa.int32(), nullable=False)])
    )
    assert read(stored, mapped("s", "c", inner)) == [{"a": 1}, None]


def test_a_field_that_is_gone_is_not_taken_for_one_that_has_its_name() -> None:
    inner = ArrayType(StructType((mapped("a", "col-2", INTEGER), mapped("b", "col-3", INTEGER))))
    stored = pa.array([[{"a": 1, "col-3": 2}]])
    assert read(stored, mapped("l", "c", inner)) == [[{"a": None, "b": 2}]]


@pytest.mark.parametrize("names", [("A", "a"), ("a", "A")])
def test_the_exact_name_wins_if_two_names_differ_only_in_case(
    names: tuple[str, str],
) -> None:
    inner = ArrayType(StructType((StructField("a", LONG),)))
    stored = pa.array([[{name: ord(name) for name in names}]])
    assert read(stored, StructField("c", inner), "none") == [[{"a": ord("a")}]]


def test_the_same_names_with_other_ids_are_other_columns() -> None:
    columns = FileColumns(
        schema=StructType((StructField("x", LONG, metadata={"delta.columnMapping.id": 1}),)),
        mode="id",
    )
    for number, expected in ((1, [5]), (2, [None]), (1, [5])):
        field = pa.field("c", pa.int64(), metadata={"PARQUET:field_id": str(number)})
        convert = columns.converter(pa.schema([field]))
        assert convert([pa.array([5])], 1)[0].to_pylist() == expected


def test_leaves_are_numbered_as_in_the_file() -> None:
    point = pa.struct({"x": pa.int8(), "y": pa.list_(pa.struct({"z": pa.string()}))})
    types = {
        "plain": pa.int64(),
        "point": point,
        "counts": pa.map_(pa.string(), point),
        "uuid": pa.uuid(),
        "few": pa.dictionary(pa.int8(), pa.string()),
        "pair": pa.list_(pa.float32(), 2),
        "point.x": pa.int32(),
        "last": pa.bool_(),
    }
    sink = io.BytesIO()
    pq.write_table(pa.schema(types).empty_table(), sink)
    file = pq.ParquetFile(sink)
    inner = StructType((StructField("Y", ArrayType(StructType((StructField("z", STRING),)))),))
    columns = (
        *(StructField(name, LONG) for name in reversed(types) if name != "point"),
        StructField("point", inner),
    )
    leaves = FileColumns(schema=StructType(columns), mode="none").leaves_in(file.schema_arrow)
    assert [file.metadata.schema.column(i).path for i in leaves.numbers] == [
        "last",
        "point.x",
        "pair.list.element",
        "few",
        "uuid",
        "counts.key_value.key",
        "counts.key_value.value.x",
        "counts.key_value.value.y.list.element.z",
        "plain",
        "point.y.list.element.z",
    ]
    assert leaves.numbers[1] != 1


def test_the_memory_of_columns_is_estimated_by_their_types() -> None:
    point = pa.struct({"x": pa.int8(), "text": pa.string()})
    types = {
        "point": point,
        "bytes": pa.binary(),
        "price": pa.decimal128(38, 2),
        "time": pa.timestamp("us", "UTC"),
        "flag": pa.bool_(),
    }
    wanted = StructType(
        (
            StructField("flag", LONG),
            StructField("price", LONG),
            StructField("time", LONG),
            StructField("point", StructType((StructField("x", LONG), StructField("text", LONG)))),
            StructField("bytes", LONG),
        )
    )
    leaves = FileColumns(schema=wanted, mode="none").leaves_in(pa.schema(types))
    assert leaves == ([5, 3, 4, 0, 1, 2], [3, 1, 2], False)
    a_list = StructType((StructField("ids", LONG), StructField("x", LONG)))
    of_list = FileColumns(schema=a_list, mode="none").leaves_in(
        pa.schema({"x": pa.int8(), "ids": pa.list_(pa.int64())})
    )
    assert of_list == ([1, 0], [1], True)


def test_a_struct_without_stored_fields_is_read_by_its_first() -> None:
    sink = io.BytesIO()
    stored = pa.struct({"a": pa.struct({"b": pa.int8()}), "c": pa.int8()})
    pq.write_table(pa.schema({"n": pa.int8(), "s": stored}).empty_table(), sink)
    wanted = StructType((StructField("s", StructType((StructField("new", LONG),))),))
    columns = FileColumns(schema=wanted, mode="none")
    assert columns.leaves_in(pq.ParquetFile(sink).schema_arrow).numbers == [1]


A, B = pa.field("a", pa.int64()), pa.field("b", pa.string())


@pytest.mark.parametrize(
    ("fields", "metadata", "are_as_read"),
    [
        pytest.param([A, B], None, True, id="the same"),
        pytest.param([A, B], {"writer": "x"}, True, id="with what the file says of itself"),
        pytest.param([A, B], {"org.apache.spark.version": "2.4.0"}, False, id="legacy days"),
        pytest.param([B, A], None, False, id="in another order"),
        pytest.param([A], None, False, id="not all"),
        pytest.param([pa.field("A", pa.int64()), B], None, False, id="by another case"),
        pytest.param([pa.field("a", pa.int32()), B], None, False, id="of a smaller type"),
        pytest.param([pa.field("a", pa.int64(), nullable=False), B], None, False, id="not null"),
        pytest.param([A.with_metadata({"PARQUET:field_id": "1"}), B], None, False, id="with ids"),
        pytest.param(
            [A, pa.field("b", pa.dictionary(pa.int32(), pa.string()))], None, False, id="numbered"
        ),
    ],
)
def test_columns_that_match_the_table_are_passed_on(
    fields: list[pa.Field], metadata: dict[str, str] | None, *, are_as_read: bool
) -> None:
    wanted = StructType((StructField("a", LONG), StructField("b", STRING)))
    columns = FileColumns(schema=wanted, mode="none")
    assert columns.are_as_read(pa.schema(fields, metadata)) == are_as_read


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_go_by_other_names_in_files_are_not_passed_on(mode: str) -> None:
    number = {"delta.columnMapping.id": 1}
    swapped = StructType(
        (
            StructField("a", LONG, metadata={**number, "delta.columnMapping.physicalName": "b"}),
            StructField("b", LONG, metadata={**number, "delta.columnMapping.physicalName": "a"}),
        )
    )
    read = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    assert not FileColumns(schema=swapped, mode=mode).are_as_read(read)


def test_nested_columns_are_looked_into() -> None:
    wanted = StructType((StructField("l", ArrayType(LONG)),))
    read = pa.schema([("l", pa.list_(pa.int64()))])
    assert not FileColumns(schema=wanted, mode="none").are_as_read(read)
