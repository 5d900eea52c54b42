"""Days: proofs that take long are cut into parts, of which each day has one.

As many days as there are parts have all. The part of another day: `DELTA_OPS_DAY=2 make test`; all
of them at once: `DELTA_OPS_DAY=all make test`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")
_DAY, _ALL = "DELTA_OPS_DAY", "all"


def today() -> int | None:
    """The number of a day, the same for all processes of a run, which may last until the next.

    Returns:
        None: all days are asked for.
    """
    day = os.environ.setdefault(_DAY, str(datetime.now(UTC).toordinal()))
    return None if day == _ALL else int(day)


def part_of_day(items: Sequence[T], days: int, day: int | None) -> Sequence[T]:
    """Every `days`-th item, from the first, the second or a later one on; all without a day."""
    return items if day is None else items[day % days :: days]
