"""Changeable: whether this engine may change rows of a table, and make new ones from them.

Source: PROTOCOL.md, "Requirements for Writers". What a feature asks of whoever changes rows, and
this engine does not do, is refused by name before a file is written.
"""

from __future__ import annotations

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.column_defaults import column_defaults
from delta_ops.protocol.row_rules import Generated, Identity
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


def validate_new_rows(definition: TableDefinition, table: str, verb: str) -> None:
    """Refuse tables with columns whose values in changed rows this engine cannot make.

    Raises:
        InvalidRequestError: With the column.
    """
    for rule in definition.row_rules:
        if isinstance(rule, Generated | Identity):
            raise InvalidRequestError(
                f"{table}: {rule} makes values that rows which are {verb} would need anew; this "
                "engine does not make them. Overwrite the rows with replace_where, or use an "
                "engine that does"
            )


def validate_inserts(definition: TableDefinition, table: str) -> None:
    """Refuse merges that insert into tables with column defaults.

    Raises:
        InvalidRequestError: With the columns.
    """
    defaults = column_defaults(definition.schema) if definition.has("allowColumnDefaults") else {}
    if defaults:
        raise InvalidRequestError(
            f"{table} has column defaults ({', '.join(defaults)}), which this engine fills in for "
            "appends only; append the new rows by a write, or drop the defaults"
        )
