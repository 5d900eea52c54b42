"""Schema: the types of a table's columns and their JSON form.

Source: PROTOCOL.md, "Schema Serialization Format".

Reading and writing preserves the schema: fields keep all metadata, and keys are written in Spark's
order without white space, so an unchanged schema gives an unchanged string. An unknown type name is
kept as a `PrimitiveType`. `table_definition` decides whether such a table can be read, since it can
name the column.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from delta_ops.errors import InvalidRequestError, UnknownColumnError

# The types take positional arguments, unlike other values: a schema is written as a nested literal.

MAX_DECIMAL_PRECISION = 38
"""Digits; the limit of Spark and of Delta's Parquet readers."""

ColumnPath = tuple[str, ...]
"""Names from a top-level column down to a field of nested structs."""

_DECIMAL = re.compile(r"decimal(?:\(\s*(\d{1,9})\s*(?:,\s*(\d{1,9})\s*)?\))?", re.ASCII)
_DEFAULT_DECIMAL_PRECISION = 10


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type that consists of its name."""

    name: str
    """The name in the JSON: `long`, `timestamp_ntz`, ..."""


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A signed decimal number of fixed precision and scale."""

    precision: int
    scale: int

    @property
    def name(self) -> str:
        """The name in the JSON."""
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of values of one type."""

    element_type: DataType
    contains_null: bool = True

    @property
    def name(self) -> str:
        """The name in error messages."""
        return f"array<{self.element_type.name}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Pairs of keys and values; a key is never null."""

    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True

    @property
    def name(self) -> str:
        """The name in error messages."""
        return f"map<{self.key_type.name},{self.value_type.name}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """A column, or a field of a struct."""

    name: str
    data_type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """JSON values; the protocol defines keys that start with `delta.`."""


@dataclass(frozen=True, slots=True)
class StructType:
    """The columns of a table, or the fields of a struct, in order."""

    fields: tuple[StructField, ...] = ()
    fields_by_lower_name: Mapping[str, tuple[StructField, ...]] = field(
        init=False, repr=False, compare=False
    )
    """Derived; several fields if their names differ only in case."""

    def __post_init__(self) -> None:
        index: dict[str, tuple[StructField, ...]] = {}
        for each in self.fields:
            lower = each.name.lower()
            index[lower] = (*index.get(lower, ()), each)
        object.__setattr__(self, "fields_by_lower_name", index)

    @property
    def name(self) -> str:
        """The name in error messages."""
        return "struct"


NO_COLUMNS = StructType()

DataType = PrimitiveType | DecimalType | ArrayType | MapType | StructType
T = TypeVar("T", bound=DataType)

STRING = PrimitiveType("string")
LONG = PrimitiveType("long")
INTEGER = PrimitiveType("integer")
SHORT = PrimitiveType("short")
BYTE = PrimitiveType("byte")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
BOOLEAN = PrimitiveType("boolean")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMP_NTZ = PrimitiveType("timestamp_ntz")
VARIANT = PrimitiveType("variant")
VOID = PrimitiveType("void")
_NAMED_TYPES: Mapping[str, PrimitiveType] = {
    each.name: each
    for each in (
        *(STRING, LONG, INTEGER, SHORT, BYTE, FLOAT, DOUBLE),
        *(BOOLEAN, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, VARIANT, VOID),
    )
}
"""One object for each type, since equal objects compare faster if they are the same."""

STORED_VARIANT = StructType(
    (StructField("metadata", BINARY, nullable=False), StructField("value", BINARY, nullable=False))
)
"""A variant in files and Arrow data: the dictionary of its field names, and its bytes."""

HIDDEN = "delta_ops.hidden"
"""Metadata key of a column that exists only in files, while they are read and written."""
CURRENT_DEFAULT = "CURRENT_DEFAULT"
"""Metadata key of a column default: an expression for rows without a value, as in Spark."""

_COLLATIONS, _BY_BYTES = "__COLLATIONS", "UTF8_BINARY"

INTEGER_RANGES: Mapping[DataType, tuple[int, int]] = {
    BYTE: (-(2**7), 2**7 - 1),
    SHORT: (-(2**15), 2**15 - 1),
    INTEGER: (-(2**31), 2**31 - 1),
    LONG: (-(2**63), 2**63 - 1),
}
"""The smallest and the greatest value of each integer type."""


_MAX_DEPTH = 200
"""More than any Parquet file has; functions over types call themselves at each level."""


@lru_cache(maxsize=64)
def schema_from_json(text: str) -> StructType:
    """Parse a schema string of `metaData`.

    Raises:
        InvalidRequestError: The text is no schema; the message names the column and the problem.
    """
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"The schema is not JSON ({error}): {text[:200]!r}.") from error
    data_type = _type_from_json(parsed, ())
    if not isinstance(data_type, StructType):
        raise InvalidRequestError(f"The schema must be a struct and is {data_type.name}.")
    return data_type


def schema_to_json(schema: StructType) -> str:
    """Write a schema as Spark does: compact, keys in Spark's order."""
    return json.dumps(_type_to_json(schema), separators=(",", ":"), ensure_ascii=False)


