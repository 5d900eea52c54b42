"""Time patterns: those of Spark's `date_format` that make the same text whatever the locale."""

from __future__ import annotations

import re

_PART = re.compile(r"yyyy|MM|dd|HH|mm|ss|[-/_.: ]")


def parts_of(pattern: str) -> list[str]:
    """The parts of a pattern, from left to right."""
    return _PART.findall(pattern)


def is_known(pattern: str) -> bool:
    """Whether the pattern has numbers of full width only, and marks between them."""
    letters = re.findall(r"([a-zA-Z])\1*", pattern)
    return "".join(parts_of(pattern)) == pattern and len(letters) == len(set(letters))
