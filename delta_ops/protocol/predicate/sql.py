"""A predicate from text: a subset of Spark SQL, documented in `docs/predicates.md`.

sqlglot parses the text. Each part of its tree is converted separately, and an unsupported part is
rejected by name. A predicate has the same result for every row as in Spark with
`spark.sql.ansi.enabled` in the time zone UTC. If Spark would cast a column to another type,
`literals` rejects the literal unless the result is the same.

Importing sqlglot is slow; `predicate.parse_predicate` imports it late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate.nodes import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
)
from delta_ops.protocol.predicate.sql_literals import (
    SUPPORTED,
    excerpt,
    literal,
    refusal,
    sql_of,
    unwrap,
)
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.values.literals import QuotedText, SqlText

_OPERATORS: Mapping[type[exp.Expr], Operator] = {
    exp.EQ: "==",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED: Mapping[Operator, Operator] = {
    "==": "==",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


def predicate_from_sql(text: str) -> Predicate:
    """Parse a condition of Spark SQL; the predicate is not yet resolved.

    Raises:
        InvalidRequestError: The text is not a condition, or is outside the supported subset.
    """
    try:
        return _predicate(parse_condition(text, "predicate"))
    except RecursionError as error:
        raise InvalidRequestError(
            f"The predicate {excerpt(text)} is nested too deeply; split it, or write a list of "
            "values as IN (...)."
        ) from error


def literal_from_sql(text: str) -> Any:
    """Parse a literal of Spark SQL; None is null.

    Raises:
        InvalidRequestError: The text is no literal.
    """
    return literal(parse_condition(text, "expression"))


def texts_in_double_quotes(text: str) -> list[str]:
    """The double-quoted texts in Spark SQL; empty if the SQL cannot be read.

    Raw texts such as r"x" are not included.
    """
    try:
        tokens = _unite_texts(Spark().tokenize(text), text)
    except (SqlglotError, ValueError):
        return []
    return [str(token.text) for token in tokens if _is_in_double_quotes(token, text)]


def parse_condition(text: str, noun: Literal["predicate", "expression"]) -> exp.Expr:
    """Parse a text with sqlglot.

    Args:
        noun: The expected kind of text, for messages.

    Raises:
        InvalidRequestError: The text is no condition or expression of SQL.
    """
    shown = f"The {noun} {excerpt(text)}"
    dialect = Spark()
    try:
        tokens = _mark_quoted(_unite_texts(dialect.tokenize(text), text), text)
        if any(token.comments for token in tokens):
            raise InvalidRequestError(f"{shown} has a comment; leave it out.")
        for token in tokens:
            if token.token_type == TokenType.HEX_STRING and text[token.start] == "0":
                raise InvalidRequestError(
                    f"{shown} has a number in hexadecimal; write it as an integer, and bytes as "
                    "X'1F'."
                )
        parsed = dialect.parser().parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        kind = "condition" if noun == "predicate" else "expression"
        cure = SUPPORTED if noun == "predicate" else "see docs/expressions.md for the syntax"
        raise InvalidRequestError(
            f"{shown} is not a valid SQL {kind}{_place(error)}; {cure}."
        ) from error
    except (SqlglotError, ArithmeticError, ValueError) as error:  # sqlglot itself creates decimals
        raise InvalidRequestError(
            f"{shown} cannot be read: a quote is not closed, or a literal is malformed."
        ) from error
    if len(parsed) != 1 or parsed[0] is None:
        kind = "condition" if noun == "predicate" else "expression"
        raise InvalidRequestError(f"{shown} must be a single SQL {kind}.")
    return parsed[0]


def _unite_texts(tokens: Iterable[Token], text: str) -> list[Token]:
    """Merge adjacent texts at a doubled quote, as Spark 4.0 does; sqlglot splits them."""
    united: list[Token] = []
    for token in tokens:
        last = united[-1] if united else token
        touches = (
            last.token_type == token.token_type == TokenType.STRING
            and last.end + 1 == token.start
            and text[last.end] == text[token.start]
        )
        if touches:
            both = last.text + text[token.start] + token.text
            kind, line, col = last.token_type, last.line, last.col
            united[-1] = Token(kind, both, line, col, last.start, token.end)
        else:
            united.append(token)
    return united


def _mark_quoted(tokens: Iterable[Token], text: str) -> list[Token]:
    """Convert double-quoted texts to `QuotedText`, which literals keep."""
    return [
        Token(each.token_type, QuotedText(each.text), each.line, each.col, each.start, each.end)
        if _is_in_double_quotes(each, text)
        else each
        for each in tokens
    ]


def _is_in_double_quotes(token: Token, text: str) -> bool:
    return bool(token.token_type == TokenType.STRING and text[token.start] == '"')


def _place(error: ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    near = found.get("highlight")
    return f" at line {found.get('line')}, near {excerpt(near)}" if near else ""


def _predicate(node: exp.Expr) -> Predicate:
    match node:
        case exp.Paren():
            return _predicate(node.this)
        case exp.And():
            return And(tuple(_operands(node, exp.And)))
        case exp.Or():
            return Or(tuple(_operands(node, exp.Or)))
        case exp.Not():
            return Not(_predicate(node.this))
        case exp.Boolean():
            return Always(bool(node.this))
        case exp.Column() | exp.Dot():
            return Comparison(_column(node), "==", True)
        case exp.In():
            return _membership(node)
        case exp.Between() if not node.args.get("symmetric"):
            column = _column(node.this)
            low, high = literal(node.args["low"]), literal(node.args["high"])
            return And((_comparison(column, ">=", low), _comparison(column, "<=", high)))
        case exp.Is(expression=exp.Null() | exp.Boolean()) | exp.NullSafeEQ():
            return _null_safe_equality(*_sides(node)[:2])
        case exp.NullSafeNEQ():
            return Not(_null_safe_equality(*_sides(node)[:2]))
    operator = _OPERATORS.get(type(node))
    if operator is None:
        raise refusal(node)
    column, value, is_mirrored = _sides(node)
    return _comparison(column, _MIRRORED[operator] if is_mirrored else operator, value)


def _operands(node: exp.Expr, kind: type[exp.And] | type[exp.Or]) -> list[Predicate]:
    """Operands from left to right; iterates, since sqlglot nests thousands to the left."""
    operands: list[Predicate] = []
    while isinstance(node, kind):
        operands.append(_predicate(node.expression))
        node = node.this
    return [_predicate(node), *reversed(operands)]


def _sides(node: exp.Expr) -> tuple[ColumnPath, Any, bool]:
    """The column, the literal, and whether the literal comes first."""
    left, right = unwrap(node.this), unwrap(node.expression)
    if isinstance(left, exp.Column | exp.Dot):
        return _column(left), literal(right), False
    if isinstance(right, exp.Column | exp.Dot):
        return _column(right), literal(left), True
    raise refusal(node, "compares no column with a literal")


def _comparison(column: ColumnPath, operator: Operator, value: Any) -> Predicate:
    # A comparison with null is null, and so is IN with only null in its list.
    return In(column, (None,)) if value is None else Comparison(column, operator, value)


def _null_safe_equality(column: ColumnPath, value: Any) -> Predicate:
    if value is None:
        return IsNull(column)
    return And((Not(IsNull(column)), Comparison(column, "==", value)))


def _membership(node: exp.In) -> Predicate:
    if not node.expressions:
        raise refusal(node)
    values = tuple(literal(each) for each in node.expressions)
    if len({_kind(value) for value in values if value is not None}) > 1:
        raise InvalidRequestError(
            f"The values of {sql_of(node)} have several types, which Spark would convert to one "
            "type; write all of them with the same type."
        )
    return In(_column(node.this), values)


def _kind(value: Any) -> object:
    """Group key of a value: integers and decimals share a group, since both are exact."""
    if isinstance(value, datetime):
        return datetime, value.tzinfo is None
    if isinstance(value, SqlText):
        return SqlText
    return Decimal if type(value) is int else type(value)


def _column(node: exp.Expr) -> ColumnPath:
    node = unwrap(node)
    parts = node.parts if isinstance(node, exp.Column | exp.Dot) else ()
    if not parts or not all(isinstance(part, exp.Identifier) for part in parts):
        raise refusal(node, "is not a column")
    return tuple(part.name for part in parts)
