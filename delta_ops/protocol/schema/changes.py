"""Schema changes: add, drop, move or replace a column of a schema. Pure.

Source: PROTOCOL.md, "Schema Serialization Format" and "Column Mapping".

A column is found by its path, ignoring case. A change keeps everything else of the column: its
type, metadata, id and physical name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    find_field,
)
from delta_ops.protocol.schema.column_names import find_named, name_of_path

ChangeFields = Callable[[tuple[StructField, ...]], Sequence[StructField]]
"""Maps the fields of a struct to its new fields."""


def find_by_path(schema: StructType, path: ColumnPath) -> tuple[ColumnPath, StructField]:
    """Find a column: its path as the schema spells it, and its field.

    Raises:
        InvalidRequestError: There is no such column.
    """
    parent, exact_path = find_struct(schema, path[:-1])
    field = find_field(parent, path[-1])
    return (*exact_path, field.name), field


class Member(NamedTuple):
    """A column or field, or an element, key or value inside it."""

    path: ColumnPath
    """Path of the field, as the schema spells it."""
    field: StructField
    inner: ColumnPath
    """Path from the field to the member, by `element`, `key` and `value`; () for the field itself.
    """
    data_type: DataType


def find_member(schema: StructType, path: ColumnPath) -> Member:
    """Find the member at a path, which may end below arrays and maps.

    Raises:
        InvalidRequestError: There is no such column or member.
    """
    found = find_field(schema, path[0])
    exact_path: ColumnPath = ()
    at: DataType = schema
    depth = 0
    for part in path:
        if isinstance(at, StructType):
            found, depth = find_field(at, part), len(exact_path) + 1
        at, name = _find_member(at, part, exact_path)
        exact_path = (*exact_path, name)
    return Member(exact_path[:depth], found, exact_path[depth:], at)


def replace_member(data_type: DataType, path: ColumnPath, wanted: DataType) -> DataType:
    """The type with the element, key or value at `Member.inner` replaced."""
    if not path:
        return wanted
    member, part = _find_member(data_type, path[0], ())
    return _put_member(data_type, part, replace_member(member, path[1:], wanted))


def find_struct(schema: StructType, path: ColumnPath) -> tuple[StructType, ColumnPath]:
    """Find a struct by its path: the struct, and the path as the schema spells it.

    The path () is the whole schema.

    Raises:
        InvalidRequestError: There is no such struct.
    """
    if not path:
        return schema, ()
    found = find_member(schema, path)
    struct, exact_path = found.data_type, (*found.path, *found.inner)
    if not isinstance(struct, StructType):
        raise InvalidRequestError(
            f"column {name_of_path(exact_path)} is of type {struct.name} and has no fields"
        )
    return struct, exact_path


def change_struct(schema: StructType, path: ColumnPath, change: ChangeFields) -> StructType:
    """The schema with changed fields of one struct.

    Args:
        path: Path of the struct; () for the columns of the table.

    Raises:
        InvalidRequestError: There is no such struct.
    """
    if not path:
        return StructType(tuple(change(schema.fields)))
    head = find_field(schema, path[0])
    changed = replace(head, data_type=_change_inner(head.data_type, path, 1, change))
    return StructType(tuple(changed if each is head else each for each in schema.fields))


def add_field(
    schema: StructType,
    parent: ColumnPath,
    field: StructField,
    *,
    first: bool = False,
    after: str | None = None,
) -> StructType:
    """The schema with a new field in a struct: last, first, or after another field.

    Raises:
        InvalidRequestError: There is no such struct, it has a field of that name (ignoring case),
            or it lacks the field named by `after`.
    """

    def change(fields: tuple[StructField, ...]) -> Sequence[StructField]:
        struct = StructType(fields)
        if field.name.lower() in struct.fields_by_lower_name:
            there = find_field(struct, field.name).name
            raise InvalidRequestError(
                f"there is a column {name_of_path((*parent, there))} already (case does not "
                "count); choose another name",
                "FIELD_ALREADY_EXISTS",
            )
        if first:
            return (field, *fields)
        if after is None:
            return (*fields, field)
        place = fields.index(find_field(struct, after)) + 1
        return (*fields[:place], field, *fields[place:])

    return change_struct(schema, parent, change)


def replace_field(schema: StructType, path: ColumnPath, field: StructField) -> StructType:
    """The schema with one field replaced."""
    _, old = find_by_path(schema, path)
    return change_struct(
        schema, path[:-1], lambda fields: [field if each is old else each for each in fields]
    )


def drop_field(schema: StructType, path: ColumnPath) -> StructType:
    """The schema without a field.

    Raises:
        InvalidRequestError: There is no such column, or it is the only field of its struct.
    """
    exact_path, old = find_by_path(schema, path)

    def change(fields: tuple[StructField, ...]) -> Sequence[StructField]:
        if len(fields) == 1:
            whole = (
                f"the struct {name_of_path(exact_path[:-1])}" if exact_path[:-1] else "the table"
            )
            raise InvalidRequestError(
                f"column {name_of_path(exact_path)} is the only one of {whole}; "
                "nothing would be left",
                "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
            )
        return [each for each in fields if each is not old]

    return change_struct(schema, path[:-1], change)


def order_fields(schema: StructType, parent: ColumnPath, names: Sequence[str]) -> StructType:
    """The schema with the named fields of a struct first, followed by its other fields.

    Raises:
        InvalidRequestError: There is no such field, or a name is repeated.
    """

    def change(fields: tuple[StructField, ...]) -> Sequence[StructField]:
        struct = StructType(fields)
        wanted = [find_named(struct, name) for name in names]
        if len({each.name for each in wanted}) < len(wanted):
            raise InvalidRequestError("a column is named twice in the order; name each once")
        return [*wanted, *(each for each in fields if each not in wanted)]

    return change_struct(schema, parent, change)


def set_metadata_key(field: StructField, key: str, value: Any) -> StructField:
    """The field with a metadata key set, or removed if the value is None."""
    kept: Mapping[str, Any] = {k: v for k, v in field.metadata.items() if k != key}
    return replace(field, metadata=kept if value is None else {**kept, key: value})


def _find_member(data_type: DataType, part: str, path: ColumnPath) -> tuple[DataType, str]:
    match data_type:
        case StructType():
            field = find_field(data_type, part)
            return field.data_type, field.name
        case ArrayType() if part == "element":
            return data_type.element_type, part
        case MapType() if part == "key":
            return data_type.key_type, part
        case MapType() if part == "value":
            return data_type.value_type, part
    raise InvalidRequestError(
        f"column {name_of_path(path)} is of type {data_type.name} and has no {part}; in a path, "
        "element follows an array, and key or value follows a map"
    )


def _change_inner(
    data_type: DataType, path: ColumnPath, depth: int, change: ChangeFields
) -> DataType:
    if isinstance(data_type, StructType):
        return change_struct(data_type, path[depth:], change)
    if depth == len(path):
        raise InvalidRequestError(
            f"column {name_of_path(path)} is of type {data_type.name} and has no fields"
        )
    member, part = _find_member(data_type, path[depth], path[:depth])
    return _put_member(data_type, part, _change_inner(member, path, depth + 1, change))


def _put_member(data_type: DataType, part: str, inner: DataType) -> DataType:
    match data_type:
        case ArrayType():
            return replace(data_type, element_type=inner)
        case MapType() if part == "key":
            return replace(data_type, key_type=inner)
        case MapType():
            return replace(data_type, value_type=inner)
    return inner
