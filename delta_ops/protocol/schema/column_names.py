"""Column names: parse a text that names a column, or a struct field at any depth.

`a.b` is the field `b` of the column `a`, as in Spark SQL; backticks enclose a name with a dot.
If `a` has no field `b`, the text `a.b` is a column with exactly this name, if there is one.
Conditions and values are SQL and require the backticks. Below arrays and maps, path parts are
`element`, `key` and `value`. See decision 060.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.schema import (
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    find_field,
)

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_PLAIN = re.compile(r"[A-Za-z0-9_]+")


def path_of_name(name: str, schema: StructType) -> ColumnPath:
    """Parse a name into a path; a top-level column is spelled as in the schema.

    Raises:
        InvalidRequestError: The text is no name of a column.
    """
    is_column = name.lower() in schema.fields_by_lower_name
    try:
        path = split_name(name)
    except InvalidRequestError:
        if not is_column:
            raise
        path = (name,)
    if is_column and not _has_path(schema, path):
        path = (name,)
    if len(path) == 1 and path[0].lower() in schema.fields_by_lower_name:
        return (find_field(schema, path[0]).name,)
    return path


def _has_path(data_type: DataType, path: ColumnPath) -> bool:
    if not path:
        return True
    first, *rest = path
    match data_type:
        case StructType():
            found = data_type.fields_by_lower_name.get(first.lower(), ())
            return any(_has_path(each.data_type, tuple(rest)) for each in found)
        case ArrayType(element_type=member) if first == "element":
            return _has_path(member, tuple(rest))
        case MapType(key_type=member) if first == "key":
            return _has_path(member, tuple(rest))
        case MapType(value_type=member) if first == "value":
            return _has_path(member, tuple(rest))
    return False


def find_named(schema: StructType, name: str) -> StructField:
    """Find a top-level column by name.

    Raises:
        UnknownColumnError: There is no such column.
        InvalidRequestError: The text is the path of a field, or no name.
    """
    path = path_of_name(name, schema)
    if len(path) == 1:
        return find_field(schema, path[0])
    if not _has_path(schema, path):
        return find_field(schema, name)
    raise InvalidRequestError(
        f"{name} is a field of column {path[0]}, but a whole column is needed. Write a column "
        f"whose name has a dot as {quote(name)}."
    )


def find_head(schema: StructType, path: ColumnPath) -> StructField:
    """Find the top-level column of a path in SQL.

    Raises:
        UnknownColumnError: There is no such column. The message has a hint if a column is named
            like the whole path.
    """
    try:
        return find_field(schema, path[0])
    except UnknownColumnError as error:
        name = ".".join(path)
        if len(path) == 1 or name.lower() not in schema.fields_by_lower_name:
            raise
        raise UnknownColumnError(
            f"{error} In SQL, write the column {name} as {quote(name)}, because a dot selects a "
            "field."
        ) from error


def find_columns(schema: StructType, names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, spelled as in the schema.

    Raises:
        InvalidRequestError: As `find_named`.
    """
    return tuple(find_named(schema, name).name for name in names)


def split_name(name: str) -> ColumnPath:
    """Parse a path without a schema: names separated by dots, optionally in backticks.

    Raises:
        InvalidRequestError: The text is no name of a column.
    """
    parts: list[str] = []
    position = 0
    while True:
        part = _PART.match(name, position)
        if part is None:
            raise InvalidRequestError(
                f"{name!r} is not a column name; separate struct fields by dots, and put other "
                "names in backticks"
            )
        parts.append(part[1].replace("``", "`") if part[1] else part[2])
        position = part.end()
        if position == len(name):
            return tuple(parts)
        if name[position] != ".":
            raise InvalidRequestError(f"{name!r} is not a column name; check its backticks")
        position += 1


def refuse_quoted_name(text: str, find: Callable[[ColumnPath], object]) -> None:
    """Reject a double-quoted text that is also the name of a column or field.

    Spark SQL reads double quotes as a text; standard SQL and other Delta engines read a name.

    Args:
        text: The text between the quotes.
        find: Finds columns and fields, ignoring case.

    Raises:
        InvalidRequestError: The message shows both unambiguous spellings.
    """
    path = next((path for path in _readings(text) if _is_known(path, find)), None)
    if path is None:
        return
    name = ".".join(map(quote, path))
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    raise InvalidRequestError(
        f'"{text}" in double quotes is a string in Spark SQL, but a column has this name; write '
        f"{name} for the column, or '{escaped}' in single quotes for the string."
    )


def _readings(text: str) -> list[ColumnPath]:
    """Paths that a text can mean: the column of exactly this name, or a nested field."""
    paths: list[ColumnPath] = [(text,)]
    with suppress(InvalidRequestError):
        paths.append(split_name(text))
    return paths


def _is_known(path: ColumnPath, find: Callable[[ColumnPath], object]) -> bool:
    try:
        find(path)
    except UnknownColumnError:
        return False
    except InvalidRequestError:  # the name is ambiguous, or not allowed here
        return True
    return True


def quote(name: str) -> str:
    """Put one name in backticks, as SQL accepts for any name."""
    return "`" + name.replace("`", "``") + "`"


def unquote(name: str) -> str:
    """Remove the backticks around one name, if any."""
    found = _PART.fullmatch(name)
    return found[1].replace("``", "`") if found and found[1] else name


def name_of_column(name: str) -> str:
    """Format a column name, with backticks if it would not parse without them."""
    found = _PART.fullmatch(name)
    return name if found and found[2] else quote(name)


def name_of_path(path: ColumnPath) -> str:
    """Format a path, with backticks where necessary."""
    return ".".join(part if _PLAIN.fullmatch(part) else quote(part) for part in path)
