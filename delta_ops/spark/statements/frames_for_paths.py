"""Frames for paths: paths in queries of Spark Connect, where no catalog reads them.

Each path in a query becomes a field in braces, which PySpark replaces by a DataFrame. All other
text stays as it is, apart from its own braces, which are doubled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from delta_ops.spark.statements.lexer import Kind, UnclearError, tokens_of

_MAY_NAME = re.compile(r"\bdelta\s*\.\s*`", re.IGNORECASE)
_BEFORE_TABLE = frozenset({"FROM", "JOIN", ","})
_FIELD = "delta_ops_table_"


def may_name_paths(text: str) -> bool:
    """Whether a text may contain the path of a Delta table."""
    return _MAY_NAME.search(text) is not None


def frames_for_paths(text: str, read: Callable[[str], Any]) -> tuple[str, dict[str, Any]]:
    """Replace the paths of a query by fields.

    Args:
        read: Reads the table at a path.

    Returns:
        The text and the DataFrames by field; the text unchanged and none if it has no such path.
    """
    try:
        tokens = tokens_of(text)
    except UnclearError:
        return text, {}
    pieces: list[str] = []
    frames: dict[str, Any] = {}
    at = 0
    for number in range(1, len(tokens) - 2):
        before, word, dot, quoted = tokens[number - 1 : number + 3]
        is_path = word.upper == "DELTA" and dot.upper == "." and quoted.kind is Kind.QUOTED
        if not is_path or before.upper not in _BEFORE_TABLE:
            continue
        field = f"{_FIELD}{len(frames)}"
        frames[field] = read(quoted.text[1:-1].replace("``", "`"))
        pieces += [_escape(text[at : word.start]), f"{{{field}}}"]
        at = quoted.end
    if not frames:
        return text, {}
    return "".join((*pieces, _escape(text[at:]))), frames


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
