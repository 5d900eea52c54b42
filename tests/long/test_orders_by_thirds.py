"""All orders of pairs of operations: two changes of turn, a kill, a lost answer, late listings.

They take hours: each day has a third of the pairs, so that three days have all.
Another third: `DELTA_OPS_THIRD=2 make test-long`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.interleaving.enumeration import Counts
from tests.interleaving.search import Kind, Meeting, pairs, searching

pytestmark = pytest.mark.long

THIRDS = 3


@pytest.mark.parametrize(
    "kind", ["two changes of turn", "a kill", "a lost answer", "two changes of turn, seen late"]
)
def test_every_order_of_a_kind_keeps_every_promise(
    kind: Kind, report: Callable[[str], None]
) -> None:
    number = int(os.environ.get("DELTA_OPS_THIRD", _third_of_today()))
    third = pairs_of_third(number)
    counts = Counts()
    with searching() as search:
        for pair in third:
            counts += search.explore(pair, kind)
        report(
            search.report(f"{len(third)} pairs (third {number} of {THIRDS}), with {kind}", counts)
        )
        assert not search.failures, search.verdict()


def test_the_thirds_hold_every_pair_once() -> None:
    thirds = [pair for number in range(1, THIRDS + 1) for pair in pairs_of_third(number)]
    assert sorted(map(str, thirds)) == sorted(map(str, pairs()))


def pairs_of_third(number: int) -> list[Meeting]:
    """Every third pair, from the first, the second or the third on."""
    return pairs()[number - 1 :: THIRDS]


def _third_of_today() -> int:
    return datetime.now(UTC).toordinal() % THIRDS + 1
