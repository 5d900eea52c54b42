"""The expression: a value made of a row's columns, as Spark SQL writes it.

    parse_expression("price * (1 - discount)")

A small subset, documented in `docs/dml.md`: what it takes comes to what Spark comes to, with
`spark.sql.ansi.enabled` and in the time zone UTC; the rest is refused by name and needs the Spark
engine. An overflow is an error. Types are given by `resolve_expression`; who evaluates it is an
engine.
"""

from __future__ import annotations

from delta_ops.arguments import validate_arguments
from delta_ops.late_imports import importing
from delta_ops.protocol.expression.nodes import Expression, Literal
from delta_ops.protocol.schema import STRING
from delta_ops.protocol.values.literals import validate_text

__all__ = ["Expression", "lit", "parse_expression"]


def parse_expression(text: str) -> Expression:
    """The expression that a text of Spark SQL stands for; `docs/dml.md` has the subset.

    Names and types meet the table's columns when the expression is used.

    Raises:
        InvalidRequestError: The text is no expression, or none of the supported subset.
    """
    with importing():  # sqlglot takes long
        from delta_ops.protocol.expression.sql import expression_from_sql

    return expression_from_sql(text)


def lit(text: str) -> Expression:
    """A text as it is, where a text would be taken for an expression."""
    validate_arguments(lit, locals())
    validate_text(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return Expression(f"'{escaped}'", Literal(text, STRING))
