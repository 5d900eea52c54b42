"""The predicate as a value: a tree of comparisons, combined with `&`, `|` and `~`.

A closed set of nodes; `predicate` describes their meaning for rows and files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar, Literal, NoReturn, TypeVar, cast

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import ColumnPath, DataType

Operator = Literal["==", "!=", "<", "<=", ">", ">="]
T = TypeVar("T")

_CHAIN_LENGTH = 64


class _Combinable:
    """Operators that every node supports."""

    __slots__ = ()
    __words__: ClassVar[str] = "a predicate (col(name) == value)"

    def __and__(self, other: Predicate) -> And:
        if not isinstance(other, _Combinable):
            return NotImplemented
        return And((*_operands(self, And), *_operands(other, And)))

    def __or__(self, other: Predicate) -> Or:
        if not isinstance(other, _Combinable):
            return NotImplemented
        return Or((*_operands(self, Or), *_operands(other, Or)))

    def __invert__(self) -> Not:
        return Not(cast("Predicate", self))

    def __bool__(self) -> NoReturn:
        raise InvalidRequestError(
            "A predicate has no truth value by itself: combine predicates with &, | and ~ "
            "instead of and, or and not, put each comparison in parentheses, and split a < b < c "
            "into two comparisons."
        )


@dataclass(frozen=True, slots=True)
class Comparison(_Combinable):
    """Compares a column with a literal; null where the column is null."""

    column: ColumnPath
    operator: Operator
    value: Any
    """Never None."""
    data_type: DataType | None = field(default=None, compare=False, repr=False)
    """The column's type; None until the predicate is resolved."""
    padded_to: int | None = field(default=None, compare=False, repr=False)
    """Length of a CHAR column; shorter values compare as if padded with spaces."""


@dataclass(frozen=True, slots=True)
class In(_Combinable):
    """Equal to one of the values; null where the column is null, or only a null could match."""

    column: ColumnPath
    values: tuple[Any, ...]
    """None is null."""
    data_type: DataType | None = field(default=None, compare=False, repr=False)
    """As in `Comparison`."""
    padded_to: int | None = field(default=None, compare=False, repr=False)
    """As in `Comparison`."""


@dataclass(frozen=True, slots=True)
class IsNull(_Combinable):
    """True where the column is null, otherwise false."""

    column: ColumnPath
    data_type: DataType | None = field(default=None, compare=False, repr=False)
    """As in `Comparison`."""


@dataclass(frozen=True, slots=True)
class And(_Combinable):
    """False if an operand is false, otherwise null if one is null, otherwise true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or(_Combinable):
    """True if an operand is true, otherwise null if one is null, otherwise false."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not(_Combinable):
    """Negates its operand; null where the operand is null."""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class Always(_Combinable):
    """True for every row, or false for every row."""

    value: bool


Leaf = Comparison | In | IsNull
Predicate = Leaf | And | Or | Not | Always


def leaves_of(predicate: Predicate) -> Iterator[Leaf]:
    """The parts of a predicate that refer to a column, from left to right."""
    match predicate:
        case And(operands) | Or(operands):
            for each in operands:
                yield from leaves_of(each)
        case Not(operand):
            yield from leaves_of(operand)
        case Comparison() | In() | IsNull():
            yield predicate


def join_balanced(
    operator: Callable[[T, T], T], parts: Iterable[T], seal: Callable[[T], T] = lambda part: part
) -> T:
    """Join parts, at least one, by an associative operator into a shallow tree.

    Engines walk expressions recursively: a chain of ten thousand parts crashes Arrow.

    Args:
        seal: Wraps a part so that the engine does not merge it into the chain above it.
    """
    level = list(parts)
    while len(level) > _CHAIN_LENGTH:
        chains = (level[i : i + _CHAIN_LENGTH] for i in range(0, len(level), _CHAIN_LENGTH))
        level = [seal(reduce(operator, chain)) for chain in chains]
    return reduce(operator, level)


def _operands(node: _Combinable, kind: type[And] | type[Or]) -> tuple[Predicate, ...]:
    if isinstance(node, And | Or) and isinstance(node, kind):
        return node.operands
    return (cast("Predicate", node),)
