"""All orders with up to two changes of turn of the pairs that have most to lose."""

from __future__ import annotations

from collections.abc import Callable

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import Pair, searching

DANGEROUS = [
    Pair("append", "append"),
    Pair("append", "vacuum"),
    Pair("optimize", "overwrite"),
    Pair("restore", "vacuum"),
    Pair("restore", "vacuum-retaining"),
    Pair("restore-other", "vacuum-lite"),
    Pair("revert", "vacuum"),
    Pair("append", "drop-create"),
    Pair("overwrite", "drop-create-shorter"),
    Pair("restore", "drop-create"),
    Pair("checkpoint", "drop-create"),
]


def test_every_order_of_a_dangerous_pair_keeps_every_promise(report: Callable[[str], None]) -> None:
    counts = Counts()
    with searching() as search:
        for pair in DANGEROUS:
            counts += search.explore(pair, "two changes of turn")
        report(f"Orders with two changes of turn, of {len(DANGEROUS)} pairs: {counts}")
        assert not search.failures, search.verdict()
