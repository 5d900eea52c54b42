"""Orders with any number of changes of turn, drawn for every pair and for three operations."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.interleaving.enumeration import Counts
from tests.interleaving.operations import OPERATIONS
from tests.interleaving.search import Meeting, can_meet, pairs, searching

pytestmark = pytest.mark.long

SEED = 17
OF_EACH = 15
TRIOS = 150


def test_drawn_orders_of_every_pair_keep_every_promise(report: Callable[[str], None]) -> None:
    counts = Counts()
    chance = Random(SEED)
    with searching() as search:
        for pair in pairs():
            counts += search.draw(pair, OF_EACH, chance)
        report(search.report(f"{len(pairs())} pairs, drawn", counts))
        assert not search.failures, search.verdict()


def test_drawn_orders_of_three_operations_keep_every_promise(
    report: Callable[[str], None],
) -> None:
    counts = Counts()
    chance = Random(SEED)
    with searching() as search:
        for _ in range(TRIOS):
            kinds = tuple(chance.choices(list(OPERATIONS), k=3))
            if can_meet(kinds):
                counts += search.draw(Meeting(kinds), OF_EACH, chance)
        report(search.report("three operations, drawn", counts))
        assert not search.failures, search.verdict()
