"""Predicates against a naive evaluator with three-valued logic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.protocol.predicate import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    resolve,
    to_arrow,
)
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
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from tests.protocol.typed_values import FEW

Row = Mapping[str, Any]

TYPES: Mapping[tuple[str, ...], DataType] = {
    ("p",): STRING,
    ("q",): DOUBLE,
    ("tiny",): BYTE,
    ("small",): SHORT,
    ("i",): INTEGER,
    ("n",): LONG,
    ("s",): STRING,
    ("flag",): BOOLEAN,
    ("bin",): BINARY,
    ("f",): FLOAT,
    ("d",): DOUBLE,
    ("e",): DOUBLE,
    ("dec",): DecimalType(6, 2),
    ("exact",): DecimalType(15, 4),
    ("big",): DecimalType(38, 3),
    ("day",): DATE,
    ("ts",): TIMESTAMP,
    ("ntz",): TIMESTAMP_NTZ,
    ("st", "x"): INTEGER,
    ("st", "y"): STRING,
}
STRUCT = StructType((StructField("x", INTEGER), StructField("y", STRING)))
FLAT = [StructField(path[0], data_type) for path, data_type in TYPES.items() if len(path) == 1]
SCHEMA = StructType((*FLAT, StructField("st", STRUCT)))
PARTITION_COLUMNS = ("p", "q")
DATA = StructType(tuple(f for f in SCHEMA.fields if f.name not in PARTITION_COLUMNS))


def _values(path: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *FEW[TYPES[path]]])


OPERATORS: tuple[Operator, ...] = ("==", "!=", "<", "<=", ">", ">=")
rows = st.fixed_dictionaries(
    {
        **{path[0]: _values(path) for path in TYPES if len(path) == 1},
        "st": st.none()
        | st.fixed_dictionaries({"x": _values(("st", "x")), "y": _values(("st", "y"))}),
    }
)


def _leaves(path: tuple[str, ...]) -> st.SearchStrategy[Predicate]:
    literals, listed = st.sampled_from(FEW[TYPES[path]]), st.lists(_values(path), min_size=1)
    comparisons: st.SearchStrategy[Predicate] = st.builds(
        Comparison, st.just(path), st.sampled_from(OPERATORS), literals
    )
    return comparisons | listed.map(lambda v: In(path, tuple(v))) | st.just(IsNull(path))


LEAVES = {path: _leaves(path) for path in TYPES}
CONSTANTS: st.SearchStrategy[Predicate] = st.sampled_from(
    [Always(True), Always(False), IsNull(("st",))]
)
CHOSEN = st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3)
KINDS = st.sampled_from(["leaf", "leaf", "constant", "not", "and", "or"])


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    """Predicates over a few columns, so that several parts use the same column."""
    chosen = draw(CHOSEN)

    def build(depth: int) -> Predicate:
        match draw(KINDS) if depth else "leaf":
            case "constant":
                return draw(CONSTANTS)
            case "not":
                return Not(build(depth - 1))
            case "and":
                return And((build(depth - 1), build(depth - 1)))
            case "or":
                return Or((build(depth - 1), build(depth - 1)))
        return draw(LEAVES[draw(st.sampled_from(chosen))])

    return build(3)


def every_leaf(path: tuple[str, ...]) -> list[Predicate]:
    """All simple predicates over one column."""
    literals = FEW[TYPES[path]]
    comparisons = [Comparison(path, each, v) for each in OPERATORS for v in literals]
    lists = [In(path, listed) for v in literals for listed in ((v,), (v, None), (v, literals[0]))]
    return [*comparisons, *lists, In(path, (None,)), IsNull(path)]


def row_with(path: tuple[str, ...], value: Any) -> Row:
    """A row of nulls with one value."""
    inner = {"x": None, "y": None}
    row: dict[str, Any] = {each[0]: None for each in TYPES}
    return {**row, "st": {**inner, path[1]: value}} if len(path) > 1 else {**row, path[0]: value}


def evaluate(predicate: Predicate, row: Row) -> bool | None:
    """The predicate's result for a row."""
    match predicate:
        case Comparison(path, operator, literal):
            return compare(value_at(path, row), operator, literal)
        case In(path, listed):
            value = value_at(path, row)
            return any_of([None if v is None else compare(value, "==", v) for v in listed])
        case IsNull(path):
            return value_at(path, row) is None
        case And(operands):
            return negate(any_of([negate(evaluate(each, row)) for each in operands]))
        case Or(operands):
            return any_of([evaluate(each, row) for each in operands])
        case Not(operand):
            return negate(evaluate(operand, row))
        case Always(value):
            return value


def value_at(path: tuple[str, ...], row: Row) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return value


def compare(value: Any, operator: str, literal: Any) -> bool | None:
    if value is None:
        return None
    order = (rank(value) > rank(literal)) - (rank(value) < rank(literal))
    holds = {"==": (0,), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (1, 0)}
    return order in holds[operator]


def rank(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def any_of(outcomes: Sequence[bool | None]) -> bool | None:
    return True if True in outcomes else None if None in outcomes else False


def negate(outcome: bool | None) -> bool | None:
    return None if outcome is None else not outcome


def outcomes_in_arrow(predicate: Predicate, listed: Sequence[Row]) -> list[bool | None]:
    """The result of the predicate's expression for each row."""
    table = pa.Table.from_pylist(list(listed), schema=arrow_schema_from_schema(SCHEMA))
    computed = ds.dataset(table).to_table(columns={"outcome": to_arrow(predicate, SCHEMA)})
    outcomes: list[bool | None] = computed["outcome"].to_pylist()
    return outcomes


@pytest.mark.some_cases(6)
@pytest.mark.parametrize("path", TYPES, ids=".".join)
def test_every_simple_expression_gives_what_it_means(path: tuple[str, ...]) -> None:
    listed = [row_with(path, value) for value in (None, *FEW[TYPES[path]])]
    for predicate in every_leaf(path):
        expected = [evaluate(predicate, row) for row in listed]
        assert (predicate, outcomes_in_arrow(predicate, listed)) == (predicate, expected)


@settings(max_examples=200, deadline=None)
@given(predicates(), st.lists(rows, min_size=1, max_size=6))
def test_an_arrow_expression_gives_what_the_predicate_means(
    predicate: Predicate, listed: list[Row]
) -> None:
    assert outcomes_in_arrow(predicate, listed) == [evaluate(predicate, row) for row in listed]


@settings(max_examples=100, deadline=None)
@given(predicates(), st.lists(rows, min_size=1, max_size=4))
def test_a_filter_keeps_the_rows_that_match(predicate: Predicate, listed: list[Row]) -> None:
    table = pa.Table.from_pylist(listed, schema=arrow_schema_from_schema(SCHEMA))
    table = table.append_column("position", pa.array(range(len(listed))))
    found = table.filter(to_arrow(predicate, SCHEMA))["position"].to_pylist()
    assert found == [i for i, row in enumerate(listed) if evaluate(predicate, row) is True]


@settings(max_examples=100, deadline=None)
@given(predicates())
def test_resolving_a_resolved_predicate_changes_nothing(predicate: Predicate) -> None:
    resolved = resolve(predicate, SCHEMA)
    assert repr(resolve(resolved, SCHEMA)) == repr(resolved)
