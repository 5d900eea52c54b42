"""Names: targets, aliases, columns, properties and versions within statements."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.spark.statements.cursor import Cursor
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.nodes import Properties, Target, Unsupported

NOT_ALLOWED_DETAIL = "DELTA_OPERATION_NOT_ALLOWED_DETAIL"
"""The reference's error class of statements that Delta tables do not have."""


def target_of(cursor: Cursor) -> Target:
    """Read the name of a table, also as IDENTIFIER('name')."""
    start = cursor.position
    if cursor.take("IDENTIFIER", "("):
        parts = cursor.parts_in_string()
        cursor.expect(")")
    else:
        parts = cursor.parts()
    return Target(parts=parts, text=cursor.text_since(start))


def target_or_path(cursor: Cursor) -> Target:
    """Read the name of a table, or its path as a string."""
    if not cursor.peeks_string():
        return target_of(cursor)
    start = cursor.position
    path = cursor.string()
    return Target(path=path, text=cursor.text_since(start))


def alias_of(cursor: Cursor, following: Collection[str]) -> str | None:
    """Read an alias with or without AS, if there is one.

    Args:
        following: Keywords that can follow the alias.
    """
    if cursor.take("AS"):
        return cursor.name()
    if cursor.is_at_end or any(cursor.peek(word) for word in following):
        return None
    return cursor.name()


def take_unsupported(
    cursor: Cursor, target: Target, statements: Sequence[tuple[tuple[str, ...], str, str, str]]
) -> Unsupported | None:
    """Read a statement that Delta tables do not have, up to its end; None for other statements.

    Args:
        statements: The first words from here, the name of the statement, the reference's error
            class, and what to do.
    """
    for words, operation, condition, cure in statements:
        if cursor.take(*words):
            if not cursor.is_at_end:
                cursor.slice()
            return Unsupported(target=target, operation=operation, condition=condition, cure=cure)
    return None


def column_of(cursor: Cursor) -> str:
    """Read the name of a column or of a field, as a path with backticks where necessary."""
    return name_of_path(cursor.parts())


def properties_of(cursor: Cursor) -> Properties:
    """Read properties in brackets, such as ('a' = 'b', c.d = 1)."""
    return cursor.list_in_brackets(lambda: (property_name(cursor), _property_value(cursor)))


def property_name(cursor: Cursor) -> str:
    """Read the name of a property: a string, or words with dots."""
    return cursor.string() if cursor.peeks_string() else ".".join(cursor.parts())


def _property_value(cursor: Cursor) -> str:
    cursor.take("=")
    if cursor.peeks_string():
        return cursor.string()
    for word in ("TRUE", "FALSE"):
        if cursor.take(word):
            return word.lower()
    return str(cursor.integer())


def version_of(cursor: Cursor) -> tuple[int | None, str | None]:
    """Read VERSION AS OF or TIMESTAMP AS OF; one of version and timestamp is set."""
    cursor.take("FOR")
    if cursor.take("VERSION") or cursor.take("SYSTEM_VERSION"):
        cursor.expect("AS", "OF")
        if not cursor.peeks_string():
            return cursor.integer(), None
        text = cursor.string()
        if not (text.isascii() and text.isdigit()):
            raise UnclearError("the version is no number")
        return int(text), None
    if cursor.take("TIMESTAMP") or cursor.take("SYSTEM_TIME"):
        cursor.expect("AS", "OF")
        return None, cursor.string()
    raise UnclearError("expected VERSION or TIMESTAMP")
