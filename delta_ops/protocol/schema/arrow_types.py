"""Arrow types: converts a table's schema to Arrow and back.

Source: PROTOCOL.md, "Schema Serialization Format" (the primitive types).

The Delta type can hold every value of the Arrow type. Arrow types without a Delta type are rejected
by column and type; a type never changes its meaning. Nullability is kept at every depth. Units are
not kept: Delta has only microseconds, so a nanosecond column becomes `timestamp`, and the code that
casts its values must reject a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import repeat

import pyarrow as pa
import pyarrow.types as pt

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    MAX_DECIMAL_PRECISION,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.field_metadata import column_metadata, refuse_metadata

_ARROW_TYPES: Mapping[PrimitiveType, pa.DataType] = {
    STRING: pa.string(),
    LONG: pa.int64(),
    INTEGER: pa.int32(),
    SHORT: pa.int16(),
    BYTE: pa.int8(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BOOLEAN: pa.bool_(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    VARIANT: pa.struct(
        [
            pa.field("metadata", pa.binary(), nullable=False),
            pa.field("value", pa.binary(), nullable=False),
        ]
    ),
    VOID: pa.null(),
}

_LEAVES: tuple[pa.DataType, ...] = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.decimal128(38),
)
LEAF_IDS = frozenset(each.id for each in _LEAVES)
"""Ids of usual Arrow types that have no types in them; a table may have thousands of columns."""

_DELTA_TYPES: tuple[tuple[Callable[[pa.DataType], bool], PrimitiveType], ...] = (
    (pt.is_boolean, BOOLEAN),
    (pt.is_int8, BYTE),
    (lambda t: pt.is_int16(t) or pt.is_uint8(t), SHORT),
    (lambda t: pt.is_int32(t) or pt.is_uint16(t), INTEGER),
    (lambda t: pt.is_int64(t) or pt.is_uint32(t), LONG),
    (pt.is_float32, FLOAT),
    (pt.is_float64, DOUBLE),
    (lambda t: pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t), STRING),
    (lambda t: pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t), BINARY),
    (pt.is_fixed_size_binary, BINARY),
    (pt.is_date, DATE),
    (lambda t: pt.is_timestamp(t) and t.tz is not None, TIMESTAMP),
    (lambda t: pt.is_timestamp(t) and t.tz is None, TIMESTAMP_NTZ),
    (lambda t: isinstance(t, pa.JsonType), STRING),
)
"""Unsigned integers become the next signed type that holds all values."""

MAX_LEVELS = 98
"""Arrow reads files of a hundred levels, including the root; rows may get one more struct."""
_MAX_DEPTH = 150
"""More than any file has, checkpoints too; functions over types call themselves at each level."""


def arrow_schema_from_schema(schema: StructType) -> pa.Schema:
    """Convert the columns of a table to Arrow.

    Raises:
        InvalidRequestError: A type has no Arrow type; the message names the column.
    """
    return pa.schema([_arrow_field(each, ()) for each in schema.fields])


def arrow_type_from_type(data_type: DataType) -> pa.DataType:
    """Convert one type; children of lists and maps are named as Spark does in Parquet.

    Raises:
        InvalidRequestError: There is no such Arrow type.
    """
    return _arrow_type(data_type, ())


def schema_from_arrow(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to the columns of a table, without Arrow metadata.

    Raises:
        InvalidRequestError: A type has no Delta type, or two names differ only in case; the message
            names the column.
    """
    validate_depth(schema)
    return _struct(list(schema), ())


def validate_depth(schema: pa.Schema) -> None:
    """Reject types that functions which call themselves cannot read.

    Raises:
        InvalidRequestError: Names the column.
    """
    for field in schema:
        if field.type.id in LEAF_IDS:
            continue
        left = [(field.type, 1)]
        while left:
            each, depth = left.pop()
            if depth > _MAX_DEPTH:
                raise _too_deep(field.name)
            if pt.is_dictionary(each) or pt.is_run_end_encoded(each):
                left.append((each.value_type, depth + 1))
            elif isinstance(each, pa.BaseExtensionType):
                left.append((each.storage_type, depth + 1))
            else:
                left += [(each.field(i).type, depth + 1) for i in range(each.num_fields)]


def validate_levels(data_type: DataType, column: str) -> None:
    """Reject a type with more levels than a file can have.

    Raises:
        InvalidRequestError: Names the column.
    """
    if levels(data_type) > MAX_LEVELS:
        raise _too_deep(column)


def _too_deep(column: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"column {column!r} is nested too deeply: a file would have more than {MAX_LEVELS} levels, "
        "two for each array or map and one for each struct, which readers reject"
    )


def columns_from_arrow(schema: pa.Schema) -> StructType:
    """The columns of a new table for Arrow data, with metadata from its fields.

    Raises:
        InvalidRequestError: As `schema_from_arrow`, or a column cannot have the metadata.
    """
    # A column without a type yet; a field or an element must have one.
    voids = {field.name for field in schema if pt.is_null(field.type)}
    columns = schema_from_arrow(
        pa.schema(f.with_type(pa.bool_()) if f.name in voids else f for f in schema)
        if voids
        else schema
    )
    if voids:
        columns = StructType(
            tuple(replace(f, data_type=VOID) if f.name in voids else f for f in columns.fields)
        )
    return StructType(tuple(map(_add_metadata, columns.fields, schema, repeat(()))))


def levels(data_type: DataType) -> int:
    """Number of levels of a column in a Parquet file: its groups and its values."""
    most = 0
    left = [(data_type, 1)]
    while left:  # iterates, since recursion has a limit of its own
        each, depth = left.pop()
        most = max(most, depth)
        match each:
            case StructType(fields=fields):
                left += [(field.data_type, depth + 1) for field in fields]
            case ArrayType(element_type=element):
                left.append((element, depth + 2))
            case MapType(key_type=key, value_type=value):
                left += [(key, depth + 2), (value, depth + 2)]
    return most


