"""Conditions: what the condition of a delete or an update implies for the rows and files.

An engine only evaluates a condition. This module decides which files it concerns, and how its text
appears in the commit.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.expression.nodes import Column, Node, map_nodes
from delta_ops.protocol.expression.resolution import Find, Found, locate
from delta_ops.protocol.expression.time_functions import bind_time
from delta_ops.protocol.predicate import TRUE, Predicate, parse_predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import ColumnPath, StructType

C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The rows that a condition selects, and what delta_ops knows of them without an engine."""

    text: str
    """The condition in SQL; "true" for all rows."""
    implied: Predicate
    """A predicate that is true for at least the rows that match the condition."""
    is_implied: bool
    """Whether the predicate matches exactly the same rows."""


def selection_of_predicate(predicate: Predicate | None) -> Selection:
    """Return the rows that a predicate selects; None selects all rows."""
    predicate = TRUE if predicate is None else predicate
    text = "true" if predicate == TRUE else predicate_text(predicate)
    return Selection(text=text, implied=predicate, is_implied=True)


def selection_of_expression(
    text: str, root: Node | None, schema: StructType, now_ms: int, alias: str | None = None
) -> Selection:
    """Return the rows that an SQL condition selects.

    Args:
        text: The condition.
        root: The parsed condition, not resolved; None if only the engine can parse it.
        schema: The table's schema.
        now_ms: Time of the statement, in milliseconds since the Unix epoch.
        alias: Alias of the table in the condition.
    """
    implied: Predicate = TRUE
    if root is not None:
        implied = implied_predicate(bind_time(_strip_alias(root, alias, schema), now_ms), schema)
    return Selection(text=text, implied=implied, is_implied=False)


def simplify_condition(condition: C | str) -> C | Predicate | str:
    """Parse a text that only compares columns with literals; return any other condition as it is.

    A predicate selects files and row groups exactly. For any other text, the engine raises the
    better error.
    """
    if isinstance(condition, str):
        with suppress(InvalidRequestError):
            return parse_predicate(condition)
    return condition


def finder_with_alias(schema: StructType, alias: str | None) -> Find:
    """Return a function that finds columns of a table, with or without the alias prefix."""

    def find(path: ColumnPath) -> Found:
        if alias is not None and len(path) > 1 and path[0].lower() == alias.lower():
            with suppress(UnknownColumnError):
                return locate(path[1:], schema)
        return locate(path, schema)

    return find


def _strip_alias(node: Node, alias: str | None, schema: StructType) -> Node:
    """Remove the table alias from the columns of an expression."""

    def strip(each: Node) -> Node | None:
        if not isinstance(each, Column) or alias is None or len(each.path) == 1:
            return None
        first, second, *_ = (name.lower() for name in each.path)
        is_alias = first == alias.lower() and second in schema.fields_by_lower_name
        return Column(each.path[1:]) if is_alias else None

    return map_nodes(node, strip)
