"""Concurrency: one pool of threads for the I/O of a process, so that it is bounded.

What computes has a pool of its own, of as many threads as shall compute: each thread that parses
keeps a part of the heap, and in turns all those of the large pool would.
A thread of a pool never waits for another one: what it would start, it does itself. The pools are
left behind by a fork, where their threads do not exist.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import chain, islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MAX_CONCURRENCY = 16
"""Requests under way at once; stores answer slowly, and wait for none to answer another."""

_this_thread = threading.local()


def in_parallel(call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What `call` returns for each item, in their order; of several errors, the first item's."""
    todo = list(items)
    if len(todo) < 2 or _is_of_pool():
        return [call(item) for item in todo]
    return list(_pool().map(call, todo))


def run_ahead(
    calls: Iterable[tuple[int, Callable[[], R]]],
    max_bytes: int,
    max_calls: int = MAX_CONCURRENCY,
) -> Generator[R, None, None]:
    """What each call returns, in their order, while the next ones are under way.

    Those that are not taken before it is closed are given up.

    Args:
        calls: How many bytes a call will hold, and the call.
        max_bytes: Of the calls that are ahead of the caller; one is, however large it is.
        max_calls: That are under way at once, two at least; by a pool of so many threads.
    """
    todo = iter(calls)
    first = list(islice(todo, 2))
    if len(first) < 2 or _is_of_pool():
        yield from (call() for _, call in chain(first, todo))
        return
    under_way: deque[tuple[int, Future[R]]] = deque()
    ahead_bytes = 0
    try:
        for num_bytes, call in chain(first, todo):
            while len(under_way) > 1 and (
                ahead_bytes + num_bytes > max_bytes or len(under_way) >= max_calls
            ):
                done_bytes, done = under_way.popleft()
                ahead_bytes -= done_bytes
                yield done.result()
            under_way.append((num_bytes, _pool(max_calls).submit(call)))
            ahead_bytes += num_bytes
        while under_way:
            yield under_way.popleft()[1].result()
    finally:
        for _, left in under_way:
            left.cancel()


@cache
def _pool(max_workers: int = MAX_CONCURRENCY) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers, thread_name_prefix="delta_ops", initializer=_enter_pool)


def _enter_pool() -> None:
    _this_thread.is_of_pool = True


def _is_of_pool() -> bool:
    return getattr(_this_thread, "is_of_pool", False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
