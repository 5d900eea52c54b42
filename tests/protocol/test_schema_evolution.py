"""The schema of a table after it takes in the columns of data."""

from __future__ import annotations

import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.evolution import merge_schemas, validate_unique_names


def struct(**types: DataType) -> StructType:
    return StructType(tuple(StructField(name, each) for name, each in types.items()))


@pytest.mark.parametrize(
    ("table", "data", "merged"),
    [
        pytest.param(struct(a=LONG), struct(b=LONG), struct(a=LONG, b=LONG), id="a new column"),
        pytest.param(struct(a=LONG, b=LONG), struct(b=LONG), struct(a=LONG, b=LONG), id="no new"),
        pytest.param(struct(a=LONG), struct(A=LONG), struct(a=LONG), id="another case"),
        pytest.param(struct(a=INTEGER), struct(a=LONG), struct(a=INTEGER), id="another type"),
        pytest.param(struct(a=LONG), struct(a=struct(x=LONG)), struct(a=LONG), id="now a struct"),
        pytest.param(
            struct(s=struct(x=LONG), z=LONG),
            struct(n=LONG, S=struct(Y=STRING, X=LONG)),
            struct(s=struct(x=LONG, Y=STRING), z=LONG, n=LONG),
            id="a new field",
        ),
        pytest.param(
            struct(l=ArrayType(struct(x=LONG), contains_null=False)),
            struct(l=ArrayType(struct(y=LONG))),
            struct(l=ArrayType(struct(x=LONG, y=LONG), contains_null=False)),
            id="a new field in a list",
        ),
        pytest.param(
            struct(m=MapType(struct(k=LONG), struct(x=LONG))),
            struct(m=MapType(struct(k=LONG, j=LONG), struct(x=LONG, y=LONG))),
            struct(m=MapType(struct(k=LONG), struct(x=LONG, y=LONG))),
            id="a new field in the values of a map",
        ),
    ],
)
def test_new_columns_of_the_data_come_last(
    table: StructType, data: StructType, merged: StructType
) -> None:
    assert merge_schemas(table, data) == merged


def test_existing_files_stay_unchanged() -> None:
    strict = StructField("id", LONG, nullable=False, metadata={"comment": "of the order"})
    assert merge_schemas(StructType((strict,)), struct(ID=STRING)) == StructType((strict,))


def test_new_fields_may_be_null_at_every_depth() -> None:
    inner = StructType((StructField("x", ArrayType(LONG, contains_null=False), nullable=False),))
    strict = StructType((StructField("s", inner, nullable=False),))
    loose = struct(s=struct(x=ArrayType(LONG)))
    assert merge_schemas(StructType(), strict) == loose


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (StructType((StructField("b", LONG), StructField("B", LONG))), "'b'"),
        (struct(s=StructType((StructField("x", LONG), StructField("X", LONG)))), r"'s\.x'"),
    ],
)
def test_a_column_that_occurs_twice_is_refused(data: StructType, name: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"t: column {name} is in the data twice"):
        validate_unique_names(data, "t")
