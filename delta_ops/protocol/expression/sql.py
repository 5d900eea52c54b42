"""An expression from text: a subset of Spark SQL, documented in `docs/expressions.md`.

sqlglot parses the text, as for predicates. Each part of its tree is converted separately, and an
unsupported part is rejected by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import Dialect, exp

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.expression.coercion import FLOATS
from delta_ops.protocol.expression.nodes import Call, Case, Cast, Column, Expression, Literal, Node
from delta_ops.protocol.predicate.sql import parse_condition
from delta_ops.protocol.predicate.sql_literals import (
    excerpt,
    hint_of_quotes,
    literal,
    sql_of,
    type_of,
    unwrap,
)
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTEGER_RANGES,
    LONG,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    DataType,
    DecimalType,
)
from delta_ops.protocol.schema.column_names import quote
from delta_ops.protocol.values.literals import SqlDouble, validate_text

_BINARY: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.DPipe: "concat",
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_UNARY: Mapping[type[exp.Expr], str] = {
    exp.Neg: "negate",
    exp.Not: "not",
    exp.Upper: "upper",
    exp.Lower: "lower",
    exp.Length: "length",
    exp.Abs: "abs",
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_BINDING_OTHERWISE: Mapping[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    exp.DPipe: (exp.Add, exp.Sub),
    **dict.fromkeys(_COMPARISONS, (*_COMPARISONS, exp.In, exp.Between)),
}
"""Operators, and the nodes that need parentheses on their right side.

