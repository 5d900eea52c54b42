"""Conditions: select the rows of an operation by a predicate or an expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.acero import evaluate
from delta_ops.arrow.expressions.evaluation import evaluate_condition, rows_of_batch
from delta_ops.protocol.expression import Expression, parse_expression
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.expression.nodes import Node, columns_of
from delta_ops.protocol.expression.quotes import validate_condition
from delta_ops.protocol.expression.resolution import finder_of, resolve_condition
from delta_ops.protocol.expression.time_functions import bind_time
from delta_ops.protocol.predicate import TRUE, Predicate, columns, resolve, to_arrow
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import StructType


class Condition(Protocol):
    """Selects rows."""

    text: str
    """The condition in SQL; "true" for all rows."""
    implied: Predicate
    """A predicate that is true for at least the rows that match the condition."""
    is_implied: bool
    """Whether the predicate matches exactly the same rows."""
    columns: Sequence[str]
    """The columns that `mask` reads."""

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return true where the condition is true; false where it is false or null."""


def condition_of(
    condition: Predicate | Expression | str | None, schema: StructType, now_ms: int
) -> Condition:
    """Build the condition from a caller's argument; None means all rows.

    Args:
        now_ms: Time of the statement, in milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: The condition does not fit the table.
    """
    if isinstance(condition, str):
        condition = parse_expression(condition)
    if isinstance(condition, Expression):
        validate_condition(condition, finder_of(schema))
        return _ByExpression(condition.text, bind_time(condition.root, now_ms), schema)
    return _ByPredicate(TRUE if condition is None else condition, schema)


class _ByPredicate:
    is_implied = True

    def __init__(self, predicate: Predicate, schema: StructType) -> None:
        resolved = resolve(predicate, schema)
        self.implied = predicate
        self.text = "true" if predicate == TRUE else predicate_text(predicate)
        self.columns: Sequence[str] = sorted(columns(resolved))
        self._expression = to_arrow(resolved, schema)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `Condition`."""
        return pc.fill_null(evaluate(self._expression, batch), False)


class _ByExpression:
    is_implied = False

    def __init__(self, text: str, root: Node, schema: StructType) -> None:
        self._node = resolve_condition(root, finder_of(schema))
        self.implied = implied_predicate(root, schema)
        self.text = text
        self.columns: Sequence[str] = sorted({each.path[0] for each in columns_of(self._node)})

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `Condition`."""
        return evaluate_condition(self._node, rows_of_batch(batch))
