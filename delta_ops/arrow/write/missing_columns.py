"""Missing columns: fill columns that the data omit but the table has values for.

Source: PROTOCOL.md, "Identity Columns", "Default Columns".

Values are computed for one batch at a time. A null in the data stays null: defaults apply only to
columns that the data do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from delta_ops.arrow.partitioning import fill_empty
from delta_ops.planning.missing_columns import find_missing
from delta_ops.protocol.arrow_values import array_of, repeat
from delta_ops.protocol.columns.defaults import default_value
from delta_ops.protocol.columns.identity import (
    Counted,
    count_on,
    identity_columns,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.table_definition import TableDefinition

_Values = Callable[[int], Any]
"""Returns the requested number of values."""


class Completion(NamedTuple):
    """How to add missing columns to batches."""

    fields: Sequence[pa.Field]
    values: Mapping[str, _Values]

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Append the missing columns to a batch."""
        for field in self.fields:
            batch = batch.append_column(field, self.values[field.name](len(batch)))
        return batch

    def complete_schema(self, schema: pa.Schema) -> pa.Schema:
        """Append the missing columns to a batch's schema."""
        return pa.schema([*schema, *self.fields])


class MissingColumns:
    """Adds missing columns to batches.

    Args:
        now_ms: Time of the write, in milliseconds since the Unix epoch.
        table: For messages.
    """

    def __init__(self, definition: TableDefinition, now_ms: int, table: str) -> None:
        self._definition, self._now_ms, self._table = definition, now_ms, table
        self._begun = {each.name: each for each in identity_columns(definition.schema)}
        self._reached = dict(self._begun)

    def plan(self, names: Collection[str]) -> Completion:
        """Plan how to complete batches.

        Args:
            names: Columns of the batches, in any case.

        Raises:
            InvalidRequestError: The data have an identity column whose values are always generated,
                or a default needs another engine.
        """
        filled = find_missing(names, self._definition, self._table)
        values: dict[str, _Values] = {
            column.name: self._counting(column.name) for column in filled.counted
        }
        for field in filled.defaults:
            value = default_value(field, self._now_ms, self._table)
            default = array_of([value], arrow_type_from_type(field.data_type))
            if field.name in self._definition.partition_columns:
                default = fill_empty(default, field)
            values[field.name] = partial(repeat, default[0])
        schema = self._definition.arrow_schema
        return Completion([schema.field(name) for name in values], values)

    def counted_values(self) -> tuple[Counted, ...]:
        """Return the identity column values that were used."""
        return tuple(
            Counted(
                column=name,
                after=self._begun[name].high_water_mark,
                last=reached.high_water_mark,
            )
            for name, reached in self._reached.items()
            if reached is not self._begun[name] and reached.high_water_mark is not None
        )

    def _counting(self, name: str) -> _Values:
        def take(num_rows: int) -> pa.Array:
            column = self._reached[name]
            values = count_on(column, num_rows, self._table)
            if num_rows:
                self._reached[name] = replace(column, high_water_mark=values[-1])
            return array_of(values, pa.int64())

        return take
