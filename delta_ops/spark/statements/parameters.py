"""Parameters: binds the values of `args` to the markers `:name` and `?` of a statement.

Each marker becomes one literal of Spark SQL, made from its Python value. Text becomes a literal
without quotes and backslashes in it, so a value never ends its literal. Spark binds the same types:
an int is INT or BIGINT, a float DOUBLE, a datetime an instant.
"""

from __future__ import annotations

import calendar
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.statements.lexer import Kind, Token, tokens_of

_PLAIN_TEXT = re.compile(r"[^'\"\\$\x00-\x1f\x7f-\x9f]*")
_INT, _LONG = 2**31, 2**63
_BEFORE_VALUE = frozenset(
    {"ALL", "AND", "AS", "BETWEEN", "BY", "CASE", "DISTINCT", "DIV", "ELSE", "ESCAPE", "HAVING"}
    | {"ILIKE", "IN", "INTERVAL", "IS", "LIKE", "LIMIT", "NOT", "OF", "OFFSET", "ON", "OR"}
    | {"REGEXP", "RETAIN", "RLIKE", "SELECT", "THEN", "VALUES", "WHEN", "WHERE"}
)
"""Keywords that a value follows. Another word before a colon is a name."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Bound(NamedTuple):
    """A statement without markers."""

    text: str
    refusal: str | None
    """Why a value cannot be bound; None if all values are bound."""


class _Marker(NamedTuple):
    start: int
    end: int
    name: str | None
    """None for a question mark."""


def bind(text: str, args: Mapping[str, Any] | Sequence[Any] | None) -> Bound:
    """Replace the markers of a statement by literals.

    Raises:
        UnclearError: The text cannot be split into tokens.
    """
    if not args:
        return Bound(text, None)
    markers = list(_markers(tokens_of(text), args))
    pieces, at, problem = [], 0, None
    for number, marker in enumerate(markers):
        value = _value(args, marker, number)
        try:
            literal = literal_of(value)
        except InvalidRequestError as error:
            literal, problem = (
                "NULL",
                problem or f"{marker.name or f'number {number + 1}'}: {error}",
            )
        pieces += [text[at : marker.start], literal]
        at = marker.end
    if not isinstance(args, Mapping) and len(args) != len(markers):
        problem = (
            f"the statement has {len(markers)} question marks, and args has {len(args)} values"
        )
    return Bound("".join((*pieces, text[at:])), problem)


def literal_of(value: Any) -> str:
    """A Python value as a literal of Spark SQL.

    Raises:
        InvalidRequestError: The type has no such literal.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() if -_LONG <= value < _LONG:
            return _integer(int(value))
        case float():
            return _double(value)
        case str():
            return _text(value)
        case Decimal() if value.is_finite():
            return _decimal(value)
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case datetime():
            return _instant(value)
        case date():
            return f"DATE'{value.isoformat()}'"
    raise InvalidRequestError(
        f"a value of type {type(value).__name__} cannot be bound in a statement on a Delta table; "
        "give None, a bool, a number of at most 64 bits, a string, bytes, a date or a datetime"
    )


def _markers(tokens: Sequence[Token], args: Mapping[str, Any] | Sequence[Any]) -> Iterator[_Marker]:
    named = isinstance(args, Mapping)
    depth = 0
    around = zip((None, *tokens[:-1]), tokens, (*tokens[1:], None), strict=True)
    for before, token, after in around:
        depth = _depth_in_type(token, after, depth)
        if before is not None and _ends_value(before):
            continue  # the colon selects a field of a variant, or is a part of a cast
        if not named and token.upper == "?":
            yield _Marker(token.start, token.end, None)
        if named and token.upper == ":" and not depth and after and after.text in args:
            yield _Marker(token.start, after.end, after.text)


def _ends_value(token: Token) -> bool:
    if token.kind is Kind.WORD:
        return token.upper not in _BEFORE_VALUE
    return token.kind is not Kind.SYMBOL or token.upper in (")", "]", ":")


def _depth_in_type(token: Token, after: Token | None, depth: int) -> int:
    """Depth of angle brackets of a type; in STRUCT<a: INT>, the colon is no marker."""
    if token.upper == "STRUCT" and after is not None and after.upper == "<":
        return depth + 1
    if depth and token.upper == ">":
        return depth - 1
    return depth


def _value(args: Any, marker: _Marker, number: int) -> Any:
    if marker.name is not None:
        return args[marker.name]
    return args[number] if number < len(args) else None


def _integer(value: int) -> str:
    if value in (-_INT, -_LONG):  # without its sign, the number is of a wider type
        return f"CAST('{value}' AS {'INT' if value == -_INT else 'BIGINT'})"
    return str(value) if value >= 0 else f"({value})"  # after another minus, -- is a comment


def _double(value: float) -> str:
    if math.isfinite(value) and math.copysign(1, value) > 0:
        return f"{float(value)!r}D"
    if math.isfinite(value) and value:
        return f"({float(value)!r}D)"
    names = {math.inf: "Infinity", -math.inf: "-Infinity"}
    text = "NaN" if math.isnan(value) else names.get(value, repr(float(value)))
    return f"CAST('{text}' AS DOUBLE)"


def _text(value: str) -> str:
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError("the string contains half of a character; remove it") from error
    if _PLAIN_TEXT.fullmatch(value):
        return f"'{str.__str__(value)}'"
    return f"CAST(X'{encoded.hex()}' AS STRING)"


def _decimal(value: Decimal) -> str:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    if precision > 38:
        raise InvalidRequestError("the decimal has more than 38 digits; round it")
    return f"CAST('{value:f}' AS DECIMAL({precision},{scale}))"


def _instant(value: datetime) -> str:
    """An instant; a datetime without a zone is in the zone of this Python process, as in Spark."""
    if value.tzinfo is not None:
        seconds = calendar.timegm(value.utctimetuple())
    else:
        seconds = int(time.mktime(value.timetuple()))
    utc = _EPOCH + timedelta(seconds=seconds, microseconds=value.microsecond)
    return f"CAST('{utc.replace(tzinfo=None).isoformat(sep=' ')}Z' AS TIMESTAMP)"