def drop_hidden(schema: StructType) -> StructType:
    """The columns of the table, without columns that exist only in files."""
    return StructType(tuple(each for each in schema.fields if HIDDEN not in each.metadata))


def find_field(schema: StructType, name: str) -> StructField:
    """Find a field as Spark does, ignoring case; an exact match wins.

    Raises:
        UnknownColumnError: There is no such field.
        InvalidRequestError: Several fields differ only in case, and none matches exactly.
    """
    candidates = schema.fields_by_lower_name.get(name.lower(), ())
    found = [each for each in candidates if each.name == name] or list(candidates)
    if not found:
        raise UnknownColumnError(f"There is no column {name}; {_some_names(schema)}.")
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise InvalidRequestError(f"Column {name} is ambiguous: it could be any of {names}.")
    return found[0]


def collation(field: StructField) -> str | None:
    """The collation of a string field; None if it compares UTF-8 bytes.

    Source: Spark's `StructField`, whose metadata name it under `__COLLATIONS`.
    """
    names = field.metadata.get(_COLLATIONS)
    if field.data_type != STRING or not isinstance(names, dict):
        return None
    # A string has a single entry, under its name at the time of creation.
    others = (str(name) for name in names.values())
    return next((name for name in others if name.rpartition(".")[2] != _BY_BYTES), None)


def validate_distinct(schema: StructType, table: str) -> None:
    """Reject a write to a table whose columns or struct fields differ only in case.

    Raises:
        InvalidRequestError: The message names the columns.
    """
    for path, data_type in [((), schema), *walk(schema)]:
        if not isinstance(data_type, StructType):
            continue
        for same in data_type.fields_by_lower_name.values():
            if len(same) > 1:
                names = " and ".join(repr(".".join((*path, each.name))) for each in same)
                raise InvalidRequestError(
                    f"{table} has the columns {names}, which differ only in case, so it is "
                    "ambiguous where data belong; rename one of them, then write"
                )


def walk(schema: StructType) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Yield every type in a schema with its path, parents first.

    Below arrays and maps, path parts are `element`, `key` and `value`.
    """
    for each in schema.fields:
        if isinstance(each.data_type, PrimitiveType):
            yield (each.name,), each.data_type
        else:
            yield from _walk_type((each.name,), each.data_type)


def leaves(schema: StructType) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Yield path and type of every leaf column, in order; arrays and maps are leaves.

    Source: PROTOCOL.md, "Per-file Statistics" (statistics mirror the structs of the schema).
    """
    for each in schema.fields:
        if isinstance(each.data_type, StructType):
            for path, data_type in leaves(each.data_type):
                yield (each.name, *path), data_type
        else:
            yield (each.name,), each.data_type


def map_members(data_type: DataType, change: Callable[[DataType], DataType]) -> DataType:
    """The type with its direct members changed: fields, element, or key and value.

    An unchanged field or type stays the same object.
    """
    match data_type:
        case StructType(fields=fields):
            changed = tuple(_change_type(each, change(each.data_type)) for each in fields)
            is_same = all(map(operator.is_, changed, fields))
            return data_type if is_same else StructType(changed)
        case ArrayType(element_type=element_type):
            return replace(data_type, element_type=change(element_type))
        case MapType(key_type=key_type, value_type=value_type):
            return replace(data_type, key_type=change(key_type), value_type=change(value_type))
    return data_type


def map_structs(data_type: T, change: Callable[[StructType], StructType]) -> T:
    """The type with every struct in it changed at every depth, inner structs first."""

    def map_type(each: DataType) -> DataType:
        inner = map_members(each, map_type)
        return change(inner) if isinstance(inner, StructType) else inner

    return cast(T, map_type(data_type))


def _change_type(field: StructField, data_type: DataType) -> StructField:
    return field if data_type is field.data_type else replace(field, data_type=data_type)


