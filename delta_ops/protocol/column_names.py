"""Column names: how a text names a column, or a field of a struct at any depth.

`a.b` is the field `b` of the column `a`, as in Spark SQL; a name with other characters stands in
backticks. A column whose own name is the text is found first. Below arrays and maps a path goes on
with `element`, `key` and `value`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.schema import StructField, StructType, find_field
from delta_ops.protocol.stats import ColumnPath

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_PLAIN = re.compile(r"[A-Za-z0-9_]+")


def path_of_name(name: str, schema: StructType) -> ColumnPath:
    """The path that a text says, in the spelling of the text.

    Raises:
        InvalidRequestError: The text is no name of a column.
    """
    if name.lower() in schema.fields_by_lower_name:
        return (find_field(schema, name).name,)
    return split_name(name)


def split_name(name: str) -> ColumnPath:
    """The path that a text says by itself: names separated by dots, or in backticks.

    Raises:
        InvalidRequestError: The text is no name of a column.
    """
    parts: list[str] = []
    position = 0
    while True:
        part = _PART.match(name, position)
        if part is None:
            raise InvalidRequestError(
                f"{name!r} is no name of a column; separate fields of structs by dots, and put "
                "names with other characters in backticks"
            )
        parts.append(part[1].replace("``", "`") if part[1] else part[2])
        position = part.end()
        if position == len(name):
            return tuple(parts)
        if name[position] != ".":
            raise InvalidRequestError(f"{name!r} is no name of a column; check its backticks")
        position += 1


def find_named(schema: StructType, name: str) -> StructField:
    """The field of a struct, or of a table, that a text names.

    Raises:
        InvalidRequestError: There is none, or the text is the path of another one.
    """
    path = path_of_name(name, schema)
    return find_field(schema, path[0] if len(path) == 1 else name)


def refuse_quoted_name(text: str, find: Callable[[ColumnPath], object]) -> None:
    """Refuse a text in double quotes that is the name of a column or a field.

    Spark SQL reads a text in it, while standard SQL and other Delta engines read a name.

    Args:
        text: What stands in the quotes.
        find: Finds columns and fields, whatever the case.

    Raises:
        InvalidRequestError: With both ways to write it.
    """
    path = next((path for path in _readings(text) if _is_known(path, find)), None)
    if path is None:
        return
    name = ".".join(map(_in_backticks, path))
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    raise InvalidRequestError(
        f'"{text}" in double quotes is a text in Spark SQL, and a column has this name; write '
        f"{name} for the column, or '{escaped}' in single quotes for the text."
    )


def _readings(text: str) -> list[ColumnPath]:
    """What a text can name: a column of this very name, or a path."""
    paths: list[ColumnPath] = [(text,)]
    with suppress(InvalidRequestError):
        paths.append(split_name(text))
    return paths


def _is_known(path: ColumnPath, find: Callable[[ColumnPath], object]) -> bool:
    try:
        find(path)
    except UnknownColumnError:
        return False
    except InvalidRequestError:  # a name of several columns, or one that cannot stand here
        return True
    return True


def _in_backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def name_of_path(path: ColumnPath) -> str:
    """A path as text, with backticks where they are needed."""
    return ".".join(part if _PLAIN.fullmatch(part) else _in_backticks(part) for part in path)
