"""Orders of every pair of operations, with a kill, a lost answer, or listings that are late."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import Kind, pairs, searching

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", ["a kill", "a lost answer", "two changes of turn, seen late"])
def test_every_order_with_a_fault_keeps_every_promise(
    kind: Kind, report: Callable[[str], None]
) -> None:
    counts = Counts()
    with searching() as search:
        for pair in pairs():
            counts += search.explore(pair, kind)
        report(search.report(f"{len(pairs())} pairs, with {kind}", counts))
        assert not search.failures, search.verdict()
