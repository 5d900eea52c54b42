"""The lengths of CHAR types, from a column's metadata."""

from __future__ import annotations

import pytest

from delta_ops.protocol.schema import LONG, STRING, ArrayType, DataType, StructField, StructType
from delta_ops.protocol.schema.char_types import CharLengths, char_length, char_lengths

PAIR = StructType((StructField("f", STRING), StructField("g,:<", STRING), StructField("n", LONG)))


def field(sql_type: object, data_type: DataType = STRING) -> StructField:
    return StructField("c", data_type, metadata={"__CHAR_VARCHAR_TYPE_STRING": sql_type})


@pytest.mark.parametrize(
    ("sql_type", "data_type", "lengths"),
    [
        pytest.param("char(3)", STRING, 3, id="a string"),
        pytest.param("CHAR(3)", STRING, 3, id="in capitals"),
        pytest.param("varchar(3)", STRING, None, id="of another type"),
        pytest.param("array<char(2)>", ArrayType(STRING), {"element": 2}, id="elements"),
        pytest.param("struct<f:char(2)>", PAIR, {"f": 2}, id="a field, others unsaid"),
        pytest.param("struct<`g,:<`:char(2),n:bigint>", PAIR, {"g,:<": 2}, id="a quoted name"),
        pytest.param("struct<n:char(2)>", PAIR, None, id="a field that is no string"),
        pytest.param("struct<old:char(2)>", PAIR, None, id="a field of another name"),
        pytest.param("struct<d:decimal(10,2),f:char(4)>", PAIR, {"f": 4}, id="behind parameters"),
        pytest.param("struct<f:char(2)", PAIR, None, id="cut off"),
        pytest.param("struct<f>", PAIR, None, id="a field without a type"),
        pytest.param("struct<>", PAIR, None, id="no fields"),
        pytest.param("array<char(2),char(3)>", ArrayType(STRING), None, id="too many members"),
        pytest.param("char(2) ", STRING, None, id="more text"),
        pytest.param("", STRING, None, id="no text"),
        pytest.param(3, STRING, None, id="a number"),
    ],
)
def test_lengths_follow_the_type(
    sql_type: object, data_type: DataType, lengths: CharLengths | None
) -> None:
    assert char_lengths(field(sql_type, data_type)) == lengths


def test_the_length_of_a_field_is_found_by_its_path() -> None:
    column = field("struct<f:char(2)>", PAIR)
    assert char_length(("c", "f"), column) == 2
    assert char_length(("c", "n"), column) is None
    assert char_length(("c",), column) is None
    assert char_length(("c", "f", "x"), column) is None
