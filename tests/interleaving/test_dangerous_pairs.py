"""All orders with up to two changes of turn of the pairs that have most to lose."""

from __future__ import annotations

from collections.abc import Callable

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import pair, searching

DANGEROUS = [
    pair("append", "append"),
    pair("append", "vacuum"),
    pair("optimize", "overwrite"),
    pair("restore", "vacuum"),
    pair("restore", "vacuum-retaining"),
    pair("restore-other", "vacuum-lite"),
    pair("revert", "vacuum"),
    pair("append", "drop-create"),
    pair("overwrite", "drop-create-shorter"),
    pair("restore", "drop-create"),
    pair("checkpoint", "drop-create"),
]


def test_every_order_of_a_dangerous_pair_keeps_every_promise(report: Callable[[str], None]) -> None:
    counts = Counts()
    with searching() as search:
        for meeting in DANGEROUS:
            counts += search.explore(meeting, "two changes of turn")
        report(search.report(f"{len(DANGEROUS)} pairs, with two changes of turn", counts))
        assert not search.failures, search.verdict()
