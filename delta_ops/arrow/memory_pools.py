"""Memory pools: where Arrow takes memory from for rows that are read and written.

Arrow's default pool on Linux, mimalloc, takes 2 seconds of system time to hand out the pages of
500 MB of rows, where jemalloc takes half a second. It also takes much more than is asked for: an
update that never held more than 15 MB at once had 50 MB less of the system with jemalloc. The pool
of a whole process is its owner's to choose. So what reads is given another one, and the rest has it
only as long as rows are written again.

Arrow's Parquet library takes its small buffers from the default pool all the same, and for each
thread that pool asks the system for huge pages. So there are none while memory is to go back.
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
"""Arrow's own setting."""
_SET_HUGE_PAGES_OFF, _ARE_HUGE_PAGES_OFF = 41, 42
"""What the system call prctl is asked for: PR_SET_THP_DISABLE, PR_GET_THP_DISABLE."""


@cache
def fast_pool() -> pa.MemoryPool | None:
    """What hands out memory sooner than the default of the process; None where that will do."""
    is_slow = pa.default_memory_pool().backend_name == _SLOW_POOL
    has_fast = _FAST_POOL in pa.supported_memory_backends()
    return pa.jemalloc_memory_pool() if is_slow and has_fast else None


class _Shared:
    """A state of the process that lasts from the first who wants it to the last.

    Args:
        begin: Brings it about, and returns what ends it.
    """

    def __init__(self, begin: Callable[[], Callable[[], None]]) -> None:
        self._begin = begin
        self._lock = threading.Lock()
        self._num_users = 0
        self._end: Callable[[], None] | None = None

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Let it last as long as this is entered, or another one."""
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
        # Whoever has chosen another one meanwhile keeps it.
        if pa.default_memory_pool().backend_name == _FAST_POOL:
            pa.set_memory_pool(usual)

    return restore


def _give_memory_back() -> Callable[[], None]:
    had_huge_pages = _prctl(_ARE_HUGE_PAGES_OFF) == 0
    pa.jemalloc_set_decay_ms(0)
    if had_huge_pages:
        _prctl(_SET_HUGE_PAGES_OFF, 1)

    def restore() -> None:
        pa.jemalloc_set_decay_ms(_DECAY_MS)
        if had_huge_pages:
            _prctl(_SET_HUGE_PAGES_OFF, 0)

    return restore


def _prctl(what: int, value: int = 0) -> int:
    """The answer of the system; -1 where it has no such call."""
    if sys.platform != "linux":
        return -1
    answer: int = ctypes.CDLL(None).prctl(what, value, 0, 0, 0)
    return answer


_fast_pool_used, _memory_given_back = _Shared(_change_pool), _Shared(_give_memory_back)


@contextmanager
def sparing_memory() -> Iterator[None]:
    """Let everything in this process that names no pool take memory from the fast one.

    Several may be entered at once; the last to leave restores what was there.
    """
    if fast_pool() is None:
        yield
        return
    with _fast_pool_used.lasting():
        yield


@contextmanager
def giving_memory_back() -> Iterator[None]:
    """Let the memory of what was read go back to the system at once, and not a second later.

    What is read in a second can be more than all that a rewrite may hold. Several may be entered at
    once.
    """
    if fast_pool() is None:
        yield
        return
    with _memory_given_back.lasting():
        yield