def _some_names(schema: StructType) -> str:
    names = [each.name for each in schema.fields]
    if not names:
        return "there are no columns"
    return f"the columns are {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"


def _walk_type(path: tuple[str, ...], data_type: DataType) -> Iterator[_Located]:
    yield path, data_type
    match data_type:
        case StructType(fields=fields):
            for each in fields:
                yield from _walk_type((*path, each.name), each.data_type)
        case ArrayType(element_type=element_type):
            yield from _walk_type((*path, "element"), element_type)
        case MapType(key_type=key_type, value_type=value_type):
            yield from _walk_type((*path, "key"), key_type)
            yield from _walk_type((*path, "value"), value_type)


_Located = tuple[tuple[str, ...], DataType]


def _type_from_json(value: object, path: tuple[str, ...]) -> DataType:
    if len(path) > _MAX_DEPTH:
        raise InvalidRequestError(f"Column {path[0]} is nested more than {_MAX_DEPTH} levels deep.")
    if isinstance(value, str):
        return _named_type(value, path)
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{_place(path)} has {value!r} where a type belongs.")
    match value.get("type"):
        case "struct":
            fields = _member(value, "fields", list, path)
            return StructType(tuple(_field_from_json(each, path) for each in fields))
        case "array":
            element_type = _type_from_json(value.get("elementType"), (*path, "element"))
            return ArrayType(element_type, _member(value, "containsNull", bool, path))
        case "map":
            key_type = _type_from_json(value.get("keyType"), (*path, "key"))
            value_type = _type_from_json(value.get("valueType"), (*path, "value"))
            return MapType(key_type, value_type, _member(value, "valueContainsNull", bool, path))
        case "variant":
            return PrimitiveType("variant")
        case other:
            raise InvalidRequestError(f"{_place(path)} has the type {other!r}, unknown to Delta.")


def _field_from_json(value: object, parent: tuple[str, ...]) -> StructField:
    if not isinstance(value, dict):
        raise InvalidRequestError(
            f"{_place(parent)} has a field that is not a JSON object: {value!r}."
        )
    name: str = _member(value, "name", str, parent)
    path = (*parent, name)
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidRequestError(
            f"{_place(path)} has metadata that is not a JSON object: {metadata!r}."
        )
    return StructField(
        name,
        _type_from_json(value.get("type"), path),
        _member(value, "nullable", bool, path),
        metadata or {},
    )


def _named_type(name: str, path: tuple[str, ...]) -> DataType:
    if name in _NAMED_TYPES:
        return _NAMED_TYPES[name]
    decimal = _DECIMAL.fullmatch(name)
    if decimal is None:
        return PrimitiveType(name)
    precision = int(decimal[1] or _DEFAULT_DECIMAL_PRECISION)
    scale = int(decimal[2] or 0)
    if not 0 < precision <= MAX_DECIMAL_PRECISION or scale > precision:
        raise InvalidRequestError(
            f"{_place(path)} has the type {name}: the precision goes from 1 to "
            f"{MAX_DECIMAL_PRECISION} and the scale from 0 to the precision."
        )
    return DecimalType(precision, scale)


def _member(value: Mapping[str, Any], key: str, kind: type, path: tuple[str, ...]) -> Any:
    member = value.get(key)
    if not isinstance(member, kind):
        raise InvalidRequestError(
            f"{_place(path)} has the {key} {member!r} where a {kind.__name__} belongs."
        )
    return member


def _place(path: tuple[str, ...]) -> str:
    return f"Column {'.'.join(path)} of the schema" if path else "The schema"


def _type_to_json(data_type: DataType) -> object:
    match data_type:
        case StructType(fields=fields):
            return {"type": "struct", "fields": [_field_to_json(each) for each in fields]}
        case ArrayType(element_type=element_type, contains_null=contains_null):
            return {
                "type": "array",
                "elementType": _type_to_json(element_type),
                "containsNull": contains_null,
            }
        case MapType():
            return {
                "type": "map",
                "keyType": _type_to_json(data_type.key_type),
                "valueType": _type_to_json(data_type.value_type),
                "valueContainsNull": data_type.value_contains_null,
            }
        case _:
            return data_type.name


def _field_to_json(struct_field: StructField) -> dict[str, object]:
    return {
        "name": struct_field.name,
        "type": _type_to_json(struct_field.data_type),
        "nullable": struct_field.nullable,
        "metadata": dict(struct_field.metadata),
    }
