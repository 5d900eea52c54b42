"""Change feeds in queries: `table_changes(name, start, end)` of Delta tables.

Spark has no such function. The call becomes a path that stands for the changes. All other text
stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.spark.statements.cursor import Cursor, Quotes
from delta_ops.spark.statements.lexer import UnclearError, tokens_of
from delta_ops.spark.statements.nodes import Target

_MAY_READ = re.compile(r"\btable_changes(?:_by_path)?\b", re.IGNORECASE)
_BY_NAME, _BY_PATH = "TABLE_CHANGES", "TABLE_CHANGES_BY_PATH"


class ChangesAt(NamedTuple):
    """A call of the function: a table, and two versions or times."""

    target: Target
    start: int | str
    end: int | str | None


def may_read_changes(text: str) -> bool:
    """Whether a text contains the name of the function."""
    return _MAY_READ.search(text) is not None


def pin_changes(text: str, quotes: Quotes, path_of: Callable[[ChangesAt], str | None]) -> str:
    """Replace calls of the function by paths.

    Args:
        path_of: The path of the changes; None if there is no such Delta table.

    Returns:
        The text unchanged, if it has no such call or if a call is not certain.
    """
    try:
        return _pin(text, quotes, path_of)
    except UnclearError:
        return text


def _pin(text: str, quotes: Quotes, path_of: Callable[[ChangesAt], str | None]) -> str:
    tokens, cursor = tokens_of(text), Cursor(text, quotes)
    pieces, at = [], 0
    for number, token in enumerate(tokens):
        before = tokens[number - 1].upper if number else ""
        if token.upper not in (_BY_NAME, _BY_PATH) or before == ".":
            continue
        cursor.return_to(number + 1)
        if not cursor.peek("("):
            continue
        path = path_of(_arguments(cursor, is_path=token.upper == _BY_PATH))
        if path is None:
            continue
        quoted = path.replace("`", "``")
        pieces += [text[at : token.start], f"delta.`{quoted}`"]
        at = tokens[cursor.position - 1].end
    return "".join((*pieces, text[at:]))


def _arguments(cursor: Cursor, *, is_path: bool) -> ChangesAt:
    cursor.expect("(")
    if is_path:
        path = cursor.string()
        target = Target(path=path, text=path)
    else:
        parts = cursor.parts_in_string()
        target = Target(parts=parts, text=name_of_path(parts))
    cursor.expect(",")
    start = _end(cursor)
    end = _end(cursor) if cursor.take(",") else None
    cursor.expect(")")
    return ChangesAt(target, start, end)


def _end(cursor: Cursor) -> int | str:
    if not cursor.peeks_string():
        return cursor.integer()
    text = cursor.string()
    return int(text) if text.isascii() and text.isdigit() else text
