"""Assigned fields: new values of columns and of fields of structs, as values of whole columns.

A field that is given no value keeps its own. A struct that is null gets the fields that are given,
and nulls in the others, as by the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.expression.resolution import locate
from delta_ops.protocol.schema import ColumnPath, DataType, StructField, StructType, find_field
from delta_ops.protocol.schema.column_names import name_of_path

T = TypeVar("T")


def assigned_field(path: ColumnPath, schema: StructType) -> StructField:
    """The column or field that is given a value, under its path as text.

    Raises:
        InvalidRequestError: There is none.
    """
    found = locate(path, schema)
    if len(path) == 1:
        return find_field(schema, path[0])
    return StructField(name_of_path(found.path), found.data_type)


def whole_values(
    values: Mapping[ColumnPath, T],
    schema: StructType,
    keep: Callable[[ColumnPath], T],
    make_struct: Callable[[Sequence[tuple[str, T]]], T],
    table: str,
) -> dict[str, T]:
    """The values of columns, by the names that the table has for them.

    Args:
        values: New values, of columns and of fields of structs.
        schema: The table's.
        keep: Makes the value that a row has in a field.
        make_struct: Makes a struct of fields.
        table: For messages.

    Raises:
        InvalidRequestError: A value is given twice.
    """
    by_column: dict[str, dict[ColumnPath, T]] = {}
    for path, value in values.items():
        spelled = locate(path, schema).path
        given = by_column.setdefault(spelled[0], {})
        for other in given:
            shorter = min(len(spelled), len(other))
            if spelled[:shorter] == other[:shorter]:
                raise InvalidRequestError(
                    f"{table}: column {name_of_path(spelled[:shorter])} is given a value twice "
                    "(case does not count); give it once, as a whole or by its fields"
                )
        given[spelled] = value

    def whole_value(path: ColumnPath, data_type: DataType) -> T:
        given = by_column[path[0]]
        if path in given:
            return given[path]
        if not any(each[: len(path)] == path for each in given):
            return keep(path)
        assert isinstance(data_type, StructType)
        return make_struct(
            [(f.name, whole_value((*path, f.name), f.data_type)) for f in data_type.fields]
        )

    return {name: whole_value((name,), find_field(schema, name).data_type) for name in by_column}
