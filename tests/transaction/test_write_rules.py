"""The rules of rows, derived from a schema."""

from __future__ import annotations

import pytest

from delta_ops.protocol.schema import (
    LONG,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.transaction.write_rules import row_rules

_X = StructType((StructField("x", LONG, nullable=False), StructField("y", LONG)))


@pytest.mark.parametrize(
    ("data_type", "rules"),
    [
        pytest.param(LONG, set(), id="a number"),
        pytest.param(_X, {"a.x"}, id="a field"),
        pytest.param(ArrayType(LONG), set(), id="elements that may be null"),
        pytest.param(ArrayType(LONG, False), {"a.element"}, id="elements"),
        pytest.param(ArrayType(_X), {"a.element.x"}, id="a field of elements"),
        pytest.param(
            ArrayType(ArrayType(LONG, False), False),
            {"a.element", "a.element.element"},
            id="elements of elements",
        ),
        pytest.param(MapType(STRING, LONG), set(), id="values that may be null"),
        pytest.param(MapType(STRING, LONG, False), {"a.value"}, id="values"),
        pytest.param(MapType(_X, _X), {"a.key.x", "a.value.x"}, id="fields of keys and values"),
    ],
)
def test_what_must_not_be_null_is_found_at_every_depth(
    data_type: DataType, rules: set[str]
) -> None:
    schema = StructType((StructField("a", data_type),))
    assert row_rules(schema) == {f"NOT NULL {path}" for path in rules}


def test_a_column_that_must_not_be_null_is_a_rule() -> None:
    assert row_rules(StructType((StructField("a", LONG, nullable=False),))) == {"NOT NULL a"}
