"""New columns: columns and struct fields to add, and their fields in the schema."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.protocol.schema import DataType, StructField
from delta_ops.protocol.schema.arrow_types import schema_from_arrow, validate_levels
from delta_ops.protocol.schema.char_types import SQL_TYPE, split_lengths
from delta_ops.protocol.schema.evolution import allow_nulls
from delta_ops.protocol.schema.type_text import parse_type


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to add, or a field of a struct; existing rows have null in it.

    Examples:
        >>> address = NewColumn(name="address", data_type="struct<city: string>", first=True)
        >>> _ = add_columns("lake/orders", [address])
        >>> street = NewColumn(name="address.street", data_type=pa.string(), comment="with number")
        >>> _ = add_columns("lake/orders", [street])
        >>> DeltaLog("lake/orders").snapshot().arrow_schema.field("address").type
        StructType(struct<city: string, street: string>)
    """

    name: str
    """`a.b` is a new field `b` of the column `a`."""
    data_type: DataType | pa.DataType | str
    """A string is a type of Spark SQL."""
    comment: str | None = None
    first: bool = False
    """Whether to place the field first in its struct."""
    after: str | None = None
    """The field of the same struct to place it after. Without `first` and `after` it comes last."""

    def __post_init__(self) -> None:
        validate_arguments(
            NewColumn, {each.name: getattr(self, each.name) for each in fields(self)}
        )


def new_field(name: str, column: NewColumn) -> StructField:
    """The field of a new column; all of its fields are nullable."""
    requested = column.data_type
    if isinstance(requested, str):
        data_type = parse_type(requested, allows_lengths=True)
    elif isinstance(requested, pa.DataType):
        data_type = schema_from_arrow(pa.schema([pa.field(name, requested)])).fields[0].data_type
    else:
        data_type = requested
    stored, sql_type = split_lengths(data_type)
    validate_levels(stored, name)
    found = {"comment": column.comment, SQL_TYPE: sql_type}
    metadata = {key: value for key, value in found.items() if value is not None}
    return StructField(name, allow_nulls(stored), True, metadata)
