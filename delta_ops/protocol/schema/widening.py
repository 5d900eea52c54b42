"""Type widening: which types a column may have had before.

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
"""Before the point, of a decimal that an integer may become."""


def unreadable_columns(
    stored: StructType, wanted: StructType, key: Callable[[StructField], str]
) -> Iterator[tuple[str, DataType, DataType]]:
    """The columns that one schema has in a type of which no values become those of another schema.

    Args:
        stored: What files were written by.
        wanted: What they are to be read by; what it lacks, and what `stored` lacks, is no matter.
        key: By which fields of the two are the same.

    Yields:
        The wanted column's dotted path, the type that it had, and the type that it has.
    """
    by_key = {key(each): each for each in stored.fields}
    for each in wanted.fields:
        found = by_key.get(key(each))
        if found is not None:
            yield from _find_unreadable(found.data_type, each.data_type, each.name, key)


def is_widening(given: DataType, wanted: DataType) -> bool:
    """Whether every value of one primitive type is one of another, by the protocol's list."""
    return given not in (wanted, VOID) and _is_same_or_wider(given, wanted)


def is_number(data_type: DataType) -> bool:
    """Whether a type is one of those that data widen, or may be of data that do."""
    is_decimal = isinstance(data_type, DecimalType)
    return is_decimal or data_type in _WHOLE_NUMBERS or data_type in (FLOAT, DOUBLE)


def widens_by_itself(given: DataType, wanted: DataType) -> bool:
    """Whether data of a wider type widen a column, where a table takes in what the data have.

    As by the reference, only within a family: whole numbers, floating-point numbers, decimals.
    """
    is_alike = (
        {given, wanted} <= _WHOLE_NUMBERS
        or (given, wanted) == (FLOAT, DOUBLE)
        or (isinstance(given, DecimalType) and isinstance(wanted, DecimalType))
    )
    return is_alike and is_widening(given, wanted)


def describe_widening(
    field: StructField, inner: ColumnPath, before: DataType, after: DataType
) -> StructField:
    """The field with a change of its type in its metadata.

    Source: PROTOCOL.md, "Type Change Metadata".

    Args:
        inner: The way to what was widened, by `element`, `key` and `value`; () for the field.
        before: The type that it had.
        after: The type that it has.
    """
    change = {"fromType": before.name, "toType": after.name}
    if inner:
        change["fieldPath"] = ".".join(inner)
    said = field.metadata.get(_TYPE_CHANGES)
    changes = [*(said if isinstance(said, list) else ()), change]
    return replace(field, metadata={**field.metadata, _TYPE_CHANGES: changes})


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
