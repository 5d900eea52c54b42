"""The expression as a value: a tree of columns, literals and calls.

A closed set of nodes. Parsed nodes have no types; `resolution.resolve_expression` assigns the types
and inserts the casts that Spark would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from delta_ops.protocol.schema import ColumnPath, DataType


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct column."""

    path: ColumnPath
    data_type: DataType | None = None


@dataclass(frozen=True, slots=True)
class Literal:
    """A value; None is null."""

    value: Any
    data_type: DataType | None
    """None: the default type of the text, number or date."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator with its operands."""

    name: str
    """As in `functions.SUPPORTED`: `+`, `and`, `upper`, ..."""
    operands: tuple[Node, ...]
    data_type: DataType | None = None


@dataclass(frozen=True, slots=True)
class Cast:
    """Converts a value to another type."""

    operand: Node
    data_type: DataType
    is_exact: bool = False
    """Whether the cast rejects values that Spark's own cast may round."""


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node
    data_type: DataType | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct of values; created by assigning a field, not by parsing."""

    fields: tuple[tuple[str, Node], ...]
    data_type: DataType | None = None


Node = Column | Literal | Call | Cast | Case | Struct


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of Spark SQL with its text; made by `parse_expression`."""

    __words__: ClassVar[str] = "an expression (parse_expression(text))"

    text: str
    root: Node


def operands_of(node: Node) -> tuple[Node, ...]:
    """The direct operands of a node, from left to right."""
    match node:
        case Call(operands=operands):
            return operands
        case Cast(operand=operand):
            return (operand,)
        case Case(branches=branches, otherwise=otherwise):
            return (*(each for branch in branches for each in branch), otherwise)
        case Struct(fields=fields):
            return tuple(value for _, value in fields)
    return ()


def map_nodes(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """Replace nodes of a tree; replacements by `change` are not visited again."""
    if (changed := change(node)) is not None:
        return changed
    match node:
        case Call(operands=operands):
            return replace(node, operands=tuple(map_nodes(each, change) for each in operands))
        case Cast(operand=operand):
            return replace(node, operand=map_nodes(operand, change))
        case Case(branches=branches, otherwise=otherwise):
            mapped = tuple((map_nodes(c, change), map_nodes(v, change)) for c, v in branches)
            return replace(node, branches=mapped, otherwise=map_nodes(otherwise, change))
        case Struct(fields=fields):
            return replace(node, fields=tuple((n, map_nodes(v, change)) for n, v in fields))
    return node


def columns_of(node: Node) -> Iterator[Column]:
    """The columns in a tree, with duplicates."""
    if isinstance(node, Column):
        yield node
    for each in operands_of(node):
        yield from columns_of(each)


def conjuncts_of(node: Node) -> Iterator[Node]:
    """The conditions that a condition joins by AND."""
    if isinstance(node, Call) and node.name == "and":
        for each in node.operands:
            yield from conjuncts_of(each)
    else:
        yield node


def join_conjuncts(nodes: tuple[Node, ...]) -> Node | None:
    """Join conditions by AND; None if there are none."""
    if not nodes:
        return None
    return nodes[0] if len(nodes) == 1 else Call("and", nodes)
