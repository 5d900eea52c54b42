"""Orders with any number of changes of turn, drawn for every pair and for three operations.

Each day has a part of the pairs and of the threes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.days import part_of_day, today
from tests.interleaving.enumeration import Counts
from tests.interleaving.operations import OPERATIONS
from tests.interleaving.search import Meeting, can_meet, pairs, searching

pytestmark = pytest.mark.long

SEED = 17
DAYS = 2
OF_EACH = 15
TRIOS = 150


def test_drawn_orders_of_every_pair_keep_every_promise(report: Callable[[str], None]) -> None:
    counts = Counts()
    chance = Random(SEED)
    part = part_of_day(pairs(), DAYS, today())
    with searching() as search:
        for pair in part:
            counts += search.draw(pair, OF_EACH, chance)
        report(search.report(f"{len(part)} pairs (a part of {DAYS}, day {today()}), drawn", counts))
        assert not search.failures, search.verdict()


def test_drawn_orders_of_three_operations_keep_every_promise(
    report: Callable[[str], None],
) -> None:
    counts = Counts()
    chance = Random(SEED)
    drawn = [tuple(chance.choices(list(OPERATIONS), k=3)) for _ in range(TRIOS)]
    with searching() as search:
        for kinds in part_of_day(drawn, DAYS, today()):
            if can_meet(kinds):
                counts += search.draw(Meeting(kinds), OF_EACH, chance)
        report(search.report("three operations, drawn", counts))
        assert not search.failures, search.verdict()
