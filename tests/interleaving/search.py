"""The search: operations that meet, each order run on a fresh copy of its scene and judged.

A failure prints the command that runs its order again and shows the calls:
`python -m tests.interleaving.search "restore[0:7] vacuum[0:]" restore vacuum`.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random
from typing import Literal

from delta_ops import DeltaLog
from delta_ops.storage import Storage, open_storage
from tests.interleaving.cases import Actor, Case
from tests.interleaving.checks import complaints
from tests.interleaving.enumeration import (
    AGAIN,
    NEVER,
    Counts,
    enumerate_with_third,
    kills,
    lost_answers,
    random_order,
    two_changes,
)
from tests.interleaving.operations import OPERATIONS, Operation
from tests.interleaving.scenes import SCENES, Scene
from tests.interleaving.schedule import Order, Turn
from tests.interleaving.turns import Run, run_in_turns
from tests.support.memory_folder import memory_folder

Kind = Literal[
    "two changes of turn",
    "two changes of turn, seen late",
    "a kill",
    "a lost answer",
    "a third in between",
]

_GO_BACK = frozenset({"restore", "restore-other", "revert"})


@dataclass(frozen=True, slots=True)
class Meeting:
    """The kinds of the operations that run on one table, usually a pair."""

    kinds: tuple[str, ...]

    def __str__(self) -> str:
        return " and ".join(self.kinds)

    @property
    def names(self) -> tuple[str, ...]:
        """The operations' names in orders; repeated kinds get distinct names."""
        before = (self.kinds[:number] for number in range(len(self.kinds)))
        return tuple(
            kind + "'" * kinds.count(kind) for kind, kinds in zip(self.kinds, before, strict=True)
        )


def pair(first: str, second: str) -> Meeting:
    return Meeting((first, second))


def pairs() -> list[Meeting]:
    """Each operation with each."""
    return [
        Meeting(kinds) for kinds in combinations_with_replacement(OPERATIONS, 2) if can_meet(kinds)
    ]


def covering_pairs(distance: int) -> list[Meeting]:
    """A few pairs that together cover each operation.

    Args:
        distance: Pairs whose operations are this far apart in `OPERATIONS` come first, then pairs
            with the next distances. Other distances give other pairs.
    """
    kinds = list(OPERATIONS)

    def distance_beyond(meeting: Meeting) -> int:
        first, second = map(kinds.index, meeting.kinds)
        return (second - first - distance) % len(kinds)

    chosen: list[Meeting] = []
    met: set[str] = set()
    for least_new in (2, 1):
        for meeting in sorted(pairs(), key=distance_beyond):
            if len(set(meeting.kinds) - met) >= least_new:
                chosen.append(meeting)
                met.update(meeting.kinds)
    return chosen


def can_meet(kinds: Collection[str]) -> bool:
    """Whether a table exists that suits all operations, and at most one of them deletes it.

    Of two operations that delete the table, each deletes what the other is about to commit. Before
    the table exists, a revert or a restore goes back to the others' commits, and rows alone do not
    show those commits.
    """
    operations = [OPERATIONS[kind] for kind in kinds]
    return (
        bool(_common_scenes(operations))
        and sum(operation.takes == "the table" for operation in operations) < 2
        and not {"checkpoint-parts", "checkpoint-v2"} <= set(kinds)
        and not (len(kinds) > 2 and "create" in kinds and _GO_BACK & set(kinds))
    )


def _common_scenes(operations: Iterable[Operation]) -> list[str]:
    """The scenes that suit all operations, the usual scene first."""
    suitable = [operation.scenes for operation in operations if operation.scenes]
    names = ["aged", *SCENES]
    return [name for name in names if all(name in scenes for scenes in suitable)]


@dataclass(frozen=True, slots=True)
class Failure:
    """An order that broke a promise."""

    meeting: Meeting
    order: Order
    complaints: tuple[str, ...]
    run: Run

    @property
    def command(self) -> str:
        """The command that runs the order again."""
        kinds = " ".join(self.meeting.kinds)
        return f'To repeat: .venv/bin/python -m tests.interleaving.search "{self.order}" {kinds}'

    @property
    def kind(self) -> str:
        """The kind of failure, without varying names."""
        return re.sub(r"[0-9a-f-]{8,}|\d+", "", self.complaints[0])

    def __str__(self) -> str:
        ends = (f"{name}: {o.error or o.value!r}" for name, o in self.run.outcomes.items())
        lines = [*self.complaints, *map(str, self.run.steps), *ends]
        return "\n    ".join([str(self.order), *lines])


