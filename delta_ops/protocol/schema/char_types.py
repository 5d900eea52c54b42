"""CHAR and VARCHAR types: strings of limited length; readers see CHAR values padded with spaces.

Source: Spark's `CharVarcharUtils` and `ApplyCharTypePadding`; the protocol has only strings. A
column's metadata hold its SQL type; for structs, arrays and maps this is the whole type. Writers
may omit the padding; readers add it. No writer writes a longer string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    STRING,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.changes import set_metadata_key
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.protocol.schema.type_text import type_text

CharLengths: TypeAlias = "int | Mapping[str, CharLengths]"
"""Number of characters of a string, or of each member of a nested value.

Members are named by the field, or by `element`, `key` and `value`.
"""

SQL_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Key of the column metadata that holds the SQL type."""
_PADDED = frozenset({"char"})
_LIMITED = frozenset({"char", "varchar"})
_WORD = re.compile(r"[a-z_0-9 ]+", re.IGNORECASE)
_PARAMETERS = re.compile(r"\([^()]*\)")
_LENGTH = re.compile(r"\((\d{1,9})\)")
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")
_PLAIN = re.compile(r"[^:]+")
_MEMBERS = {"array": ("element",), "map": ("key", "value")}
_WITH_LENGTH = re.compile(r"(char|varchar)\((\d+)\)")
_KEEPS_VALUES = frozenset({("char", "varchar"), ("varchar", "varchar")})
"""Types whose values fit the second type, if its length is not less."""


def char_lengths(field: StructField) -> CharLengths | None:
    """Number of characters of the CHAR values in a column; None if nothing is CHAR.

    Metadata for missing members, or with an unknown type, are ignored: a renamed field is read as
    it is stored.
    """
    return _lengths(field, _PADDED)


def length_limits(field: StructField) -> CharLengths | None:
    """Maximum number of characters of the CHAR and VARCHAR values in a column.

    None if nothing is of these types. Ignores metadata as `char_lengths` does.
    """
    return _lengths(field, _LIMITED)


def char_length(path: tuple[str, ...], column: StructField) -> int | None:
    """Number of characters of a CHAR string; None for other types.

    Args:
        path: The column and the struct fields below it.
    """
    lengths = char_lengths(column)
    for name in path[1:]:
        lengths = lengths.get(name) if isinstance(lengths, Mapping) else None
    return lengths if isinstance(lengths, int) else None


def split_lengths(data_type: DataType) -> tuple[DataType, str | None]:
    """Replace CHAR and VARCHAR by string.

    Args:
        data_type: As `parse_type` makes it with `allows_lengths`.

    Returns:
        The type that is stored, and the whole type in SQL for `SQL_TYPE`; None without such a type.

    Raises:
        InvalidRequestError: The type is nested too deeply.
    """
    try:
        stored = _stored_type(data_type)
        return stored, None if stored == data_type else type_text(data_type)
    except RecursionError as error:
        raise InvalidRequestError("the type of a column is nested too deeply") from error


def add_lengths(column: StructField, path: ColumnPath, field: StructField) -> StructField:
    """Add the lengths of a new field to the SQL type of the column that contains the field.

    Args:
        column: The column, with the new field as it is stored.
        path: The members below the column, down to the new field.
        field: The new field, with its own SQL type.
    """
    padded, limited = (
        _put(_lengths(column, kinds), path, _lengths(field, kinds)) for kinds in (_PADDED, _LIMITED)
    )
    sql_type = type_text(_limited_type(column.data_type, padded, limited))
    return set_metadata_key(column, SQL_TYPE, sql_type)


def change_length(schema: StructType, path: ColumnPath, wanted: DataType) -> StructField | None:
    """Change the length of a CHAR or VARCHAR column, or remove it.

    Args:
        path: The column, and the members below it, spelled as in the schema.
        wanted: The type, which may contain CHAR and VARCHAR.

    Returns:
        The changed column; None if neither of its types has a length.

    Raises:
        InvalidRequestError: Existing values may not fit, or the length is within a nested column.
    """
    column = schema.fields_by_lower_name[path[0].lower()][0]
    stored, sql_type = split_lengths(wanted)
    if sql_type is None and (stored != STRING or _limit_at(path, column) is None):
        return None
    name = name_of_path(path)
    if len(path) > 1:
        raise InvalidRequestError(
            f"column {name}: the length of a CHAR or VARCHAR within a column cannot change; add a "
            "column with the new type",
            _UNSUPPORTED,
        )
    current = column.metadata.get(SQL_TYPE, column.data_type.name)
    if sql_type == current:
        return column
    if sql_type is not None and not _fits(str(current), sql_type):
        raise InvalidRequestError(
            f"column {name} of type {current} cannot become {sql_type}: some values do not fit "
            "that type. Choose VARCHAR with at least the same length, or add a column",
            _UNSUPPORTED,
        )
    return set_metadata_key(column, SQL_TYPE, sql_type)


_UNSUPPORTED = "NOT_SUPPORTED_CHANGE_COLUMN"
"""The reference's error class of changes to a type that does not hold all values."""


def _fits(current: str, wanted: str) -> bool:
    """Whether each value of a type with a length fits another such type."""
    before, after = _WITH_LENGTH.fullmatch(current.lower()), _WITH_LENGTH.fullmatch(wanted)
    if before is None or after is None:
        return False
    return (before[1], after[1]) in _KEEPS_VALUES and int(before[2]) <= int(after[2])


