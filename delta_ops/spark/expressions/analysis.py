"""Analysis: examines expressions with Spark before any row is read.

Spark Connect shows the type of an expression, but not its parts. Whether an expression is constant
is therefore tried there: Spark accepts only a constant as the delimiter of `listagg`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, NumericType

from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.protocol.expression.resolution import Find
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.schema.column_names import split_name
from delta_ops.spark.versions import error_condition, is_connect

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
"""Catalyst expressions that depend on the session or on data outside the row."""
_OF_TIME = frozenset(
    {"CurrentTimestamp", "Now", "CurrentDate", "LocalTimestamp", "CurrentTime", "UnixTimestamp"}
)
"""Catalyst expressions for the time of a query; each query has another time."""
_SHOWS_TIME = re.compile(r"current_|\b(now|curdate|localtimestamp|unix_timestamp)\b", re.IGNORECASE)
"""Spark's display of an expression that may contain a function of `_OF_TIME`."""
_NUMBERS = frozenset({"boolean", "byte", "short", "integer", "long", "float", "double"})
"""Spark types by name. Decimals are missing here, because their names include the precision."""
_KEYS_OF_NAMES = {"UNRESOLVED_COLUMN": "objectName", "AMBIGUOUS_REFERENCE": "name"}
"""The parameter with the name of the column, for conditions of Spark's errors."""
_MORE_ROWS = "it depends on more than one row"
_OF_MORE_ROWS = "UNSUPPORTED_EXPR_FOR_OPERATOR"
"""Spark's condition of a statement with an expression over more than one row."""
UNSTABLE = "it is not deterministic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyzed:
    """Properties of an expression."""

    obstacle: str = ""
    """Why the expression is unusable; empty if it is usable."""
    error_class: str | None = None
    """Spark's condition of a statement with this obstacle."""
    error: Exception | None = None
    """Spark's error, if that is the obstacle."""
    unknown: ColumnPath | None = None
    """The column that Spark does not find, or finds twice, if that is the obstacle."""
    is_stable: bool = False
    """Whether each evaluation is known to give the same result."""
    is_constant: bool = False
    """Whether the expression is known to contain only constants, not all numbers or booleans."""


def analyze(column: Column, rows: DataFrame, *, must_be_true: bool = False) -> Analyzed:
    """Examine an expression over one row.

    Args:
        column: The expression.
        rows: Any DataFrame with the columns that the expression may use.
        must_be_true: Whether the expression must be a condition.
    """
    try:
        selected = rows.select(column)
        fields = selected.schema.fields
    except (PySparkException, Py4JJavaError) as error:
        return Analyzed(
            obstacle=_why_not_understood(error), unknown=_unknown_column(error), error=error
        )
    if must_be_true and [type(field.dataType) for field in fields] != [BooleanType]:
        return Analyzed(
            obstacle="it is not a condition", error_class="DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN"
        )
    if is_connect(rows.sparkSession):
        return Analyzed(is_constant=must_be_true and _is_constant_on_connect(column, rows))
    plan, before = selected._jdf.queryExecution().analyzed(), _class_of(_plan_of(rows))
    if _class_of(plan) != "Project" or _class_of(plan.child()) != before:
        return Analyzed(obstacle=_MORE_ROWS, error_class=_OF_MORE_ROWS)
    expression = plan.projectList().head()
    if not expression.deterministic():
        return Analyzed(obstacle=UNSTABLE, error_class="INVALID_NON_DETERMINISTIC_EXPRESSIONS")
    nodes = list(_nodes(expression))
    is_timeless = not {_class_of(node) for node in nodes} & _OF_TIME
    return Analyzed(
        is_stable=is_timeless and plan.subqueries().isEmpty(),
        is_constant=is_timeless and _is_foldable(expression) and not all(map(_is_number, nodes)),
    )


def validate_values(columns: Mapping[str, Column], rows: DataFrame, table: str, find: Find) -> None:
    """Reject new values that use unknown columns, or depend on more than one row.

    Windows and aggregates would depend on the choice of files that are rewritten together.

    Args:
        columns: The values, by assigned column.
        rows: Any DataFrame with the columns that the values may use.
        table: For the message.
        find: Finds these columns.

    Raises:
        InvalidRequestError: Names the column.
    """
    found = analyze(sf.struct(*columns.values()), rows)
    validate_known(found, find, table)
    if found.obstacle in ("", UNSTABLE):
        return
    for name, column in columns.items():
        if analyze(column, rows).obstacle == _MORE_ROWS:
            raise InvalidRequestError(
                f"{table}: the new value of column {name} depends on more than one row, or "
                "produces several; compute it in its own query, and merge the result",
                _OF_MORE_ROWS,
            )


