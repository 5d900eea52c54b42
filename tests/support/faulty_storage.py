"""Test doubles: the storage of a process that dies at a call, and a randomly failing store."""

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
"""Methods that change the store: if their answer is lost, the change stays."""

_TRIES_OF_A_READ = 3


class Killed(BaseException):
    """Stands for SIGKILL: code that catches it would make the crash unrealistic."""


class MortalStorage(CountingStorage):
    """The storage of a process that is killed before or after its `call`th call.

    A dead process makes no calls: cleanup code, such as the deletion of its files, does not reach
    the store. Calls that other threads have begun do.
    """

    def __init__(self, inner: Storage, call: int, moment: Moment) -> None:
        super().__init__(inner, self._kill)
        self.is_dead = False
        self._point = (call, moment)
        self._under_way = 0
        self._changes = threading.Condition()

    def settle(self) -> None:
        """Wait until no call is under way."""
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
    """Makes a copy of a directory on each call, below a folder; for `crashes`."""
    numbers = count()

    def fresh() -> Storage:
        return open_storage(shutil.copytree(root, folder / str(next(numbers))))

    return fresh


def crashes(
    fresh: Callable[[], Storage], run: Callable[[Storage], object]
) -> Iterator[tuple[str, Storage]]:
    """Run an operation killed before and after each of its calls; yield the place and the state.

    The last run is not killed, and counts the calls.

    Args:
        fresh: Makes a storage in the initial state for each run.
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
    """Probabilities of faults, each from 0 to 1."""

    lost_requests: float = 0.0
    """The request does not reach the store."""
    lost_answers: float = 0.0
    """The store carries out the request, and the caller gets an error."""
    resent_creates: float = 0.0
    """A fault of `create`: the answer is lost, the client repeats the request, and the store
    reports an existing file."""
    late_requests: float = 0.0
    """A fault of `create`: the caller gets an error, and the store creates the file later."""
    delays: float = 0.0
    longest_delay_s: float = 0.02


class FaultyStorage(CountingStorage):
    """`inner`, with random faults that are the same for one seed and one thread.

    `faults` apply to calls that change the store. Reads lose requests at the same rate, but are
    retried as every client does, and fail if the retry fails too.
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
        """Wait until no request is under way."""
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
