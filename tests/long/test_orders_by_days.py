"""All orders of pairs of operations: two changes of turn, a kill, a lost answer, late listings.

They take hours: each day has a part of the pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.days import part_of_day, today
from tests.interleaving.enumeration import Counts
from tests.interleaving.search import Kind, pairs, searching

pytestmark = pytest.mark.long

DAYS = 15


@pytest.mark.parametrize(
    "kind", ["two changes of turn", "a kill", "a lost answer", "two changes of turn, seen late"]
)
def test_every_order_of_a_kind_keeps_every_promise(
    kind: Kind, report: Callable[[str], None]
) -> None:
    part = part_of_day(pairs(), DAYS, today())
    counts = Counts()
    with searching() as search:
        for pair in part:
            counts += search.explore(pair, kind)
        report(
            search.report(
                f"{len(part)} pairs (a part of {DAYS}, day {today()}), with {kind}", counts
            )
        )
        assert not search.failures, search.verdict()


def test_the_days_hold_every_pair_once() -> None:
    days = [pair for day in range(DAYS) for pair in part_of_day(pairs(), DAYS, day)]
    assert sorted(map(str, days)) == sorted(map(str, pairs()))
