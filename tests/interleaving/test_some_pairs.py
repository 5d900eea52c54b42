"""Some orders of every third pair of operations; all orders of all pairs are in `tests/long`."""

from __future__ import annotations

from collections.abc import Callable

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import pairs, searching
from tests.support.tiers import seeded

SEED = 16
OF_EACH = 1
EVERY = 3


def test_some_orders_of_some_pairs_keep_every_promise(report: Callable[[str], None]) -> None:
    counts = Counts()
    chance = seeded(SEED)
    some = pairs()[::EVERY]
    with searching() as search:
        for pair in some:
            counts += search.draw(pair, OF_EACH, chance)
        report(search.report(f"{len(some)} of {len(pairs())} pairs, drawn", counts))
        assert not search.failures, search.verdict()
