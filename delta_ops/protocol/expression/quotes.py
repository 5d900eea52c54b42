"""Quotes: rejects SQL conditions and values that have a column name in double quotes.

Spark SQL reads double quotes as a text; standard SQL, and engines that follow it, read a name. In
Spark `"state" != 'old'` is therefore true for every row. A double-quoted text is rejected if the
table has a column or field of this name. A condition without columns is rejected too. See decision
060.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from delta_ops.errors import InvalidRequestError
from delta_ops.late_imports import importing
from delta_ops.option_words import option
from delta_ops.protocol.expression.nodes import Call, Column, Expression, Literal, Node, operands_of
from delta_ops.protocol.expression.resolution import Find, finder_of
from delta_ops.protocol.row_rules import ExpressionRule
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.column_names import refuse_quoted_name

_OF_TIME = frozenset({"current_timestamp", "current_date"})


def validate_quotes(sql: str, find: Find) -> None:
    """Reject double-quoted texts that are names of columns or fields.

    Args:
        sql: Any Spark SQL.
        find: Finds columns.

    Raises:
        InvalidRequestError: The message shows both unambiguous spellings.
    """
    if '"' not in sql:
        return
    with importing():
        from delta_ops.protocol.predicate.sql import texts_in_double_quotes

    for text in texts_in_double_quotes(sql):
        refuse_quoted_name(text, find)


def validate_rule(rule: ExpressionRule, schema: StructType, table: str) -> None:
    """Reject a rule with a column name in double quotes, which engines read in two ways.

    deltalake writes such constraints for columns with capital letters.

    Raises:
        InvalidRequestError: The message names the rule and how to fix it.
    """
    try:
        validate_quotes(rule.expression or "", finder_of(schema))
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{table}: {rule} ({rule.expression}) cannot be checked, because engines read it in "
            f"different ways: {error} To correct a constraint, use "
            f"{option('ddl.drop_constraint')} and {option('ddl.add_constraint')}"
        ) from error


def validate_condition(condition: Expression, find: Find) -> None:
    """Reject names in double quotes, and a condition that consists of constants.

    Args:
        condition: Parsed, not resolved.
        find: Finds columns.

    Raises:
        InvalidRequestError: The message shows how to write the condition.
    """
    validate_quotes(condition.text, find)
    validate_looks_at_rows(condition)


def validate_looks_at_rows(condition: Expression) -> None:
    """Reject a condition that consists of constants.

    Booleans and numbers, such as `true`, `false` and `1 = 1`, are unambiguous and allowed.

    Raises:
        InvalidRequestError: The message shows how to write the condition.
    """
    nodes = list(_walk(condition.root))
    if any(isinstance(each, Column) or _is_time(each) for each in nodes):
        return
    values = [each.value for each in nodes if isinstance(each, Literal)]
    if not all(isinstance(each, bool | int | float | Decimal) for each in values):
        raise condition_of_constants(condition.text)


def condition_of_constants(text: str) -> InvalidRequestError:
    """The error for a condition that uses no column."""
    return InvalidRequestError(
        f"The condition {text!r} uses no column, so it has the same result for every row. Write a "
        "column without quotes or in backticks, `state`, and a string in single quotes, 'old'; "
        "to select all rows, write true"
    )


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for each in operands_of(node):
        yield from _walk(each)


def _is_time(node: Node) -> bool:
    return isinstance(node, Call) and node.name in _OF_TIME
