"""Time functions: the time of a statement, and the patterns of `date_format`.

`current_timestamp()` and `current_date()` have one value for a whole statement. A known pattern of
Spark's `date_format` does not depend on the locale.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from delta_ops.protocol.expression.nodes import Call, Literal, Node, map_nodes
from delta_ops.protocol.schema import DATE, TIMESTAMP

_PART = re.compile(r"yyyy|MM|dd|HH|mm|ss|[-/_.: ]")


def bind_time(node: Node, now_ms: int) -> Node:
    """Replace the time functions by the time of the statement, with the date in UTC.

    Args:
        node: Not resolved.
        now_ms: Milliseconds since the Unix epoch.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)

    def bind(each: Node) -> Node | None:
        match each:
            case Call("current_timestamp"):
                return Literal(now, TIMESTAMP)
            case Call("current_date"):
                return Literal(now.date(), DATE)
        return None

    return map_nodes(node, bind)


def parts_of(pattern: str) -> list[str]:
    """The parts of a pattern, from left to right."""
    return _PART.findall(pattern)


def is_known_pattern(pattern: str) -> bool:
    """Whether the pattern has only full-width numbers and separators."""
    letters = re.findall(r"([a-zA-Z])\1*", pattern)
    return "".join(parts_of(pattern)) == pattern and len(letters) == len(set(letters))
