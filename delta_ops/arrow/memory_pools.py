"""Memory pools: choose where Arrow allocates memory for rows that are read and written.

Arrow's default pool on Linux, mimalloc, needs 2 seconds of system time to allocate the pages for
500 MB of rows; jemalloc needs half a second. mimalloc also takes more memory than requested: an
update that never held more than 15 MB used 50 MB less with jemalloc. The default pool is the choice
of the process's owner. Readers therefore get jemalloc explicitly, and other code uses it only while
rows are rewritten.

Arrow's Parquet library always takes its small buffers from the default pool, and that pool requests
huge pages for each thread. Huge pages are therefore disabled while memory must go back to the
system.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import pyarrow as pa

_SLOW_POOL, _FAST_POOL = "mimalloc", "jemalloc"
_DECAY_MS = 1000
"""Arrow's default setting."""
_SHORT_DECAY_MS = 100
"""Returning each page at once takes a tenth of the time of a rewrite."""
_SET_HUGE_PAGES_OFF, _ARE_HUGE_PAGES_OFF = 41, 42
"""Numbers of the system call prctl: PR_SET_THP_DISABLE, PR_GET_THP_DISABLE."""


@cache
def fast_pool() -> pa.MemoryPool | None:
    """Return a pool that is faster than the process's default; None if there is none."""
    is_slow = pa.default_memory_pool().backend_name == _SLOW_POOL
    has_fast = _FAST_POOL in pa.supported_memory_backends()
    return pa.jemalloc_memory_pool() if is_slow and has_fast else None


class _Shared:
    """A process-wide state that lasts while at least one user needs it.

    Args:
        begin: Starts the state, and returns the function that ends it.
    """

    def __init__(self, begin: Callable[[], Callable[[], None]]) -> None:
        self._begin = begin
        self._lock = threading.Lock()
        self._num_users = 0
        self._end: Callable[[], None] | None = None

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Keep the state for the duration of this context."""
        with self._lock:
            self._num_users += 1
            if self._num_users == 1:
                self._end = self._begin()
        try:
            yield
        finally:
            with self._lock:
                self._num_users -= 1
                if not self._num_users and self._end is not None:
                    self._end()


def _change_pool() -> Callable[[], None]:
    usual, pool = pa.default_memory_pool(), fast_pool()
    if usual.backend_name != _SLOW_POOL or pool is None:
        return lambda: None
    pa.set_memory_pool(pool)

    def restore() -> None:
        # Keep a pool that other code has chosen meanwhile.
        if pa.default_memory_pool().backend_name == _FAST_POOL:
            pa.set_memory_pool(usual)

    return restore


def _return_memory() -> Callable[[], None]:
    had_huge_pages = _prctl(_ARE_HUGE_PAGES_OFF) == 0
    pa.jemalloc_set_decay_ms(_SHORT_DECAY_MS)
    if had_huge_pages:
        _prctl(_SET_HUGE_PAGES_OFF, 1)

    def restore() -> None:
        pa.jemalloc_set_decay_ms(_DECAY_MS)
        if had_huge_pages:
            _prctl(_SET_HUGE_PAGES_OFF, 0)

    return restore


def _prctl(what: int, value: int = 0) -> int:
    """Return the result of the system call; -1 if the system lacks the call."""
    if sys.platform != "linux":
        return -1
    answer: int = ctypes.CDLL(None).prctl(what, value, 0, 0, 0)
    return answer


_fast_pool_used, _memory_returned = _Shared(_change_pool), _Shared(_return_memory)


@contextmanager
def sparing_memory() -> Iterator[None]:
    """Use the fast pool for all allocations in this process that name no pool.

    Contexts may be nested or overlap; the last to end restores the previous pool.
    """
    if fast_pool() is None:
        yield
        return
    with _fast_pool_used.lasting():
        yield


@contextmanager
def returning_memory() -> Iterator[None]:
    """Return memory to the system soon instead of a second later.

    A second of reading can allocate more than a rewrite may hold. Contexts may be nested or
    overlap.
    """
    if fast_pool() is None:
        yield
        return
    with _memory_returned.lasting():
        yield
