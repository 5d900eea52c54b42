"""Days: proofs that take long are cut into parts, of which each day has one.

As many days as there are parts have all. Another part: `DELTA_OPS_DAY=2 make test-long`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")
_DAY = "DELTA_OPS_DAY"


def today() -> int:
    """The number of a day; the same for all processes of a run, which may last until the next."""
    return int(os.environ.setdefault(_DAY, str(datetime.now(UTC).toordinal())))


def part_of_day(items: Sequence[T], days: int, day: int) -> Sequence[T]:
    """Every `days`-th item, from the first, the second or a later one on."""
    return items[day % days :: days]
