"""Frames for paths: paths in queries of Spark Connect, where no catalog reads them.

Each path in a query becomes a field in braces, which PySpark replaces by a DataFrame. All other
text stays as it is, apart from its own braces, which are doubled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from delta_ops.spark.statements.lexer import Kind, Token, UnclearError, tokens_of

_MAY_NAME = re.compile(r"\bdelta\s*\.\s*`", re.IGNORECASE)
_BEGIN_TABLES = frozenset({"FROM", "JOIN"})
_END_TABLES = frozenset(
    {"SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT"}
    | {"WINDOW", "UNION", "INTERSECT", "EXCEPT", "MINUS"}
)
_BEGIN_QUERY = frozenset({"SELECT", "WITH", "FROM"})
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
    for number in _starts_of_tables(tokens):
        if number + 2 >= len(tokens):
            break
        word, dot, quoted = tokens[number : number + 3]
        if word.upper != "DELTA" or dot.upper != "." or quoted.kind is not Kind.QUOTED:
            continue
        field = f"{_FIELD}{len(frames)}"
        frames[field] = read(quoted.text[1:-1].replace("``", "`"))
        pieces += [_escape(text[at : word.start]), f"{{{field}}}"]
        at = quoted.end
    if not frames:
        return text, {}
    return "".join((*pieces, _escape(text[at:]))), frames


def _starts_of_tables(tokens: Sequence[Token]) -> Iterator[int]:
    """Positions of tokens where a query can name a table.

    A comma separates tables only after FROM. FROM begins tables only in a query: it is also a word
    of functions, as in `extract(YEAR FROM day)`, and of `IS DISTINCT FROM`.
    """
    is_query, lists_tables = [True], [False]  # by depth of parentheses
    words = ["", *(each.upper for each in tokens), ""]
    for number, (before, word, after) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        if word == "(":
            groups_tables = before in _BEGIN_TABLES or (before == "," and lists_tables[-1])
            is_query.append(groups_tables or after in _BEGIN_QUERY)
            lists_tables.append(groups_tables and after not in _BEGIN_QUERY)
            begins = lists_tables[-1]
        elif word == ")":
            if len(is_query) > 1:
                is_query.pop()
                lists_tables.pop()
            begins = False
        elif word in _END_TABLES:
            lists_tables[-1] = begins = False
        elif word == ",":
            begins = lists_tables[-1]
        else:
            begins = word in _BEGIN_TABLES and is_query[-1] and before != "DISTINCT"
            lists_tables[-1] |= begins
        if begins:
            yield number + 1


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
