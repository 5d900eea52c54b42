"""Assigned fields: combine new values of columns and struct fields into whole columns.

A field without a new value keeps its value. A null struct gets the new field values, and null in
other fields, as in the reference implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.expression.resolution import locate
from delta_ops.protocol.predicate import Column, Predicate
from delta_ops.protocol.schema import ColumnPath, DataType, StructField, StructType, find_field
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.protocol.values.conversion import value_of_type

T = TypeVar("T")


def assigned_field(path: ColumnPath, schema: StructType) -> StructField:
    """Return the assigned column or field, with its path as its name.

    Raises:
        InvalidRequestError: The column or field does not exist.
    """
    if len(path) == 1:
        return find_field(schema, path[0])
    try:
        found = locate(path, schema)
    except UnknownColumnError as error:
        raise UnknownColumnError(error.message, "FIELD_NOT_FOUND") from error
    return StructField(name_of_path(found.path), found.data_type)


def python_value(value: Any, field: StructField, table: str, *, is_whole: bool) -> Any:
    """Return a Python value as its column stores it; an engine parses texts and expressions itself.

    Args:
        field: The assigned column or field.
        table: For messages.
        is_whole: The value of a struct must have all fields, because rows would lose missing
            fields.

    Raises:
        InvalidRequestError: The value does not fit the type, or is a condition.
    """
    if isinstance(value, Column | Predicate):
        raise InvalidRequestError(
            f"{table}: column {field.name} is given {value!r}; give a value, or an "
            'expression of SQL such as "price * 2"'
        )
    return value_of_type(value, field, table, is_whole=is_whole)


def whole_values(
    values: Mapping[ColumnPath, T],
    schema: StructType,
    keep: Callable[[ColumnPath], T],
    make_struct: Callable[[Sequence[tuple[str, T]]], T],
    table: str,
) -> dict[str, T]:
    """Return whole column values, by column name as the table spells it.

    Args:
        values: New values of columns and struct fields.
        schema: The table's schema.
        keep: Returns the existing value of a field.
        make_struct: Builds a struct from fields.
        table: For messages.

    Raises:
        InvalidRequestError: There is no value, or a value is given twice.
    """
    if not values:
        raise InvalidRequestError(f"{table}: no column gets a value; set at least one")
    by_column: dict[str, dict[ColumnPath, T]] = {}
    for path, value in values.items():
        spelled = locate(path, schema).path
        assigned = by_column.setdefault(spelled[0], {})
        for other in assigned:
            shorter = min(len(spelled), len(other))
            if spelled[:shorter] == other[:shorter]:
                raise InvalidRequestError(
                    f"{table}: column {name_of_path(spelled[:shorter])} is set twice (names "
                    "ignore case); set it once, as a whole or by its fields",
                    "DELTA_CONFLICT_SET_COLUMN",
                )
        assigned[spelled] = value

    def whole_value(path: ColumnPath, data_type: DataType) -> T:
        assigned = by_column[path[0]]
        if path in assigned:
            return assigned[path]
        if not any(each[: len(path)] == path for each in assigned):
            return keep(path)
        assert isinstance(data_type, StructType)
        return make_struct(
            [(f.name, whole_value((*path, f.name), f.data_type)) for f in data_type.fields]
        )

    return {name: whole_value((name,), find_field(schema, name).data_type) for name in by_column}
