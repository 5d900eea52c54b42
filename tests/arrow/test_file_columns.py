"""Columns of files by the names that the table has for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from delta_ops.arrow.file_columns import FileColumns
from delta_ops.protocol.schema import INTEGER, LONG, ArrayType, DataType, StructField, StructType


def mapped(name: str, physical: str, data_type: DataType, *, nullable: bool = True) -> StructField:
    """A column of a table that is mapped by name."""
    metadata = {"delta.columnMapping.physicalName": physical}
    return StructField(name, data_type, nullable, metadata)


def read(stored: pa.Array, column: StructField, mode: str = "name") -> list[Any]:
    """What the column of a table is where its file has this as `c`."""
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
def test_of_two_names_that_only_case_tells_apart_the_exact_one_counts(
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
