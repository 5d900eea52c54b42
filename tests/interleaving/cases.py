"""Cases: an executed order, and the facts that its calls prove."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.interleaving.operations import Operation
from tests.interleaving.scenes import Rows, Scene
from tests.interleaving.schedule import Order
from tests.interleaving.turns import Outcome, Run, Step

LOST = "the answer is lost"
_CREATING = frozenset({"create", "create_from_stream", "replace"})
_COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
_LOG = "_delta_log"


@dataclass(frozen=True, slots=True)
class Actor:
    """An operation under its name in an order."""

    name: str
    operation: Operation
    role: int

    def effect(self, rows: Rows, scene: Scene) -> Rows | None:
        return self.operation.effect(rows, scene, self.role)


@dataclass(frozen=True, slots=True)
class Created:
    """A file of the log that an operation created or replaced."""

    path: str
    who: str
    at: int
    """Its place among the steps."""

    @property
    def version(self) -> int | None:
        """The version of a commit; None for another file."""
        match = _COMMIT.fullmatch(self.path)
        return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class Case:
    """An executed order."""

    scene: Scene
    root: Path
    order: Order
    run: Run
    actors: Mapping[str, Actor]

    @property
    def deleted_at(self) -> int | None:
        """The place of the last call that deleted the table; None if it was not deleted."""
        places = [at for at, step in enumerate(self.run.steps) if _deletes(step)]
        return places[-1] if places else None

    def created(self) -> list[Created]:
        """Files of the log, in the order of the steps."""
        return [
            Created(path, step.who, at)
            for at, step in enumerate(self.run.steps)
            if step.call.method in _CREATING and step.error in ("", LOST)
            for path in step.call.writes
            if path.startswith(_LOG)
        ]

    def commits(self, who: str = "") -> list[Created]:
        """Commits of all operations, or of one."""
        return [c for c in self.created() if c.version is not None and who in ("", c.who)]

    def left(self) -> dict[str, Created]:
        """The created files that exist at the end, by path."""
        last = {created.path: created for created in self.created()}
        return {path: each for path, each in last.items() if (self.root / path).exists()}

    def left_commits(self) -> dict[int, Created]:
        """The commits, by version."""
        return {c.version: c for c in self.left().values() if c.version is not None}

    def has_touched(self, version: int) -> bool:
        """Whether a log file needed to read the version was written or deleted."""
        names = (path.rpartition("/")[2] for path in self._touched() if path.startswith(_LOG))
        return any(not name[:20].isdigit() or int(name[:20]) <= version for name in names)

    def _touched(self) -> set[str]:
        return {path for step in self.run.steps for path in step.call.writes}

    def span(self, who: str) -> tuple[int, int]:
        """The places of the operation's first and last call."""
        places = [at for at, step in enumerate(self.run.steps) if step.who == who]
        return (places[0], places[-1]) if places else (0, 0)

    def last_look_before(self, created: Created, *, lists_log: bool = False) -> int:
        """The place of the operation's previous call that read the store; or -1.

        A call that only writes reads nothing: the second part of a checkpoint follows the first.
        """
        return max(
            (
                at
                for at, step in enumerate(self.run.steps[: created.at])
                if step.who == created.who
                and (_LOG in step.call.lists or (_sees(step) and not lists_log))
            ),
            default=-1,
        )

    def next_look_after(self, created: Created) -> int:
        """The place of the operation's next call that read the store; or the end."""
        later = range(created.at + 1, len(self.run.steps))
        looks = (at for at in later if self.run.steps[at].who == created.who)
        return next((at for at in looks if _sees(self.run.steps[at])), len(self.run.steps))

    def has_read(self, who: str, path: str, places: range) -> bool:
        """Whether one of the steps at these places reads the file."""
        steps = (self.run.steps[at] for at in places)
        return any(step.who == who and path in step.call.reads for step in steps)

    def outcome(self, created: Created) -> Outcome:
        return self.run.outcomes[created.who]

    def takes(self) -> set[str]:
        """The kinds of files that the operations may delete."""
        return {self.actors[name].operation.takes for name in self.run.outcomes}


def _sees(step: Step) -> bool:
    return bool(step.call.reads or step.call.lists or step.call.trees)


def _deletes(step: Step) -> bool:
    return step.call.method == "delete_at_once" and bool(step.call.writes)
