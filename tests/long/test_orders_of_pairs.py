"""All orders of pairs of operations: two changes of turn, a kill, a lost answer, late listings.

All pairs take hours. So each kind of order runs other pairs, and its pairs have each operation
once. `tests/interleaving/test_dangerous_pairs.py` has the pairs with the highest risk.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import Kind, covering_pairs, pairs, searching

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("kind", "distance"),
    [
        ("two changes of turn", 9),
        ("a kill", 5),
        ("a lost answer", 7),
        ("two changes of turn, seen late", 11),
    ],
)
def test_every_order_of_a_kind_keeps_every_promise(
    kind: Kind, distance: int, report: Callable[[str], None]
) -> None:
    part = covering_pairs(distance)
    counts = Counts()
    with searching() as search:
        for pair in part:
            counts += search.explore(pair, kind)
        report(search.report(f"{len(part)} of {len(pairs())} pairs, with {kind}", counts))
        assert not search.failures, search.verdict()
