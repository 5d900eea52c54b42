"""Conditions: select the rows of an operation by a predicate or an expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.acero import evaluate
from delta_ops.arrow.expressions.evaluation import evaluate_condition, rows_of_batch
from delta_ops.planning.conditions import (
    Selection,
    selection_of_expression,
    selection_of_predicate,
)
from delta_ops.protocol.arrow_values import FALSE_SCALAR
from delta_ops.protocol.expression import Expression, parse_expression
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.expression.quotes import validate_condition
from delta_ops.protocol.expression.resolution import finder_of, resolve_condition
from delta_ops.protocol.expression.time_functions import bind_time
from delta_ops.protocol.predicate import Predicate, columns, resolve, to_arrow
from delta_ops.protocol.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The rows of a table that an operation selects."""

    selection: Selection
    columns: Sequence[str]
    """The columns that `mask` reads."""
    mask: Callable[[pa.RecordBatch], pa.BooleanArray]
    """Returns true where the condition is true; false where it is false or null."""


def condition_of(
    condition: Predicate | Expression | str | None, schema: StructType, now_ms: int
) -> Condition:
    """Build the condition from a caller's argument; None means all rows.

    Args:
        now_ms: Time of the statement, in milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: The condition does not fit the table.
    """
    if condition is None or isinstance(condition, Predicate):
        return _predicate_condition(selection_of_predicate(condition), schema)
    expression = parse_expression(condition) if isinstance(condition, str) else condition
    validate_condition(expression, finder_of(schema))
    node = resolve_condition(bind_time(expression.root, now_ms), finder_of(schema))
    return Condition(
        selection=selection_of_expression(expression.text, expression.root, schema, now_ms),
        columns=sorted({each.path[0] for each in columns_of(node)}),
        mask=lambda batch: evaluate_condition(node, rows_of_batch(batch)),
    )


def _predicate_condition(selection: Selection, schema: StructType) -> Condition:
    resolved = resolve(selection.implied, schema)
    expression = to_arrow(resolved, schema)
    return Condition(
        selection=selection,
        columns=sorted(columns(resolved)),
        mask=lambda batch: pc.fill_null(evaluate(expression, batch), FALSE_SCALAR),
    )
