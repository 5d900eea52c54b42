"""Lexer: splits SQL text into the tokens of Spark's lexer, with their positions.

Source: apache/spark, `SqlBaseLexer.g4`.

The lexer accepts a subset of Spark's tokens. It rejects all other text, for example dollar-quoted
strings and letters outside of ASCII in plain names, so that no boundary of a token is a guess.
Comments and blanks are no tokens. A hint (`/*+`) is no comment, as in Spark.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class UnclearError(Exception):
    """The text is not certainly a statement that delta_ops runs; Spark decides."""


class Kind(Enum):
    """Kinds of tokens."""

    WORD = "word"
    """A keyword, a plain name, or the digits of a number."""
    QUOTED = "quoted"
    """A name in backticks."""
    STRING = "string"
    VARIABLE = "variable"
    """A session variable, `${name}`, that Spark replaces before it parses."""
    SYMBOL = "symbol"


class Token(NamedTuple):
    """A token and its position in the text."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The text of a word or a symbol in upper case; empty for other tokens."""
        return self.text.upper() if self.kind in (Kind.WORD, Kind.SYMBOL) else ""


_SKIPPED = re.compile(r"(?:[ \t\r\n]+|--(?:\\\n|[^\r\n])*+)++")
_TOKEN = re.compile(
    r"""
    (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+")
    |(?P<variable>\$\{[^}`'"]*\})
    |(?P<word>[A-Za-z0-9_]++(?!://))
    |(?P<quoted>`(?:[^`]|``)++`)
    |(?P<symbol>[()\[\],.;=<>!+\-*/%&|^~:?@])
    """,
    re.DOTALL | re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*\+?|\*/")


def tokens_of(text: str) -> tuple[Token, ...]:
    """Split SQL into tokens.

    Raises:
        UnclearError: The text contains a character or comment outside of the subset.
    """
    found: list[Token] = []
    at = skip_blanks(text, 0)
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise UnclearError(f"no token begins at {at}")
        found.append(Token(Kind(match.lastgroup), match[0], at, match.end()))
        at = skip_blanks(text, match.end())
    return tuple(found)


def skip_blanks(text: str, at: int) -> int:
    """Skip blanks and comments from a position on.

    Raises:
        UnclearError: A comment does not end.
    """
    while at < len(text):
        if match := _SKIPPED.match(text, at):
            at = match.end()
        elif text.startswith("/*", at) and not text.startswith("/*+", at):
            at = _end_of_comment(text, at)
        else:
            break
    return at


def _end_of_comment(text: str, start: int) -> int:
    """Find the end of a bracketed comment, which may contain such comments."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        if edge[0] == "/*+":
            raise UnclearError("a hint within a comment")
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise UnclearError("a comment does not end")
