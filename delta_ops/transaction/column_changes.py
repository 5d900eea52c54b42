"""Column changes: what every change of a table's columns does to the transaction it is made in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from delta_ops.protocol.columns.ids import assign_column_ids
from delta_ops.protocol.schema import (
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    schema_to_json,
)
from delta_ops.protocol.schema.changes import find_by_path, replace_field
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.protocol.table_definition import validate_types
from delta_ops.transaction.alter_table import Alteration
from delta_ops.transaction.create_table import validate_names
from delta_ops.transaction.transaction import Transaction


def find_column(transaction: Transaction, name: str) -> tuple[ColumnPath, StructField]:
    """The column that a text names: its path as the schema spells it, and the field.

    Raises:
        InvalidRequestError: There is no such column.
    """
    return find_by_path(transaction.schema, path_of_name(name, transaction.schema))


def set_schema(
    transaction: Transaction,
    schema: StructType,
    configuration: Mapping[str, str] | None = None,
    partition_columns: tuple[str, ...] | None = None,
    features: Iterable[str] = (),
) -> None:
    """Give the table other columns, and what goes with them; what is None stays.

    Args:
        features: The protocol gets them if it has them not.

    Raises:
        InvalidRequestError: A name cannot be used, or a type needs a feature that the table does
            not have.
    """
    added = tuple(features)
    validate_types(schema, transaction.definition, transaction.log.uri, added)
    validate_names(schema, transaction.schema, is_mapped=transaction.definition.is_mapped)
    metadata = replace(transaction.metadata, schema_string=schema_to_json(schema))
    if configuration is not None:
        metadata = replace(metadata, configuration=configuration)
    if partition_columns is not None:
        metadata = replace(metadata, partition_columns=partition_columns)
    with_ids = assign_column_ids(metadata, transaction.metadata, transaction.log.uri)
    transaction.set_metadata(with_ids, added)


def change_field(
    transaction: Transaction,
    path: ColumnPath,
    field: StructField,
    features: Iterable[str] = (),
) -> Alteration | None:
    """Put another field in the place of one; None where it is the same."""
    changed = replace_field(transaction.schema, path, field)
    if changed == transaction.schema:
        return None
    set_schema(transaction, changed, features=features)
    return Alteration(
        operation="CHANGE COLUMN", parameters={"column": field_json(path[:-1], field)}
    )


def field_json(parent: ColumnPath, field: StructField) -> dict[str, Any]:
    """A field as the reference tells of it in `operationParameters`."""
    return {
        "name": name_of_path((*parent, field.name)),
        "type": _type_name(field.data_type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def _type_name(data_type: DataType) -> str:
    match data_type:
        case ArrayType():
            return "array"
        case MapType():
            return "map"
    return data_type.name
