"""Missing columns: values of columns that the data leave out, though the table says what they are.

Source: PROTOCOL.md, "Identity Columns", "Default Columns".

Values are made for a batch at a time. What is null in the data stays null: a default is for columns
that the data do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from delta_ops.arrow.partitioning import fill_empty
from delta_ops.planning.missing_columns import find_missing
from delta_ops.protocol.columns.defaults import default_value
from delta_ops.protocol.columns.identity import (
    Counted,
    count_on,
    identity_columns,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.table_definition import TableDefinition

_Values = Callable[[int], Any]
"""Makes as many values as are asked for."""


class Completion(NamedTuple):
    """How to give batches the columns that they lack."""

    fields: Sequence[pa.Field]
    values: Mapping[str, _Values]

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the columns behind its own."""
        for name, make in self.values.items():
            batch = batch.append_column(name, make(len(batch)))
        return batch

    def complete_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of batches with the columns behind their own."""
        return pa.schema([*schema, *self.fields])


class MissingColumns:
    """Gives batches the columns that they lack.

    Args:
        now_ms: Time of the write, in milliseconds since the Unix epoch.
        table: For messages.
    """

    def __init__(self, definition: TableDefinition, now_ms: int, table: str) -> None:
        self._definition, self._now_ms, self._table = definition, now_ms, table
        self._begun = {each.name: each for each in identity_columns(definition.schema)}
        self._reached = dict(self._begun)

    def plan(self, names: Collection[str]) -> Completion:
        """How to complete batches.

        Args:
            names: Columns that they have, in any case.

        Raises:
            InvalidRequestError: They have a column that is always counted, or a default needs
                another engine.
        """
        filled = find_missing(names, self._definition, self._table)
        values: dict[str, _Values] = {
            column.name: self._counting(column.name) for column in filled.counted
        }
        for field in filled.defaults:
            value = default_value(field, self._now_ms, self._table)
            default = pa.array([value], arrow_type_from_type(field.data_type))
            if field.name in self._definition.partition_columns:
                default = fill_empty(default, field)
            values[field.name] = partial(pa.repeat, default[0])
        schema = self._definition.arrow_schema
        return Completion([schema.field(name) for name in values], values)

    def counted_values(self) -> tuple[Counted, ...]:
        """The values of identity columns that were taken."""
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
            return pa.array(values, pa.int64())

        return take
