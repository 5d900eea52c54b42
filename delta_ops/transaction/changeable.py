"""Changeable: whether rows of a table may be changed, and which of their columns.

Source: PROTOCOL.md, "Append-only Tables", "Identity Columns".
"""

from __future__ import annotations

from collections.abc import Iterable

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.identity_columns import is_identity
from delta_ops.protocol.schema import StructType, find_field
from delta_ops.protocol.table_definition import TableDefinition


def validate_changeable(definition: TableDefinition, table: str, verb: str) -> None:
    """Refuse tables of which no row can be changed.

    Args:
        verb: What is done to rows, for messages.

    Raises:
        InvalidRequestError: With the property, and the cure.
    """
    if definition.properties.append_only:
        raise InvalidRequestError(
            f"{table} is append-only (delta.appendOnly = true), so that no row can be {verb}; "
            "append instead, or unset the property"
        )


def validate_assigned(names: Iterable[str], schema: StructType, table: str) -> None:
    """Refuse new values of identity columns, which no row ever changes.

    Args:
        names: Columns of the table that rows which are there get values in.

    Raises:
        InvalidRequestError: With the column.
    """
    for name in names:
        if is_identity(find_field(schema, name)):
            raise InvalidRequestError(
                f"{table}: {name} is an identity column, whose value a row keeps; leave it out of "
                "what is updated (except_cols of a merge), or delete the row and insert another"
            )