def validate_known(analyzed: Analyzed, find: Find, table: str) -> None:
    """Raise our error for a column that Spark does not find, since Spark's has other words."""
    if analyzed.unknown is None:
        return
    with naming_table(table):
        try:
            find(analyzed.unknown)
        except InvalidRequestError as error:
            raise error from analyzed.error


def reason_of(error: PySparkException) -> str:
    """Spark's error message for an expression, in one line."""
    return str(error).strip().splitlines()[0].partition(" SQLSTATE")[0].rstrip(".")


def unresolved_text(spark: SparkSession, conditions: Sequence[str]) -> str | None:
    """Catalyst's text for the conjunction of the conditions, before columns are resolved.

    None without conditions, on Connect, and if Spark cannot parse a condition.
    """
    if not conditions or is_connect(spark):
        return None
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        return str(parser.parseExpression(" AND ".join(f"({c})" for c in conditions)).toString())
    except (PySparkException, Py4JJavaError):
        return None


def why_unusable(text: str, empty: DataFrame, *, must_be_true: bool = False) -> str:
    """Why an expression cannot be evaluated in every session; empty if it can.

    Args:
        text: In Spark SQL.
        empty: A DataFrame without rows, with the columns that the expression may use.
        must_be_true: Whether the expression must be a condition.
    """
    if is_connect(empty.sparkSession):
        return "a Spark Connect session cannot inspect it; use a classic session"
    try:
        selected = empty.select(sf.expr(text))
        fields = selected.schema.fields
    except (PySparkException, Py4JJavaError) as error:
        return _why_not_understood(error)
    if must_be_true and [type(field.dataType) for field in fields] != [BooleanType]:
        return "it is not a condition"
    plan = selected._jdf.queryExecution().analyzed()
    if _class_of(plan) != "Project" or plan.child().children().nonEmpty():
        return "it depends on more than one row, or calls a function of this session"
    expression = plan.projectList().head()
    if not expression.deterministic():
        return UNSTABLE
    found = {_class_of(node) for node in _nodes(expression)}
    if found & _OF_SESSION or plan.subqueries().nonEmpty():
        return "it depends on something other than the row"
    return ""


def _why_not_understood(error: PySparkException | Py4JJavaError) -> str:
    if isinstance(error, PySparkException):
        return f"Spark does not understand it ({reason_of(error)})"
    if "StackOverflowError" not in str(error.java_exception.getClass()):
        raise error
    return "it is nested too deeply for Spark"


def _unknown_column(error: PySparkException | Py4JJavaError) -> ColumnPath | None:
    """The column that an error of Spark is about; None for other errors."""
    if not isinstance(error, PySparkException):
        return None
    key = _KEYS_OF_NAMES.get((error_condition(error) or "").partition(".")[0])
    name = (error.getMessageParameters() or {}).get(key or "")
    return split_name(name) if name else None


def _is_constant_on_connect(condition: Column, rows: DataFrame) -> bool:
    """Whether a condition is known to have string literals and no column."""
    given: Any = condition
    if not _has_texts(given._expr) or _SHOWS_TIME.search(str(condition)):
        return False
    delimiter = sf.when(condition, "").otherwise("")
    try:
        return bool(rows.select(sf.call_function("listagg", sf.lit(""), delimiter)).schema)
    except PySparkException:
        return False


def _has_texts(expression: Any) -> bool:
    """Whether an expression of Spark Connect may have a literal that is no number or boolean."""
    match type(expression).__name__:
        case "SQLExpression":
            return not {"'", '"'}.isdisjoint(expression._expr)
        case "LiteralExpression":
            return not isinstance(expression._dataType, NumericType | BooleanType)
    return any(map(_has_texts, expression.children))


def _is_foldable(expression: Any) -> bool:
    """Whether Spark can compute the expression without a row; an outer alias is ignored."""
    named = expression.child() if _class_of(expression) == "Alias" else expression
    return bool(named.foldable())


def _is_number(node: Any) -> bool:
    """False only for a literal that is neither a number nor a boolean."""
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
