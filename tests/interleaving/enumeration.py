"""Enumeration: selects the orders of two operations to run, and skips equivalent orders.

Two orders are equivalent if swaps of neighbouring calls turn one into the other, and neither
swapped call sees the other's write. When all orders of a kind are requested, one of each
equivalence class runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from tests.interleaving.calls import Call, may_swap
from tests.interleaving.schedule import Order, Turn, alternating
from tests.interleaving.turns import Run

AGAIN = " again"
"""Suffix of an operation's name for its rerun after a kill."""
NEVER = 1_000_000
"""A lag in calls longer than any run: listings never show the change."""
_KILL, _LOST_ANSWER, _LATE = 0.25, 0.2, 0.15
"""How often a random order has one."""

RunOrder = Callable[[Order], Run]


@dataclass(slots=True)
class Counts:
    """The number of orders, and the number of executed orders."""

    orders: int = 0
    run: int = 0

    def __str__(self) -> str:
        others = "; the others come to the same" if self.run < self.orders else ""
        return f"{self.orders:,}; {self.run:,} were run{others}"

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.orders + other.orders, self.run + other.run)


@dataclass(frozen=True, slots=True)
class _Cell:
    """The calls of the two operations in an order."""

    first: Sequence[Call]
    second: Sequence[Call]

    def exchanged(self) -> _Cell:
        return _Cell(self.second, self.first)


@dataclass(slots=True)
class _Grid:
    """Orders by the numbers of calls in the first turns of both operations."""

    first: str
    second: str
    order: Callable[[int, int], Order]
    run: RunOrder
    then: str = ""
    """The operation that runs right after the first."""
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
            first = run.calls_of(self.first) + run.calls_of(self.then)
            cell = _Cell(first, run.calls_of(self.second))
        self.cells[i, j] = cell
        return cell

    def fill_row(self, i: int) -> list[_Cell]:
        """Orders that begin with i calls of the first operation."""
        row: list[_Cell] = []
        for j in count(1):
            row.append(self.fill(i, j))
            if len(row[-1].second) <= j:
                break
        return row

    def _known(self, i: int, j: int) -> _Cell | None:
        """The calls of an equivalent order."""
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
    """All orders with up to two changes of turn before one operation has ended.

    The first makes i calls, the second j calls, the first runs to its end, then the second.

    Args:
        lag: For this many calls, listings do not show the other operation's changes.
        is_symmetric: The two operations are alike, so only one of them is tried as the first.
    """
    grid = _grid(first, second, run, lag=lag)
    exchanged = _grid(second, first, run, lag=lag)
    serial = grid.fill(0, 0)
    for i in range(max(len(serial.first), 1)):
        grid.cells[i, 0] = serial
        exchanged.cells[0, i] = grid.fill_row(i)[-1].exchanged()
    reverse = exchanged.cells[0, 0]
    for j in range(1, len(reverse.first) if not is_symmetric else 0):
        exchanged.cells[j, 0] = reverse
        in_between = grid.cells[0, j]
        exchanged.cells[j, len(in_between.first)] = in_between.exchanged()
        exchanged.fill_row(j)
    return grid.counts + exchanged.counts


def enumerate_with_third(first: str, second: str, third: str, run: RunOrder) -> Counts:
    """All orders of the first two with up to two changes of turn, the third after the first.

    The first makes i calls, the second j calls, the first runs to its end, then the third as a
    whole, then the second.
    """

    def order(i: int, j: int) -> Order:
        turns = alternating(first, second, (i, j))
        return Order((*turns[:-1], Turn(third, 0), turns[-1]))

    grid = _Grid(first, second, order, run, then=third)
    serial = grid.fill(0, 0)
    for i in range(len(run(order(0, 0)).calls_of(first))):
        grid.cells[i, 0] = serial
        grid.fill_row(i)
    return grid.counts


def kills(killed: str, other: str, run: RunOrder) -> Counts:
    """Kill one operation after each of its writes, begun after each call of the other.

    The other continues, and the killed operation runs again. A kill after a call without a write
    leaves the same state as the previous kill.
    """
    grid = _grid(killed, other, run)
    grid.fill(0, 0)
    grid.fill_row(0)
    counts = Counts()
    for (_, j), cell in sorted(grid.cells.items()):
        for k, call in enumerate(cell.first, 1):
            counts.orders += 1
            if call.writes and not (j and _may_pass(cell.second[j - 1], cell.first[:k])):
                counts.run += 1
                death = Turn(killed, 0, k, dies=True)
                before = (Turn(other, 0, j),) if j else ()
                run(Order((*before, death, Turn(other, j), Turn(killed + AGAIN, 0))))
    return counts + grid.counts


def lost_answers(first: str, second: str, run: RunOrder) -> Counts:
    """Lose each answer to a write, with the first operation between any two calls of the second."""
    serial = run(Order(alternating(first, second, ())))
    counts = Counts(1, 1)
    for name in (first, second):
        for number, call in enumerate(serial.calls_of(name)):
            if call.writes:
                grid = _grid(first, second, run, lost=(name, number))
                grid.fill(0, 0)
                grid.fill_row(0)
                counts += grid.counts
    return counts


def random_order(lengths: Mapping[str, int], chance: Random) -> Order:
    """A random order with a few changes of turn; sometimes a kill, a lost answer or late listings.

    Args:
        lengths: Approximate number of calls of each operation.
    """
    names = list(lengths)
    made = dict.fromkeys(names, 0)
    turns: list[Turn] = []
    who = ""
    for _ in range(chance.randint(2, 3 * len(names))):
        who = chance.choice([name for name in names if name != who])
        end = made[who] + chance.randint(1, max(lengths[who] // 2, 1))
        turns.append(Turn(who, made[who], end))
        made[who] = end
    turns += (Turn(name, made[name]) for name in chance.sample(names, len(names)))
    if chance.random() < _KILL:
        turns = _add_kill(turns, chance.randrange(len(turns)))
    name = chance.choice(names)
    lost = name, chance.randrange(max(lengths[name], 1))
    lag = chance.choice((5, 20, NEVER))
    return Order(
        tuple(turns),
        lost if chance.random() < _LOST_ANSWER else None,
        lag if chance.random() < _LATE else 0,
    )


def _add_kill(turns: Sequence[Turn], at: int) -> list[Turn]:
    """Kill the operation of a turn at the turn's end, or soon in its last turn; rerun it last."""
    who, start, end, _ = turns[at]
    death = Turn(who, start, start + 5 if end is None else end, dies=True)
    others = [turn for turn in turns[at + 1 :] if turn.who != who]
    return [*turns[:at], death, *others, Turn(who + AGAIN, 0)]


def _grid(
    first: str,
    second: str,
    run: RunOrder,
    *,
    lost: tuple[str, int] | None = None,
    lag: int = 0,
) -> _Grid:
    def order(i: int, j: int) -> Order:
        return Order(alternating(first, second, (i, j)), lost, lag)

    return _Grid(first, second, order, run)


def _may_pass(call: Call, others: Sequence[Call]) -> bool:
    return all(may_swap(call, other) for other in others)