def _add_metadata(field: StructField, source: pa.Field, parent: ColumnPath) -> StructField:
    if not source.metadata and source.type.id in LEAF_IDS:
        return field
    path = (*parent, field.name)
    data_type = _add_inner_metadata(field.data_type, source.type, path)
    metadata = column_metadata(source.metadata or {}, path)
    return replace(field, data_type=data_type, metadata=metadata)


def _add_inner_metadata(data_type: DataType, source: pa.DataType, path: ColumnPath) -> DataType:
    if pt.is_dictionary(source) or pt.is_run_end_encoded(source):
        return _add_inner_metadata(data_type, source.value_type, path)
    match data_type:
        case StructType(fields=fields):
            return StructType(tuple(map(_add_metadata, fields, source, repeat(path))))
        case ArrayType(element_type=element_type):
            element = _inner_type(element_type, source.value_field, (*path, "element"))
            return replace(data_type, element_type=element)
        case MapType(key_type=key_type, value_type=value_type):
            key = _inner_type(key_type, source.key_field, (*path, "key"))
            value = _inner_type(value_type, source.item_field, (*path, "value"))
            return replace(data_type, key_type=key, value_type=value)
    return data_type


def _inner_type(data_type: DataType, source: pa.Field, path: ColumnPath) -> DataType:
    refuse_metadata(source.metadata or {}, path)
    return _add_inner_metadata(data_type, source.type, path)


def _arrow_field(each: StructField, parent: tuple[str, ...]) -> pa.Field:
    arrow_type = _arrow_type(each.data_type, (*parent, each.name))
    return pa.field(each.name, arrow_type, nullable=each.nullable)


def _arrow_type(data_type: DataType, path: tuple[str, ...]) -> pa.DataType:
    if isinstance(data_type, PrimitiveType) and (found := _ARROW_TYPES.get(data_type)) is not None:
        return found
    match data_type:
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case StructType(fields=fields):
            return pa.struct([_arrow_field(each, path) for each in fields])
        case ArrayType(element_type=element_type, contains_null=contains_null):
            element = _arrow_type(element_type, (*path, "element"))
            return pa.list_(pa.field("element", element, nullable=contains_null))
        case MapType(key_type=key_type, value_type=value_type):
            key = _arrow_type(key_type, (*path, "key"))
            value = _arrow_type(value_type, (*path, "value"))
            value_field = pa.field("value", value, nullable=data_type.value_contains_null)
            return pa.map_(pa.field("key", key, nullable=False), value_field)
    raise InvalidRequestError(
        f"Type {data_type.name}{_place(path)} is not supported by this version of delta_ops."
    )


def _struct(arrow_fields: list[pa.Field], parent: tuple[str, ...]) -> StructType:
    struct = StructType(tuple(_field(each, parent) for each in arrow_fields))
    for same in struct.fields_by_lower_name.values():
        if len(same) > 1:
            names = " and ".join(each.name for each in same)
            if len({each.name for each in same}) == 1:
                path = ".".join((*parent, same[0].name))
                raise InvalidRequestError(
                    f"Column {path} occurs twice; rename or drop one of them.",
                    "COLUMN_ALREADY_EXISTS",
                )
            raise InvalidRequestError(
                f"Columns {names} have names that differ only in case, which Delta does not "
                f"allow{_place(parent)}; rename one of them.",
                "DELTA_DUPLICATE_COLUMNS_FOUND",
            )
    return struct


def _field(arrow_field: pa.Field, parent: tuple[str, ...]) -> StructField:
    data_type = _type(arrow_field.type, (*parent, arrow_field.name))
    return StructField(arrow_field.name, data_type, bool(arrow_field.nullable))


def _type(arrow_type: pa.DataType, path: tuple[str, ...]) -> DataType:
    for is_type, data_type in _DELTA_TYPES:
        if is_type(arrow_type):
            return data_type
    if pt.is_dictionary(arrow_type) or pt.is_run_end_encoded(arrow_type):
        return _type(arrow_type.value_type, path)
    if pt.is_decimal(arrow_type) and _fits_decimal(arrow_type):
        return DecimalType(arrow_type.precision, arrow_type.scale)
    if pt.is_struct(arrow_type):
        return _struct([arrow_type.field(i) for i in range(arrow_type.num_fields)], path)
    if pt.is_map(arrow_type):
        key_type = _type(arrow_type.key_type, (*path, "key"))
        value_type = _type(arrow_type.item_type, (*path, "value"))
        return MapType(key_type, value_type, bool(arrow_type.item_field.nullable))
    if _is_list(arrow_type):
        element_type = _type(arrow_type.value_type, (*path, "element"))
        return ArrayType(element_type, bool(arrow_type.value_field.nullable))
    raise InvalidRequestError(
        f"Arrow type {arrow_type}{_place(path)} has no Delta equivalent; cast the column to a "
        "supported type."
    )


def _fits_decimal(arrow_type: pa.DataType) -> bool:
    precision, scale = int(arrow_type.precision), int(arrow_type.scale)
    return precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision


def _is_list(arrow_type: pa.DataType) -> bool:
    return bool(
        pt.is_list(arrow_type)
        or pt.is_large_list(arrow_type)
        or pt.is_fixed_size_list(arrow_type)
        or pt.is_list_view(arrow_type)
        or pt.is_large_list_view(arrow_type)
    )


def _place(path: tuple[str, ...]) -> str:
    return f" of column {'.'.join(path)}" if path else ""
