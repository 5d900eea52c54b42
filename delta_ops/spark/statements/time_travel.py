"""Time travel in queries: `VERSION AS OF` and `TIMESTAMP AS OF` of Delta tables.

Spark's parser knows both, but requests the version from a catalog. The table is therefore named by
its path with the version at its end, which the catalog "delta" reads. All other text stays as it
is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from delta_ops.spark.statements.cursor import Cursor, Quotes
from delta_ops.spark.statements.lexer import Kind, Token, UnclearError, tokens_of
from delta_ops.spark.statements.names import version_of
from delta_ops.spark.statements.nodes import Target

_MAY_TRAVEL = re.compile(r"\bOF\b", re.IGNORECASE)
_STARTS = frozenset({"FOR", "VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"})
_BEFORE_TABLE = frozenset({"FROM", "JOIN", ","})
_AFTER_TABLE = frozenset(
    {"WHERE", "GROUP", "ORDER", "SORT", "LIMIT", "HAVING", "ON", "JOIN", "INNER", "LEFT", "RIGHT"}
    | {"FULL", "CROSS", "UNION", "EXCEPT", "INTERSECT", "WHEN"}
)
"""Words after a table without an alias."""


class Travel(NamedTuple):
    """A table in a query with its version or its time."""

    target: Target
    version: int | None
    timestamp: str | None


PathOf = Callable[[Travel], str | None]
"""The path of a version of a Delta table; None for other tables."""


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def may_travel(text: str) -> bool:
    """Whether a text contains the word OF."""
    return _MAY_TRAVEL.search(text) is not None


def pin_versions(text: str, quotes: Quotes, path_of: PathOf) -> str:
    """Name the versions of Delta tables by their paths.

    Returns:
        The text unchanged, if it has no such table or if an alias is not certain.
    """
    try:
        edits = list(_edits(text, tokens_of(text), quotes, path_of))
    except UnclearError:
        return text
    pieces, at = [], 0
    for edit in edits:
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*pieces, text[at:]))


def _edits(text: str, tokens: Sequence[Token], quotes: Quotes, path_of: PathOf) -> Iterator[_Edit]:
    at = 0
    while at < len(tokens):
        first = _first_of_name(tokens, at) if tokens[at].upper in _STARTS else None
        end = None if first is None else _end_of_clause(tokens, at)
        if first is None or end is None:
            at += 1
            continue
        target, travel = _read(text, tokens[first:at], tokens[at:end], quotes)
        if len(target.parts) == 1 and any(each.upper == "WITH" for each in tokens):
            raise UnclearError("the name may be of a common table expression")
        path = path_of(Travel(target, *travel))
        if path is not None:
            alias = _alias(tokens, end, target)
            quoted = path.replace("`", "``")
            yield _Edit(tokens[first].start, tokens[end - 1].end, f"delta.`{quoted}`{alias}")
        at = end


def _first_of_name(tokens: Sequence[Token], end: int) -> int | None:
    """Where the name before a position begins; None if no name of a table ends there."""
    at = end - 1
    while at >= 2 and tokens[at - 1].upper == ".":
        at -= 2
    is_name = at >= 1 and tokens[at].kind in (Kind.WORD, Kind.QUOTED)
    return at if is_name and tokens[at - 1].upper in _BEFORE_TABLE else None


def _end_of_clause(tokens: Sequence[Token], start: int) -> int | None:
    """Where VERSION AS OF with its literal ends; None if another text is there."""
    start += tokens[start].upper == "FOR"
    words = [each.upper for each in tokens[start : start + 3]]
    end = start + 4
    is_clause = len(words) == 3 and words[0] in _STARTS and words[1:] == ["AS", "OF"]
    return end if is_clause and end <= len(tokens) else None


def _read(
    text: str, name: Sequence[Token], clause: Sequence[Token], quotes: Quotes
) -> tuple[Target, tuple[int | None, str | None]]:
    written = text[name[0].start : name[-1].end]
    of_name = Cursor(written, quotes)
    target = Target(parts=of_name.parts(), text=written)
    of_name.expect_end()
    of_clause = Cursor(text[clause[0].start : clause[-1].end], quotes)
    travel = version_of(of_clause)
    of_clause.expect_end()
    return target, travel


def _alias(tokens: Sequence[Token], at: int, target: Target) -> str:
    """An alias with the table's name, if the query has none.

    Raises:
        UnclearError: The next word may be an alias or not.
    """
    own = " AS `" + target.parts[-1].replace("`", "``") + "`"
    if at == len(tokens) or tokens[at].upper in _AFTER_TABLE or tokens[at].upper in ("", *"),;"):
        has_alias = at < len(tokens) and tokens[at].kind is Kind.QUOTED
        return "" if has_alias or target.parts[0].lower() == "delta" else own
    if tokens[at].upper == "AS":
        return ""
    following = tokens[at + 1].upper if at + 1 < len(tokens) else ""
    if at + 1 == len(tokens) or following in _AFTER_TABLE or following in (")", ",", ";"):
        return ""  # the next word is an alias
    raise UnclearError("an alias is not certain")
