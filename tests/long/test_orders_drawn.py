"""Orders with any number of changes of turn, drawn for every pair and for three operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleaving.enumeration import Counts
from tests.interleaving.operations import OPERATIONS
from tests.interleaving.search import Meeting, can_meet, pairs, searching
from tests.support.tiers import seeded

pytestmark = pytest.mark.long

SEED = 17
OF_EACH = 4
TRIOS = 100


def test_drawn_orders_of_every_pair_keep_every_promise(report: Callable[[str], None]) -> None:
    counts = Counts()
    chance = seeded(SEED)
    with searching() as search:
        for pair in pairs():
            counts += search.draw(pair, OF_EACH, chance)
        report(search.report(f"{len(pairs())} pairs, drawn", counts))
        assert not search.failures, search.verdict()


def test_drawn_orders_of_three_operations_keep_every_promise(
    report: Callable[[str], None],
) -> None:
    counts = Counts()
    chance = seeded(SEED)
    drawn = [tuple(chance.choices(list(OPERATIONS), k=3)) for _ in range(TRIOS)]
    with searching() as search:
        for kinds in drawn:
            if can_meet(kinds):
                counts += search.draw(Meeting(kinds), OF_EACH, chance)
        report(search.report("three operations, drawn", counts))
        assert not search.failures, search.verdict()
