"""Texts of errors: one line of bounded length, whatever the values in it hold.

Paths, names and values come from logs, files and users, and may hold anything. A terminal, a log
viewer and a web page obey some characters; so these are shown by number, as Python writes them
(`\\x1b`): control characters, line ends, marks that turn the direction of writing, characters of
which nothing is seen, and halves of surrogate pairs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks to Unicode, of which there is nothing to be seen."""
_MAX_WORD = 1_200
"""Characters without a blank; a key of an object store has 1,024 bytes at most."""
_LONG_WORD = re.compile(rf"\S{{{_MAX_WORD + 1},}}")
_MAX_TEXT = 6_000
_MAX_END = 1_500
"""What is kept of the end of a long text: it says what to do."""


def error_text(text: str) -> str:
    """The text on one line, without what does something to a terminal, and cut where it is long."""
    # Numbers of characters are longer than the characters.
    return _shorten(escape_unprintable(_shorten(text)))


def escape_unprintable(text: str, escape: Callable[[str], str] | None = None) -> str:
    """The text with the number of each character that cannot be printed.

    Args:
        text: Any text.
        escape: Writes such a character; as Python does if None.
    """
    if text.isprintable() and not _UNSEEN.search(text):
        return text
    write = escape or _number
    return "".join(c if c.isprintable() and not _UNSEEN.match(c) else write(c) for c in text)


def first_line(error: Exception) -> str:
    """What an error of a library says, without a stack or details below it."""
    return (str(error).strip().splitlines() or [repr(error)])[0].rstrip(".")


def _number(character: str) -> str:
    return ascii(character)[1:-1]


def _shorten(text: str) -> str:
    """Cut long words first, so that the sentence around a long value stays, and then the middle."""
    words = _LONG_WORD.sub(lambda found: _cut(found[0], _MAX_WORD, _MAX_WORD // 2), text)
    return _cut(words, _MAX_TEXT, _MAX_END)


def _cut(text: str, most: int, end: int) -> str:
    if len(text) <= most:
        return text
    left_out = len(text) - most
    return f"{text[: most - end]} ... [{left_out:,} characters] ... {text[len(text) - end :]}"
