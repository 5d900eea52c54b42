"""Concurrency: threads that help whoever has several things to do, shared by the process.

1. Whoever asks does what no thread has begun. So it comes to an end though all threads are held up,
   be it by a store that does not answer: no table waits for another one.
2. A thread of a pool never waits for another one: what it would start, it does itself.
3. What is under way at once is bounded for each caller by what it asks for, and for all of them by
   the threads of the pool and themselves.
4. A child of a fork, where the threads do not exist, gets threads of its own, and does itself what
   had been begun for it.

What computes has a pool of its own, of as many threads as shall compute: each thread that parses
keeps a part of the heap, and in turns all those of the large pool would.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MAX_CONCURRENCY = 16
"""Requests of a caller under way at once; stores answer slowly, and side by side."""
_MOST_OFFERED = 256
"""Calls that wait for a thread; while all threads are held up, others do without."""

_this_thread = threading.local()


def run_parallel(call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What `call` returns for each item, in their order; of several errors, the first item's."""
    todo = list(items)
    if len(todo) < 2 or works_in_sequence():
        return [call(item) for item in todo]
    calls = [_Call(partial(call, item)) for item in todo]
    waiting = deque(calls)
    for _ in range(min(len(todo), MAX_CONCURRENCY) - 1):
        _pool(MAX_CONCURRENCY).offer(partial(_make_all, waiting))
    try:
        _make_all(waiting)
        return [each.result() for each in calls]
    finally:
        waiting.clear()


def run_ahead(
    calls: Iterable[tuple[int, Callable[[], R]]],
    max_bytes: int,
    max_calls: int = MAX_CONCURRENCY,
    max_threads: int | None = None,
) -> Generator[R, None, None]:
    """What each call returns, in their order, while the next ones are under way.

    Results that are not taken before it is closed are given up.

    Args:
        calls: How many bytes a call will hold, and the call.
        max_bytes: Bound of the calls that are ahead of the caller; one call is, however large.
        max_calls: How many are ahead of the caller, two at least.
        max_threads: How many of them are made at once where they compute, by the pool that does
            for all who do; None: all.
    """
    todo = iter(calls)
    first = list(islice(todo, 2))
    if len(first) < 2 or works_in_sequence():
        yield from (call() for _, call in chain(first, todo))
        return
    under_way: deque[tuple[int, _Call[R]]] = deque()
    waiting: deque[_Call[R]] = deque()
    ahead_bytes = 0
    try:
        for num_bytes, call in chain(first, todo):
            while len(under_way) > 1 and (
                ahead_bytes + num_bytes > max_bytes or len(under_way) >= max_calls
            ):
                done_bytes, done = under_way.popleft()
                ahead_bytes -= done_bytes
                yield _result(done, waiting)
            latest = _Call(call)
            under_way.append((num_bytes, latest))
            waiting.append(latest)
            # Asked for each time: a child of a fork goes on with threads of its own.
            pool = _pool(max_threads or max_calls, computes=max_threads is not None)
            pool.offer(partial(_make_next, waiting))
            ahead_bytes += num_bytes
        while under_way:
            yield _result(under_way.popleft()[1], waiting)
    finally:
        waiting.clear()


def run_behind(calls: Iterable[Callable[[], object]]) -> None:
    """Make the calls one after the other, each while the caller gets the next from the iterable.

    No call is under way when it returns or raises.
    """
    if works_in_sequence():
        for call in calls:
            call()
        return
    latest: _Call[object] | None = None
    waiting: deque[_Call[object]] = deque()
    try:
        for call in calls:
            if latest is not None:
                _result(latest, waiting)
            latest = _Call(call)
            waiting.append(latest)
            _pool(MAX_CONCURRENCY).offer(partial(_make_next, waiting))
        if latest is not None:
            _result(latest, waiting)
    finally:
        # After an error of the iterable, or an interrupt: what the call works with is closed next.
        if latest is not None and latest not in waiting:
            latest.await_end()
        waiting.clear()


class _Call(Generic[R]):
    """A call, made by whoever takes it from those that wait, and what came of it."""

    def __init__(self, call: Callable[[], R]) -> None:
        self._call = call
        self._process = os.getpid()
        self._is_made = threading.Event()
        self._value: tuple[R] | None = None
        self._error: BaseException | None = None

    def make(self) -> None:
        """Keep what it returns or raises; what is no `Exception` ends the caller, too."""
        try:
            self._value = (self._call(),)
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._is_made.set()

    @property
    def has_failed(self) -> bool:
        """Whether it raised something that nobody has been told of."""
        return self._error is not None

    def await_end(self) -> None:
        """Wait until a thread of this process that has begun it is done with it."""
        if os.getpid() == self._process:
            self._is_made.wait()

    def result(self) -> R:
        """What it returned, or raises what it raised, once it is made; asked for once."""
        if os.getpid() == self._process:
            self._is_made.wait()
        elif self._value is None and self._error is None:  # begun by a thread of the parent
            return self._call()
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # it holds this frame
        assert self._value is not None
        return self._value[0]


def _make_all(waiting: deque[_Call[R]]) -> None:
    """Make those that wait, until none does or one has failed."""
    while (made := _make_next(waiting)) is not None:
        if made.has_failed:
            waiting.clear()


def _make_next(waiting: deque[_Call[R]]) -> _Call[R] | None:
    """Make the first that waits; None if none does."""
    try:
        call = waiting.popleft()  # at once: nobody else has it
    except IndexError:
        return None
    call.make()
    return call


def _result(call: _Call[R], waiting: deque[_Call[R]]) -> R:
    """What comes of a call, which is made here and now if it waits."""
    try:
        waiting.remove(call)
    except ValueError:  # it has been begun
        return call.result()
    call.make()
    return call.result()


class _Pool:
    """Threads that do what they are offered, if they get to it."""

    def __init__(self, num_threads: int) -> None:
        self._threads = ThreadPoolExecutor(
            num_threads, thread_name_prefix="delta_ops", initializer=work_in_sequence
        )
        self._offered: deque[None] = deque()  # appended to and taken from at once, unlike a number

    def offer(self, work: Callable[[], object]) -> None:
        """Let a thread do this, some time or never."""
        if len(self._offered) < _MOST_OFFERED:
            self._offered.append(None)
            self._threads.submit(self._do, work)

    def _do(self, work: Callable[[], object]) -> None:
        self._offered.pop()
        work()


_pools: dict[tuple[int, bool], _Pool] = {}


def _pool(num_threads: int, *, computes: bool = False) -> _Pool:
    """The pool of so many threads; what computes is no neighbour of what waits for a store."""
    key = num_threads, computes
    return _pools.get(key) or _pools.setdefault(key, _Pool(num_threads))


def work_in_sequence() -> None:
    """Let this thread do itself, one after the other, what it would do in parallel."""
    _this_thread.works_in_sequence = True


def works_in_sequence() -> bool:
    """Whether this thread, one of several that do the same, makes one call after the other."""
    return getattr(_this_thread, "works_in_sequence", False)


def _leave_threads_behind() -> None:
    _pools.clear()
    _this_thread.works_in_sequence = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_threads_behind)