Spark groups these from left to right; sqlglot groups the right side first.
"""
_LITERALS = (
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.RawString,
    exp.HexString,
)
_SPARK = Dialect.get_or_raise("spark")
_ISNULL = {"isnull", "isnotnull"}


def expression_from_sql(text: str) -> Expression:
    """Parse an expression of Spark SQL; the expression is not yet resolved.

    Raises:
        InvalidRequestError: The text is no expression, or is outside the supported subset.
    """
    validate_text(text)
    try:
        return Expression(text, _node(parse_condition(text, "expression")))
    except RecursionError as error:
        raise InvalidRequestError(
            f"The expression {excerpt(text)} is nested too deeply; split it."
        ) from error


def qualify_columns(text: str, alias: str, names: Collection[str]) -> str:
    """Put an alias before some columns; the rest of the text stays.

    Args:
        text: An expression.
        alias: The alias.
        names: The columns, in lower case, of which none is called like an alias.

    Raises:
        InvalidRequestError: The text is no expression, so its columns are not known.
    """
    expression_from_sql(text)
    found = [each.parts for each in parse_condition(text, "expression").find_all(exp.Column)]
    starts = [first.meta["start"] for first, *_ in found if first.name.lower() in names]
    for start in sorted(starts, reverse=True):
        text = f"{text[:start]}{quote(alias)}.{text[start:]}"
    return text


def _node(node: exp.Expr) -> Node:
    node = unwrap(node)
    constant = _constant(node)
    if constant is not None:
        return constant
    match node:
        case exp.Column() | exp.Dot():
            return _column(node)
        case exp.And() | exp.Or():
            return Call(
                "and" if isinstance(node, exp.And) else "or", tuple(_operands(node, type(node)))
            )
        case exp.Cast():
            return _cast(node)
        case exp.In() if node.expressions:
            value = _node(node.this)
            listed = _unify_numbers([_node(each) for each in node.expressions])
            return Call("or", tuple(Call("=", (value, each)) for each in listed))
        case exp.Between() if not node.args.get("symmetric"):
            value, low, high = map(_node, (node.this, node.args["low"], node.args["high"]))
            return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))
        case exp.Is(expression=exp.Null()):
            return Call("is null", (_node(node.this),))
        case exp.Is(expression=exp.Boolean() as flag):
            return Call("<=>", (_node(node.this), Literal(bool(flag.this), BOOLEAN)))
        case exp.NullSafeNEQ():
            return Call("not", (Call("<=>", (_node(node.this), _node(node.expression))),))
    if name := _BINARY.get(type(node)):
        if isinstance(node.expression, _BINDING_OTHERWISE.get(type(node), ())):
            raise refusal(node, "needs parentheses around its right side, or around its left one")
        return Call(name, (_node(node.this), _node(node.expression)))
    if name := _UNARY.get(type(node)):
        return Call(name, (_node(node.this),))
    return _function(node)


def _function(node: exp.Expr) -> Node:
    match node:
        case exp.Case():
            return _case(node)
        case exp.If() if node.args.get("false") is not None:
            return Case(((_node(node.this), _node(node.args["true"])),), _node(node.args["false"]))
        case exp.Coalesce():
            return Call("coalesce", tuple(map(_node, (node.this, *node.expressions))))
        case exp.Concat():
            return Call("concat", tuple(map(_node, node.expressions)))
        case exp.Trim() if set(_arguments(node)) == {"this"}:
            return Call("trim", (_node(node.this),))
        case exp.Substring():
            arguments = (node.args.get("start"), node.args.get("length"))
            return Call("substring", tuple(_node(e) for e in (node.this, *arguments) if e))
        case exp.Anonymous() if node.name.lower() in _ISNULL and len(node.expressions) == 1:
            is_null = Call("is null", (_node(node.expressions[0]),))
            return is_null if node.name.lower() == "isnull" else Call("not", (is_null,))
    return _time_function(node)


def _time_function(node: exp.Expr) -> Node:
    match node:
        case exp.TsOrDsToDate() if set(_arguments(node)) == {"this"}:
            return Call("date", (_node(node.this),))  # inserted by sqlglot, as Spark does
        case exp.TimestampTrunc():
            return Call("date_trunc", (_node(node.this), Literal(node.text("unit"), STRING)))
        case exp.DateTrunc(unit=exp.Literal()):
            return Call("trunc", (_node(node.this), Literal(node.text("unit"), STRING)))
        case exp.TimeToStr(this=exp.TimeStrToTime() as times):
            return Call("date_format", (_node(times.this), _pattern(node)))
        case exp.CurrentTimestamp() if not _arguments(node):
            return Call("current_timestamp", ())
        case exp.Anonymous() if node.name.lower() == "now" and not node.expressions:
            return Call("current_timestamp", ())
        case exp.CurrentDate() if not _arguments(node):
            return Call("current_date", ())
        case exp.TsOrDsAdd() if str(node.args.get("unit")) == "DAY":
            return Call("date_add", (_node(node.this), _node(node.expression)))
        case exp.DateDiff() if node.args.get("unit") is None:
            return Call("datediff", (_node(node.this), _node(node.expression)))
    raise refusal(node)


def _pattern(node: exp.TimeToStr) -> Literal:
    """The pattern of `date_format` in Spark's notation; sqlglot stores it in another notation."""
    if not isinstance(node.args["format"], exp.Literal):
        raise refusal(node)
    written = _SPARK.generator().format_time(node)
    return Literal(str(written).strip("'"), STRING)


def refusal(node: exp.Expr, why: str = "is not supported") -> InvalidRequestError:
    """The error for an unsupported part of an expression."""
    return InvalidRequestError(
        f"In the expression, {sql_of(node)} {why}; docs/expressions.md lists what is supported, "
        f"and all else needs the Spark engine.{hint_of_quotes(node)}"
    )


def _arguments(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value is not None]


def _operands(node: exp.Expr, kind: type[exp.Expr]) -> list[Node]:
    """Operands from left to right; iterates, since sqlglot nests thousands to the left."""
    operands: list[Node] = []
    while isinstance(node, kind):
        operands.append(_node(node.expression))
        node = node.this
    return [_node(node), *reversed(operands)]


