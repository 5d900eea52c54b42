"""Texts of errors: one line of bounded length, whatever values they contain.

Paths, names and values come from logs, files and users, and may contain any character. Some
characters control a terminal, a log viewer or a web page. They are replaced by their numbers, as
Python writes them (`\\x1b`): control characters, line ends, marks that change the writing
direction, invisible characters, and halves of surrogate pairs.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
"""Invisible characters that Unicode classifies as letters or marks."""
_MAX_WORD = 1_200
"""Characters without a blank; a key of an object store has at most 1,024 bytes."""
_LONG_WORD = re.compile(rf"\S{{{_MAX_WORD + 1},}}")
_MAX_TEXT = 6_000
_MAX_DIGITS = 40
"""Characters of a decimal of 38 digits with its sign and its point."""
_MAX_END = 1_500
"""Characters kept at the end of a long text, where the cure is."""


def error_text(text: str) -> str:
    """The text on one line, with control characters escaped, and shortened if it is long."""
    # Escapes are longer than the characters, so shorten again.
    return _shorten(escape_unprintable(_shorten(text)))


def escape_unprintable(text: str, escape: Callable[[str], str] | None = None) -> str:
    """Replace each unprintable character by its number.

    Args:
        text: Any text.
        escape: Formats an unprintable character; None: as Python does.
    """
    if text.isprintable() and not _UNSEEN.search(text):
        return text
    write = escape or _number
    return "".join(c if c.isprintable() and not _UNSEEN.match(c) else write(c) for c in text)


class _ValueText(reprlib.Repr):
    """Formats values as short texts, even integers too long for Python to convert."""

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # the integer has more than sys.get_int_max_str_digits()
            return f"a whole number of {x.bit_length():,} bits"

    def repr_datetime(self, x: datetime, _level: int) -> str:
        return str(x)

    def repr_date(self, x: date, _level: int) -> str:
        return str(x)

    def repr_Decimal(self, x: Decimal, level: int) -> str:  # noqa: N802
        text = str(x)
        return text if len(text) <= _MAX_DIGITS else self.repr_instance(x, level)


_value_text = _ValueText()


def value_text(value: Any) -> str:
    """Format a user's value as a short text on one line."""
    return " ".join(_value_text.repr(value).split())


def whole_text(value: Any) -> str:
    """The `repr` of a value, or a short text if `repr` fails."""
    try:
        return repr(value)
    except (ValueError, RecursionError):  # a very long integer, or a very deep list
        return value_text(value)


def class_name(python_type: type) -> str:
    """The public name of a class."""
    return f"{python_type.__module__}.{python_type.__qualname__}".removeprefix("builtins.")


def first_line(error: Exception) -> str:
    """The first line of a library's error, without stack or details."""
    return (str(error).strip().splitlines() or [repr(error)])[0].rstrip(".")


def _number(character: str) -> str:
    return ascii(character)[1:-1]


def _shorten(text: str) -> str:
    """Shorten long words first, to keep the sentence around a long value; then cut the middle."""
    words = _LONG_WORD.sub(lambda found: _cut(found[0], _MAX_WORD, _MAX_WORD // 2), text)
    return _cut(words, _MAX_TEXT, _MAX_END)


def _cut(text: str, most: int, end: int) -> str:
    if len(text) <= most:
        return text
    left_out = len(text) - most
    return f"{text[: most - end]} ... [{left_out:,} characters] ... {text[len(text) - end :]}"
