"""Missing columns: values of columns that the data leave out, though the table says what they are.

Source: PROTOCOL.md, "Identity Columns", "Default Columns".

Values are made for a batch at a time. What is null in the data stays null: a default is for columns
that the data do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pyarrow as pa

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.arrow_types import arrow_type_from_type
from delta_ops.protocol.column_defaults import column_defaults, default_value
from delta_ops.protocol.identity_columns import (
    Counted,
    IdentityColumn,
    count_on,
    identity_columns,
)
from delta_ops.protocol.schema import find_field
from delta_ops.protocol.table_definition import TableDefinition

_Values = Callable[[int], Any]
"""Makes as many values as are asked for."""


class MissingColumns:
    """Gives batches of one schema the columns that they lack.

    Args:
        names: Columns that the data have, in any case.
        now_ms: Time of the write, in milliseconds since the Unix epoch.
        table: For messages.

    Raises:
        InvalidRequestError: The data have a column that is always counted, or a default needs
            another engine.
    """

    def __init__(
        self, names: Collection[str], definition: TableDefinition, now_ms: int, table: str
    ) -> None:
        given = {name.lower() for name in names}
        self._table = table
        self._begun: dict[str, IdentityColumn] = {}
        self._reached: dict[str, IdentityColumn] = {}
        self._columns: dict[str, tuple[pa.DataType, _Values]] = {}
        for column in identity_columns(definition.schema):
            if column.name.lower() not in given:
                self._begun[column.name] = self._reached[column.name] = column
                self._columns[column.name] = pa.int64(), self._counting(column.name)
            elif not column.allows_given_values:
                raise InvalidRequestError(
                    f"{table}: the values of identity column {column.name} are always generated; "
                    "drop it from the data"
                )
        for name in column_defaults(definition.schema) if _has_defaults(definition) else ():
            if name.lower() not in given and name not in self._columns:
                field = find_field(definition.schema, name)
                data_type = arrow_type_from_type(field.data_type)
                value = default_value(field, now_ms, table)
                self._columns[name] = data_type, _repeating(value, data_type)

    def add_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the columns behind its own."""
        for name, (_, values) in self._columns.items():
            batch = batch.append_column(name, values(len(batch)))
        return batch

    def schema_with(self, schema: pa.Schema) -> pa.Schema:
        """The schema of batches with the columns behind their own."""
        for name, (data_type, _) in self._columns.items():
            schema = schema.append(pa.field(name, data_type))
        return schema

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


def _has_defaults(definition: TableDefinition) -> bool:
    return definition.has("allowColumnDefaults")


def _repeating(value: Any, data_type: pa.DataType) -> _Values:
    repeated = pa.scalar(value, data_type)
    return lambda num_rows: pa.repeat(repeated, num_rows)
