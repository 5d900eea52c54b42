"""The search: pairs of operations, each order run on a fresh copy of its scene and judged."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import NamedTuple

from delta_ops import DeltaLog
from delta_ops.storage import Storage, open_storage
from tests.interleaving.cases import Actor, Case
from tests.interleaving.checks import complaints
from tests.interleaving.enumeration import AGAIN
from tests.interleaving.operations import OPERATIONS
from tests.interleaving.scenes import SCENES, Scene
from tests.interleaving.schedule import Order
from tests.interleaving.turns import Run, run_in_turns

_IN_MEMORY = Path("/dev/shm")


class Pair(NamedTuple):
    """Two operations by their names."""

    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.first} and {self.second}"

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

    order: Order
    complaints: tuple[str, ...]
    run: Run

    def __str__(self) -> str:
        steps = self.run.steps
        shown = [f"    {step}" for step in steps]
        ends = [
            f"    {name}: {outcome.error or outcome.value!r}"
            for name, outcome in self.run.outcomes.items()
        ]
        return "\n".join([str(self.order), *(f"  {c}" for c in self.complaints), *shown, *ends])


@dataclass(slots=True)
class Search:
    """Runs orders in a place of its own."""

    place: Path
    failures: list[Failure] = field(default_factory=list)
    num_run: int = 0
    num_waits: int = 0
    _scenes: dict[str, Scene] = field(default_factory=dict)

    def scene(self, name: str) -> Scene:
        if name not in self._scenes:
            self._scenes[name] = SCENES[name](self.place / "scenes" / name)
        return self._scenes[name]

    def run(self, pair: Pair, order: Order) -> Run:
        scene = self.scene(pair.scene)
        root = self.place / "table"
        shutil.rmtree(root, ignore_errors=True)
        scene.copy(root)
        actors = {
            name + again: Actor(name + again, OPERATIONS[kind], role, name if again else "")
            for role, (kind, name) in enumerate(zip(pair, pair.names, strict=True))
            for again in ("", AGAIN)
        }
        turning = {turn.who for turn in order.turns}
        operations = {
            name: partial(_operate, actor, scene)
            for name, actor in actors.items()
            if name in turning
        }
        run = run_in_turns(operations, open_storage(root), order)
        self.num_run += 1
        self.num_waits += run.num_waits
        if found := complaints(Case(scene, root, order, run, actors)):
            self.failures.append(Failure(order, tuple(found), run))
        return run


def _operate(actor: Actor, scene: Scene, storage: Storage) -> object:
    return actor.operation.run(DeltaLog("", storage=storage), scene, actor.role)


@contextmanager
def searching() -> Iterator[Search]:
    directory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    place = Path(tempfile.mkdtemp(prefix="orders-", dir=directory))
    (place / "scenes").mkdir()
    try:
        yield Search(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
