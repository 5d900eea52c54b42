"""Conditions, generated columns and empty partition values: their consequences in both engines."""

from __future__ import annotations

import pytest

from delta_ops import col, parse_expression
from delta_ops.planning.conditions import (
    Selection,
    finder_with_alias,
    selection_of_expression,
    selection_of_predicate,
)
from delta_ops.planning.missing_columns import generated_columns
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.predicate import TRUE, Predicate
from delta_ops.protocol.row_rules import GENERATION_EXPRESSION
from delta_ops.protocol.schema import (
    BINARY,
    LONG,
    STRING,
    StructField,
    StructType,
)
from delta_ops.protocol.values.partition_values import stored_where_empty
from tests.support.tables import define

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))


def implied_by(text: str) -> Predicate:
    return implied_predicate(parse_expression(text).root, SCHEMA)


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        pytest.param(None, "true", id="no condition selects all rows"),
        pytest.param(TRUE, "true", id="a condition that is always true"),
        pytest.param(col("id") > 1, "`id` > 1", id="a comparison"),
    ],
)
def test_a_predicate_is_its_own_implication(predicate: Predicate | None, text: str) -> None:
    implied = TRUE if predicate is None else predicate
    selected = selection_of_predicate(predicate)
    assert selected == Selection(text=text, implied=implied, is_implied=True)


@pytest.mark.parametrize(
    ("text", "alias", "implied"),
    [
        pytest.param("id > 1 AND length(name) = 2", None, "id > 1", id="the part about bounds"),
        pytest.param("t.id > 1", "T", "id > 1", id="with the alias of the table"),
    ],
)
def test_an_expression_implies_a_predicate_for_files(
    text: str, alias: str | None, implied: str
) -> None:
    selected = selection_of_expression(text, parse_expression(text).root, SCHEMA, 0, alias)
    assert selected == Selection(text=text, implied=implied_by(implied), is_implied=False)


def test_a_text_that_only_the_engine_can_parse_implies_nothing() -> None:
    selected = selection_of_expression("rand() < id", None, SCHEMA, 0)
    assert selected == Selection(text="rand() < id", implied=TRUE, is_implied=False)


@pytest.mark.parametrize("path", [("id",), ("t", "id"), ("T", "ID")], ids=".".join)
def test_columns_are_found_with_and_without_the_alias(path: tuple[str, ...]) -> None:
    assert finder_with_alias(SCHEMA, "t")(path).path == ("id",)


@pytest.mark.parametrize(
    ("names", "omitted"),
    [
        pytest.param((), ["double"], id="no column is given"),
        pytest.param(("id",), ["double"], id="another column is given"),
        pytest.param(("DOUBLE",), [], id="the column is given, in another case"),
    ],
)
def test_generated_columns_that_the_data_omit(names: tuple[str, ...], omitted: list[str]) -> None:
    generated = StructField("double", LONG, metadata={GENERATION_EXPRESSION: "id * 2"})
    definition = define(StructType((SCHEMA.fields[0], generated)))
    assert [rule.column for rule in generated_columns(definition, names)] == omitted


@pytest.mark.parametrize(
    ("field", "stored"),
    [
        pytest.param(StructField("p", STRING), None, id="a text becomes null"),
        pytest.param(StructField("p", BINARY), None, id="bytes become null"),
        pytest.param(StructField("p", STRING, nullable=False), "", id="a required text stays"),
        pytest.param(StructField("p", LONG), "", id="a number is never empty"),
        pytest.param(
            StructField("p", STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}),
            "   ",
            id="a CHAR is padded",
        ),
    ],
)
def test_stored_form_of_an_empty_partition_value(field: StructField, stored: str | None) -> None:
    assert stored_where_empty(field) == stored
