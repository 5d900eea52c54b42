"""A gate: holds the threads that reach it, in this process but not in its children."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal

PATIENCE_S = 300
"""Seconds; far more than a thread needs to reach the gate, so it hangs elsewhere."""
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
        """Wait until the gate is open; a forked child does not wait."""
        if os.getpid() != self._process or self._is_open.is_set():
            return
        with self._changed:
            self._held.append(threading.current_thread().name)
            self._changed.notify_all()
        if not self._is_open.wait(PATIENCE_S):
            self._is_open.set()

    def open(self) -> None:
        """Release all threads."""
        self._is_open.set()

    def on_call(
        self, number: int, method: str, path: str, moment: Literal["before", "after"]
    ) -> None:
        """For a `CountingStorage`: reads pass through the gate."""
        if method in READS and moment == "before":
            self.pass_by()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Hold all arriving threads until the end of the block."""
        self._is_open.clear()
        try:
            yield
        finally:
            self._is_open.set()
            self._held.clear()

    def wait_until(self, enough: Callable[[list[str]], bool]) -> None:
        """Wait until the held threads' names satisfy the condition."""
        with self._changed:
            assert self._changed.wait_for(lambda: enough(self._held), PATIENCE_S), [*self._held]

    @contextmanager
    def holding(
        self,
        calls: Sequence[Callable[[], object]],
        until: Callable[[list[str]], bool] = bool,
    ) -> Iterator[None]:
        """Let threads make the calls and be held; at the end they continue and finish.

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
    """The result of the call in a thread, as a future."""
    outcome: Future[Any] = Future()

    def make() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=make, daemon=True).start()
    return outcome


class Gated:
    """`inner`, with a gate before every attribute."""

    def __init__(self, inner: object, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    def __getattr__(self, name: str) -> Any:
        self._gate.pass_by()
        return getattr(self._inner, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gated) and self._inner == other._inner

    def __hash__(self) -> int:
        return hash(self._inner)
