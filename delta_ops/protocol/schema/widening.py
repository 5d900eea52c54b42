"""Type widening: changes from a narrower to a wider column type.

Source: PROTOCOL.md, "Type Widening" (supported type changes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from delta_ops.protocol.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    map_structs,
)

_TYPE_CHANGES = "delta.typeChanges"
_WIDER: Mapping[DataType, tuple[DataType, ...]] = {
    BYTE: (SHORT, INTEGER, LONG, DOUBLE),
    SHORT: (INTEGER, LONG, DOUBLE),
    INTEGER: (LONG, DOUBLE),
    FLOAT: (DOUBLE,),
    DATE: (TIMESTAMP_NTZ,),
}
_WHOLE_NUMBERS = frozenset({BYTE, SHORT, INTEGER, LONG})
_DIGITS: Mapping[DataType, int] = {BYTE: 10, SHORT: 10, INTEGER: 10, LONG: 20}
"""Digits before the decimal point that an integer type needs as a decimal."""


def unreadable_columns(
    stored: StructType, wanted: StructType, key: Callable[[StructField], str]
) -> Iterator[tuple[str, DataType, DataType]]:
    """Columns whose stored type cannot be read as the wanted type.

    Args:
        stored: The schema of the files.
        wanted: The schema to read with. Columns in only one of the schemas are ignored.
        key: Identifies a field; fields with equal keys match.

    Yields:
        Dotted path in `wanted`, stored type and wanted type.
    """
    by_key = {key(each): each for each in stored.fields}
    for each in wanted.fields:
        found = by_key.get(key(each))
        if found is not None:
            yield from _find_unreadable(found.data_type, each.data_type, each.name, key)


def is_widening(source: DataType, wanted: DataType) -> bool:
    """Whether the protocol allows widening one primitive type to another."""
    return source not in (wanted, VOID) and _is_same_or_wider(source, wanted)


def is_number(data_type: DataType) -> bool:
    """Whether a type is a number type that widening may change."""
    is_decimal = isinstance(data_type, DecimalType)
    return is_decimal or data_type in _WHOLE_NUMBERS or data_type in (FLOAT, DOUBLE)


def widens_by_itself(source: DataType, wanted: DataType) -> bool:
    """Whether data of a wider type widen a column during schema evolution.

    Follows the reference: only within whole numbers, floating-point numbers or decimals.
    """
    is_alike = (
        {source, wanted} <= _WHOLE_NUMBERS
        or (source, wanted) == (FLOAT, DOUBLE)
        or (isinstance(source, DecimalType) and isinstance(wanted, DecimalType))
    )
    return is_alike and is_widening(source, wanted)


def describe_widening(
    field: StructField, inner: ColumnPath, before: DataType, after: DataType
) -> StructField:
    """The field with a type change recorded in its metadata.

    Source: PROTOCOL.md, "Type Change Metadata".

    Args:
        inner: Path from the field to the widened type, by `element`, `key` and `value`; () for the
            field.
        before: The old type.
        after: The new type.
    """
    change = {"fromType": before.name, "toType": after.name}
    if inner:
        change["fieldPath"] = ".".join(inner)
    recorded = field.metadata.get(_TYPE_CHANGES)
    changes = [*(recorded if isinstance(recorded, list) else ()), change]
    return replace(field, metadata={**field.metadata, _TYPE_CHANGES: changes})


def has_type_changes(schema: StructType) -> bool:
    """Whether a column or a field records a type change."""
    return drop_type_changes(schema) != schema


def drop_type_changes(schema: StructType) -> StructType:
    """The schema without recorded type changes; readers then expect the same type in all files."""
    return map_structs(schema, _clean_fields)


def _clean_fields(struct: StructType) -> StructType:
    return StructType(
        tuple(
            replace(each, metadata={k: v for k, v in each.metadata.items() if k != _TYPE_CHANGES})
            for each in struct.fields
        )
    )


def _find_unreadable(
    stored: DataType, wanted: DataType, path: str, key: Callable[[StructField], str]
) -> Iterator[tuple[str, DataType, DataType]]:
    match stored, wanted:
        case StructType(), StructType():
            for inner, was, becomes in unreadable_columns(stored, wanted, key):
                yield f"{path}.{inner}", was, becomes
        case ArrayType(), ArrayType():
            yield from _find_unreadable(
                stored.element_type, wanted.element_type, f"{path}.element", key
            )
        case MapType(), MapType():
            yield from _find_unreadable(stored.key_type, wanted.key_type, f"{path}.key", key)
            yield from _find_unreadable(stored.value_type, wanted.value_type, f"{path}.value", key)
        case _ if not _is_same_or_wider(stored, wanted):
            yield path, stored, wanted


def _is_same_or_wider(stored: DataType, wanted: DataType) -> bool:
    match stored, wanted:
        case DecimalType(), DecimalType():
            more_scale = wanted.scale - stored.scale
            return 0 <= more_scale <= wanted.precision - stored.precision
        case _, DecimalType() if stored in _DIGITS:
            return wanted.precision - wanted.scale >= _DIGITS[stored]
    return stored in (wanted, VOID) or wanted in _WIDER.get(stored, ())
