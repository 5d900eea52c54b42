"""Types in Arrow and back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    BINARY,
    DATE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import (
    arrow_schema_from_schema,
    arrow_type_from_type,
    schema_from_arrow,
)
from tests.protocol.typed_values import VALUES

names = st.lists(st.text(min_size=1), max_size=3, unique_by=str.lower)


@st.composite
def structs(draw: st.DrawFn, inner: st.SearchStrategy[DataType]) -> StructType:
    fields = [StructField(name, draw(inner), draw(st.booleans())) for name in draw(names)]
    return StructType(tuple(fields))


types: st.SearchStrategy[DataType] = st.recursive(
    st.sampled_from(list(VALUES)),
    lambda inner: (
        st.builds(ArrayType, inner, st.booleans())
        | st.builds(MapType, inner, inner, st.booleans())
        | structs(inner)
    ),
    max_leaves=6,
)


@given(structs(types))
def test_a_schema_survives_arrow_with_nullability_at_every_depth(schema: StructType) -> None:
    assert schema_from_arrow(arrow_schema_from_schema(schema)) == schema


def test_timestamps_are_microseconds_and_utc_only_where_the_type_says_so() -> None:
    assert arrow_type_from_type(TIMESTAMP) == pa.timestamp("us", "UTC")
    assert arrow_type_from_type(TIMESTAMP_NTZ) == pa.timestamp("us")


@pytest.mark.parametrize(
    ("arrow_type", "expected"),
    [
        pytest.param(pa.large_string(), STRING, id="large_string"),
        pytest.param(pa.string_view(), STRING, id="string_view"),
        pytest.param(pa.large_binary(), BINARY, id="large_binary"),
        pytest.param(pa.binary_view(), BINARY, id="binary_view"),
        pytest.param(pa.binary(4), BINARY, id="fixed_size_binary"),
        pytest.param(
            pa.dictionary(pa.int8(), pa.string()), STRING, id="a dictionary is its values"
        ),
        pytest.param(pa.run_end_encoded(pa.int32(), pa.int64()), LONG, id="run-end encoded"),
        pytest.param(pa.uint8(), SHORT, id="uint8 widens"),
        pytest.param(pa.uint16(), INTEGER, id="uint16 widens"),
        pytest.param(pa.uint32(), LONG, id="uint32 widens"),
        pytest.param(pa.date64(), DATE, id="date64"),
        pytest.param(pa.timestamp("s", "Asia/Tokyo"), TIMESTAMP, id="any zone is an instant"),
        pytest.param(pa.timestamp("ns"), TIMESTAMP_NTZ, id="no zone is local time"),
        pytest.param(pa.decimal256(38, 38), DecimalType(38, 38), id="decimal256 that fits"),
        pytest.param(pa.decimal32(5, 2), DecimalType(5, 2), id="decimal32"),
        pytest.param(
            pa.large_list(pa.field("item", pa.int64(), nullable=False)),
            ArrayType(LONG, contains_null=False),
            id="large_list",
        ),
        pytest.param(pa.list_(pa.int64(), 3), ArrayType(LONG), id="fixed_size_list"),
        pytest.param(pa.list_view(pa.int64()), ArrayType(LONG), id="list_view"),
        pytest.param(
            pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.int64())),
            MapType(STRING, LONG),
            id="types below others",
        ),
    ],
)
def test_arrow_types_that_have_a_delta_type(arrow_type: Any, expected: DataType) -> None:
    assert schema_from_arrow(pa.schema([("a", arrow_type)])).fields[0].data_type == expected


@pytest.mark.parametrize(
    "arrow_type",
    [
        pytest.param(pa.uint64(), id="uint64 holds more than long"),
        pytest.param(pa.float16(), id="float16"),
        pytest.param(pa.duration("us"), id="duration"),
        pytest.param(pa.time64("us"), id="time64"),
        pytest.param(pa.time32("s"), id="time32"),
        pytest.param(pa.null(), id="null"),
        pytest.param(pa.decimal256(39, 2), id="39 digits"),
        pytest.param(pa.decimal128(5, -2), id="a negative scale"),
        pytest.param(pa.month_day_nano_interval(), id="an interval"),
    ],
)
def test_an_arrow_type_without_a_delta_type_is_refused_by_column(arrow_type: Any) -> None:
    schema = pa.schema([("s", pa.struct([("a", pa.list_(arrow_type))]))])
    with pytest.raises(InvalidRequestError) as refused:
        schema_from_arrow(schema)
    assert f"Arrow type {arrow_type} of column s.a.element" in str(refused.value)


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(pa.list_, id="lists"),
        pytest.param(lambda inner: pa.map_(pa.string(), inner), id="maps"),
        pytest.param(lambda inner: pa.struct([("a", inner)]), id="structs"),
    ],
)
def test_a_type_deeper_than_functions_can_call_themselves_is_refused(
    wrap: Callable[[pa.DataType], pa.DataType],
) -> None:
    data_type = pa.int64()
    for _ in range(sys.getrecursionlimit()):
        data_type = wrap(data_type)
    with pytest.raises(InvalidRequestError, match="'x' is nested too deeply"):
        schema_from_arrow(pa.schema([("x", data_type)]))


def test_names_that_differ_only_in_case_are_refused() -> None:
    schema = pa.schema([("s", pa.struct([("id", pa.int64()), ("ID", pa.int64())]))])
    with pytest.raises(InvalidRequestError) as refused:
        schema_from_arrow(schema)
    assert "Columns id and ID" in str(refused.value)
    assert "of column s" in str(refused.value)


def test_a_type_without_an_arrow_type_is_refused_by_column() -> None:
    schema = StructType((StructField("v", ArrayType(PrimitiveType("interval year"))),))
    with pytest.raises(InvalidRequestError) as refused:
        arrow_schema_from_schema(schema)
    assert "interval year of column v.element" in str(refused.value)
