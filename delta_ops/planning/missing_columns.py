"""Missing columns: find the columns that the data omit and the engine fills.

Source: PROTOCOL.md, "Identity Columns", "Default Columns", "Generated Columns".

A null in the data stays null: defaults apply only to columns that the data do not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.columns.defaults import column_defaults
from delta_ops.protocol.columns.identity import IdentityColumn, identity_columns
from delta_ops.protocol.row_rules import Generated
from delta_ops.protocol.schema import StructField, find_field
from delta_ops.protocol.table_definition import TableDefinition


def generated_columns(
    definition: TableDefinition, names: Iterable[str] = ()
) -> tuple[Generated, ...]:
    """Return the generated columns of a table that the data, or the assignments, omit.

    Args:
        names: Columns with values, in any case.
    """
    folded = {name.lower() for name in names}
    rules = (each for each in definition.row_rules if isinstance(each, Generated))
    return tuple(each for each in rules if each.column.lower() not in folded)


class FilledColumns(NamedTuple):
    """Columns that the data omit and the table has values for."""

    counted: tuple[IdentityColumn, ...]
    """Identity columns."""
    defaults: tuple[StructField, ...]
    """Columns with a default."""


def find_missing(names: Iterable[str], definition: TableDefinition, table: str) -> FilledColumns:
    """Find the columns to fill.

    Args:
        names: Columns of the data, in any case.
        table: For messages.

    Raises:
        InvalidRequestError: The data have an identity column whose values are always generated.
    """
    present = {name.lower() for name in names}
    identities = identity_columns(definition.schema)
    for each in identities:
        if each.name.lower() in present and not each.allows_explicit_values:
            raise InvalidRequestError(
                f"{table}: the values of identity column {each.name} are always generated; drop "
                "it from the data",
                "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
            )
    counted = tuple(each for each in identities if each.name.lower() not in present)
    filled = present.union(each.name.lower() for each in counted)
    has_defaults = definition.has("allowColumnDefaults")
    defaults = column_defaults(definition.schema) if has_defaults else {}
    return FilledColumns(
        counted,
        tuple(
            find_field(definition.schema, name) for name in defaults if name.lower() not in filled
        ),
    )
