"""Column rules: names, types and partitioning that a table's columns may have.

Source: PROTOCOL.md, "Change Metadata", "Partition Value Serialization".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.columns.identity import is_identity
from delta_ops.protocol.schema import (
    NO_COLUMNS,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructType,
    walk,
)
from delta_ops.protocol.schema.arrow_types import MAX_LEVELS, levels
from delta_ops.protocol.schema.column_names import find_named

# Without column mapping, Parquet readers of other engines fail on these characters.
_FORBIDDEN = set(" ,;{}()\n\t=")
_SHOWN_PARTS = 8
"""Parts of a long name that an error shows."""


def odd_names(schema: StructType) -> list[str]:
    """Names of columns and of fields, at any depth, that only column mapping allows."""
    structs = (each for each in _types(schema) if isinstance(each, StructType))
    return [f.name for struct in structs for f in struct.fields if _FORBIDDEN & set(f.name)]


def validate_names(
    schema: StructType, known: StructType = NO_COLUMNS, *, is_mapped: bool = False
) -> None:
    """Reject columns that data files cannot hold.

    Args:
        known: Columns that the table already has; their names and types are accepted.
        is_mapped: The table has column mapping, so a column may have any name.

    Raises:
        InvalidRequestError: There is no column; a name is empty, occurs twice or has a character
            that other engines cannot read; or a type cannot be stored: a map with variants in its
            keys, a struct without fields, or too many nested levels.
    """
    if not schema.fields:
        raise InvalidRequestError("a table needs at least one column")
    known_types = [data_type for _, data_type in walk(known)]
    for path, data_type in walk(schema):
        fault = _fault_of_type(data_type, is_column=len(path) == 1)
        if fault and data_type not in known_types:
            raise InvalidRequestError(f"column {'.'.join(path[:_SHOWN_PARTS])!r} is {fault}")
    forbidden = set() if is_mapped else _FORBIDDEN
    kept = {f.name for t in _types(known) if isinstance(t, StructType) for f in t.fields}
    for struct in (t for t in _types(schema) if isinstance(t, StructType)):
        folded = Counter(field.name.lower() for field in struct.fields)
        for field in struct.fields:
            if folded[field.name.lower()] > 1:
                raise InvalidRequestError(
                    f"column {field.name!r} occurs twice (names ignore case); rename one of them",
                    "COLUMN_ALREADY_EXISTS",
                )
            if not field.name:
                raise InvalidRequestError("a column has no name; give it one")
            if field.name not in kept and "\0" in field.name:
                raise InvalidRequestError(
                    f"column {field.name!r} has the character NUL, which other engines cannot "
                    "read; rename it"
                )
            if field.name not in kept and forbidden & set(field.name):
                raise InvalidRequestError(
                    f"column {field.name!r} has a character that Delta tables forbid in names "
                    "(space , ; { } ( ) = tab or line end); rename it, or set "
                    "delta.columnMapping.mode to name for the table",
                    "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
                )


def partition_columns(schema: StructType, names: Sequence[str]) -> tuple[str, ...]:
    """The partition columns with these names, as the schema spells them.

    Raises:
        InvalidRequestError: A column does not exist, occurs twice, or has a type that no directory
            name can hold; or no other column is left.
    """
    found = []
    for name in names:
        try:
            found.append(find_named(schema, name).name)
        except UnknownColumnError as error:
            raise InvalidRequestError(
                f"partition column {name!r} is not in the data; its columns are "
                f"{', '.join(field.name for field in schema.fields)}"
            ) from error
    _validate_partitioning(schema, found)
    return tuple(found)


def _validate_partitioning(schema: StructType, partition_by: Sequence[str]) -> None:
    by_name = {field.name: field.data_type for field in schema.fields}
    identities = {field.name for field in schema.fields if is_identity(field)}
    for name in partition_by:
        if name in identities:
            raise InvalidRequestError(
                f"partition column {name!r} has identity values, so each row would have a "
                "partition of its own; partition by another column",
                "DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED",
            )
        if isinstance(by_name[name], StructType | ArrayType | MapType):
            raise InvalidRequestError(
                f"partition column {name!r} is nested; partition by a column of a primitive type"
            )
        if by_name[name] == VOID:
            raise InvalidRequestError(
                f"partition column {name!r} is void, without any value; give it a type"
            )
        if by_name[name] == VARIANT:
            raise InvalidRequestError(
                f"partition column {name!r} is a variant, which cannot be a partition value; "
                "partition by a column extracted from it"
            )
    if len(set(partition_by)) < len(partition_by):
        raise InvalidRequestError("a partition column is named twice")
    if len(partition_by) == len(by_name):
        raise InvalidRequestError(
            "every column is a partition column; keep at least one other column"
        )


def _fault_of_type(data_type: DataType, *, is_column: bool) -> str:
    """The reason why a file cannot hold a type; "" if it can."""
    if isinstance(data_type, MapType) and VARIANT in _types(data_type.key_type):
        return "a map with variants in its keys, which cannot be compared; use another key type"
    if data_type == NO_COLUMNS:
        return (
            "a struct without fields, which Parquet does not support; add a field, or leave the "
            "column out"
        )
    if is_column and levels(data_type) > MAX_LEVELS:
        return (
            f"nested too deeply: a file would have more than {MAX_LEVELS} levels, two for each "
            "array or map and one for each struct, which readers reject"
        )
    return ""


def _types(data_type: DataType) -> Iterator[DataType]:
    yield data_type
    match data_type:
        case StructType(fields=fields):
            for field in fields:
                yield from _types(field.data_type)
        case ArrayType(element_type=element):
            yield from _types(element)
        case MapType(key_type=key, value_type=value):
            yield from _types(key)
            yield from _types(value)
