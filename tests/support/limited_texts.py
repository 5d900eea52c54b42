"""A table with texts of types CHAR(3) and VARCHAR(3), at every depth."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from tests.arrow.foreign_table import create


def of_type(name: str, sql_type: str, data_type: DataType | None = None) -> StructField:
    return StructField(name, data_type or STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": sql_type})


LENGTHS = StructType(
    (
        StructField("id", LONG),
        of_type("c", "char(3)"),
        of_type("v", "varchar(3)"),
        of_type("s", "struct<f:varchar(3)>", StructType((StructField("f", STRING),))),
        of_type("l", "array<char(3)>", ArrayType(STRING)),
        of_type("m", "map<char(3),varchar(3)>", MapType(STRING, STRING)),
    )
)
FULL = {"id": 1, "c": "éé", "v": "abc", "s": {"f": "abc"}, "l": ["abc", None], "m": [("abc", "x")]}
LONGER: dict[str, object] = {
    "c": "abcd",
    "v": "a   ",
    "s.f": {"f": "abcd"},
    "l.element": [None, "abcd"],
    "m.key": [("abcd", "x")],
    "m.value": [("abc", "xxxx")],
}
"""By the path in the error, the value of the column."""


def rows_of(*wanted: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(wanted), arrow_schema_from_schema(LENGTHS))


def create_limited(root: Path) -> DeltaLog:
    """A table of two rows; the second has only its id."""
    log = create(root, LENGTHS)
    da.write(log, rows_of(FULL, {"id": 2}))
    return log