def _put(
    lengths: CharLengths | None, path: ColumnPath, of_field: CharLengths | None
) -> CharLengths | None:
    """Add the lengths of a field to the lengths of its column."""
    if not path or of_field is None:
        return lengths if path else of_field
    known = lengths if isinstance(lengths, Mapping) else {}
    inner = _put(known.get(path[0]), path[1:], of_field)
    return known if inner is None else {**known, path[0]: inner}


def _limited_type(
    data_type: DataType, padded: CharLengths | None, limited: CharLengths | None
) -> DataType:
    """The type with CHAR and VARCHAR in the place of strings of limited length."""

    def member(name: str, of_member: DataType) -> DataType:
        inner = (
            each.get(name) if isinstance(each, Mapping) else None for each in (padded, limited)
        )
        return _limited_type(of_member, *inner)

    match data_type:
        case StructType(fields=fields):
            return StructType(
                tuple(replace(each, data_type=member(each.name, each.data_type)) for each in fields)
            )
        case ArrayType(element_type=element):
            return replace(data_type, element_type=member("element", element))
        case MapType(key_type=key, value_type=value):
            return replace(
                data_type, key_type=member("key", key), value_type=member("value", value)
            )
    if isinstance(limited, int):
        return PrimitiveType(f"{'varchar' if padded is None else 'char'}({limited})")
    return data_type


def _limit_at(path: ColumnPath, column: StructField) -> int | None:
    limits = length_limits(column)
    for name in path[1:]:
        limits = limits.get(name) if isinstance(limits, Mapping) else None
    return limits if isinstance(limits, int) else None


def _stored_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields=fields):
            return StructType(
                tuple(replace(each, data_type=_stored_type(each.data_type)) for each in fields)
            )
        case ArrayType(element_type=element):
            return replace(data_type, element_type=_stored_type(element))
        case MapType(key_type=key, value_type=value):
            return replace(data_type, key_type=_stored_type(key), value_type=_stored_type(value))
    return STRING if _WITH_LENGTH.fullmatch(data_type.name) else data_type


def _lengths(field: StructField, kinds: frozenset[str]) -> CharLengths | None:
    text = field.metadata.get(SQL_TYPE)
    if not isinstance(text, str):
        return None
    try:
        lengths, end = _parse(text, 0, kinds)
    except _NoTypeError:
        return None
    return _fit(lengths, field.data_type) if end == len(text) else None


class _NoTypeError(Exception):
    """The text is no type."""


class _Parsed(NamedTuple):
    lengths: CharLengths | None
    end: int
    """Position after the parsed part of the text."""


def _parse(text: str, start: int, kinds: frozenset[str]) -> _Parsed:
    word = _WORD.match(text, start)
    if word is None:
        raise _NoTypeError
    name, end = word[0].strip().lower(), word.end()
    if name == "struct" and text.startswith("<", end):
        return _parse_members(text, end, None, kinds)
    if name in _MEMBERS and text.startswith("<", end):
        return _parse_members(text, end, _MEMBERS[name], kinds)
    length = _LENGTH.match(text, end) if name in kinds else None
    if length is not None:
        return _Parsed(int(length[1]), length.end())
    parameters = _PARAMETERS.match(text, end)
    return _Parsed(None, parameters.end() if parameters else end)


def _parse_members(
    text: str, opening: int, names: tuple[str, ...] | None, kinds: frozenset[str]
) -> _Parsed:
    """Parse the members between angle brackets.

    Args:
        names: Names of the members; None for a struct, whose text contains the names.
        kinds: Types whose lengths are collected.
    """
    found: dict[str, CharLengths] = {}
    end, number = opening, 0
    while not text.startswith(">", end):
        if not text.startswith("<" if number == 0 else ",", end):
            raise _NoTypeError
        end += 1
        if names is None:
            if number == 0 and text.startswith(">", end):
                break
            name, end = _parse_name(text, end)
        elif number < len(names):
            name = names[number]
        else:
            raise _NoTypeError
        lengths, end = _parse(text, end, kinds)
        if lengths is not None:
            found[name] = lengths
        number += 1
    return _Parsed(found or None, end + 1)


def _parse_name(text: str, start: int) -> tuple[str, int]:
    quoted = _QUOTED.match(text, start)
    plain = None if quoted else _PLAIN.match(text, start)
    name = quoted or plain
    if name is None or not text.startswith(":", name.end()):
        raise _NoTypeError
    return (quoted[1].replace("``", "`") if quoted else name[0]), name.end() + 1


def _fit(lengths: CharLengths | None, data_type: DataType) -> CharLengths | None:
    """Keep the lengths of strings that still exist in the type; None if there are none."""
    if lengths is None or isinstance(lengths, int):
        return lengths if data_type == STRING else None
    members = ((name, lengths.get(name), each) for name, each in _members(data_type))
    fitted = {name: _fit(each, member) for name, each, member in members}
    return {name: each for name, each in fitted.items() if each is not None} or None


def _members(data_type: DataType) -> list[tuple[str, DataType]]:
    match data_type:
        case StructType(fields=fields):
            return [(each.name, each.data_type) for each in fields]
        case ArrayType(element_type=element_type):
            return [("element", element_type)]
        case MapType(key_type=key_type, value_type=value_type):
            return [("key", key_type), ("value", value_type)]
    return []