@dataclass(slots=True)
class Search:
    """Runs orders in a directory of its own."""

    place: Path
    operations: Mapping[str, Operation] = field(default_factory=lambda: OPERATIONS)
    failures: list[Failure] = field(default_factory=list)
    num_waits: int = 0
    _scenes: dict[str, Scene] = field(default_factory=dict)

    def run(self, meeting: Meeting, order: Order) -> Run:
        """Run an order on a fresh copy of a scene, and record broken promises."""
        operations = [self.operations[kind] for kind in meeting.kinds]
        scene = self._scene(_common_scenes(operations)[0])
        root = self.place / "table"
        shutil.rmtree(root, ignore_errors=True)
        scene.copy(root)
        actors = {
            name + again: Actor(name + again, operation, role)
            for role, (operation, name) in enumerate(zip(operations, meeting.names, strict=True))
            for again in ("", AGAIN)
        }
        running = {turn.who: partial(_operate, actors[turn.who], scene) for turn in order.turns}
        run = run_in_turns(running, open_storage(root), order)
        self.num_waits += run.num_waits
        if found := complaints(Case(scene, root, order, run, actors)):
            self.failures.append(Failure(meeting, order, tuple(found), run))
        return run

    def explore(self, meeting: Meeting, kind: Kind) -> Counts:
        """All orders of a kind, for a pair or for three operations."""
        run = partial(self.run, meeting)
        if kind == "a third in between":
            first, second, third = meeting.names
            return enumerate_with_third(first, second, third, run)
        first, second = meeting.names
        if kind == "two changes of turn, seen late" and self._is_dropped(meeting):
            return Counts()
        is_symmetric = len(set(meeting.kinds)) == 1
        match kind:
            case "two changes of turn":
                return two_changes(first, second, run, is_symmetric=is_symmetric)
            case "two changes of turn, seen late":
                return two_changes(first, second, run, lag=NEVER, is_symmetric=is_symmetric)
        explore = kills if kind == "a kill" else lost_answers
        counts = explore(first, second, run)
        return counts if is_symmetric else counts + explore(second, first, run)

    def draw(self, meeting: Meeting, number: int, chance: Random) -> Counts:
        """Both serial orders, and this many random orders."""
        names = meeting.names
        serial = self.run(meeting, Order(tuple(Turn(name, 0) for name in names)))
        self.run(meeting, Order(tuple(Turn(name, 0) for name in reversed(names))))
        lengths = {name: len(serial.calls_of(name)) for name in names}
        for _ in range(number):
            order = random_order(lengths, chance)
            self.run(meeting, replace(order, lag=0) if self._is_dropped(meeting) else order)
        return Counts(orders=number + 2, run=number + 2)

    def _is_dropped(self, meeting: Meeting) -> bool:
        """Whether the table may be deleted; deletion relies on a listing that is not late."""
        return any(self.operations[kind].takes == "the table" for kind in meeting.kinds)

    def _scene(self, name: str) -> Scene:
        if name not in self._scenes:
            self._scenes[name] = SCENES[name](self.place / name)
        return self._scenes[name]

    def report(self, what: str, counts: Counts) -> str:
        """A sentence about the completed search."""
        waits = f"; {self.num_waits} times one waited for another" if self.num_waits else ""
        return f"Orders of {what}: {counts}{waits}"

    def verdict(self) -> str:
        """For each kind of failure of a pair, the number of orders and the shortest order."""
        alike: dict[tuple[Meeting, str], list[Failure]] = {}
        for failure in self.failures:
            alike.setdefault((failure.meeting, failure.kind), []).append(failure)
        lines = []
        for (meeting, _), found in alike.items():
            shortest = min(found, key=lambda failure: len(failure.run.steps))
            lines.append(f"{meeting}: {len(found)} orders break a promise, such as\n  {shortest}")
            lines.append(shortest.command)
        return "\n".join(lines)


def _operate(actor: Actor, scene: Scene, storage: Storage) -> object:
    return actor.operation.run(DeltaLog("", storage=storage), scene, actor.role)


@contextmanager
def searching() -> Iterator[Search]:
    """A search that deletes its tables afterwards."""
    with memory_folder() as place:
        yield Search(place)


def replay(text: str, *in_places: str) -> str:
    """Report the broken promises of an order, and its calls.

    Args:
        text: The order.
        in_places: The kinds of the operations by their places in the meeting; some operations
            choose their rows by place. Default: in the order of `OPERATIONS`.
    """
    order = Order.from_text(text)
    names = {turn.who.removesuffix(AGAIN) for turn in order.turns}
    kinds = in_places or sorted((name.rstrip("'") for name in names), key=list(OPERATIONS).index)
    with searching() as search:
        run = search.run(Meeting(tuple(kinds)), order)
        calls = "\n".join(map(str, run.steps))
        return search.verdict() or f"{order} keeps every promise:\n{calls}"


if __name__ == "__main__":
    print(replay(*sys.argv[1:]))
