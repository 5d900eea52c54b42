"""Time patterns: patterns of Spark's `date_format` that do not depend on the locale."""

from __future__ import annotations

import re

_PART = re.compile(r"yyyy|MM|dd|HH|mm|ss|[-/_.: ]")


def parts_of(pattern: str) -> list[str]:
    """The parts of a pattern, from left to right."""
    return _PART.findall(pattern)


def is_known(pattern: str) -> bool:
    """Whether the pattern has only full-width numbers and separators."""
    letters = re.findall(r"([a-zA-Z])\1*", pattern)
    return "".join(parts_of(pattern)) == pattern and len(letters) == len(set(letters))
