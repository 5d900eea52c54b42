"""The time as an argument: all code that compares times takes a `Clock`."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Milliseconds since the Unix epoch."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def system_clock() -> int:
    """The machine's time in milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000
