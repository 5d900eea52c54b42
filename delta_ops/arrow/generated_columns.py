"""Generated columns in Arrow data: compute the values of columns that the data omit.

Source: PROTOCOL.md, "Generated Columns".

Expressions use the dialect of `docs/expressions.md`, in UTC. `row_checks` validates values that the
data contain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from delta_ops.arrow.assignments import Assignments, plan_assignments, replace_values
from delta_ops.arrow.expressions.evaluation import rows_of_batch
from delta_ops.planning.missing_columns import generated_columns
from delta_ops.protocol.arrow_values import TRUE_SCALAR
from delta_ops.protocol.expression import parse_expression
from delta_ops.protocol.expression.quotes import validate_rule
from delta_ops.protocol.expression.resolution import finder_of
from delta_ops.protocol.row_rules import Generated
from delta_ops.protocol.table_definition import TableDefinition


def plan_generated(rule: Generated, definition: TableDefinition, table: str) -> Assignments:
    """Plan how to compute a generated column from rows of the table.

    Raises:
        InvalidRequestError: This engine cannot evaluate the expression.
    """
    validate_rule(rule, definition.schema, table)
    node = parse_expression(rule.expression or "").root
    find = finder_of(definition.schema)
    partitions = definition.partition_columns
    return plan_assignments({rule.column: node}, find, definition.schema, table, partitions)


class GeneratedColumns:
    """The generated columns of a table.

    Args:
        table: For messages.

    Raises:
        InvalidRequestError: This engine cannot evaluate an expression.
    """

    def __init__(self, definition: TableDefinition, table: str) -> None:
        self._definition = definition
        self._values = {
            rule.column: plan_generated(rule, definition, table)
            for rule in generated_columns(definition)
        }

    @property
    def names(self) -> Collection[str]:
        """The generated columns, as the table spells them."""
        return self._values.keys()

    def left_out(self, names: Iterable[str]) -> list[str]:
        """Return the generated columns that are not among the given names, in any case."""
        return [rule.column for rule in generated_columns(self._definition, names)]

    def fill(
        self,
        rows: pa.RecordBatch,
        names: Collection[str],
        mask: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        """Compute generated columns of rows.

        Args:
            rows: Rows with the table's columns.
            names: The generated columns to compute.
            mask: The rows to change; None means all.

        Raises:
            InvalidRequestError: An expression has no value for a row.
        """
        for name in names:
            place = rows.schema.get_field_index(name)
            mask = pa.repeat(TRUE_SCALAR, len(rows)) if mask is None else mask
            [made] = self._values[name].evaluate(rows_of_batch(rows).narrow(mask))
            values = replace_values(rows.column(place), mask, made)
            rows = rows.set_column(place, rows.schema.field(place), values)
        return rows
