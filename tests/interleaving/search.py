"""The search: pairs of operations, each order run on a fresh copy of its scene and judged.

One order again, with its calls: `python -m tests.interleaving.search "restore[0:7] vacuum[0:]"`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from delta_ops import DeltaLog
from delta_ops.storage import Storage, open_storage
from tests.interleaving.cases import Actor, Case
from tests.interleaving.checks import complaints
from tests.interleaving.enumeration import (
    AGAIN,
    NEVER,
    Counts,
    RunOrder,
    kills,
    lost_answers,
    random_order,
    two_changes,
)
from tests.interleaving.operations import OPERATIONS
from tests.interleaving.scenes import SCENES, Scene
from tests.interleaving.schedule import Order, alternating
from tests.interleaving.turns import Run, run_in_turns

Kind = Literal["two changes of turn", "two changes of turn, seen late", "a kill", "a lost answer"]

_IN_MEMORY = Path("/dev/shm")


class Pair(NamedTuple):
    """Two operations by their names."""

    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.first} and {self.second}"

    @property
    def is_symmetric(self) -> bool:
        return self.first == self.second

    @property
    def names(self) -> tuple[str, str]:
        """As they stand in orders: those of one operation with itself differ."""
        return self.first, self.second + ("'" if self.first == self.second else "")

    @property
    def scene(self) -> str:
        asked = {OPERATIONS[name].scene for name in self} - {""}
        return asked.pop() if asked else "aged"


def pairs() -> list[Pair]:
    """Each operation with each, where there is a table on which both mean something."""
    found = (Pair(*names) for names in combinations_with_replacement(OPERATIONS, 2))
    return [
        pair
        for pair in found
        if len({OPERATIONS[name].scene for name in pair} - {""}) < 2
        and pair != ("checkpoint-parts", "checkpoint-v2")
        and not all(OPERATIONS[name].takes == "the table" for name in pair)
    ]


@dataclass(frozen=True, slots=True)
class Failure:
    """An order that broke a promise."""

    pair: Pair
    order: Order
    complaints: tuple[str, ...]
    run: Run

    @property
    def kind(self) -> str:
        """What is wrong, whatever the names are."""
        return re.sub(r"[0-9a-f-]{8,}|\d+", "", self.complaints[0])

    def __str__(self) -> str:
        ends = (f"{name}: {o.error or o.value!r}" for name, o in self.run.outcomes.items())
        lines = [*self.complaints, *map(str, self.run.steps), *ends]
        return "\n    ".join([str(self.order), *lines])


@dataclass(slots=True)
class Search:
    """Runs orders in a place of its own."""

    place: Path
    failures: list[Failure] = field(default_factory=list)
    num_waits: int = 0
    _scenes: dict[str, Scene] = field(default_factory=dict)

    def run(self, pair: Pair, order: Order) -> Run:
        """Run an order on a fresh copy of the pair's scene, and note what does not hold."""
        scene = self._scene(pair.scene)
        root = self.place / "table"
        shutil.rmtree(root, ignore_errors=True)
        scene.copy(root)
        actors = {
            name + again: Actor(name + again, OPERATIONS[kind], role, name if again else "")
            for role, (kind, name) in enumerate(zip(pair, pair.names, strict=True))
            for again in ("", AGAIN)
        }
        operations = {turn.who: partial(_operate, actors[turn.who], scene) for turn in order.turns}
        run = run_in_turns(operations, open_storage(root), order)
        self.num_waits += run.num_waits
        if found := complaints(Case(scene, root, order, run, actors)):
            self.failures.append(Failure(pair, order, tuple(found), run))
        return run

    def explore(self, pair: Pair, kind: Kind) -> Counts:
        """All orders of a kind."""
        return _EXPLORE[kind](pair, partial(self.run, pair))

    def sample(self, pair: Pair, number: int, chance: Random) -> Counts:
        """One after the other, both ways, and so many orders that are drawn."""
        first, second = pair.names
        serial = self.run(pair, Order(alternating(first, second, ())))
        self.run(pair, Order(alternating(second, first, ())))
        lengths = {name: len(serial.calls_of(name)) for name in pair.names}
        for _ in range(number):
            self.run(pair, random_order(first, second, lengths, chance))
        return Counts(number + 2, number + 2)

    def _scene(self, name: str) -> Scene:
        if name not in self._scenes:
            self._scenes[name] = SCENES[name](self.place / name)
        return self._scenes[name]

    def verdict(self) -> str:
        """Of each way in which a pair fails, how many orders do, and the shortest of them."""
        alike: dict[tuple[Pair, str], list[Failure]] = {}
        for failure in self.failures:
            alike.setdefault((failure.pair, failure.kind), []).append(failure)
        return "\n".join(
            f"{pair}: {len(found)} orders break a promise, such as\n  "
            f"{min(found, key=lambda failure: len(failure.run.steps))}"
            for (pair, _), found in alike.items()
        )


def _operate(actor: Actor, scene: Scene, storage: Storage) -> object:
    return actor.operation.run(DeltaLog("", storage=storage), scene, actor.role)


def _two_changes(pair: Pair, run: RunOrder) -> Counts:
    return two_changes(*pair.names, run, is_symmetric=pair.is_symmetric)


def _two_changes_seen_late(pair: Pair, run: RunOrder) -> Counts:
    return two_changes(*pair.names, run, lag=NEVER, is_symmetric=pair.is_symmetric)


def _kills(pair: Pair, run: RunOrder) -> Counts:
    first, second = pair.names
    counts = kills(first, second, run)
    return counts if pair.is_symmetric else counts + kills(second, first, run)


def _lost_answers(pair: Pair, run: RunOrder) -> Counts:
    first, second = pair.names
    counts = lost_answers(first, second, run)
    return counts if pair.is_symmetric else counts + lost_answers(second, first, run)


_EXPLORE: dict[Kind, Callable[[Pair, RunOrder], Counts]] = {
    "two changes of turn": _two_changes,
    "two changes of turn, seen late": _two_changes_seen_late,
    "a kill": _kills,
    "a lost answer": _lost_answers,
}


@contextmanager
def searching() -> Iterator[Search]:
    """A search whose tables are gone afterwards."""
    directory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="orders-", dir=directory) as place:
        yield Search(Path(place))


def replay(text: str) -> str:
    """What is wrong with an order, and its calls."""
    order = Order.from_text(text)
    named = {turn.who.removesuffix(AGAIN).removesuffix("'") for turn in order.turns}
    kinds = sorted(named, key=list(OPERATIONS).index)
    with searching() as search:
        run = search.run(Pair(kinds[0], kinds[-1]), order)
        calls = "\n".join(map(str, run.steps))
        return search.verdict() or f"{order} keeps every promise:\n{calls}"


if __name__ == "__main__":
    print(replay(sys.argv[1]))
