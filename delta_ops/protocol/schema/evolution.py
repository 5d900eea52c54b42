"""Schema evolution: adds the columns of data to a table's schema.

Columns and struct fields match by name at every depth, ignoring case. Existing columns keep their
position, name, type, nullability and metadata, with two exceptions: numbers become wider if the
table has type widening, and a column of type void takes the type of the data. Whether a value of
another type fits is checked for each value. New fields are appended to their struct and are
nullable, since existing rows have no value for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    STORED_VARIANT,
    VARIANT,
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    map_members,
    walk,
)
from delta_ops.protocol.schema.widening import describe_widening, widens_by_itself

_VARIANT_PARTS = {each.name: each.data_type for each in STORED_VARIANT.fields}


def merge_schemas(table: StructType, data: StructType) -> StructType:
    """The table's schema with additional columns and fields from the data."""
    new = {each.name.lower(): each.data_type for each in data.fields}
    kept = tuple(
        replace(each, data_type=_merge(each.data_type, new[each.name.lower()]))
        if each.name.lower() in new
        else each
        for each in table.fields
    )
    added = (
        replace(each, data_type=allow_nulls(each.data_type), nullable=True)
        for each in data.fields
        if each.name.lower() not in table.fields_by_lower_name
    )
    return StructType((*kept, *added))


def widen_types(
    table: StructType,
    data: StructType,
    keeps: Callable[[ColumnPath], bool],
    path: ColumnPath = (),
) -> StructType:
    """The table's schema with wider number types from the data, recorded in its metadata.

    Source: PROTOCOL.md, "Type Change Metadata".

    Args:
        keeps: Whether the column at a path must keep its type.
        path: Path of both structs; () for the columns of the table.
    """
    new = {each.name.lower(): each.data_type for each in data.fields}
    return StructType(
        tuple(
            _widen_field(each, new[each.name.lower()], keeps, (*path, each.name))
            if each.name.lower() in new
            else each
            for each in table.fields
        )
    )


def _widen_field(
    field: StructField, new: DataType, keeps: Callable[[ColumnPath], bool], path: ColumnPath
) -> StructField:
    changes: list[tuple[ColumnPath, DataType, DataType]] = []

    def widen(current: DataType, new: DataType, inner: ColumnPath) -> DataType:
        match current, new:
            case StructType(), StructType():
                return widen_types(current, new, keeps, (*path, *inner))
            case ArrayType(), ArrayType():
                element = widen(current.element_type, new.element_type, (*inner, "element"))
                return replace(current, element_type=element)
            case MapType(), MapType():
                value = widen(current.value_type, new.value_type, (*inner, "value"))
                return replace(current, value_type=value)
        if not widens_by_itself(current, new) or keeps((*path, *inner)):
            return current
        changes.append((inner, current, new))
        return new

    field = replace(field, data_type=widen(field.data_type, new, ()))
    for inner, before, after in changes:
        field = describe_widening(field, inner, before, after)
    return field


def keep_variants(data: StructType, table: StructType) -> StructType:
    """Use the type variant where the table does; Arrow data hold variants as structs."""
    kept = _keep_variants(data, table)
    assert isinstance(kept, StructType)
    return kept


def _keep_variants(new: DataType, known: DataType | None) -> DataType:
    match new, known:
        case StructType(), PrimitiveType() if known == VARIANT:
            parts = {each.name: each.data_type for each in new.fields}
            return VARIANT if parts == _VARIANT_PARTS else new
        case StructType(), StructType():
            types = {each.name.lower(): each.data_type for each in known.fields}
            return StructType(
                tuple(
                    replace(
                        each, data_type=_keep_variants(each.data_type, types.get(each.name.lower()))
                    )
                    for each in new.fields
                )
            )
        case ArrayType(), ArrayType():
            return replace(new, element_type=_keep_variants(new.element_type, known.element_type))
        case MapType(), MapType():
            return replace(new, value_type=_keep_variants(new.value_type, known.value_type))
    return new


def validate_alike(table: StructType, data: StructType) -> None:
    """Reject data if a column's type or spelling differs from the table's.

    Raises:
        InvalidRequestError: The message names the column and both types.
    """
    _validate_alike(table, data, ())


def validate_unique_names(data: StructType, table: str) -> None:
    """Reject data with duplicate columns or struct fields, ignoring case.

    Raises:
        InvalidRequestError: The message names the column.
    """
    for path, data_type in [((), data), *walk(data)]:
        if not isinstance(data_type, StructType):
            continue
        for name, n in Counter(field.name.lower() for field in data_type.fields).items():
            if n > 1:
                raise InvalidRequestError(
                    f"{table}: column {'.'.join((*path, name))!r} is in the data twice (names "
                    "ignore case); rename or drop one of them",
                    "DELTA_DUPLICATE_COLUMNS_FOUND",
                )


def _validate_alike(current: DataType, new: DataType, path: tuple[str, ...]) -> None:
    match current, new:
        case StructType(), StructType():
            for each in new.fields:
                for known in current.fields_by_lower_name.get(each.name.lower(), ()):
                    if known.name != each.name:
                        raise InvalidRequestError(
                            f"Column {'.'.join((*path, each.name))} is spelled {known.name} in "
                            "the table."
                        )
                    _validate_alike(known.data_type, each.data_type, (*path, each.name))
        case ArrayType(), ArrayType():
            _validate_alike(current.element_type, new.element_type, (*path, "element"))
        case MapType(), MapType():
            if allow_nulls(current.key_type) != allow_nulls(new.key_type):
                raise InvalidRequestError(
                    f"Column {'.'.join(path)} has map keys of another type in the table."
                )
            _validate_alike(current.value_type, new.value_type, (*path, "value"))
        case _ if current != new:
            raise InvalidRequestError(
                f"Column {'.'.join(path)} is of type {new.name}, but of type {current.name} in "
                "the table."
            )


def _merge(current: DataType, new: DataType) -> DataType:
    if current == VOID:  # no file has a value, so any type fits
        return allow_nulls(new)
    match current, new:
        case StructType(), StructType():
            return merge_schemas(current, new)
        case ArrayType(), ArrayType():
            return replace(current, element_type=_merge(current.element_type, new.element_type))
        case MapType(), MapType():
            # An additional field would make a different key.
            return replace(current, value_type=_merge(current.value_type, new.value_type))
    return current


def allow_nulls(data_type: DataType) -> DataType:
    """The type with nulls allowed at every depth."""
    match map_members(data_type, allow_nulls):
        case StructType(fields=fields):
            return StructType(tuple(replace(each, nullable=True) for each in fields))
        case ArrayType() as array:
            return replace(array, contains_null=True)
        case MapType() as pairs:
            return replace(pairs, value_contains_null=True)
    return data_type
