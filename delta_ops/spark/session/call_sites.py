"""Call sites: where in a program each step of a frame was taken, which PySpark keeps for errors.

To keep one takes several calls of the JVM, more than the step itself: in a merge about as many as
all others. The steps that an engine takes are not the user's, so meanwhile none is kept. PySpark
has a setting for it (`spark.python.sql.dataFrameDebugging.enabled`), but asks for it once in a
process; what it remembers of that is changed here, for all threads, until the last engine is done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import utils

REMEMBERED = "_enable_debugging_cache"


class _Keeping:
    """How many want no call sites to be kept, and what PySpark remembered before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.num_users = 0
        self.before: bool | None = None


_keeping = _Keeping()


def _free_lock() -> None:
    """Make the lock anew in a child, where a thread that holds it does not exist."""
    _keeping.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_lock)


@contextmanager
def omitting_call_sites() -> Iterator[None]:
    """Have PySpark keep no call sites; a version that remembers nothing of it keeps them."""
    if not hasattr(utils, REMEMBERED):
        yield
        return
    with _keeping.lock:
        _keeping.num_users += 1
        if _keeping.num_users == 1:
            _keeping.before = getattr(utils, REMEMBERED)
            setattr(utils, REMEMBERED, False)
    try:
        yield
    finally:
        with _keeping.lock:
            _keeping.num_users -= 1
            if not _keeping.num_users:
                setattr(utils, REMEMBERED, _keeping.before)
