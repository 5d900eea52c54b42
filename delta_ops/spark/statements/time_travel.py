"""Time travel in queries: `VERSION AS OF`, `TIMESTAMP AS OF` and `name@v3` of Delta tables.

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

_MAY_TRAVEL = re.compile(r"\bOF\b|@", re.IGNORECASE)
_VERSION_AT = re.compile(r"[vV](\d+)", re.ASCII)
_TIME_AT = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})", re.ASCII)
_STARTS = frozenset({"FOR", "VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"})
_BEFORE_TABLE = frozenset({"FROM", "JOIN", ","})
_AFTER_TABLE = frozenset(
    {"WHERE", "GROUP", "ORDER", "SORT", "LIMIT", "HAVING", "ON", "JOIN", "INNER", "LEFT", "RIGHT"}
    | {"FULL", "CROSS", "UNION", "EXCEPT", "INTERSECT", "WHEN"}
)
"""Words after a table without an alias."""
_TIMES = frozenset({"TIMESTAMP", "SYSTEM_TIME"})
_TYPES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_WITHOUT_BRACKETS = frozenset({"CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"})
_UNITS = frozenset(
    unit + plural
    for unit in ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
    for plural in ("", "S")
)


class Travel(NamedTuple):
    """A table in a query with its version or its time."""

    target: Target
    version: int | None = None
    timestamp: str | None = None
    expression: str | None = None
    """SQL without columns, whose value is the time."""


PathOf = Callable[[Travel], str | None]
"""The path of a version of a Delta table; None for other tables."""


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def may_travel(text: str) -> bool:
    """Whether a text contains the word OF or a commercial at."""
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
        first = _first_of_name(tokens, at) if tokens[at].upper in (*_STARTS, "@") else None
        end = None if first is None else _end_of_clause(tokens, at)
        if first is None or end is None:
            at += 1
            continue
        travel = _read(text, tokens[first:at], tokens[at:end], quotes)
        target = travel.target
        if len(target.parts) == 1 and _is_in_with(tokens, target.parts[0]):
            raise UnclearError("the name may be of a common table expression")
        path = path_of(travel)
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
    if tokens[start].upper == "@":
        is_version = start + 1 < len(tokens) and tokens[start - 1].end == tokens[start].start
        return start + 2 if is_version and tokens[start].end == tokens[start + 1].start else None
    start += tokens[start].upper == "FOR"
    words = [each.upper for each in tokens[start : start + 3]]
    if len(words) < 3 or words[0] not in _STARTS or words[1:] != ["AS", "OF"]:
        return None
    if words[0] in _TIMES:
        return _end_of_expression(tokens, start + 3)
    return start + 4 if start + 4 <= len(tokens) else None


def _end_of_expression(tokens: Sequence[Token], start: int) -> int | None:
    """Where a time ends: a literal, a call or a bracket, and sums of these; None if unclear."""
    at = _end_of_term(tokens, start)
    while at is not None and at < len(tokens) and tokens[at].upper in ("+", "-"):
        at = _end_of_term(tokens, at + 1)
    return at


def is_time(text: str) -> bool:
    """Whether a text is an expression without columns and queries, which can be a time."""
    tokens = tokens_of(text)
    return _end_of_expression(tokens, 0) == len(tokens)


def _end_of_term(tokens: Sequence[Token], start: int) -> int | None:
    ahead = [*tokens[start : start + 3], *[_NO_TOKEN] * 3]
    first, second, third = (each.upper for each in ahead[:3])
    if ahead[0].kind is Kind.STRING or first.isdigit() or first in _WITHOUT_BRACKETS:
        is_call = first in _WITHOUT_BRACKETS and second == "("
        return _end_of_brackets(tokens, start + 1) if is_call else start + 1
    if first in _TYPES and ahead[1].kind is Kind.STRING:
        return start + 2
    if first == "INTERVAL" and third in _UNITS:
        return start + 3 if ahead[1].kind is Kind.STRING or second.isdigit() else None
    if first == "(":
        return _end_of_brackets(tokens, start)
    is_call = ahead[0].kind is Kind.WORD and second == "("
    return _end_of_brackets(tokens, start + 1) if is_call else None


_NO_TOKEN = Token(Kind.SYMBOL, "", 0, 0)


def _end_of_brackets(tokens: Sequence[Token], start: int) -> int | None:
    """Where brackets end; None if they contain a query or a parameter."""
    depth = 0
    for at in range(start, len(tokens)):
        word = tokens[at].upper
        if word in ("SELECT", "FROM", "?", ":"):
            return None
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return at + 1
    return None


def _is_in_with(tokens: Sequence[Token], name: str) -> bool:
    """Whether WITH may define a name."""
    around = zip(tokens, tokens[1:], tokens[2:], strict=False)
    return any(
        before.upper in ("WITH", "RECURSIVE", ",")
        and _plain_name(token).lower() == name.lower()
        and after.upper in ("AS", "(")
        for before, token, after in around
    ) and any(each.upper == "WITH" for each in tokens)


def _plain_name(token: Token) -> str:
    is_quoted = token.kind is Kind.QUOTED
    return token.text[1:-1].replace("``", "`") if is_quoted else token.text


def _read(text: str, name: Sequence[Token], clause: Sequence[Token], quotes: Quotes) -> Travel:
    written = text[name[0].start : name[-1].end]
    of_name = Cursor(written, quotes)
    target = Target(parts=of_name.parts(), text=written)
    of_name.expect_end()
    if clause[0].upper == "@":
        return _read_suffix(target, clause[1].text)
    of_clause = Cursor(text[clause[0].start : clause[-1].end], quotes)
    value = clause[[each.upper for each in clause].index("OF") + 1 :]
    if len(value) > 1 or (value[0].kind is Kind.WORD and not value[0].text.isdigit()):
        return Travel(target, expression=text[value[0].start : value[-1].end])
    travel = version_of(of_clause)
    of_clause.expect_end()
    return Travel(target, *travel)


def _read_suffix(target: Target, suffix: str) -> Travel:
    """Read the version in name@v3, or the time in name@20260131000000000."""
    if version := _VERSION_AT.fullmatch(suffix):
        return Travel(target, version=int(version[1]))
    if time := _TIME_AT.fullmatch(suffix):
        year, month, day, hour, minute, second, milli = time.groups()
        return Travel(target, timestamp=f"{year}-{month}-{day} {hour}:{minute}:{second}.{milli}")
    raise UnclearError("no version follows the name")


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
