"""Enumeration: which orders of two operations are run, and which are known to come to the same.

Two orders come to the same if one is made from the other by exchanging neighbouring calls of which
neither sees what the other writes. Of such orders one is run, where all of a kind are asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tests.interleaving.calls import Call, may_swap
from tests.interleaving.schedule import Order, Turn, alternating
from tests.interleaving.turns import Run

AGAIN = " again"
"""After the name of an operation: its rerun, after it was killed."""
NEVER = 1_000_000
"""Calls after which a listing shows what it did not show: more than there are."""

RunOrder = Callable[[Order], Run]


@dataclass(slots=True)
class Counts:
    """How many orders there were, and how many of them were run."""

    orders: int = 0
    run: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.orders + other.orders, self.run + other.run)


@dataclass(frozen=True, slots=True)
class _Cell:
    """What the two call, in an order."""

    first: Sequence[Call]
    second: Sequence[Call]

    def exchanged(self) -> _Cell:
        return _Cell(self.second, self.first)


@dataclass(slots=True)
class _Grid:
    """Orders by the numbers of calls that the two make in their first turns."""

    first: str
    second: str
    order: Callable[[int, int], Order]
    run: RunOrder
    cells: dict[tuple[int, int], _Cell] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)

    def fill(self, i: int, j: int) -> _Cell:
        if (i, j) in self.cells:
            return self.cells[i, j]
        self.counts.orders += 1
        cell = self._known(i, j)
        if cell is None:
            self.counts.run += 1
            run = self.run(self.order(i, j))
            cell = _Cell(run.calls_of(self.first), run.calls_of(self.second))
        self.cells[i, j] = cell
        return cell

    def fill_row(self, i: int) -> _Cell:
        """All orders in which the first makes i calls first; the last, in which the second ends."""
        for j in count(1):
            cell = self.fill(i, j)
            if len(cell.second) <= j:
                return cell
        raise AssertionError

    def _known(self, i: int, j: int) -> _Cell | None:
        """The calls of an order that comes to the same."""
        cell = self.cells.get((i, j - 1))
        if cell and len(cell.second) >= j and _may_pass(cell.second[j - 1], cell.first[i:]):
            return cell
        cell = self.cells.get((i - 1, j))
        if cell and len(cell.first) >= i and _may_pass(cell.first[i - 1], cell.second[:j]):
            return cell
        return None


def two_changes(
    first: str, second: str, run: RunOrder, *, lag: int = 0, is_symmetric: bool = False
) -> Counts:
    """All orders in which the turn changes up to twice before one of the two has ended.

    One makes i calls, the other j calls, the first runs to its end, then the other.

    Args:
        is_symmetric: The two are alike, so that it does not matter which is the first.
    """

    def grid_of(*names: str) -> _Grid:
        def order(i: int, j: int) -> Order:
            return Order(alternating(*names, (i, j)), lag=lag)

        return _Grid(*names, order, run)

    grid, exchanged = grid_of(first, second), grid_of(second, first)
    serial = grid.fill(0, 0)
    for i in range(max(len(serial.first), 1)):
        grid.cells[i, 0] = serial
        exchanged.cells[0, i] = grid.fill_row(i).exchanged()
    reverse = exchanged.cells[0, 0]
    for j in range(1, len(reverse.first) if not is_symmetric else 0):
        exchanged.cells[j, 0] = reverse
        in_between = grid.cells[0, j]
        exchanged.cells[j, len(in_between.first)] = in_between.exchanged()
        exchanged.fill_row(j)
    return grid.counts + exchanged.counts


def kills(killed: str, other: str, run: RunOrder) -> Counts:
    """One killed after each of its writes, begun after each call of the other, which goes on.

    Then it is run again. Killed after a call that writes nothing it leaves what it left before.
    """
    counts = Counts()
    done: dict[tuple[int, int], bool] = {}
    for j in count():
        before = run(Order(alternating(other, killed, (j,))))
        counts.run += 1
        others, calls = before.calls_of(other), before.calls_of(killed)
        for k in range(1, len(calls) + 1):
            counts.orders += 1
            passed = j and _may_pass(others[j - 1], calls[:k])
            if calls[k - 1].writes and not passed:
                counts.run += 1
                run(
                    Order(
                        (
                            Turn(other, 0, j),
                            Turn(killed, 0, k, dies=True),
                            Turn(other, j),
                            Turn(killed + AGAIN, 0),
                        )
                    )
                )
        if len(others) <= j:
            return counts
    raise AssertionError


def lost_answers(first: str, second: str, run: RunOrder) -> Counts:
    """The second as a whole between any two calls of the first; each answer to a write is lost."""
    counts = Counts()
    for i in count():
        before = run(Order(alternating(first, second, (i,))))
        counts.run += 1
        calls = {name: before.calls_of(name) for name in (first, second)}
        if i and _may_pass(calls[first][i - 1], calls[second]):
            if len(calls[first]) <= i:
                return counts
            continue
        for name, made in calls.items():
            for number, call in enumerate(made):
                if call.writes:
                    counts.orders += 1
                    counts.run += 1
                    run(Order(alternating(first, second, (i,)), lost=(name, number)))
        if len(calls[first]) <= i:
            return counts
    raise AssertionError


def _may_pass(call: Call, others: Sequence[Call]) -> bool:
    return all(may_swap(call, other) for other in others)
