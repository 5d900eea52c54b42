"""The expression as a value: a tree of columns, literals and calls.

A closed set of nodes. As parsed they have no types; `resolution.resolve_expression` gives each node
its type and puts in the casts that Spark would.
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
    """None: that of a text, number or date by itself."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator of some operands."""

    name: str
    """As in `functions.SUPPORTED`: `+`, `and`, `upper`, ..."""
    operands: tuple[Node, ...]
    data_type: DataType | None = None


@dataclass(frozen=True, slots=True)
class Cast:
    """A value of one type as a value of another."""

    operand: Node
    data_type: DataType
    is_exact: bool = False
    """Whether Spark's own cast may round where ours refuses."""


@dataclass(frozen=True, slots=True)
class Case:
    """The value beside the first condition that is true."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node
    data_type: DataType | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct of values; no text says it, the assignment of a field makes it."""

    fields: tuple[tuple[str, Node], ...]
    data_type: DataType | None = None


Node = Column | Literal | Call | Cast | Case | Struct


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of Spark SQL with its text; made by `parse_expression`."""

    __words__: ClassVar[str] = "an expression, as parse_expression(text) makes it"

    text: str
    root: Node


def operands_of(node: Node) -> tuple[Node, ...]:
    """The nodes right below a node, from left to right."""
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
    """The tree with nodes replaced: what `change` gives for one stands there as it is."""
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
    """The columns that a tree looks at, as often as it does."""
    if isinstance(node, Column):
        yield node
    for each in operands_of(node):
        yield from columns_of(each)


def conjuncts_of(node: Node) -> Iterator[Node]:
    """The conditions that must all be true for a condition to be true."""
    if isinstance(node, Call) and node.name == "and":
        for each in node.operands:
            yield from conjuncts_of(each)
    else:
        yield node


def join_conjuncts(nodes: tuple[Node, ...]) -> Node | None:
    """The condition that is true where all of these are; None for none of them."""
    if not nodes:
        return None
    return nodes[0] if len(nodes) == 1 else Call("and", nodes)
