"""The text of a predicate in Spark SQL, for the operation parameters of a commit.

`predicate.parse_predicate` reads it back, except an IN without values, which SQL does not have.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from math import isfinite, isnan
from numbers import Integral, Real
from typing import Any

from delta_ops.protocol.predicate.nodes import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
)
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.schema.column_names import quote


def predicate_text(predicate: Predicate, alias: str | None = None) -> str:
    """Format a predicate as an equivalent condition of Spark SQL.

    Args:
        alias: Qualifier of the column names.
    """
    match predicate:
        case Comparison(column, operator, value):
            sign = "=" if operator == "==" else operator
            return f"{_column(column, alias)} {sign} {_literal(value)}"
        case In(column, values):
            return f"{_column(column, alias)} IN ({', '.join(map(_literal, values))})"
        case IsNull(column):
            return f"{_column(column, alias)} IS NULL"
        case And(operands):
            return " AND ".join(_operand(each, alias) for each in operands)
        case Or(operands):
            return " OR ".join(_operand(each, alias) for each in operands)
        case Not(operand):
            return f"NOT ({predicate_text(operand, alias)})"
        case Always(value):
            return _literal(value)


def _operand(predicate: Predicate, alias: str | None) -> str:
    text = predicate_text(predicate, alias)
    return f"({text})" if isinstance(predicate, And | Or) else text


def _column(path: ColumnPath, alias: str | None) -> str:
    # Always in backticks, since keywords differ between readers.
    names = path if alias is None else (alias, *path)
    return ".".join(map(quote, names))


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case Decimal():
            return f"{value:f}BD"
        case Integral():
            return str(int(value))
        case Real():
            return _double(float(value))
        case datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case bytes():
            return f"X'{value.hex().upper()}'"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _double(value: float) -> str:
    if isfinite(value):
        return f"{value!r}D"
    return "double('NaN')" if isnan(value) else f"double('{'-' if value < 0 else ''}Infinity')"
