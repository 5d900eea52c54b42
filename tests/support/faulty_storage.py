"""Test doubles: the storage of a process that dies at a call, and a store that fails by chance."""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from delta_ops.errors import StorageError
from delta_ops.storage import Storage, open_storage
from tests.support.counting_storage import CountingStorage

Moment = Literal["before", "after"]

WRITES = frozenset(
    {"create", "create_from_stream", "replace", "persist", "delete", "delete_many", "delete_empty"}
)
"""What changes the store: an answer that is lost then leaves the change."""

_TRIES_OF_A_READ = 3


class Killed(BaseException):
    """Stands for SIGKILL: whatever catches it has made the crash unlike a real one."""


class MortalStorage(CountingStorage):
    """The storage of a process that is killed before or after its `call`th call.

    A dead process calls nothing: what code does on its way out, such as deleting what it wrote,
    does not reach the store. What other threads have begun does.
    """

    def __init__(self, inner: Storage, call: int, moment: Moment) -> None:
        super().__init__(inner, self._kill)
        self.is_dead = False
        self._point = (call, moment)
        self._under_way = 0
        self._changes = threading.Condition()

    def settle(self) -> None:
        """Wait until no call is under way any more."""
        with self._changes:
            self._changes.wait_for(lambda: not self._under_way)

    def _kill(self, number: int, _method: str, _path: str, when: Moment) -> None:
        with self._changes:
            if when == "after":
                self._under_way -= 1
                self._changes.notify_all()
            self.is_dead = self.is_dead or (number, when) == self._point
            if self.is_dead:
                raise Killed
            if when == "before":
                self._under_way += 1


def copies_of(root: Path, folder: Path) -> Callable[[], Storage]:
    """Makes a copy of a directory each time it is called, below a folder; for `crashes`."""
    numbers = count()

    def fresh() -> Storage:
        return open_storage(shutil.copytree(root, folder / str(next(numbers))))

    return fresh


def crashes(
    fresh: Callable[[], Storage], run: Callable[[Storage], object]
) -> Iterator[tuple[str, Storage]]:
    """Run an operation killed before and after each of its calls; where, and what that left.

    It ends with a run that outlives its last call, which finds out how many calls there are.

    Args:
        fresh: A storage in the state to begin with, anew for each run.
        run: The operation.
    """
    moments: tuple[Moment, ...] = ("before", "after")
    for call in count(1):
        for moment in moments:
            storage = fresh()
            mortal = MortalStorage(storage, call, moment)
            try:
                run(mortal)
            except Killed:
                mortal.settle()
                yield f"{moment} call {call}", storage
            else:
                assert not mortal.is_dead, f"the kill {moment} call {call} was swallowed"
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often a call goes wrong; each from 0 to 1."""

    lost_requests: float = 0.0
    """The store never hears of the call."""
    lost_answers: float = 0.0
    """The store does what it was told, and the caller gets an error."""
    resent_creates: float = 0.0
    """A fault of `create`: the answer is lost, the client sends the request again, and hears that
    the file exists."""
    late_requests: float = 0.0
    """A fault of `create`: the caller gets an error, and the store does it some time later."""
    delays: float = 0.0
    longest_delay_s: float = 0.02


class FaultyStorage(CountingStorage):
    """`inner`, whose calls fail by chance, the same way each time for one seed and one thread.

    `faults` are of calls that change the store. A call that reads loses requests as often, but is
    sent again as every client of a store does, and fails where that was in vain too.
    """

    def __init__(self, inner: Storage, faults: Faults, seed: int) -> None:
        super().__init__(inner, self._fail)
        self.faults = faults
        self.injected: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._late: list[threading.Thread] = []

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:
        if self._happens("late request", self.faults.late_requests):
            self._create_later(path, data)
            raise _failure(path, "the request timed out")
        super().create(path, data, is_durable=is_durable)
        if self._happens("resent create", self.faults.resent_creates):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def settle(self) -> None:
        """Wait until no request is under way any more."""
        for thread in self._late:
            thread.join()

    def _fail(self, _number: int, method: str, path: str, when: Moment) -> None:
        faults = self.faults
        if when == "before":
            if self._happens("delay", faults.delays):
                time.sleep(self._random.uniform(0, faults.longest_delay_s))
            tries = 1 if method in WRITES else _TRIES_OF_A_READ
            lost = f"lost request of {method}"
            if all(self._happens(lost, faults.lost_requests) for _ in range(tries)):
                raise _failure(path, "the connection was refused")
        elif method in WRITES and self._happens(f"lost answer of {method}", faults.lost_answers):
            raise _failure(path, "the connection was reset")

    def _happens(self, what: str, probability: float) -> bool:
        happens = self._random.random() < probability
        if happens:
            self.injected[what] += 1
        return happens

    def _create_later(self, path: str, data: bytes) -> None:
        def land() -> None:
            time.sleep(self._random.uniform(0, self.faults.longest_delay_s))
            try:
                self.inner.create(path, data)
            except FileExistsError:
                self.injected["late request that found another's file"] += 1

        thread = threading.Thread(target=land)
        thread.start()
        self._late.append(thread)


def _failure(path: str, reason: str) -> StorageError:
    return StorageError(path, "reached", reason)
