"""Random orders of a few pairs of operations; `tests/long` has more pairs, and all their orders."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import covering_pairs, pairs, searching
from tests.support.tiers import seeded

SEED = 16
OF_EACH = 1


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(slice(None, 7), id="the first operations"),
        pytest.param(slice(7, None), marks=pytest.mark.full, id="the other operations"),
    ],
)
def test_some_orders_of_some_pairs_keep_every_promise(
    part: slice, report: Callable[[str], None]
) -> None:
    counts = Counts()
    chance = seeded(SEED)
    some = covering_pairs(4)[part]
    with searching() as search:
        for pair in some:
            counts += search.draw(pair, OF_EACH, chance)
        report(search.report(f"{len(some)} of {len(pairs())} pairs, drawn", counts))
        assert not search.failures, search.verdict()
