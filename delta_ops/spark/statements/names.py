"""Names: targets, aliases, columns, properties and versions within statements.

A column may have its table with the database before it, as in `db.t.id`. DataFrames know a table by
one name, so this becomes `t.id` before a statement runs. As in Spark, the name of a table comes
before a struct column with the name of the database. Names within a subquery stay, because a table
of the subquery may have the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from delta_ops.protocol.schema import NO_COLUMNS
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.statements.cursor import Cursor
from delta_ops.spark.statements.lexer import Kind, Token, UnclearError, tokens_of
from delta_ops.spark.statements.nodes import Properties, Target, Unsupported

NOT_ALLOWED_DETAIL = "DELTA_OPERATION_NOT_ALLOWED_DETAIL"
"""The reference's error class of statements that Delta tables do not have."""
_NUM_PARTS = 3
_BEGIN_QUERY = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})


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
    start = cursor.position
    cursor.number()
    return cursor.text_since(start)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """A table that a statement reads or changes, without an alias of its own."""

    name: tuple[str, ...]
    """Catalog, database and name; or `delta` and a path. In lower case."""
    alias: str
    """The name of the table for conditions and values."""
    columns: Collection[str]
    """In lower case."""

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The names with a database, the longest first."""
        return (self.name, self.name[1:]) if len(self.name) == _NUM_PARTS else (self.name,)


def may_name_databases(text: str | None) -> bool:
    """Whether a text may contain a column with a database before it."""
    return text is not None and text.count(".") > 1


def shorten_names(text: str, tables: Sequence[NamedTable]) -> str:
    """Replace the name of a table with its database by its alias, before columns of the table.

    Returns:
        The text, unchanged where a name is not certainly a column of a table.
    """
    if not tables or "->" in text:  # a variable of a lambda hides all other names
        return text
    try:
        tokens = tokens_of(text)
    except UnclearError:
        return text
    pieces, at = [], 0
    for mention in _mentions(tokens, tables):
        pieces += [text[at : mention.start], quote(mention.alias)]
        at = mention.end
    return "".join((*pieces, text[at:]))


def shorten_column(column: str, table: NamedTable) -> str:
    """Remove the name of its table with the database from a column that gets a value."""
    parts = path_of_name(column, NO_COLUMNS)
    for name in table.names:
        if _begins(parts, name):
            return name_of_path(parts[len(name) :])
    return column


class _Mention(NamedTuple):
    """The name of a table before a column."""

    start: int
    end: int
    alias: str


def _mentions(tokens: Sequence[Token], tables: Sequence[NamedTable]) -> Iterator[_Mention]:
    is_query = [False]  # by depth of parentheses
    for number, token in enumerate(tokens):
        if token.upper == "(":
            after = tokens[number + 1].upper if number + 1 < len(tokens) else ""
            is_query.append(is_query[-1] or after in _BEGIN_QUERY)
        elif token.upper == ")" and len(is_query) > 1:
            is_query.pop()
        if is_query[-1] or (number and tokens[number - 1].upper == "."):
            continue
        parts = _parts_from(tokens, number)
        for table in tables if len(parts) > 1 else ():
            if length := _length_of_name(parts, table):
                yield _Mention(token.start, tokens[number + 2 * length - 2].end, table.alias)
                break


def _parts_from(tokens: Sequence[Token], start: int) -> list[str]:
    """The parts of the name that begins at a token."""
    parts = []
    for number in range(start, len(tokens), 2):
        token = tokens[number]
        if token.kind is Kind.QUOTED:
            parts.append(token.text[1:-1].replace("``", "`"))
        elif token.kind is Kind.WORD:
            parts.append(token.text)
        else:
            break
        if number + 1 == len(tokens) or tokens[number + 1].upper != ".":
            break
    return parts


def _length_of_name(parts: Sequence[str], table: NamedTable) -> int:
    """Number of parts of the table's name before a column; 0 if the name is another's."""
    for name in table.names:
        if _begins(parts, name) and parts[len(name)].lower() in table.columns:
            return len(name)
    return 0


def _begins(parts: Sequence[str], name: Sequence[str]) -> bool:
    before = tuple(map(str.lower, parts[: len(name)]))
    return before == tuple(name) and len(parts) > len(name)
