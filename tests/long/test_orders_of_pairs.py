"""All orders of pairs of operations: two changes of turn, a kill, a lost answer, late listings.

All pairs take hours, so the tier runs every fifteenth. `EVERY = 1` runs all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import Kind, pairs, searching

pytestmark = pytest.mark.long

EVERY = 15


@pytest.mark.parametrize(
    "kind", ["two changes of turn", "a kill", "a lost answer", "two changes of turn, seen late"]
)
def test_every_order_of_a_kind_keeps_every_promise(
    kind: Kind, report: Callable[[str], None]
) -> None:
    part = pairs()[::EVERY]
    counts = Counts()
    with searching() as search:
        for pair in part:
            counts += search.explore(pair, kind)
        report(search.report(f"{len(part)} of {len(pairs())} pairs, with {kind}", counts))
        assert not search.failures, search.verdict()
