"""Turns: operations run one storage call at a time, in a given order.

1. Each operation has its own thread and storage. At most one operation is between two stops. Its
   work between two calls touches no shared state, so the order of the calls determines a run.
2. Parallel work of an operation runs in sequence.
3. An operation that does not reach its next stop waits for another operation. The turn goes to
   that operation, call by call, and comes back. The wait is counted.
4. A killed operation makes no more calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from delta_ops.errors import StorageError
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import work_in_sequence
from tests.interleaving.calls import Call
from tests.interleaving.late_listing import History, Journal
from tests.interleaving.schedule import Order
from tests.interleaving.stepped_storage import SteppedStorage
from tests.support.faulty_storage import Killed

PATIENCE_S = 2.0
"""Seconds; longer than a busy machine takes between two calls."""
_DEADLOCK_S = 120.0


@dataclass(slots=True)
class Step:
    """A completed call."""

    who: str
    number: int
    """The call's number within its operation, from 0."""
    call: Call
    error: str = ""
    """The type of the store's error."""

    def __str__(self) -> str:
        return f"{self.who}[{self.number}] {self.call}{self.error and f' -> {self.error}'}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an operation ended."""

    value: object = None
    error: BaseException | None = None

    @property
    def is_killed(self) -> bool:
        return isinstance(self.error, Killed)


@dataclass(frozen=True, slots=True)
class Run:
    """The result of an order."""

    steps: list[Step]
    outcomes: dict[str, Outcome]
    num_waits: int
    """The number of waits of an operation for another operation."""

    def calls_of(self, who: str) -> list[Call]:
        return [step.call for step in self.steps if step.who == who]


Operate = Callable[[Storage], object]


def run_in_turns(
    operations: Mapping[str, Operate],
    storage: Storage,
    order: Order,
    *,
    patience_s: float = PATIENCE_S,
) -> Run:
    """Run the operations by the order; then each runs to its end, one after the other."""
    scheduler = _Scheduler(operations, storage, order, patience_s)
    host = threading.Thread(target=scheduler.host, name="turns", daemon=True)
    host.start()
    try:
        scheduler.follow()
    finally:
        scheduler.kill_all()
        host.join(_DEADLOCK_S)
    assert not host.is_alive(), "an operation did not end"
    return Run(scheduler.steps, scheduler.outcomes(), scheduler.num_waits)


@dataclass(eq=False, slots=True)
class _Actor:
    name: str
    operate: Operate
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    reports: SimpleQueue[Call | None] = field(default_factory=SimpleQueue)
    """The next call; None: the operation has ended."""
    pending: Call | None = None
    is_started: bool = False
    is_waited_for: bool = False
    """It may run, and has not reported yet."""
    is_done: bool = False
    is_dead: bool = False
    num_calls: int = 0
    outcome: Outcome = field(default_factory=Outcome)


class _Scheduler:
    def __init__(
        self, operations: Mapping[str, Operate], storage: Storage, order: Order, patience_s: float
    ) -> None:
        self.steps: list[Step] = []
        self.num_waits = 0
        self._inner, self._order, self._patience_s = storage, order, patience_s
        self._history = History()
        self._actors = {name: _Actor(name, operate) for name, operate in operations.items()}

    def outcomes(self) -> dict[str, Outcome]:
        return {actor.name: actor.outcome for actor in self._actors.values() if actor.is_started}

    def host(self) -> None:
        """Live as long as the operations do."""
        with ThreadPoolExecutor(len(self._actors), initializer=work_in_sequence) as pool:
            list(pool.map(self._live, self._actors.values()))

    def follow(self) -> None:
        for turn in self._order.turns:
            actor = self._actors[turn.who]
            while not actor.is_done and (turn.end is None or actor.num_calls < turn.end):
                self._advance(actor)
            if turn.dies:
                self._kill(actor)
        for actor in self._actors.values():
            while actor.is_started and not actor.is_done:
                self._advance(actor)

    def kill_all(self) -> None:
        for actor in self._actors.values():
            self._kill(actor)

    def _kill(self, actor: _Actor) -> None:
        actor.is_dead = True
        while not actor.is_done:
            self._advance(actor)

    def _advance(self, actor: _Actor) -> None:
        """Let the operation make its next call; a new operation runs up to its first call."""
        self._let_go(actor)
        self._await(actor)

    def _let_go(self, actor: _Actor) -> None:
        if not actor.is_waited_for:
            actor.is_started = actor.is_waited_for = True
            actor.go.release()

    def _await(self, actor: _Actor) -> None:
        if self._hears(actor, self._patience_s):
            return
        self.num_waits += 1
        tries = int(_DEADLOCK_S / self._patience_s)
        for _ in range(max(tries, 1)):
            for other in self._actors.values():
                if other is not actor and other.is_started and not other.is_done:
                    self._let_go(other)
                    self._hears(other, self._patience_s)
                    if self._hears(actor, 0.01):
                        return
            if self._hears(actor, self._patience_s):
                return
        raise AssertionError(f"{actor.name} does not come to its next call: {self.steps[-1]}")

    def _hears(self, actor: _Actor, seconds: float) -> bool:
        try:
            actor.pending = actor.reports.get(timeout=seconds)
        except Empty:
            return False
        actor.is_waited_for = False
        actor.is_done = actor.pending is None
        return True

    def _live(self, actor: _Actor) -> None:
        actor.go.acquire()
        journal = Journal(self._history, actor.name, self._inner, self._order.lag)
        storage = SteppedStorage(self._inner, lambda call: self._turn(actor, call), journal)
        try:
            actor.outcome = Outcome(value=actor.operate(storage))
        except BaseException as error:  # of any kind: the checks judge it
            actor.outcome = Outcome(error=error)
        actor.reports.put(None)

    @contextmanager
    def _turn(self, actor: _Actor, call: Call) -> Iterator[None]:
        if not actor.is_dead:
            actor.reports.put(call)
            actor.go.acquire()
        if actor.is_dead:
            raise Killed
        step = Step(actor.name, actor.num_calls, call)
        self.steps.append(step)
        actor.num_calls += 1
        self._history.now += 1
        try:
            yield
        except Exception as error:
            step.error = type(error).__name__
            raise
        if call.writes and self._order.loses(step.who, step.number):
            step.error = "the answer is lost"
            raise StorageError(min(call.writes), "reached", "the connection was reset")
