"""All orders with up to two changes of turn of the pairs that have most to lose."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import Meeting, pair, searching

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

# The end of one vacuum says nothing of another one.
TRIO = Meeting(("vacuum-retaining", "vacuum", "restore-other"))


@pytest.mark.long
def test_every_order_of_a_dangerous_pair_keeps_every_promise(report: Callable[[str], None]) -> None:
    counts = Counts()
    with searching() as search:
        for meeting in DANGEROUS:
            counts += search.explore(meeting, "two changes of turn")
        report(search.report(f"{len(DANGEROUS)} pairs, with two changes of turn", counts))
        assert not search.failures, search.verdict()


@pytest.mark.long
def test_every_order_of_two_vacuums_and_a_restore_keeps_every_promise(
    report: Callable[[str], None],
) -> None:
    with searching() as search:
        counts = search.explore(TRIO, "a third in between")
        report(search.report(f"{TRIO}, the third in between", counts))
        assert not search.failures, search.verdict()
