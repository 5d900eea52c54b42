"""Generated columns in Arrow data: compute the values of columns that the data omit.

Source: PROTOCOL.md, "Generated Columns".

Expressions use the dialect of `docs/dml.md`, in UTC. `row_checks` validates values that the data
contain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from delta_ops.arrow.assignments import replace_values
from delta_ops.arrow.expressions.evaluation import rows_of_batch
from delta_ops.arrow.row_checks import plan_generated
from delta_ops.protocol.row_rules import Generated
from delta_ops.protocol.table_definition import TableDefinition


class GeneratedColumns:
    """The generated columns of a table.

    Args:
        table: For messages.

    Raises:
        InvalidRequestError: This engine cannot evaluate an expression.
    """

    def __init__(self, definition: TableDefinition, table: str) -> None:
        rules = [each for each in definition.row_rules if isinstance(each, Generated)]
        self._values = {each.column: plan_generated(each, definition, table) for each in rules}

    @property
    def names(self) -> Collection[str]:
        """The generated columns, as the table spells them."""
        return self._values.keys()

    def left_out(self, names: Iterable[str]) -> list[str]:
        """Return the generated columns that are not among the given names, in any case."""
        folded = {name.lower() for name in names}
        return [name for name in self._values if name.lower() not in folded]

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
            mask = pa.repeat(True, len(rows)) if mask is None else mask
            [made] = self._values[name].evaluate(rows_of_batch(rows).narrow(mask))
            values = replace_values(rows.column(place), mask, made)
            rows = rows.set_column(place, rows.schema.field(place), values)
        return rows
