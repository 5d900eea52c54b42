"""Assigned columns: the columns that an update or a merge clause assigns values to.

The rules are the same for both engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.schema import (
    VOID,
    ArrayType,
    ColumnPath,
    MapType,
    StructType,
    find_field,
)
from delta_ops.protocol.schema.column_names import find_columns, name_of_path, path_of_name
from delta_ops.protocol.schema.widening import is_number
from delta_ops.transaction.requests import Clause


def taken_columns(
    clause: Clause, source: StructType, wanted: StructType, table: str
) -> dict[str, str]:
    """Return the source columns that a clause uses, by their names in the table.

    Args:
        clause: A clause that uses all columns.
        source: The columns of the source.
        wanted: The columns of the table after the merge.
        table: For messages.

    Raises:
        InvalidRequestError: The table lacks a column, or an excluded column does not exist.
    """
    names = _all_names(clause, source)
    for name in names:
        if name.lower() not in wanted.fields_by_lower_name:
            raise InvalidRequestError(
                f"{table} has no column {name!r}, which the source has; leave it out with "
                f"{option('except_cols')}, or merge with {option('merge_schema', True)} to add it"
            )
    return {find_field(wanted, name).name: name for name in names}


def assigned_values(clause: Clause, target_alias: str, wanted: StructType) -> dict[ColumnPath, Any]:
    """Return the values of a clause by column path; updates may also set struct fields.

    Raises:
        InvalidRequestError: A name is invalid, or an insert sets a struct field.
    """
    values = values_by_path(clause.updates or {}, target_alias, wanted)
    for path in values:
        if len(path) > 1 and clause.action == "insert":
            raise InvalidRequestError(
                f"{name_of_path(path)} is a field of column {path[0]}, and an insert sets only "
                f"whole columns; set {path[0]} to a struct with its fields"
            )
    return values


def values_by_path(
    values: Mapping[Any, Any], alias: str | None, wanted: StructType
) -> dict[ColumnPath, Any]:
    """Return values by the paths of columns and fields, with names parsed as in SQL.

    Args:
        values: Values by name; `column_names` parses the names.
        alias: The table's alias, allowed before a name.
        wanted: The table's columns. An unknown name is a path of one part.

    Raises:
        InvalidRequestError: A name is not a text, or has two values.
    """
    by_path: dict[ColumnPath, Any] = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise InvalidRequestError(f"{name!r} is not a column name; give a string")
        path = _path_of_name(name, alias, wanted)
        if path in by_path:
            raise InvalidRequestError(
                f"Column {name} is set twice; set it once.", "DELTA_CONFLICT_SET_COLUMN"
            )
        by_path[path] = value
    return by_path


def is_sql_text(value: Any) -> bool:
    """Whether an assigned value is SQL; a text in an Enum or from NumPy is a plain value."""
    return isinstance(value, str) and not (isinstance(value, Enum) or hasattr(value, "dtype"))


def _path_of_name(name: str, alias: str | None, wanted: StructType) -> ColumnPath:
    known = wanted.fields_by_lower_name
    try:
        path = path_of_name(name, wanted)
    except InvalidRequestError:
        return (name,)
    if alias is not None and len(path) > 1 and path[0].lower() == alias.lower():
        path = path[1:]
    return path if len(path) == 1 or path[0].lower() in known else (name,)


def new_columns(
    clauses: Sequence[Clause], source: StructType, target: StructType, target_alias: str
) -> StructType:
    """Return the source columns that may add a column, or a struct field, to the table.

    These are the columns that a clause takes from the source. If the table lacks a column, it is
    also added if a clause sets it to another value. A void column counts as missing in the table,
    because it takes the type of the source.

    Raises:
        InvalidRequestError: An excluded column does not exist.
    """
    names = {name for each in clauses if each.takes_all for name in _all_names(each, source)}
    known = {each.name.lower() for each in target.fields if each.data_type != VOID}
    for each in clauses:
        for name, *_ in assigned_values(each, target_alias, target):
            if name.lower() not in known:
                names |= {found.name for found in source.fields_by_lower_name.get(name.lower(), ())}
    return StructType(
        tuple(
            field
            for field in source.fields
            if field.name in names
            if field.name.lower() not in known
            or isinstance(field.data_type, StructType | ArrayType | MapType)
            or is_number(field.data_type)
        )
    )


def _all_names(clause: Clause, source: StructType) -> list[str]:
    left_out = set(find_columns(source, clause.except_columns))
    return [each.name for each in source.fields if each.name not in left_out]
