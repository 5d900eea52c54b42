"""Statement time: one value of `current_timestamp()` and `current_date()` for a whole statement."""

from __future__ import annotations

from datetime import UTC, datetime

from delta_ops.protocol.expression.nodes import Call, Literal, Node, map_nodes
from delta_ops.protocol.schema import DATE, TIMESTAMP


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
