"""A gate: holds up the threads that come by, in this process and not in a child of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal

PATIENCE_S = 300
"""Far more than a thread needs to come by: one that takes longer is held up elsewhere."""
READS = ("read", "read_ranges", "open_input")


class Gate:
    """Open at first."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._is_open = threading.Event()
        self._is_open.set()
        self._changed = threading.Condition()
        self._held: list[str] = []

    def pass_by(self) -> None:
        """Wait until the gate is open; a child of a fork does not."""
        if os.getpid() != self._process or self._is_open.is_set():
            return
        with self._changed:
            self._held.append(threading.current_thread().name)
            self._changed.notify_all()
        if not self._is_open.wait(PATIENCE_S):
            self._is_open.set()

    def open(self) -> None:
        """Let everybody go on."""
        self._is_open.set()

    def on_call(
        self, number: int, method: str, path: str, moment: Literal["before", "after"]
    ) -> None:
        """For a `CountingStorage`: reads pass by the gate."""
        if method in READS and moment == "before":
            self.pass_by()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Whoever comes by is held up until the end."""
        self._is_open.clear()
        try:
            yield
        finally:
            self._is_open.set()
            self._held.clear()

    def wait_until(self, enough: Callable[[list[str]], bool]) -> None:
        """Wait until enough threads are held; it takes their names."""
        with self._changed:
            assert self._changed.wait_for(lambda: enough(self._held), PATIENCE_S), [*self._held]

    @contextmanager
    def holding(
        self,
        calls: Sequence[Callable[[], object]],
        until: Callable[[list[str]], bool] = bool,
    ) -> Iterator[None]:
        """Let threads make the calls, and be held; at the end they go on, and end.

        Args:
            calls: One for each thread.
            until: As for `wait_until`.
        """
        threads = [threading.Thread(target=call, name="held") for call in calls]
        try:
            with self.closed():
                for thread in threads:
                    thread.start()
                self.wait_until(until)
                yield
        finally:
            for thread in threads:
                thread.join()


def call_in_thread(call: Callable[[], Any]) -> Future[Any]:
    """What the call returns in a thread that nobody waits for."""
    outcome: Future[Any] = Future()

    def make() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=make, daemon=True).start()
    return outcome


class Gated:
    """`inner`, with a gate before whatever is asked of it."""

    def __init__(self, inner: object, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    def __getattr__(self, name: str) -> Any:
        self._gate.pass_by()
        return getattr(self._inner, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gated) and self._inner == other._inner

    def __hash__(self) -> int:
        return hash(self._inner)
