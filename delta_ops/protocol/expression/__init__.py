"""The expression: a value computed from a row's columns, written in Spark SQL.

    parse_expression("price * (1 - discount)")

`docs/expressions.md` documents the supported subset. Its results equal Spark's with
`spark.sql.ansi.enabled` in the time zone UTC. All other SQL is rejected by name and needs the Spark
engine. An overflow is an error. `resolve_expression` assigns types, and an engine evaluates the
expression.
"""

from __future__ import annotations

from delta_ops.arguments import validate_arguments
from delta_ops.late_imports import importing
from delta_ops.protocol.expression.nodes import Expression, Literal
from delta_ops.protocol.schema import STRING
from delta_ops.protocol.values.literals import validate_text

__all__ = ["Expression", "lit", "parse_expression"]


def parse_expression(text: str) -> Expression:
    """Parse an expression of Spark SQL; `docs/expressions.md` documents the subset.

    Names and types are checked against the table's columns when the expression is used.

    Raises:
        InvalidRequestError: The text is no expression, or is outside the supported subset.

    Examples:
        >>> _ = da.update("lake/orders", {"price": parse_expression("price * 2 + id")})
        >>> sorted(da.to_table("lake/orders")["price"].to_pylist())
        [21.0, 42.0, 63.0]
    """
    with importing():  # importing sqlglot is slow
        from delta_ops.protocol.expression.sql import expression_from_sql

    return expression_from_sql(text)


def lit(text: str) -> Expression:
    """A literal text, where a plain text would be parsed as an expression.

    Examples:
        >>> _ = da.update("lake/orders", {"country": lit("LU")}, col("id") == 1)
        >>> da.to_table("lake/orders", predicate=col("id") == 1)["country"].to_pylist()
        ['LU']
    """
    validate_arguments(lit, locals())
    validate_text(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return Expression(f"'{escaped}'", Literal(text, STRING))
