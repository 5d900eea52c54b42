"""Typed statistics: each type, values that do not fit, and the way back to JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from delta_ops.protocol.parsed_stats import arrow_type, parsed_stats, stats_shape
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from tests.support.tables import define


def table(data_type: DataType, name: str = "c", metadata: dict[str, Any] | None = None) -> Any:
    return StructType((StructField(name, data_type, metadata=metadata or {}),))


def parsed(schema: StructType, *stats: Any, **options: str) -> list[Any]:
    shape = stats_shape(define(schema, **options))
    texts = [text if isinstance(text, str | None) else json.dumps(text) for text in stats]
    found = parsed_stats(pa.array(texts, pa.string()), shape)
    assert found.type == arrow_type(shape)
    rows: list[Any] = found.to_pylist()
    return rows


@pytest.mark.parametrize(
    ("data_type", "text", "value"),
    [
        (BYTE, "-128", -128),
        (SHORT, "32767", 32767),
        (INTEGER, "7", 7),
        (LONG, "9223372036854775807", 2**63 - 1),
        (FLOAT, "0.5", 0.5),
        (DOUBLE, "0.1", 0.1),
        (DOUBLE, "3", 3.0),
        (DecimalType(38, 2), "123456789012345678901234567890123456.78", None),
        (DecimalType(20, 4), "1234567890123456.7891", Decimal("1234567890123456.7891")),
        (STRING, '"ü€😀"', "ü€😀"),
        (DATE, '"2024-02-29"', date(2024, 2, 29)),
        (TIMESTAMP, '"2024-02-29T23:59:59.123Z"', datetime(2024, 2, 29, 23, 59, 59, 123000, UTC)),
        (TIMESTAMP, '"2024-03-01T00:59:59+01:00"', datetime(2024, 2, 29, 23, 59, 59, 0, UTC)),
        (TIMESTAMP_NTZ, '"2024-02-29T23:59:59.5"', datetime(2024, 2, 29, 23, 59, 59, 500000)),
    ],
)
def test_bounds_have_the_type_of_their_column(data_type: DataType, text: str, value: Any) -> None:
    stats = f'{{"numRecords":1,"minValues":{{"c":{text}}},"maxValues":{{"c":{text}}}}}'
    (row,) = parsed(table(data_type), stats)
    expected = value if value is not None else Decimal(text)
    assert (row["minValues"]["c"], row["maxValues"]["c"]) == (expected, expected)
    assert (row["numRecords"], row["tightBounds"], row["nullCount"]) == (1, True, {"c": None})


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (BYTE, 128),
        (LONG, 2**63),
        (LONG, 1.5),
        (LONG, "1"),
        (LONG, True),
        (INTEGER, {"a": 1}),
        (DATE, "2024-02-30"),
        (TIMESTAMP, "2024-02-29T00:00:00"),
        (DecimalType(4, 2), 123.45),
        (STRING, 5),
        (STRING, "\ud800"),
    ],
)
def test_values_that_do_not_fit_are_no_bounds_and_affect_no_others(
    data_type: DataType, value: Any
) -> None:
    schema = StructType((StructField("c", data_type), StructField("other", LONG)))
    good = {"numRecords": 2, "minValues": {"other": 1}}
    rows = parsed(schema, {"numRecords": 2, "minValues": {"c": value, "other": 1}}, good)
    assert [row["minValues"] for row in rows] == [{"c": None, "other": 1}] * 2
    assert [row["numRecords"] for row in rows] == [2, 2]


@pytest.mark.parametrize("text", [None, "", "no JSON", "[1]", '{"numRecords":'])
def test_statistics_that_are_none_are_null(text: str | None) -> None:
    assert parsed(table(LONG), text) == [None]


def test_structs_have_their_fields_and_lists_their_nulls_only() -> None:
    inner = StructType((StructField("a", LONG), StructField("l", ArrayType(LONG))))
    schema = StructType(
        (StructField("s", inner), StructField("b", BOOLEAN), StructField("x", BINARY))
    )
    (row,) = parsed(
        schema, {"minValues": {"s": {"a": 1}, "b": False}, "nullCount": {"s": {"a": 0, "l": 2}}}
    )
    assert row["minValues"] == {"s": {"a": 1}}
    assert row["nullCount"] == {"s": {"a": 0, "l": 2}, "b": None, "x": None}


def test_only_columns_that_get_statistics_are_there() -> None:
    schema = StructType(tuple(StructField(name, LONG) for name in "abc"))
    stats = {"minValues": {"a": 1, "b": 2, "c": 3}}
    (row,) = parsed(schema, stats, dataSkippingNumIndexedCols="2")
    assert row["minValues"] == {"a": 1, "b": 2}
    assert parsed(schema, {"numRecords": 1}, dataSkippingNumIndexedCols="0") == [
        {"numRecords": 1, "tightBounds": True}
    ]


def test_names_match_the_files_and_partition_columns_are_left_out() -> None:
    mapped = {"delta.columnMapping.physicalName": "col-1"}
    schema = StructType((StructField("c", LONG, metadata=mapped), StructField("p", LONG)))
    shape = stats_shape(define(schema, ["p"], **{"columnMapping.mode": "name"}))
    assert shape["nullCount"] == {"col-1": LONG}
