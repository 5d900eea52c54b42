"""All orders of pairs of operations: two changes of turn, a kill, a lost answer, late listings.

They take hours: each day has a part of the pairs, so that as many days have all.
Another part: `DELTA_OPS_DAY=2 make test-long`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import Kind, Meeting, pairs, searching

pytestmark = pytest.mark.long

DAYS = 10


@pytest.mark.parametrize(
    "kind", ["two changes of turn", "a kill", "a lost answer", "two changes of turn, seen late"]
)
def test_every_order_of_a_kind_keeps_every_promise(
    kind: Kind, report: Callable[[str], None]
) -> None:
    day = int(os.environ.get("DELTA_OPS_DAY", _today()))
    part = pairs_of_day(day)
    counts = Counts()
    with searching() as search:
        for pair in part:
            counts += search.explore(pair, kind)
        report(search.report(f"{len(part)} pairs (day {day} of {DAYS}), with {kind}", counts))
        assert not search.failures, search.verdict()


def test_the_days_hold_every_pair_once() -> None:
    days = [pair for day in range(1, DAYS + 1) for pair in pairs_of_day(day)]
    assert sorted(map(str, days)) == sorted(map(str, pairs()))


def pairs_of_day(day: int) -> list[Meeting]:
    """Every tenth pair, from the first, the second or a later one on."""
    return pairs()[day - 1 :: DAYS]


def _today() -> int:
    return datetime.now(UTC).toordinal() % DAYS + 1
