"""Cursor: reads the tokens of one statement from left to right.

A method that finds something else than the grammar requires raises `UnclearError`. Conditions,
values and queries are slices of the original text. Spark parses them later.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from delta_ops.spark.statements.lexer import Kind, Token, UnclearError, tokens_of

T = TypeVar("T")

_OPENING, _CLOSING = frozenset("(["), frozenset(")]")
_VARIABLE = "${"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[01][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?[a-z]{0,2}", re.ASCII | re.IGNORECASE)
_BEFORE_STRING = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "X")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_NAME = re.compile(r"(?!\d+\Z)\w+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotes:
    """Settings of a session that decide what quoted text means."""

    keeps_backslashes: bool = False
    """`spark.sql.parser.escapedStringLiterals`: a backslash is a plain character."""
    doubles_are_names: bool = False
    """`spark.sql.ansi.doubleQuotedIdentifiers`: text in double quotes is a name."""


class Cursor:
    """A position in the tokens of a statement."""

    def __init__(self, text: str, quotes: Quotes) -> None:
        self._text, self._quotes = text, quotes
        tokens = tokens_of(text)
        while tokens and tokens[-1].upper == ";":
            tokens = tokens[:-1]
        if any(each.upper == ";" for each in tokens):
            raise UnclearError("more than one statement")
        self._tokens, self._at = tokens, 0

    @property
    def is_at_end(self) -> bool:
        """Whether all tokens are read."""
        return self._at >= len(self._tokens)

    def peek(self, *words: str) -> bool:
        """Whether these keywords or symbols come next."""
        ahead = self._tokens[self._at : self._at + len(words)]
        return len(ahead) == len(words) and all(
            token.upper == word for token, word in zip(ahead, words, strict=True)
        )

    def take(self, *words: str) -> bool:
        """Read these keywords or symbols, if they come next."""
        if not self.peek(*words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Read these keywords or symbols."""
        if not self.take(*words):
            raise UnclearError(f"expected {' '.join(words)}")

    def expect_end(self) -> None:
        """Require that the statement ends here."""
        if not self.is_at_end:
            raise UnclearError("the statement continues")

    def name(self) -> str:
        """Read one part of a name."""
        token = self._next()
        if token.kind is Kind.QUOTED and _VARIABLE not in token.text:
            return token.text[1:-1].replace("``", "`")
        if token.kind is Kind.WORD and _PLAIN_NAME.fullmatch(token.text):
            return token.text
        raise UnclearError("expected a name")

    def parts(self) -> tuple[str, ...]:
        """Read a name with dots."""
        found = [self.name()]
        while self.take("."):
            found.append(self.name())
        return tuple(found)

    def parts_in_string(self) -> tuple[str, ...]:
        """Read a string literal that contains a name with dots, without blanks and comments."""
        text = self.string()
        inner = Cursor(text, self._quotes)
        found = inner.parts()
        inner.expect_end()
        if inner.text_since(0) != text:
            raise UnclearError("the name contains a blank, a comment or a semicolon")
        return found

    def string(self) -> str:
        """Read a string literal, and return its value."""
        if not self.peeks_string():
            raise UnclearError("expected a string")
        return self._value(self._next().text)

    def peeks_string(self) -> bool:
        """Whether a string literal comes next."""
        return not self.is_at_end and self._tokens[self._at].kind is Kind.STRING

    def number(self) -> float:
        """Read a number without sign, such as 168 or 0.5."""
        first = self._digits()
        text = f"{first}.{self._digits()}" if self.take(".") else first
        return float(text)

    def integer(self) -> int:
        """Read a whole number without sign."""
        return int(self._digits())

    def list_in_brackets(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Read one or more items within brackets, with commas between."""
        self.expect("(")
        found = self.list(read)
        self.expect(")")
        return found

    def list(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Read one or more items with commas between."""
        found = [read()]
        while self.take(","):
            found.append(read())
        return tuple(found)

    def constant(self) -> str:
        """Read a constant, such as -1.5, DATE '2026-01-31' or CAST('1' AS INT); returns its text.

        A client of Connect has no parser that would reject another expression.
        """
        start = self._at
        if self.take("("):
            self.constant()
            self.expect(")")
        elif self.take("CAST", "("):
            self.constant()
            self.expect("AS")
            self.slice()
            self.expect(")")
        elif not any(self.take(word) for word in ("NULL", "TRUE", "FALSE")):
            any(self.take(word) for word in _BEFORE_STRING)
            if self.peeks_string():
                self.string()
            else:
                self._signed_number()
        return self.text_since(start)

    def _signed_number(self) -> None:
        text = "-" if self.take("-") else ""
        for _ in range(3):  # such as 1e-5: three tokens
            text += "." if self.take(".") else ""
            text += self._next().text
            if text[-1] in "eE" and self.peek("-"):
                text += self._next().text
            elif not self.peek("."):
                break
        if not _NUMBER.fullmatch(text):
            raise UnclearError("expected a constant")

    def slice(self, stops: Collection[str] = ()) -> str:
        """Read an expression or a query, up to one of these words outside of brackets and CASE.

        Args:
            stops: Keywords or symbols. A closing bracket of an outer bracket always stops.
        """
        start, depth, cases = self._at, 0, 0
        while not self.is_at_end:
            token, is_field = self._tokens[self._at], self._follows_dot()
            word = "" if is_field else token.upper
            if depth == 0 and ((cases == 0 and word in stops) or word in _CLOSING):
                break
            depth += (word in _OPENING) - (word in _CLOSING)
            cases += (word == "CASE") - (word == "END")
            if cases < 0:
                raise UnclearError("END without CASE")
            self._at += 1
        if depth or cases or self._at == start:
            raise UnclearError("an expression is empty or does not end")
        return self.text_since(start)

    def text_in_brackets(self) -> str:
        """Read brackets with an expression or a query, and return the text between them."""
        self.expect("(")
        found = self.slice()
        self.expect(")")
        return found

    def skip(self) -> int:
        """Read one token; returns 0."""
        self._next()
        return 0

    @property
    def position(self) -> int:
        """Number of tokens that are read."""
        return self._at

    def return_to(self, position: int) -> None:
        """Go back to a former position."""
        self._at = position

    def text_since(self, position: int) -> str:
        """The original text of the tokens from a position up to here."""
        return self._text[self._tokens[position].start : self._tokens[self._at - 1].end]

    def _next(self) -> Token:
        if self.is_at_end:
            raise UnclearError("the statement ends early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _follows_dot(self) -> bool:
        return self._at > 0 and self._tokens[self._at - 1].upper == "."

    def _digits(self) -> str:
        text = self._next().text
        if not (text.isascii() and text.isdigit()):
            raise UnclearError("expected a number")
        return text

    def _value(self, literal: str) -> str:
        """The value of a string literal, as Spark reads it.

        A doubled quote is one quote in later versions of Spark and none in earlier versions, so it
        is not accepted.
        """
        if _VARIABLE in literal:
            raise UnclearError("a string contains a session variable")
        if literal[0] in "rR":
            return literal[2:-1]
        quote, inner = literal[0], literal[1:-1]
        if quote == '"' and self._quotes.doubles_are_names:
            raise UnclearError("text in double quotes is a name")
        if quote + quote in inner.replace("\\" + quote, ""):
            raise UnclearError("a string contains a doubled quote")
        value = inner if self._quotes.keeps_backslashes else _ESCAPE.sub(_unescape, inner)
        if _SURROGATE.search(value):
            raise UnclearError("a string contains half of a character")
        return value


def _unescape(found: re.Match[str]) -> str:
    """Source: apache/spark, `unescapeSQLString`."""
    code = found[1]
    if code[0] in "uU" and len(code) > 1:
        if (number := int(code[1:], 16)) > sys.maxunicode:
            raise UnclearError("a string contains an impossible character")
        return chr(number)
    if len(code) == 3:
        return chr(int(code, 8))
    return _ESCAPED.get(code, code)
