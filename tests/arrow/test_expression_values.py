"""Expressions over Arrow columns: their results, and their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops import parse_expression
from delta_ops.arrow.expressions.evaluation import Rows, evaluate, rows_of_batch
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.expression.resolution import finder_of, resolve_expression, type_of
from delta_ops.protocol.schema import VOID
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema, arrow_type_from_type
from tests.protocol.expression_texts import REFUSED, TEXTS
from tests.protocol.test_predicate_properties import SCHEMA, TYPES
from tests.protocol.typed_values import FEW

ARROW_SCHEMA = arrow_schema_from_schema(SCHEMA)


def few_rows() -> list[dict[str, Any]]:
    """Rows that combine the critical values."""
    values = {path: (None, *FEW[data_type]) for path, data_type in TYPES.items()}
    flat = [
        {path[-1]: of[(number * (1 + place % 3) + place) % len(of)] for place, (path, of) in paths}
        for paths in [list(enumerate(values.items()))]
        for number in range(24)
    ]
    return [
        {**row, "st": None if n % 5 == 4 else {"x": row["x"], "y": row["y"]}}
        for n, row in enumerate(flat)
    ]


def outcome(text: str, listed: list[dict[str, Any]]) -> pa.Array:
    batch = pa.RecordBatch.from_pylist(listed, schema=ARROW_SCHEMA)
    node = resolve_expression(parse_expression(text).root, finder_of(SCHEMA))
    found = evaluate(node, rows_of_batch(batch))
    wanted = type_of(node)
    assert found.type == (pa.null() if wanted == VOID else arrow_type_from_type(wanted))
    return found


@pytest.mark.some_cases(60)
@pytest.mark.parametrize("text", TEXTS)
def test_a_row_has_the_same_value_alone_and_among_others(text: str) -> None:
    alone: list[Any] = []
    fine = []
    for row in few_rows():
        try:
            alone += outcome(text, [row]).to_pylist()
        except InvalidRequestError:
            continue
        fine.append(row)
    assert fine
    assert repr(outcome(text, fine).to_pylist()) == repr(alone)
    assert outcome(text, []).to_pylist() == []


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_unsupported_syntax_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as refused:
        outcome(text, few_rows())
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("i + 1", {"i": 2**31 - 1}),
        ("-i", {"i": -(2**31)}),
        ("abs(tiny)", {"tiny": -128}),
        ("n * 2", {"n": 2**62}),
        ("i / tiny", {"i": 1, "tiny": 0}),
        ("i % tiny", {"i": 1, "tiny": 0}),
        ("i div tiny", {"i": 1, "tiny": 0}),
        ("n div -1", {"n": -(2**63)}),
        ("CAST(i AS TINYINT)", {"i": 128}),
        ("CAST(big AS DECIMAL(38, 18))", {"big": Decimal("1E+30")}),
        ("CAST(s AS INT)", {"s": "0x1F"}),
        ("CAST(s AS INT)", {"s": "1.0"}),
        ("CAST(s AS DATE)", {"s": "2026-02-30"}),
    ],
)
def test_a_value_that_is_none_is_refused(text: str, row: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="has no value for some row"):
        outcome(text, [{field.name: row.get(field.name) for field in SCHEMA.fields}])


@pytest.mark.parametrize(
    ("text", "row", "name"),
    [
        ("CAST(n AS DOUBLE)", {"n": 2**53 + 1}, "DOUBLE"),
        ("CAST(d AS FLOAT)", {"d": 0.1}, "FLOAT"),
        ("CAST(d AS FLOAT)", {"d": 1e300}, "FLOAT"),
    ],
)
def test_a_cast_that_rounds_is_an_error_of_this_engine(
    text: str, row: Mapping[str, Any], name: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"cast to {name} .* would round.* Spark engine"):
        outcome(text, [{field.name: row.get(field.name) for field in SCHEMA.fields}])


MODELS: Mapping[str, Callable[[Any, Any], Any]] = {
    "i + n": lambda i, n: i + n,
    "i - n": lambda i, n: i - n,
    "i * n": lambda i, n: i * n,
    "n % i": lambda i, n: int(math.copysign(abs(n) % abs(i), n)) if abs(n) < 2**50 else None,
    "n div i": lambda i, n: abs(n) // abs(i) * (1 if (n < 0) == (i < 0) else -1),
    "i < n": lambda i, n: i < n,
    "i <=> n": lambda i, n: i == n,
    "abs(i - n)": lambda i, n: abs(i - n),
}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(list(MODELS)),
    st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3),
    st.integers(-(2**49), 2**49) | st.integers(-(2**63), 2**63 - 1),
)
def test_whole_numbers_are_exact_or_refused(text: str, i: int, n: int) -> None:
    row = {field.name: {"i": i, "n": n}.get(field.name) for field in SCHEMA.fields}
    try:
        expected = MODELS[text](i, n)
    except ZeroDivisionError:
        expected = None
    is_value = isinstance(expected, bool) or (expected is not None and -(2**63) <= expected < 2**63)
    if is_value and not (text == "abs(i - n)" and not -(2**63) <= i - n < 2**63):
        assert outcome(text, [row]).to_pylist() == [expected]
    elif text != "n % i" or i == 0:
        with pytest.raises(InvalidRequestError):
            outcome(text, [row])


def test_a_text_that_is_too_large_for_all_rows_together_is_refused() -> None:
    text = parse_expression(f"'{'x' * 2**20}'").root
    rows = Rows(lambda _: pa.nulls(2**11), num_rows=2**11)
    with pytest.raises(InvalidRequestError, match="too large"):
        evaluate(resolve_expression(text, finder_of(SCHEMA)), rows)