def _unify_numbers(listed: list[Node]) -> list[Node]:
    """Convert the numbers of a list to DOUBLE if one is DOUBLE, as Spark does."""
    if not any(isinstance(each, Literal) and each.data_type in FLOATS for each in listed):
        return listed
    return [
        Literal(SqlDouble(each.value), DOUBLE)
        if isinstance(each, Literal)
        and isinstance(each.value, int | Decimal)
        and each.data_type != BOOLEAN
        else each
        for each in listed
    ]


def _column(node: exp.Column | exp.Dot) -> Node:
    parts = node.parts
    if not all(isinstance(part, exp.Identifier) for part in parts):
        raise refusal(node, "is not a column")
    return Column(tuple(part.name for part in parts))


def _case(node: exp.Case) -> Node:
    compared = node.args.get("this")
    branches = []
    for each in node.args["ifs"]:
        condition = _node(each.this)
        if compared is not None:
            condition = Call("=", (_node(compared), condition))
        branches.append((condition, _node(each.args["true"])))
    default = node.args.get("default")
    return Case(tuple(branches), Literal(None, VOID) if default is None else _node(default))


def _cast(node: exp.Cast) -> Node:
    if node.args.get("safe"):
        raise refusal(node)
    data_type = _type_of(node)
    if data_type is None:
        raise refusal(node, f"has the type {node.to.sql(dialect='spark')}, which is not supported")
    return Cast(_node(node.this), data_type, is_exact=True)


def _type_of(node: exp.Cast) -> DataType | None:
    match node.to.this:
        case exp.DType.TEXT if not node.to.expressions:
            return STRING
        case exp.DType.BOOLEAN:
            return BOOLEAN
    return type_of(node)


def _constant(node: exp.Expr) -> Literal | None:
    """A literal with its type; None if the node is no literal."""
    if isinstance(node, exp.Cast):
        if node.args.get("safe") or not _is_literal(node.this):
            return None
        if (data_type := _type_of(node)) in (STRING, BOOLEAN):
            return None
        return Literal(_value(node), data_type)
    if isinstance(node, exp.Neg) and _is_number(node.this):
        value = _value(node)
        inner = unwrap(node.this)
        return Literal(value, type_of(inner) if isinstance(inner, exp.Cast) else _kind(value))
    if not isinstance(node, _LITERALS):
        return None
    value = _value(node)
    return Literal(value, _kind(value))


def _value(node: exp.Expr) -> Any:
    try:
        return literal(node)
    except InvalidRequestError as error:
        raise refusal(node, "is not a literal that Spark supports") from error


def _is_literal(node: exp.Expr) -> bool:
    node = unwrap(node)
    return isinstance(node, _LITERALS) or _is_negative_number(node)


def _is_negative_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Neg) and _is_number(node.this)


def _is_number(node: exp.Expr) -> bool:
    node = unwrap(node)
    if isinstance(node, exp.Cast):
        return _is_number(node.this) and not node.args.get("safe")
    return isinstance(node, exp.Literal) and not node.is_string


def _kind(value: Any) -> DataType:
    """The type that Spark gives a literal without context."""
    match value:
        case None:
            return VOID
        case bool():
            return BOOLEAN
        case int():
            fitting = (t for t in (INTEGER, LONG) if _fits(value, t))
            return next(fitting, DecimalType(len(str(abs(value))), 0))
        case SqlDouble() | float():
            return DOUBLE
        case Decimal():
            return _decimal_type(value)
        case bytes():
            return BINARY
        case datetime():
            return TIMESTAMP if value.tzinfo is not None else TIMESTAMP_NTZ
        case date():
            return DATE
    return STRING


def _fits(value: int, data_type: DataType) -> bool:
    low, high = INTEGER_RANGES[data_type]
    return low <= value <= high


def _decimal_type(value: Decimal) -> DecimalType:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits), scale)
    return DecimalType(min(precision, MAX_DECIMAL_PRECISION), scale)
