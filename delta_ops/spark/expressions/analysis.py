"""Analysis: what Spark finds in an expression before any row is read.

Spark Connect tells the type of an expression, and not what is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, is_remote
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.session.session import is_connect

_OF_SESSION = frozenset(
    {
        "PythonUDF",
        "ScalaUDF",
        "HiveSimpleUDF",
        "HiveGenericUDF",
        "VariableReference",
        "OuterReference",
        "CurrentUser",
        "CurrentDatabase",
        "CurrentCatalog",
        "CurrentTimeZone",
    }
)
"""Catalyst's expressions for what is defined in a session, or outside of the row."""
_OF_TIME = frozenset(
    {"CurrentTimestamp", "Now", "CurrentDate", "LocalTimestamp", "CurrentTime", "UnixTimestamp"}
)
"""Catalyst's expressions for the time of a query; another query is later."""
_NUMBERS = frozenset({"boolean", "byte", "short", "integer", "long", "float", "double"})
"""Types of Spark, whose decimals have more to their names."""
_MORE_ROWS = "it looks at more than one row"
_UNSTABLE = "it is not the same each time it is evaluated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyzed:
    """What is known of an expression."""

    obstacle: str = ""
    """Why it is of no use; nothing if it is."""
    is_stable: bool = False
    """Whether it is known to come to the same each time it is evaluated."""
    is_constant: bool = False
    """Whether it is known to be made of constants, of which some are neither numbers nor truth
    values."""


def analyze(column: Column, rows: DataFrame, *, must_be_true: bool = False) -> Analyzed:
    """Look at an expression over one row.

    Args:
        column: The expression.
        rows: No matter which, with the columns that it may look at.
        must_be_true: It is a condition.
    """
    try:
        selected = rows.select(column)
        fields = selected.schema.fields
    except PySparkException as error:
        return Analyzed(obstacle=f"Spark does not understand it ({reason_of(error)})")
    if must_be_true and [type(field.dataType) for field in fields] != [BooleanType]:
        return Analyzed(obstacle="it is no condition")
    if is_remote():
        return Analyzed()
    plan, before = selected._jdf.queryExecution().analyzed(), _class_of(_plan_of(rows))
    if _class_of(plan) != "Project" or _class_of(plan.child()) != before:
        return Analyzed(obstacle=_MORE_ROWS)
    expression = plan.projectList().head()
    if not expression.deterministic():
        return Analyzed(obstacle=_UNSTABLE)
    nodes = list(_nodes(expression))
    is_timeless = not {_class_of(node) for node in nodes} & _OF_TIME
    return Analyzed(
        is_stable=is_timeless and plan.subqueries().isEmpty(),
        is_constant=is_timeless and _is_foldable(expression) and not all(map(_is_number, nodes)),
    )


def validate_of_one_row(columns: Mapping[str, Column], rows: DataFrame, table: str) -> None:
    """Refuse new values that look at more than one row, such as windows and aggregates.

    Which rows there are beside one is for whoever rewrites files to choose.

    Args:
        columns: The values, by the columns that get them.
        rows: No matter which, with the columns that they may look at.
        table: For the message.

    Raises:
        InvalidRequestError: With the column.
    """
    if analyze(sf.struct(*columns.values()), rows).obstacle in ("", _UNSTABLE):
        return
    for name, column in columns.items():
        if analyze(column, rows).obstacle == _MORE_ROWS:
            raise InvalidRequestError(
                f"{table}: the new value of column {name} looks at more than one row, or makes "
                "several; make it by a query of its own, and merge the rows of that"
            )


def reason_of(error: PySparkException) -> str:
    """What Spark says of an expression that it does not understand."""
    return str(error).strip().splitlines()[0].partition(" SQLSTATE")[0].rstrip(".")


def unresolved_text(spark: SparkSession, conditions: Sequence[str]) -> str | None:
    """Conditions, all of which must hold, as Catalyst shows them before it has found their columns.

    None where there is none, on a session of Connect, and for what Spark cannot read.
    """
    if not conditions or is_connect(spark):
        return None
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        return str(parser.parseExpression(" AND ".join(f"({c})" for c in conditions)).toString())
    except PySparkException:
        return None


def why_unusable(text: str, empty: DataFrame, *, must_be_true: bool = False) -> str:
    """Why an expression cannot be left to every session to evaluate; nothing if it can.

    Args:
        text: In Spark's SQL.
        empty: Rows, of which there are none, with the columns that it may look at.
        must_be_true: It is a condition.
    """
    if is_remote():
        return "a session of Spark Connect does not tell what is in it, use a classic one"
    try:
        selected = empty.select(sf.expr(text))
        fields = selected.schema.fields
    except PySparkException as error:
        return f"Spark does not understand it ({reason_of(error)})"
    if must_be_true and [type(field.dataType) for field in fields] != [BooleanType]:
        return "it is no condition"
    plan = selected._jdf.queryExecution().analyzed()
    if _class_of(plan) != "Project" or plan.child().children().nonEmpty():
        return "it looks at more than one row, or calls a function of this session"
    expression = plan.projectList().head()
    if not expression.deterministic():
        return _UNSTABLE
    found = {_class_of(node) for node in _nodes(expression)}
    if found & _OF_SESSION or plan.subqueries().nonEmpty():
        return "it looks at something other than the row"
    return ""


def _is_foldable(expression: Any) -> bool:
    """Whether Spark can compute it without a row; a name that it gets does not count."""
    named = expression.child() if _class_of(expression) == "Alias" else expression
    return bool(named.foldable())


def _is_number(node: Any) -> bool:
    """Whether a part of an expression is no literal, or that of a number or a truth value."""
    if _class_of(node) != "Literal":
        return True
    name = str(node.dataType().typeName())
    return name in _NUMBERS or name.startswith("decimal")


def _plan_of(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()


def _class_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _nodes(expression: Any) -> Iterator[Any]:
    yield expression
    children = expression.children()
    for i in range(children.length()):
        yield from _nodes(children.apply(i))
