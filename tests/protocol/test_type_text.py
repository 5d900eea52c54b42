"""Types as Spark SQL writes them, and names of columns."""

from __future__ import annotations

import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.protocol.schema.type_text import parse_type, type_text


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("bigint", LONG),
        (" LONG ", LONG),
        ("int", INTEGER),
        ("decimal", DecimalType(10, 0)),
        ("decimal(5)", DecimalType(5, 0)),
        ("decimal( 38 , 18 )", DecimalType(38, 18)),
        ("array<date>", ArrayType(DATE)),
        ("map<string, array<int>>", MapType(STRING, ArrayType(INTEGER))),
        (
            "STRUCT<a INT, b: date>",
            StructType((StructField("a", INTEGER), StructField("b", DATE))),
        ),
        (
            "struct<a: int, `b c`: struct<d:date>>",
            StructType(
                (
                    StructField("a", INTEGER),
                    StructField("b c", StructType((StructField("d", DATE),))),
                )
            ),
        ),
    ],
)
def test_a_type_is_read_and_shown(text: str, data_type: DataType) -> None:
    assert parse_type(text) == data_type
    assert parse_type(type_text(data_type)) == data_type


def test_a_shown_type_has_the_names_of_sql() -> None:
    a, b = StructField("a", LONG, nullable=False), StructField("b c", MapType(STRING, INTEGER))
    shown = "array<struct<a:bigint NOT NULL,`b c`:map<string,int>>>"
    assert type_text(ArrayType(StructType((a, b)))) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "intt",
        "array",
        "array<",
        "array<int",
        "int int",
        "map<int>",
        "struct<>",
        "struct<a>",
        "decimal(0)",
        "decimal(39)",
        "decimal(5,6)",
        "decimal(a)",
        "decimal(5",
        "int;",
        "struct<a:>",
    ],
)
def test_texts_that_are_no_type_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_type(text)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a``b`", ("a`b",)),
        ("D.E", ("d.e",)),
    ],
)
def test_a_name_says_a_path(name: str, path: tuple[str, ...]) -> None:
    assert path_of_name(name, StructType((StructField("d.e", LONG),))) == path


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "`a", "`a`b", "a`b`"])
def test_texts_that_are_no_name_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        path_of_name(name, StructType())


@pytest.mark.parametrize("path", [("a", "b"), ("a.b",), ("a b", "c"), ("a`b",)])
def test_a_path_comes_back_from_its_name(path: tuple[str, ...]) -> None:
    assert path_of_name(name_of_path(path), StructType()) == path
