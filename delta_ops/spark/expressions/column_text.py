"""Column text: converts a Spark Column to an equivalent SQL text.

Comparisons of names and values, joined by AND, OR and NOT, have a text, and so does SQL inside
`expr`. Other columns have none. Data skipping relies on the text, so nothing is guessed from
Spark's display of a column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import (
    BooleanType,
    DateType,
    FractionalType,
    IntegralType,
    StringType,
    TimestampType,
)

from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.versions import HAS_NODES

_INFIX = {
    **{each: each for each in ("=", "<", "<=", ">", ">=", "<=>", "and", "or")},
    "==": "=",  # Spark Connect's name
}
_SUFFIX = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_CATALYST = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "And": "and",
    "Or": "or",
    "Not": "not",
    "IsNull": "isnull",
    "IsNotNull": "isnotnull",
    "In": "in",
}
"""Names of functions, by the classes of Catalyst."""
_OLD = 1900
"""Earlier dates and times may differ in the calendar of Java's legacy classes."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sql_of(column: Column) -> str | None:
    """The SQL text; None if no text is known to be equivalent."""
    untyped: Any = column
    if type(column).__module__.startswith("pyspark.sql.connect"):
        return _sql_of_expression(untyped._expr)
    return _sql_of_node(untyped._jc.node()) if HAS_NODES else _sql_of_catalyst(untyped._jc.expr())


def _sql_of_node(node: Any) -> str | None:
    """Text of a JVM node, on a classic session."""
    match node.getClass().getSimpleName():
        case "UnresolvedAttribute":
            parts = _items(node.nameParts())
            is_bound = node.planId().isDefined() or node.isMetadataColumn()
            return None if is_bound or "*" in parts else ".".join(map(quote, parts))
        case "Literal":
            has_type = node.dataType().isDefined()
            return None if has_type else _sql_of_value(_python_value(node.value()))
        case "SqlExpression":
            return f"({node.expression()})"
        case "UnresolvedFunction":
            if node.isDistinct() or node.isUserDefinedFunction():
                return None
            operands = [_sql_of_node(each) for each in _items(node.arguments())]
            return _sql_of_call(str(node.functionName()), operands)
    return None


def _sql_of_catalyst(expression: Any) -> str | None:
    """Text of a Catalyst expression, on a classic session before Spark 4.0."""
    match expression.getClass().getSimpleName():
        case "UnresolvedAttribute":
            return ".".join(map(quote, _items(expression.nameParts())))
        case "Literal":
            return _sql_of_value(_value_of_catalyst(expression))
        case name if name in _CATALYST:
            operands = [_sql_of_catalyst(each) for each in _items(expression.children())]
            return _sql_of_call(_CATALYST[name], operands)
    return None


def _sql_of_expression(expression: Any) -> str | None:
    """Text of a Spark Connect expression."""
    match type(expression).__name__:
        case "ColumnReference":
            if expression._plan_id is not None or expression._is_metadata_column:
                return None
            name = expression._unparsed_identifier
            return str(name) if "`" in name else ".".join(map(quote, name.split(".")))
        case "LiteralExpression":
            return _sql_of_value(_value_of_literal(expression))
        case "SQLExpression":
            return f"({expression._expr})"
        case "UnresolvedFunction":
            if expression._is_distinct:
                return None
            operands = [_sql_of_expression(each) for each in expression._args]
            return _sql_of_call(expression._name, operands)
    return None


def _sql_of_call(function: str, operands: Sequence[str | None]) -> str | None:
    known = [each for each in operands if each is not None]
    if len(known) < len(operands):
        return None
    match function.lower(), known:
        case name, [left, right] if name in _INFIX:
            return f"({left} {_INFIX[name]} {right})"
        case (("!" | "not"), [condition]):
            return f"(NOT {condition})"
        case name, [value] if name in _SUFFIX:
            return f"({value} {_SUFFIX[name]})"
        case "in", [value, *several] if several:
            return f"({value} IN ({', '.join(several)}))"
    return None


def _sql_of_value(value: Any) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"({value})"
        case float() if math.isfinite(value):
            return f"({value!r}D)"
        case Decimal() if value.is_finite():
            plain = format(value, "f")
            return f"({plain if '.' in plain else plain + '.0'})"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case datetime() if value.year >= _OLD:
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}+00:00'"
        case date() if value.year >= _OLD and not isinstance(value, datetime):
            return f"DATE '{value.isoformat()}'"
    return None


def _python_value(value: Any) -> Any:
    """Convert a value from Py4J to Python; values of unknown types are returned unchanged."""
    if not hasattr(value, "getClass"):
        return value
    match value.getClass().getName():
        case "java.sql.Date":
            return date.fromisoformat(value.toString())
        case "java.sql.Timestamp":
            found = value.toInstant()
            micros = timedelta(microseconds=found.getNano() // 1000)
            return _EPOCH + timedelta(seconds=found.getEpochSecond()) + micros
    return value


def _value_of_catalyst(literal: Any) -> Any:
    """Value of a Catalyst literal, which stores dates and times as numbers; None if unknown."""
    value = literal.value()
    if value is None:
        return None
    try:
        match literal.dataType().getClass().getSimpleName():
            case "DateType$":
                return _EPOCH.date() + timedelta(days=value)
            case "TimestampType$":
                return _EPOCH + timedelta(microseconds=value)
            case "DecimalType":
                return Decimal(value.toString())
            case "StringType$":
                return value.toString()
            case "BooleanType$" | "IntegerType$" | "LongType$" | "DoubleType$":
                return value
    except OverflowError:  # a year that Python's dates lack
        return None
    return None


def _value_of_literal(literal: Any) -> Any:
    """Value of a Spark Connect literal. Connect stores dates and times as numbers."""
    value, data_type = literal._value, literal._dataType
    match data_type:
        case _ if value is None:
            return None
        case DateType():
            return data_type.fromInternal(value)
        case TimestampType():
            return _EPOCH + timedelta(microseconds=value)
        case BooleanType() | IntegralType() | FractionalType():
            return value
    return value if data_type == StringType() else None


def _items(values: Any) -> list[Any]:
    return [values.apply(i) for i in range(values.size())]
