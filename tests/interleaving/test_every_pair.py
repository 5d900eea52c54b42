"""Some orders of every pair of operations; all of them are in `tests/long`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import pairs, searching

SEED = 16
OF_EACH = 1


def test_some_orders_of_every_pair_keep_every_promise(report: Callable[[str], None]) -> None:
    counts = Counts()
    chance = Random(SEED)
    with searching() as search:
        for pair in pairs():
            counts += search.draw(pair, OF_EACH, chance)
        report(search.report(f"{len(pairs())} pairs, drawn", counts))
        assert not search.failures, search.verdict()
