"""CHAR and VARCHAR in changes of columns: the length is kept, checked, and only made longer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import NewColumn, add_columns, change_type
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema.char_types import SQL_TYPE


@pytest.fixture
def limited(tmp_path: Path) -> DeltaLog:
    da.write(tmp_path, pa.table({"id": [1], "s": ["abcdef"]}))
    texts = {"v": "VARCHAR(5)", "c": "Char(3)", "st": "STRUCT<x: VARCHAR(2), l: ARRAY<CHAR(2)>>"}
    add_columns(tmp_path, [NewColumn(name=name, data_type=each) for name, each in texts.items()])
    return DeltaLog(tmp_path)


def sql_types(log: DeltaLog) -> dict[str, str | None]:
    return {each.name: each.metadata.get(SQL_TYPE) for each in log.snapshot().schema.fields}


def test_new_columns_keep_their_lengths(limited: DeltaLog) -> None:
    assert sql_types(limited) == {
        "id": None,
        "s": None,
        "v": "varchar(5)",
        "c": "char(3)",
        "st": "struct<x:varchar(2),l:array<char(2)>>",
    }
    assert limited.snapshot().arrow_schema.field("v").type == pa.string()
    da.write(limited, pa.table({"id": [2], "v": ["abcde"], "c": ["a"], "st": [{"x": "ab"}]}))
    assert da.to_table(limited).to_pylist()[0]["c"] == "a  "


@pytest.mark.parametrize(
    ("column", "value"),
    [("v", "abcdef"), ("c", "abcd"), ("st", {"x": "abc"}), ("st", {"l": ["ab", "abc"]})],
)
def test_a_longer_value_is_rejected(limited: DeltaLog, column: str, value: object) -> None:
    with pytest.raises(InvalidRequestError, match="holds at most"):
        da.write(limited, pa.Table.from_pylist([{"id": 2, column: value}]))
    assert limited.snapshot().version == 1


@pytest.mark.parametrize(
    ("column", "wanted", "sql_type"),
    [
        ("v", "varchar(5)", "varchar(5)"),
        ("v", "VARCHAR(6)", "varchar(6)"),
        ("c", "char(3)", "char(3)"),
        ("c", "varchar(3)", "varchar(3)"),
        ("C", "character(3)", "char(3)"),
        ("v", "string", None),
        ("c", "string", None),
    ],
)
def test_a_type_with_room_for_all_values_is_accepted(
    limited: DeltaLog, column: str, wanted: str, sql_type: str | None
) -> None:
    da.write(limited, pa.table({"id": [2], "v": ["abcde"], "c": ["a"]}))
    change_type(limited, column, wanted)
    assert sql_types(limited)[column.lower()] == sql_type
    kept = da.to_table(limited, columns=["c"])["c"].to_pylist()
    padded = sql_types(limited)["c"] == "char(3)"
    assert sorted(kept, key=str) == sorted([None, "a  " if padded else "a"], key=str)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("v", "varchar(4)"),
        ("v", "char(5)"),
        ("v", "char(9)"),
        ("c", "char(4)"),
        ("c", "varchar(2)"),
        ("s", "varchar(9)"),
        ("id", "varchar(9)"),
        ("st.x", "varchar(9)"),
        ("st.x", "string"),
        ("st.l.element", "varchar(9)"),
    ],
)
def test_a_type_that_lacks_values_is_rejected(limited: DeltaLog, column: str, wanted: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"column {column}.* cannot"):
        change_type(limited, column, wanted)
    assert limited.snapshot().version == 1


def test_new_fields_keep_their_lengths(limited: DeltaLog) -> None:
    new = {
        "st.y": "varchar(3)",
        "st.z": "struct<c: char(2), i: int>",
        "st.z.m": "map<int, char(1)>",
    }
    add_columns(limited, [NewColumn(name=name, data_type=each) for name, each in new.items()])
    assert sql_types(limited)["st"] == (
        "struct<x:varchar(2),l:array<char(2)>,y:varchar(3),"
        "z:struct<c:char(2),i:int,m:map<int,char(1)>>>"
    )
    row = {"x": "ab", "l": ["a"], "y": "abc", "z": {"c": "a", "i": 1, "m": [(1, "c")]}}
    da.write(limited, pa.Table.from_pylist([{"id": 2, "st": row}], limited_schema(limited)))
    kept = da.to_table(limited, columns=["st"])["st"].to_pylist()
    assert {**row, "l": ["a "], "z": {"c": "a ", "i": 1, "m": [(1, "c")]}} in kept
    for long in ({"x": "abc"}, {"y": "abcd"}, {"z": {"c": "abc"}}, {"z": {"m": [(1, "cd")]}}):
        with pytest.raises(InvalidRequestError, match="holds at most"):
            da.write(
                limited, pa.Table.from_pylist([{"id": 3, "st": long}], limited_schema(limited))
            )


def limited_schema(log: DeltaLog) -> pa.Schema:
    """The columns of a table that the tests write."""
    schema = log.snapshot().arrow_schema
    return pa.schema([schema.field("id"), schema.field("st")])


@pytest.mark.parametrize(
    "text", ["varchar", "varchar()", "varchar(0)", "char(-1)", "varchar(5, 1)"]
)
def test_a_type_without_a_length_is_rejected(limited: DeltaLog, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"is not a column type|must be 1 or more"):
        add_columns(limited, [NewColumn(name="n", data_type=text)])
