"""Implication: derive a predicate on single columns from a condition on rows.

Whenever the condition is true, the predicate is true. A read can therefore skip files by the
predicate, and a commit can record it as its read predicate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from delta_ops.error_texts import value_text
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.expression.nodes import (
    Call,
    Column,
    Expression,
    Literal,
    Node,
    conjuncts_of,
)
from delta_ops.protocol.predicate import (
    TRUE,
    Always,
    Comparison,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    all_of,
    parse_predicate,
    resolve,
)
from delta_ops.protocol.schema import StructType

AnyPredicate = Predicate | Expression | str
"""A condition that compares columns with literals, in each form that a caller may give."""
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def implied_predicate(condition: Node, schema: StructType) -> Predicate:
    """The strongest predicate that can be derived; `TRUE` if there is none.

    Args:
        condition: Parsed, not resolved.
        schema: The columns that the predicate may use; conditions on other columns are ignored.
    """
    return all_of(
        each
        for conjunct in conjuncts_of(condition)
        if (each := _find_implied(conjunct, schema)) is not TRUE
    )


def predicate_of(condition: AnyPredicate | None) -> Predicate | None:
    """The predicate of a caller's condition; a text is parsed.

    Raises:
        InvalidRequestError: The condition does more than compare columns with literals.
    """
    if condition is None or isinstance(condition, Predicate):
        return condition
    if isinstance(condition, str):
        return parse_predicate(condition)
    if not isinstance(condition, Expression):
        raise InvalidRequestError(
            f"the predicate is {value_text(condition)}, of type {type(condition).__name__}; "
            "compare a column, as in col('id') == 5, or give a string of Spark SQL"
        )
    found = _equivalent(condition.root)
    if found is None:
        raise InvalidRequestError(
            f"the condition {condition.text} does more than compare columns with literals; write "
            "only comparisons, such as day >= '2026-01-01', or filter the rows that you read"
        )
    return found


def fitting_predicate(condition: AnyPredicate, schema: StructType) -> Predicate:
    """The predicate of a caller's condition, which must fit these columns."""
    predicate = predicate_of(condition)
    assert predicate is not None  # because the condition is not None
    resolve(predicate, schema)
    return predicate


def _find_implied(node: Node, schema: StructType) -> Predicate:
    found = _equivalent(node)
    if found is None:
        return TRUE
    try:
        resolve(found, schema)
    except InvalidRequestError:  # a column of another table, or a type that cannot select files
        return TRUE
    return found


def _equivalent(node: Node) -> Predicate | None:
    """The equivalent predicate; None if there is none."""
    match node:
        case Column(path):
            return Comparison(path, "==", True)
        case Literal(value=bool(value)):
            return Always(value)
        case Call("is null", (Column(path),)):
            return IsNull(path)
        case Call("not", (operand,)):
            inner = _equivalent(operand)
            return None if inner is None else Not(inner)
        case Call("or", operands):
            return _either([_equivalent(each) for each in operands])
        case Call("and", operands):
            parts = [_equivalent(each) for each in operands]
            return None if None in parts else all_of(cast("Iterable[Predicate]", parts))
        case Call(name, (Column(path), Literal(value))) if name in _MIRRORED:
            return _comparison(path, name, value)
        case Call(name, (Literal(value), Column(path))) if name in _MIRRORED:
            return _comparison(path, _MIRRORED[name], value)
    return None


def _either(parts: list[Predicate | None]) -> Predicate | None:
    known = [each for each in parts if each is not None]
    if len(known) < len(parts):
        return None
    values = [each.value for each in known if isinstance(each, Comparison) and _is_equality(each)]
    columns = {each.column for each in known if isinstance(each, Comparison)}
    if len(values) == len(known) and len(columns) == 1:
        return In(columns.pop(), tuple(values))
    return Or(tuple(known))


def _is_equality(comparison: Comparison) -> bool:
    return comparison.operator == "=="


def _comparison(path: tuple[str, ...], name: str, value: Any) -> Predicate:
    if value is None:
        return In(path, (None,))
    return Comparison(path, cast("Operator", "==" if name == "=" else name), value)
