"""Schema evolution: the schema of a table that takes in the columns of data.

Columns, and the fields of structs at any depth, are the same where their names differ in case only.
What the table has stays as it is: its place, name, type, nullability and metadata; whether values
of another type fit is for each value to say. What it lacks comes last in its struct, and may be
null, as it is in the rows that are there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    walk,
)


def merge_schemas(table: StructType, data: StructType) -> StructType:
    """The table's schema with the columns and fields that only the data have."""
    given = {each.name.lower(): each.data_type for each in data.fields}
    kept = tuple(
        replace(each, data_type=_merge(each.data_type, given[each.name.lower()]))
        if each.name.lower() in given
        else each
        for each in table.fields
    )
    added = (e for e in data.fields if e.name.lower() not in table.fields_by_lower_name)
    return StructType((*kept, *map(_nullable_field, added)))


def validate_given_once(data: StructType, table: str) -> None:
    """Refuse data in which a column, or a field of a struct, stands twice; case does not count.

    Raises:
        InvalidRequestError: With its name.
    """
    for path, data_type in [((), data), *walk(data)]:
        if not isinstance(data_type, StructType):
            continue
        for name, n in Counter(field.name.lower() for field in data_type.fields).items():
            if n > 1:
                raise InvalidRequestError(
                    f"{table}: column {'.'.join((*path, name))!r} is in the data twice (case does "
                    "not count); rename or drop one"
                )


def _merge(current: DataType, given: DataType) -> DataType:
    match current, given:
        case StructType(), StructType():
            return merge_schemas(current, given)
        case ArrayType(), ArrayType():
            return replace(current, element_type=_merge(current.element_type, given.element_type))
        case MapType(), MapType():
            # A key with one more field is another key.
            return replace(current, value_type=_merge(current.value_type, given.value_type))
    return current


def _nullable_field(field: StructField) -> StructField:
    return replace(field, data_type=_nullable_type(field.data_type), nullable=True)


def _nullable_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields=fields):
            return StructType(tuple(map(_nullable_field, fields)))
        case ArrayType(element_type=element_type):
            return ArrayType(_nullable_type(element_type), True)
        case MapType(key_type=key_type, value_type=value_type):
            return MapType(_nullable_type(key_type), _nullable_type(value_type), True)
    return data_type
