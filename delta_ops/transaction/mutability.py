"""Mutability: which rows and columns of a table may change.

Source: PROTOCOL.md, "Append-only Tables", "Identity Columns".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.columns.identity import is_identity
from delta_ops.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    find_field,
)
from delta_ops.protocol.table_definition import TableDefinition


def validate_changeable(definition: TableDefinition, table: str, verb: str) -> None:
    """Reject an append-only table.

    Args:
        verb: Past participle of the change, for messages.

    Raises:
        InvalidRequestError: The table is append-only.
    """
    if definition.properties.append_only:
        raise InvalidRequestError(
            f"{table} is append-only (delta.appendOnly = true), so no row can be {verb}; append "
            "instead, or unset the property",
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        )


def validate_assigned(names: Iterable[str], schema: StructType, table: str) -> None:
    """Reject new values for identity columns, which never change in a row.

    Args:
        names: Columns that get new values in existing rows.

    Raises:
        InvalidRequestError: A column is an identity column.
    """
    for name in names:
        if is_identity(find_field(schema, name)):
            raise InvalidRequestError(
                f"{table}: {name} is an identity column, whose values cannot be updated; leave it "
                "out of the update (with except_cols in a merge), or delete the row and insert "
                "another",
                "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
            )


def validate_whole(source: DataType, field: StructField, table: str) -> None:
    """Reject new struct values that lack fields: existing rows would lose the fields' values.

    Args:
        source: The type of the new values.
        field: The column that gets the values.

    Raises:
        InvalidRequestError: The new values lack a field.
    """
    for path in _missing_fields(source, field.data_type, field.name):
        raise InvalidRequestError(
            f"{table}: new values of column {field.name} lack the field {path}, which existing "
            "rows would lose; give all fields, with NULL for a field that should be null"
        )


def _missing_fields(source: DataType, wanted: DataType, path: str) -> Iterator[str]:
    match source, wanted:
        case StructType(), StructType():
            for each in wanted.fields:
                found = source.fields_by_lower_name.get(each.name.lower())
                inner = f"{path}.{each.name}"
                if found:
                    yield from _missing_fields(found[0].data_type, each.data_type, inner)
                else:
                    yield inner
        case ArrayType(), ArrayType():
            yield from _missing_fields(source.element_type, wanted.element_type, f"{path}.element")
        case MapType(), MapType():
            yield from _missing_fields(source.value_type, wanted.value_type, f"{path}.value")
