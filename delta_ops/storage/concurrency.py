"""Concurrency: thread pools that help callers with several calls; all tables share the threads.

1. If no thread has started a call, the caller makes it itself. So the caller finishes even if all
   threads are blocked, for example by a store that does not answer: no table waits for another.
2. A thread of a pool never waits for another thread: it makes its own calls in sequence.
3. The number of concurrent calls is bounded for each caller by its arguments. For all callers
   together, the number of pool threads plus the callers' own threads is the bound.
4. After a fork, the child has none of the threads. It starts new threads, and makes again the calls
   that the parent's threads had started.

Calls that compute have a small pool of their own. A thread that parses data does not return all of
its memory to the system. In the large pool each thread would parse sooner or later, and each would
keep memory.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from itertools import chain, islice
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MAX_CONCURRENCY = 16
"""Concurrent requests of one caller; stores answer slowly, but many requests at a time."""
_MOST_OFFERED = 256
"""Maximum number of calls that wait for a thread; callers make all further calls themselves."""

_this_thread = threading.local()


def run_parallel(call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Call `call` for each item; returns results in order, or raises the first item's error."""
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
    """Yield the results of the calls in order, while later calls are already running.

    Closing the generator drops the results that were not taken.

    Args:
        calls: Pairs of the bytes that the result will hold, and the call.
        max_bytes: Limit of bytes of the calls ahead of the caller; one call may exceed it.
        max_calls: Maximum number of calls ahead of the caller, at least two.
        max_threads: For calls that compute: the number of threads, from a pool for computing
            calls only. None for calls that wait for a store.
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
            # Looked up each time: after a fork, the child continues with its own threads.
            pool = _pool(max_threads or max_calls, computes=max_threads is not None)
            pool.offer(partial(_make_next, waiting))
            ahead_bytes += num_bytes
        while under_way:
            yield _result(under_way.popleft()[1], waiting)
    finally:
        waiting.clear()


def run_behind(calls: Iterable[Callable[[], object]]) -> None:
    """Make the calls one by one; while a call runs, this thread already gets the next call.

    When the function returns or raises, no call is running any more.

    Args:
        calls: An iterable whose next call takes time to prepare, such as rows to write.
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
        # After an error of the iterable or an interrupt, the caller closes what the call uses.
        if latest is not None and latest not in waiting:
            latest.await_end()
        waiting.clear()


class Behind(Generic[T]):
    """Passes items to a call that runs in a thread while more items arrive, one call at a time.

    Leaving the context passes the rest, and raises the first error of a call. After an error in the
    context, it only waits until no call is running.

    Args:
        call: Called with a list of items, and once with all remaining items.
        num_items: Number of items of a call in the thread.
    """

    def __init__(self, call: Callable[[list[T]], object], num_items: int) -> None:
        self._call, self._num_items = call, num_items
        self._runs_behind = not works_in_sequence()
        self._items: list[T] = []
        self._latest: _Call[object] | None = None
        self._waiting: deque[_Call[object]] = deque()

    def add(self, item: T) -> None:
        """Add an item."""
        self._items.append(item)
        if not self._runs_behind or len(self._items) < self._num_items:
            return
        if self._latest is not None and (not self._latest.is_made or self._latest.has_failed):
            return
        passed, self._items = self._items[: self._num_items], self._items[self._num_items :]
        self._latest = _Call(partial(self._call, passed))
        self._waiting.append(self._latest)
        _pool(MAX_CONCURRENCY).offer(partial(_make_next, self._waiting))

    def __enter__(self) -> Behind[T]:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        latest = self._latest
        if error is None:
            if latest is not None:
                _result(latest, self._waiting)
            if self._items:
                self._call(self._items)
        elif latest is not None and latest not in self._waiting:
            latest.await_end()
        self._waiting.clear()


class _Call(Generic[R]):
    """A call and its result; made by a thread of the pool or by the caller."""

    def __init__(self, call: Callable[[], R]) -> None:
        self._call, self._context = call, copy_context()
        self._process = os.getpid()
        self._is_made = threading.Event()
        self._value: tuple[R] | None = None
        self._error: BaseException | None = None

    def make(self) -> None:
        """Make the call and keep its result or error; a non-`Exception` is raised here as well."""
        try:
            self._value = (self._context.run(self._call),)
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._is_made.set()

    @property
    def is_made(self) -> bool:
        """Whether the call has ended."""
        return self._is_made.is_set()

    @property
    def has_failed(self) -> bool:
        """Whether the call raised an error that `result` has not raised yet."""
        return self._error is not None

    def await_end(self) -> None:
        """Wait until a thread of this process that started the call has finished it."""
        if os.getpid() == self._process:
            self._is_made.wait()

    def result(self) -> R:
        """Wait for the call, then return its result or raise its error; call this once."""
        if os.getpid() == self._process:
            self._is_made.wait()
        elif self._value is None and self._error is None:  # started by a thread of the parent
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
    """Make waiting calls until none is left or one has failed."""
    while (made := _make_next(waiting)) is not None:
        if made.has_failed:
            waiting.clear()


def _make_next(waiting: deque[_Call[R]]) -> _Call[R] | None:
    """Make the first waiting call; None if no call waits."""
    try:
        call = waiting.popleft()  # atomic: no other thread gets the same call
    except IndexError:
        return None
    call.make()
    return call


def _result(call: _Call[R], waiting: deque[_Call[R]]) -> R:
    """The result of a call; makes the call here if it is still waiting."""
    try:
        waiting.remove(call)
    except ValueError:  # another thread has started it
        return call.result()
    call.make()
    return call.result()


class _Pool:
    """Threads that run offered work when one of them is free."""

    def __init__(self, num_threads: int) -> None:
        self._threads = ThreadPoolExecutor(
            num_threads, thread_name_prefix="delta_ops", initializer=work_in_sequence
        )
        self._offered: deque[None] = deque()  # append and pop are atomic, unlike `+= 1`

    def offer(self, work: Callable[[], object]) -> None:
        """Offer work to the threads; it runs later, or never if too much is waiting."""
        if len(self._offered) < _MOST_OFFERED:
            self._offered.append(None)
            self._threads.submit(self._do, work)

    def _do(self, work: Callable[[], object]) -> None:
        self._offered.pop()
        work()


_pools: dict[tuple[int, bool], _Pool] = {}


def _pool(num_threads: int, *, computes: bool = False) -> _Pool:
    """The pool of this size; computing calls and calls that wait for a store never share one."""
    key = num_threads, computes
    return _pools.get(key) or _pools.setdefault(key, _Pool(num_threads))


def work_in_sequence() -> None:
    """Make this thread run its calls in sequence instead of in parallel."""
    _this_thread.works_in_sequence = True


def works_in_sequence() -> bool:
    """Whether this thread runs its calls in sequence."""
    return getattr(_this_thread, "works_in_sequence", False)


def _leave_threads_behind() -> None:
    _pools.clear()
    _this_thread.works_in_sequence = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_threads_behind)
