"""Predicates of the filters that Spark pushes down: true for every row that the filters select."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from delta_ops import col
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.nodes import Always
from delta_ops.protocol.predicate.resolution import resolve
from delta_ops.protocol.schema import (
    DATE,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    StructField,
    StructType,
)
from delta_ops.spark.read.filter_plan import predicate_of_filters
from tests.support.tables import define

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("day", DATE),
        StructField("at", TIMESTAMP),
        StructField("price", DecimalType(5, 2)),
        StructField("place", StructType((StructField("a.b", STRING),))),
        StructField("code", STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(4)"}),
        StructField("word", STRING, metadata={"__COLLATIONS": {"word": "spark.UNICODE_CI"}}),
    )
)
ID = ["==", ["id"], "long", "5"]


@pytest.mark.parametrize(
    ("node", "predicate"),
    [
        pytest.param(ID, col("id") == 5, id="a number"),
        pytest.param(["in", ["id"], "long", ["1", "2"]], col("id").isin([1, 2]), id="a list"),
        pytest.param(["in", ["id"], "long", []], Always(False), id="a list of nulls only"),
        pytest.param(["not null", ["id"]], ~col("id").is_null(), id="no null"),
        pytest.param(["<", ["day"], "date", "-1"], col("day") < date(1969, 12, 31), id="a day"),
        pytest.param(
            [">=", ["at"], "timestamp", "1"],
            col("at") >= datetime(1970, 1, 1, 0, 0, 0, 1, UTC),
            id="a time",
        ),
        pytest.param(
            ["==", ["price"], "decimal(5,2)", "1E+1"], col("price") == Decimal(10), id="a decimal"
        ),
        pytest.param(
            ["==", ["place", "a.b"], "string", "x"], col("place.`a.b`") == "x", id="a nested name"
        ),
        pytest.param(["==", ["code"], "string", "x"], Always(True), id="CHAR is compared padded"),
        pytest.param(["==", ["word"], "string", "x"], Always(True), id="a collation"),
        pytest.param(["==", ["lost"], "long", "5"], Always(True), id="no column of the table"),
        pytest.param(
            [">", ["day"], "date", "99999999"], Always(True), id="a day that Python lacks"
        ),
        pytest.param(
            [">", ["at"], "timestamp", "9" * 18], Always(True), id="a time that Python lacks"
        ),
        pytest.param(
            ["or", [ID, ["==", ["lost"], "long", "5"]]], Always(True), id="or with an unknown part"
        ),
        pytest.param(
            ["or", [ID, ["null", ["id"]]]], (col("id") == 5) | col("id").is_null(), id="or"
        ),
    ],
)
def test_a_filter(node: list[Any], predicate: Predicate) -> None:
    found = predicate_of_filters(json.dumps(["and", [node]]), define(SCHEMA))
    assert found == resolve(predicate, SCHEMA)


def test_unknown_parts_of_a_conjunction_are_left_out() -> None:
    filters = json.dumps(["and", [["==", ["lost"], "long", "5"], ID]])
    found = predicate_of_filters(filters, define(SCHEMA))
    assert found == resolve(col("id") == 5, SCHEMA)
